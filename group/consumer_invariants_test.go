package group

import (
	"maps"
	"reflect"
	"slices"
	"testing"
)

// checkConsumers checks what must hold of a group of the consumer protocol between steps, and counts its timers.
func checkConsumers(t testing.TB, g *group) (timers int) {
	t.Helper()
	if g.draft != nil {
		t.Fatalf("%s has a draft after the step", g.id)
	}
	if g.consumers == nil {
		if len(g.sessions) > 0 {
			t.Fatalf("%s is classic and has %d sessions", g.id, len(g.sessions))
		}
		return 0
	}
	if g.state != Empty || g.recorded != nil {
		t.Fatalf("%s is of both protocols: %s", g.id, g.state)
	}
	again := newConsumerGroup()
	for _, c := range g.consumers.inOrder() {
		checkConsumer(t, g, c)
		for _, p := range c.held() {
			if other := again.holders[p]; other != "" {
				t.Fatalf("%v of %s is held by %s and %s", p, g.id, other, c.id)
			}
		}
		again.put(c.id, c)
		timers++
		if g.sessions[c.id].revoke.place > 0 {
			timers++
		}
	}
	if len(g.sessions) != len(again.members) {
		t.Fatalf("%s has %d members and %d sessions", g.id, len(again.members), len(g.sessions))
	}
	again.epoch, again.assigned, again.topicsHash = g.consumers.epoch, g.consumers.assigned, g.consumers.topicsHash
	if !reflect.DeepEqual(again, g.consumers) {
		t.Fatalf("what follows from the members of %s is\n%+v\nand is kept as\n%+v", g.id, again, g.consumers)
	}
	if again.epoch < again.assigned || again.epoch > again.assigned+1 {
		t.Fatalf("%s has epoch %d and an assignment of epoch %d", g.id, again.epoch, again.assigned)
	}
	return timers
}

func checkConsumer(t testing.TB, g *group, c *consumerMember) {
	t.Helper()
	s := g.sessions[c.id]
	bad := ""
	switch {
	case s == nil || s.alive.place == 0:
		bad = "has no session"
	case (c.state == memberRevoking) != (len(c.revoking) > 0), c.state == memberRevoking && s.revoke.place == 0,
		c.classic == nil && c.state != memberRevoking && s.revoke.place > 0:
		bad = "revokes and does not, or is not timed"
	case c.epoch > g.consumers.assigned, c.epoch == epochJoin, c.epoch < 0 && (c.epoch != epochAway || c.instance == nil):
		bad = "has a wrong epoch"
	case len(c.given.and(c.revoking)) > 0:
		bad = "was given what it is to give back"
	case !newPartitionSet(slices.Collect(maps.Keys(c.since))).within(c.held()):
		bad = "knows since when it has what it does not have"
	case c.settledAt(g.consumers.assigned) && !slices.Equal(c.given, c.target):
		bad = "is settled without all that it is to have"
	}
	if bad != "" {
		t.Fatalf("member %s of %s %s: %+v", c.id, g.id, bad, c)
	}
}
