package group

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/machine"
)

// TestImportOffset: an offset comes through in each version of its value, as if it had been committed now.
func TestImportOffset(t *testing.T) {
	key := offsetKey("g", "t", 3)
	for v := int16(0); v <= newestOffsetCommit; v++ {
		value := kmsg.OffsetCommitValue{Version: v, Offset: 42, LeaderEpoch: 5, Metadata: "m", CommitTimestamp: 1, ExpireTimestamp: 2}
		o, ok, err := ImportOffset(machine.Record{Key: key, Value: value.AppendTo(nil)}, 1000)
		if err != nil || !ok || o.Group != "g" || o.Topic != "t" || o.Partition != 3 {
			t.Fatalf("version %d: %+v, %v, %v", v, o, ok, err)
		}
		m := New(Options{})
		if err := m.Apply(o.Record); err != nil {
			t.Fatal(err)
		}
		got, ok := m.groups["g"].offsets.get("t", 3)
		if !ok || got.offset != 42 || got.metadata != "m" || got.committed != 1000 || got.expires != -1 || v >= 3 && got.leaderEpoch != 5 {
			t.Errorf("version %d: %+v", v, got)
		}
	}
	if o, ok, err := ImportOffset(machine.Record{Key: key}, 1000); err != nil || !ok || o.Record.Value != nil {
		t.Errorf("tombstone: %+v, %v, %v", o, ok, err)
	}
	if _, ok, err := ImportOffset(machine.Record{Key: groupKey("g"), Value: []byte{0}}, 1000); err != nil || ok {
		t.Errorf("a group's record: %v, %v", ok, err)
	}
	for _, r := range []machine.Record{{}, {Key: []byte{0}}, {Key: key[:9], Value: []byte{0, 3}}, {Key: key, Value: []byte{0, 3, 1}}, {Key: key, Value: []byte{0, 99}}} {
		if _, _, err := ImportOffset(r, 1000); err == nil {
			t.Errorf("%x was taken", r)
		}
	}
}
