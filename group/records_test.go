package group

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/machine"
)

func value(version int16, v interface{ AppendTo([]byte) []byte }) []byte {
	b := v.AppendTo(nil)
	b[0], b[1] = byte(version>>8), byte(version)
	return b
}

// A log that holds what this version cannot read does not load, and the error names the record.
func TestApplyRefuses(t *testing.T) {
	commit, generation := kmsg.OffsetCommitValue{}, kmsg.GroupMetadataValue{}
	for _, c := range []struct {
		name string
		r    machine.Record
		want string
	}{
		{"an empty key", machine.Record{}, `group record "": key: 0 bytes hold no version`},
		{"half a version", machine.Record{Key: []byte{0}}, "key: 1 bytes hold no version"},
		{"an offset's key cut short", machine.Record{Key: []byte{0, 1, 0, 5}}, "OffsetCommitKey: "},
		{"a group's key cut short", machine.Record{Key: []byte{0, 2, 0, 5}}, "GroupMetadataKey: "},
		{"an empty offset", machine.Record{Key: offsetKey("g", "t", 0), Value: []byte{}}, "OffsetCommitValue: 0 bytes hold no version"},
		{"an offset of a newer version", machine.Record{Key: offsetKey("g", "t", 0), Value: value(5, &commit)}, "OffsetCommitValue has version 5, and this broker reads versions 0 to 4"},
		{"an offset of a negative version", machine.Record{Key: offsetKey("g", "t", 0), Value: value(-1, &commit)}, "OffsetCommitValue has version -1"},
		{"an offset cut short", machine.Record{Key: offsetKey("g", "t", 0), Value: []byte{0, 3, 0}}, "OffsetCommitValue: "},
		{"a group of a newer version", machine.Record{Key: groupKey("g"), Value: value(5, &generation)}, `"\x00\x02\x00\x01g": GroupMetadataValue has version 5`},
		{"a group cut short", machine.Record{Key: groupKey("g"), Value: []byte{0, 3, 0}}, "GroupMetadataValue: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := newRig(t).m.Apply(c.r)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want …%s…", err, c.want)
			}
		})
	}
}

// Every version that Kafka has written since 0.9 is read.
func TestApplyReadsOldVersions(t *testing.T) {
	r := newRig(t)
	for version := int16(0); version <= newestOffsetCommit; version++ {
		k := kmsg.OffsetCommitKey{Version: min(version, 1), Group: "offsets", Topic: "t", Partition: int32(version)}
		v := kmsg.OffsetCommitValue{Version: version, Offset: 10, LeaderEpoch: 7, Metadata: "m", CommitTimestamp: 1000, ExpireTimestamp: 2000}
		r.apply(machine.Record{Key: k.AppendTo(nil), Value: v.AppendTo(nil)})
	}
	for version := int16(0); version <= newestGroupMetadata; version++ {
		id := fmt.Sprint("g", version)
		v := kmsg.GroupMetadataValue{Version: version, ProtocolType: "consumer", Generation: 3, Protocol: kmsg.StringPtr("range"),
			Leader: kmsg.StringPtr("m"), CurrentStateTimestamp: 5, Members: []kmsg.GroupMetadataValueMember{{
				MemberID: "m", InstanceID: kmsg.StringPtr("i"), ClientID: "c", ClientHost: "/h", RebalanceTimeoutMillis: 30_000,
				SessionTimeoutMillis: 10_000, Subscription: []byte("s"), Assignment: []byte("a"),
			}}}
		r.apply(machine.Record{Key: groupKey(id), Value: v.AppendTo(nil)})
	}
	r.m.Loaded(r.now)
	checkMachine(t, r.m)

	for _, o := range r.m.groups["offsets"].offsets[0].partitions {
		want := offset{partition: o.partition, leaderEpoch: -1, offset: 10, metadata: "m", committed: 1000, expires: -1}
		if o.partition >= 3 {
			want.leaderEpoch = 7
		}
		if o.partition == 1 {
			want.expires = 2000
		}
		if o != want {
			t.Errorf("version %d: %+v, want %+v", o.partition, o, want)
		}
	}
	for version := int16(0); version <= newestGroupMetadata; version++ {
		g := r.m.groups[fmt.Sprint("g", version)]
		rebalance, since, instance := "10s", -1, ""
		if version >= 1 {
			rebalance = "30s"
		}
		if version >= 2 {
			since = 5
		}
		if version >= 3 {
			instance = " (i)"
		}
		want := fmt.Sprintf("Stable generation 3 of consumer/range led by m since %d\n  m%s of {c /h}, session 10s, rebalance %s, says \"s\", has \"a\" in 3",
			since, instance, rebalance)
		if got := settled(g); got != want {
			t.Errorf("version %d: %s, want %s", version, got, want)
		}
	}
}

func (r *rig) apply(rec machine.Record) {
	if err := r.m.Apply(rec); err != nil {
		r.t.Fatal(err)
	}
}

// Records of kinds that come from another version, and tombstones of what is not there, change nothing.
func TestApplyPassesOver(t *testing.T) {
	r := newRig(t)
	for kind := int16(4); kind < 30; kind++ {
		if kind >= keyConsumerMember && kind <= keyConsumerCurrent {
			continue
		}
		r.apply(machine.Record{Key: []byte{0, byte(kind), 0, 1, 'g'}, Value: []byte{0, 99}})
		r.apply(machine.Record{Key: []byte{0, byte(kind)}})
	}
	r.apply(machine.Record{Key: []byte{0xff, 0xff}})
	r.apply(offsetTombstone("g", "t", 0))
	r.apply(groupTombstone("g"))
	if len(r.m.groups) != 0 {
		t.Errorf("there are groups: %v", r.m.groups)
	}
}

// What is written is Kafka's: the versions that Kafka 4 writes, down to the byte.
func TestRecordsOnDisk(t *testing.T) {
	s := newStage(t)
	for _, line := range []string{"join g a static=A", "sync g a a=t:1", "commit g a t:1=258", "commit h - retention=1s t:1=258"} {
		s.Command(line)
	}
	stamp := func(d time.Duration) string {
		return string(binary.BigEndian.AppendUint64(nil, uint64(epoch.Add(d).UnixMilli())))
	}
	subscription := "\x00\x01\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff\x00\x00\x00\x00"
	assigned := "\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff"
	want := []struct{ key, value string }{
		{"\x00\x02\x00\x01g", "\x00\x03\x00\x08consumer\x00\x00\x00\x01\x00\x05range\x00\x03a-1" + stamp(0) +
			"\x00\x00\x00\x01\x00\x03a-1\x00\x01A\x00\x01a\x00\x0a/127.0.0.1\x00\x00\xea\x60\x00\x00\x27\x10" +
			"\x00\x00\x00\x11" + subscription + "\x00\x00\x00\x15" + assigned},
		{"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x01", "\x00\x03\x00\x00\x00\x00\x00\x00\x01\x02\xff\xff\xff\xff\x00\x00" + stamp(0)},
		{"\x00\x01\x00\x01h\x00\x01t\x00\x00\x00\x01", "\x00\x01\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00" + stamp(0) + stamp(time.Second)},
	}
	if len(s.log) != len(want) {
		t.Fatalf("%d records", len(s.log))
	}
	for i, r := range s.log {
		if string(r.Key) != want[i].key || string(r.Value) != want[i].value {
			t.Errorf("record %d: %q %q, want %q", i, r.Key, r.Value, want[i])
		}
	}
}
