package group

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is no assignment owns nothing.
func TestDecodeAssignment(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes string
		want  map[string][]int32
	}{
		{"nothing", "", nil},
		{"version 0", "\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x05\xff\xff\xff\xff", map[string][]int32{"t": {0, 5}}},
		{"a later version, which has more", "\x00\x09\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x05\xff\xff\xff\xffmore", map[string][]int32{"t": {5}}},
		{"user data", "\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x05\x00\x00\x00\x02me", map[string][]int32{"t": {5}}},
		{"no topics", "\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff", nil},
		{"a topic without partitions", "\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00\xff\xff\xff\xff", nil},
		{"a negative version", "\xff\xff\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x05\xff\xff\xff\xff", nil},
		{"more topics than bytes", "\x00\x00\x7f\xff\xff\xff\x00\x01t\x00\x00\x00\x00", nil},
		{"more partitions than bytes", "\x00\x00\x00\x00\x00\x01\x00\x01t\x7f\xff\xff\xff\x00\x00\x00\x05", nil},
		{"cut short", "\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00", nil},
		{"words", "assignment", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := decodeAssignment([]byte(c.bytes)); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// Ownership is of consumers, with their racks (KIP-881); what others assign is their own affair.
func TestOwnership(t *testing.T) {
	s := newStage(t)
	rack := "r1"
	m := kmsg.ConsumerMemberMetadata{Version: 3, Topics: []string{"t"}, Rack: &rack}
	ev, told := s.event("join", strings.Split("g a v=3", " "))
	ev.(Join).Req.Protocols[0].Metadata = m.AppendTo(nil)
	s.do(ev, func(v any, _ error) { told(v) })
	var got []any
	s.orders = func(o any) { got = append(got, o) }
	s.Command("sync g a a=t:0,1")
	s.Command("join h b v=3 type=connect")
	s.Command("sync h b b=t:0,1")
	want := []any{Ownership{"g", true, []Owner{{"a-1", Client{ID: "a", Host: "/127.0.0.1"}, "r1", 1, map[string][]int32{"t": {0, 1}}, time.Minute}}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// While the subscription of some member cannot be read, it may be to any topic: nothing expires and nothing can be deleted.
func TestUnreadableSubscription(t *testing.T) {
	s := newStage(t)
	ev, told := s.event("join", strings.Split("g a v=3 session=30m", " "))
	ev.(Join).Req.Protocols[0].Metadata = []byte("?")
	s.do(ev, func(v any, _ error) { told(v) })
	s.settings.OffsetsRetention = 0
	for _, line := range []string{"sync g a a=t:0", "commit g a u:0=5", "wait 25m", "delete-offsets g u:0", "fetch g"} {
		s.Command(line)
	}
	if got := s.answer("delete-offsets g u:0"); got != "NONE u:0=GROUP_SUBSCRIBED_TO_TOPIC" {
		t.Errorf("deleted: %s", got)
	}
	if got := s.answer("fetch g"); got != "u:0=5" {
		t.Errorf("fetched: %s", got)
	}
}
