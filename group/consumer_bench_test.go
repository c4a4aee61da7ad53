package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkThousandConsumers starts a thousand members of one group over a thousand partitions, until all have what they are to have.
func BenchmarkThousandConsumers(b *testing.B) {
	for b.Loop() {
		r := newRig(b)
		r.topics = map[string]Topic{"t": {testTopicID("t"), 1000}}
		r.do(Topics{r.topics}, func(any, error) {})
		rounds := beatUntilStable(b, r, 1000)
		b.ReportMetric(float64(rounds), "rounds")
		b.ReportMetric(float64(len(r.log)), "records")
	}
}

func beatUntilStable(b testing.TB, r *rig, n int) (rounds int) {
	members := make([]*member848, n)
	for i := range members {
		members[i] = &member848{}
	}
	for rounds = 1; rounds < 100; rounds++ {
		for i, a := range members {
			q := first()
			q.MemberID, q.MemberEpoch = fmt.Sprint(i), a.epoch
			a.owns = a.told
			q.Topics = owned848(a.owns)
			r.do(ConsumerHeartbeat{q, Client{ID: "c", Host: "/h"}, ""}, func(v any, _ error) { a.hear(v.(*kmsg.ConsumerGroupHeartbeatResponse)) })
		}
		if r.m.groups["g"].consumers.shown() == Stable {
			return rounds
		}
		r.advance(200 * time.Millisecond)
	}
	b.Fatal("the group does not become stable")
	return 0
}

// BenchmarkConsumerHeartbeat is of a member among a thousand when nothing happens.
func BenchmarkConsumerHeartbeat(b *testing.B) {
	r := newRig(b)
	r.topics = map[string]Topic{"t": {testTopicID("t"), 1000}}
	r.do(Topics{r.topics}, func(any, error) {})
	beatUntilStable(b, r, 1000)
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Version, q.Group, q.MemberID, q.MemberEpoch = 1, "g", "7", r.m.groups["g"].consumers.members["7"].epoch
	b.ReportAllocs()
	for b.Loop() {
		r.do(ConsumerHeartbeat{q, Client{ID: "c", Host: "/h"}, ""}, func(v any, _ error) {
			if code := v.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode; code != 0 {
				b.Fatal(code)
			}
		})
	}
}
