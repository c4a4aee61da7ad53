package group

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"sluice/internal/machine"
	"sluice/internal/machine/machinetest"
)

// checkMachine checks what must hold of a machine between any two steps.
func checkMachine(t testing.TB, m *Machine) {
	t.Helper()
	running := 0
	for id, g := range m.groups {
		if g.id != id {
			t.Fatalf("group %q is kept as %q", g.id, id)
		}
		checkGroup(t, m, g)
		running += len(g.members) + len(g.pending) + checkConsumers(t, g)
		if g.phase.place > 0 {
			running++
		}
	}
	if m.expiry.place > 0 {
		running++
	}
	if m.purging.place > 0 {
		running++
	}
	if running != len(m.timers) {
		t.Fatalf("%d timers run, and %d should", len(m.timers), running)
	}
	if len(m.groups) > 0 && m.expiry.place == 0 {
		t.Fatalf("nobody will look at the expiry of %d groups", len(m.groups))
	}
	checkTimers(t, m)
}

func checkTimers(t testing.TB, m *Machine) {
	t.Helper()
	for i, timer := range m.timers {
		if timer.place != i+1 {
			t.Fatalf("timer %d believes to be at %d", i, timer.place-1)
		}
		if timer.at > timer.end(m.clock.resumed) {
			t.Fatalf("a timer is looked at %v, after its end %v", timer.at, timer.end(m.clock.resumed))
		}
	}
}

func checkGroup(t testing.TB, m *Machine, g *group) {
	t.Helper()
	waiting, unsynced, said, known, statics := 0, 0, 0, map[string]int{}, map[string]*member{}
	for _, member := range g.members {
		if member.g != g || member.alive.place == 0 {
			t.Fatalf("member %s of %s is not what it should be: %+v", member.id, g.id, member)
		}
		if member.joining != 0 {
			waiting++
		}
		if member.unsynced {
			unsynced++
		}
		for _, p := range member.protocols {
			known[p.name]++
			said += p.size()
		}
		if member.static() {
			statics[*member.instance] = member
		}
	}
	if said != g.said {
		t.Fatalf("the members of %s say %d bytes, counted as %d", g.id, said, g.said)
	}
	if waiting != g.waiting || unsynced != g.unsynced {
		t.Fatalf("%s counts %d waiting and %d unsynced, and there are %d and %d", g.id, g.waiting, g.unsynced, waiting, unsynced)
	}
	if !maps.Equal(known, g.known) || !maps.Equal(statics, g.statics) {
		t.Fatalf("%s knows protocols %v and statics %v, and there are %v and %v", g.id, g.known, g.statics, known, statics)
	}
	if !slices.IsSortedFunc(g.members, func(a, b *member) int { return cmp.Compare(a.id, b.id) }) {
		t.Fatalf("the members of %s are out of order", g.id)
	}
	for id, p := range g.pending {
		if p.id != id || p.alive.place == 0 || g.member(id) != nil {
			t.Fatalf("pending %s of %s is not what it should be", id, g.id)
		}
	}
	checkState(t, g)
}

// checkState checks what a state promises.
func checkState(t testing.TB, g *group) {
	t.Helper()
	bad := ""
	joining := slices.ContainsFunc(g.members, func(m *member) bool { return m.joining != 0 })
	syncing := slices.ContainsFunc(g.members, func(m *member) bool { return m.syncing != 0 })
	switch g.state {
	case Empty:
		if len(g.members) > 0 || g.phase.place > 0 || g.leader != "" || g.protocol != "" {
			bad = "is not empty"
		}
		if g.recorded == nil && g.consumers == nil && len(g.offsets) == 0 && len(g.pending) == 0 {
			bad = "is nothing"
		}
	case PreparingRebalance:
		if g.phase.place == 0 || syncing || g.unsynced > 0 {
			bad = "does not wait for joins alone"
		}
		if g.allJoined() && g.initial == nil {
			bad = "waits for nobody"
		}
	case CompletingRebalance, Stable:
		if len(g.members) == 0 || g.member(g.leader) == nil || g.initial != nil || joining {
			bad = "is no generation"
		}
		if g.known[g.protocol] != len(g.members) {
			bad = "has a protocol that not all know"
		}
		if (g.phase.place > 0) != (g.unsynced > 0) && g.state == Stable {
			bad = "waits for no sync, or does not"
		}
		if syncing && g.state == Stable {
			bad = "leaves a sync waiting"
		}
	default:
		bad = "is dead and still here"
	}
	if bad != "" {
		t.Fatalf("group %s in %s %s: %+v", g.id, g.state, bad, g)
	}
}

// tickets gives the requests that wait in a machine.
func tickets(m *Machine) map[uint64]bool {
	out := map[uint64]bool{}
	for _, g := range m.groups {
		for _, member := range g.members {
			if member.joining != 0 {
				out[member.joining] = true
			}
			if member.syncing != 0 {
				out[member.syncing] = true
			}
		}
	}
	return out
}

// hardGroup is the hard state of a group.
type hardGroup struct {
	Recorded *generation
	Offsets  offsets

	Consumers *consumerGroup
}

func hardState(m *Machine) map[string]hardGroup {
	out := map[string]hardGroup{}
	for id, g := range m.groups {
		if g.recorded != nil || g.offsets != nil || g.consumers != nil {
			out[id] = hardGroup{g.recorded, g.offsets, g.consumers}
		}
	}
	return out
}

// settled says all of a group in the states that a replay can find, in words; "" in the others.
func settled(g *group) string {
	if g.state != Empty && g.state != Stable || g.recorded == nil {
		return ""
	}
	out := fmt.Sprintf("%s generation %d of %s/%s led by %s since %d", g.state, g.generation, g.protocolType, g.protocol, g.leader, g.since)
	for _, m := range g.members {
		out += fmt.Sprintf("\n  %s%s of {%s %s}, session %v, rebalance %v, says %q, has %q in %d", m.id, showInstance(m.instance), m.client.ID, m.client.Host,
			m.session, m.rebalance, m.metadata(g.protocol), m.assignment, g.assigned)
	}
	return out
}

// checkReplay compares the machine with what a restart would find: the same hard state, and each group as it was when it was
// last settled.
func (r *rig) checkReplay(lastSettled map[string]string) {
	r.t.Helper()
	for what, log := range map[string][]machine.Record{
		"whole": r.log, "compacted": machinetest.Compacted(r.log, true), "compacted without tombstones": machinetest.Compacted(r.log, false),
		"compacted in part": machinetest.Partly(r.log, true), "compacted in part without tombstones": machinetest.Partly(r.log, false),
	} {
		m := r.asRecorded(log)
		if live, replayed := hardState(r.m), hardState(m); !reflect.DeepEqual(live, replayed) {
			r.t.Fatalf("replay of the log, %s:\n%+v\nlive:\n%+v", what, replayed, live)
		}
		checkMachine(r.t, m)
		for id, g := range m.groups {
			if got := settled(g); got != lastSettled[id] {
				r.t.Fatalf("replay of the log, %s: group %s is\n%s\nand was\n%s", what, id, got, lastSettled[id])
			}
		}
	}
}
