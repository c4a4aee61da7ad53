package group

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/machine"
)

// Whatever a log holds, Apply takes it or says why not, and a machine that took it is sound.
func FuzzApply(f *testing.F) {
	s := newStage(f)
	for _, line := range []string{"join g a static=A", "sync g a a=t:1", "commit g a t:1=258", "commit h - retention=1s t:1=258"} {
		s.Command(line)
	}
	for _, r := range s.log {
		f.Add(r.Key, r.Value, true)
		f.Add(r.Key, []byte(nil), false)
	}
	f.Fuzz(func(t *testing.T, key, value []byte, has bool) {
		r := newRig(t)
		rec := machine.Record{Key: key, Value: value}
		if !has {
			rec.Value = nil
		}
		if r.m.Apply(rec) != nil {
			return
		}
		r.commit(r.m.Loaded(r.now))
		checkTimers(t, r.m)
		r.advance(newMemberJoinTimeout)
		for id := range r.m.groups {
			r.do(Describe{id}, func(any, error) {})
			r.do(Fetch{FetchOffsets{Group: id}}, func(any, error) {})
		}
	})
}

// Whatever a leader assigns, the decoder reads it or says that it is nothing; what it reads is what it would write.
func FuzzDecodeAssignment(f *testing.F) {
	f.Add(assignment("t", 0, 1, 2))
	f.Add([]byte{0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		owned := decodeAssignment(b)
		var a kmsg.ConsumerMemberAssignment
		for topic, parts := range owned {
			a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: topic, Partitions: parts})
		}
		if again := decodeAssignment(a.AppendTo(nil)); !reflect.DeepEqual(owned, again) {
			t.Errorf("read %v, and again %v", owned, again)
		}
		decodeSubscription(b)
	})
}
