package group

import (
	"testing"
	"time"
)

// A crowd that comes at once costs two target assignments, and its members are told to come back later than those of a small group.
func TestCrowdOfConsumers(t *testing.T) {
	const n = 2000
	f := newForming(t, n)
	for range n {
		f.come(0)
	}
	if epoch := f.m.groups["g"].consumers.assigned; epoch != 1 {
		t.Errorf("there were %d target assignments while they came", epoch)
	}
	if wait := f.members[n-1].next.Sub(f.now); wait != n*heartbeatSpacing {
		t.Errorf("the last one is to come back in %v", wait)
	}
	f.settle()
	g := f.m.groups["g"].consumers
	if g.assigned != 2 {
		t.Errorf("there were %d target assignments in all", g.assigned)
	}
	for id, c := range g.members {
		if len(c.given) != 1 {
			t.Errorf("%s has %d partitions of as many as members", id, len(c.given))
		}
	}
}

// When all is calm a member is told the group's interval, and one that comes makes it short again.
func TestIntervalsOfCalmGroup(t *testing.T) {
	f := newForming(t, 2)
	interval := func() time.Duration {
		f.beat(f.members[0])
		return f.members[0].next.Sub(f.now)
	}
	f.come(0)
	if got := interval(); got != f.settings.ConsumerReconcileInterval {
		t.Errorf("after the first one came: %v", got)
	}
	f.advance(f.settings.ConsumerHeartbeatInterval)
	if got := interval(); got != f.settings.ConsumerHeartbeatInterval {
		t.Errorf("when all is calm: %v", got)
	}
	f.come(0)
	if got := interval(); got != f.settings.ConsumerReconcileInterval {
		t.Errorf("after one more came: %v", got)
	}
}
