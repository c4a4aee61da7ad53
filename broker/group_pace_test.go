package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What members are told keeps all of them together within 400 heartbeats a second when they are calm, and 5,000 when they are not.
func TestPace(t *testing.T) {
	const most = 5 * time.Second
	for _, c := range []struct {
		members           int64
		calm, reconciling time.Duration
	}{
		{0, calmInterval, reconcileInterval},
		{100, calmInterval, reconcileInterval},
		{400, time.Second, reconcileInterval},
		{1000, 2500 * time.Millisecond, reconcileInterval},
		{2000, most, 400 * time.Millisecond},
		{10_000, most, 2 * time.Second},
	} {
		var p pace
		p.members.Store(c.members)
		if calm, reconciling := p.calm(most), p.reconciling(); calm != c.calm || reconciling != c.reconciling {
			t.Errorf("%d members: %v and %v, want %v and %v", c.members, calm, reconciling, c.calm, c.reconciling)
		}
	}
	if got := new(pace).calm(100 * time.Millisecond); got != 100*time.Millisecond {
		t.Errorf("where the longest is 100 ms: %v", got)
	}
}

// Members are counted over all groups, once a second at most, as their heartbeats come.
func TestPaceCounts(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.mustCreate("t")
	join := func(group, member string) {
		t.Helper()
		q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		q.Group, q.MemberID = group, member
		q.RebalanceTimeoutMillis = 60_000
		q.SubscribedTopicNames = []string{"t"}
		q.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if r := do[*kmsg.ConsumerGroupHeartbeatResponse](c, q, 1); r.ErrorCode != 0 {
			t.Fatalf("heartbeat: %d %s", r.ErrorCode, deref(r.ErrorMessage))
		}
	}
	p := &n.groups.pace
	again := func() {
		p.mu.Lock()
		p.counted = time.Time{}
		p.mu.Unlock()
	}
	join("a", "1")
	p.mu.Lock()
	if p.counted.IsZero() {
		t.Error("not counted at the first heartbeat")
	}
	p.counted = time.Now().Add(time.Hour) // however slow this machine is, the second is not over
	p.mu.Unlock()
	join("a", "2")
	join("b", "3") // with another shard
	if got := p.members.Load(); got > 1 {
		t.Errorf("counted again within a second: %d", got)
	}
	again()
	join("c", "4") // counts before it joins
	waitFor(t, func() bool { return p.members.Load() == 3 })
	again()
	join("c", "4")
	waitFor(t, func() bool { return p.members.Load() == 4 })
}
