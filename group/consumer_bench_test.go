package group

import (
	"crypto/sha1"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkConsumersForm has members of the consumer protocol start one after the other, a millisecond apart, over as many partitions, and do
// what they are told when they are told; then one leaves and one comes. What it says of milliseconds is virtual time: how long after
// the last one came everybody had what it was to have. The rest is what that cost.
func BenchmarkConsumersForm(b *testing.B) {
	for _, n := range []int{2, 10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				f := newForming(b, n)
				for range n {
					f.come(time.Millisecond)
				}
				form := f.settle()
				b.ReportMetric(float64(f.beats), "beats")
				b.ReportMetric(float64(len(f.log)), "records")
				b.ReportMetric(form, "form-ms")
				f.advance(time.Second)
				f.leave()
				b.ReportMetric(f.settle(), "leave-ms")
				f.advance(time.Second)
				f.come(0)
				b.ReportMetric(f.settle(), "join-ms")
			}
		})
	}
}

// forming is a group whose members are played until it is stable.
type forming struct {
	*rig
	members []*formingMember
	beats   int
	last    time.Time // when somebody came or left
}

type formingMember struct {
	member848
	id   string
	next time.Time // of its heartbeats
}

func newForming(b testing.TB, n int) *forming {
	f := &forming{rig: newRig(b)}
	f.settings.Gather, f.settings.ConsumerMaxSize = 20*time.Millisecond, n+1
	f.topics = map[string]Topic{"t": {testTopicID("t"), int32(n)}}
	f.do(Topics{f.topics}, func(any, error) {})
	return f
}

// come starts one more, and lets time pass.
func (f *forming) come(pause time.Duration) {
	f.last = f.now
	f.members = append(f.members, &formingMember{id: fmt.Sprintf("%x", sha1.Sum([]byte(fmt.Sprint(f.ticket)))), next: f.now})
	f.play(f.now.Add(pause))
}

func (f *forming) leave() {
	f.last = f.now
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Version, q.Group, q.MemberID, q.MemberEpoch = 1, "g", f.members[0].id, epochLeave
	f.do(ConsumerHeartbeat{q, Client{}, ""}, func(any, error) {})
	f.members = f.members[1:]
}

// settle plays until the group is stable and everybody knows, and gives the milliseconds since somebody came or left.
func (f *forming) settle() float64 {
	for f.m.groups["g"].consumers.shown() != Stable {
		if f.now.Sub(f.last) > time.Minute {
			f.t.Fatal("the group does not become stable")
		}
		f.play(f.now.Add(time.Millisecond))
	}
	return float64(f.now.Sub(f.last).Milliseconds())
}

// play has everybody send its heartbeats until then.
func (f *forming) play(end time.Time) {
	for _, a := range f.members {
		if !a.next.After(end) {
			f.beat(a)
		}
	}
	f.now = end
}

// beat sends a heartbeat, and another at once when something was given back.
func (f *forming) beat(a *formingMember) {
	f.beats++
	q := first()
	q.MemberID, q.MemberEpoch = a.id, a.epoch
	a.owns = a.told
	q.Topics = owned848(a.owns)
	f.do(ConsumerHeartbeat{q, Client{ID: "c", Host: "/h"}, ""}, func(v any, _ error) {
		r := v.(*kmsg.ConsumerGroupHeartbeatResponse)
		a.hear(r)
		a.next = f.now.Add(millis(r.HeartbeatIntervalMillis))
	})
	if len(a.owns.minus(a.told)) > 0 {
		f.beat(a)
	}
}

// BenchmarkConsumerHeartbeat is of a member among a thousand when nothing happens.
func BenchmarkConsumerHeartbeat(b *testing.B) {
	r := newForming(b, 1000)
	for range 1000 {
		r.come(0)
	}
	r.settle()
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Version, q.Group, q.MemberID, q.MemberEpoch = 1, "g", r.members[7].id, r.members[7].epoch
	b.ReportAllocs()
	for b.Loop() {
		r.do(ConsumerHeartbeat{q, Client{ID: "c", Host: "/h"}, ""}, func(v any, _ error) {
			if code := v.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode; code != 0 {
				b.Fatal(code)
			}
		})
	}
}
