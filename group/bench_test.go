package group

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/machine"
)

// crowd is n members of one group that do what is asked of them at once, with an assignment of one partition each.
type crowd struct {
	m   *Machine
	now time.Time
	ids []string
	gen int32
}

func newCrowd(m *Machine, group string, n int) *crowd {
	c := &crowd{m: m, now: epoch}
	for i := range n {
		c.ids = append(c.ids, fmt.Sprintf("consumer-%s-%d-5b3ef1c8-7a5e-4a0c-9f0b-0d9f5a6e1c77", group, i))
	}
	c.form(group)
	return c
}

func (c *crowd) step(ticket uint64, ev any) machine.Effects {
	e := c.m.Step(c.now, machine.Asked{Ticket: ticket, Event: ev})
	for _, r := range e.Records {
		if err := c.m.Apply(r); err != nil {
			panic(err)
		}
	}
	return e
}

func (c *crowd) join(group string, i int, id string) machine.Effects {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID = 3, group, id
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 45_000, 300_000
	r.ProtocolType = "consumer"
	s := kmsg.ConsumerMemberMetadata{Version: 3, Topics: []string{"a-topic-of-some-name"}}
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: s.AppendTo(nil)}, {Name: "cooperative-sticky", Metadata: s.AppendTo(nil)}}
	return c.step(uint64(i+1), Join{r, Client{ID: "consumer-" + group, Host: "/127.0.0.1"}, c.ids[i]})
}

// form joins all, the first twice, and syncs all.
func (c *crowd) form(group string) {
	for i := range c.ids {
		c.join(group, i, "")
	}
	if len(c.ids) > 1 {
		c.join(group, 0, c.ids[0])
	}
	g := c.m.groups[group]
	c.gen = g.generation
	for i := len(c.ids) - 1; i >= 0; i-- {
		r := kmsg.NewPtrSyncGroupRequest()
		r.Group, r.MemberID, r.Generation = group, c.ids[i], c.gen
		if c.ids[i] == g.leader {
			for p, id := range c.ids {
				r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: assignment("a-topic-of-some-name", int32(p))})
			}
		}
		c.step(uint64(i+1), Sync{r})
	}
	if g.state != Stable {
		panic("group: " + g.state)
	}
}

func benchMachine() *Machine {
	settings := testOpts
	settings.MaxSize = 100_000
	m := New(Options{Settings: func() Settings { return settings }})
	m.Step(epoch, Topics{})
	return m
}

// A group of so many members forms, from the first JoinGroup to the last SyncGroup's answer. The time per member must not grow.
func BenchmarkForm(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				newCrowd(benchMachine(), "g", n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/member")
		})
	}
}

// Heartbeats of a group of a thousand, with the ticks in between.
func BenchmarkHeartbeat(b *testing.B) {
	c := newCrowd(benchMachine(), "g", 1000)
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group, r.Generation = "g", c.gen
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		r.MemberID = c.ids[i%len(c.ids)]
		i++
		c.now = c.now.Add(3 * time.Millisecond)
		c.step(1, Heartbeat{r})
		if !c.now.Before(c.m.Deadline()) {
			c.m.Step(c.now, machine.Tick{})
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	r := newRig(b)
	b.ReportAllocs()
	for b.Loop() {
		r.log, r.durable = nil, 0
		commitMany(r, "g", "a-topic-of-some-name", 0, 1)
	}
}

// BenchmarkIdleGroups measures what a group of one member with one commit holds.
func BenchmarkIdleGroups(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		before := heapBytes()
		m := benchMachine()
		for i := range n {
			group := fmt.Sprint("group-", i)
			c := newCrowd(m, group, 1)
			q := kmsg.NewPtrOffsetCommitRequest()
			q.Version, q.Group, q.MemberID, q.Generation = 9, group, c.ids[0], c.gen
			q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "a-topic-of-some-name", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5}}}}
			c.step(1, Commit{q})
		}
		b.ReportMetric(float64(heapBytes()-before)/n, "B/group")
		runtime.KeepAlive(m)
	}
}

func heapBytes() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
