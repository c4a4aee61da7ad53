package group

import (
	"time"

	"sluice/kproto"
)

// rebalance begins one, or goes on with the one that waits for members.
func (m *Machine) rebalance(g *group) {
	if g.state == PreparingRebalance {
		m.completeIfJoined(g)
	} else {
		m.prepare(g)
	}
}

// prepare calls the members to join.
func (m *Machine) prepare(g *group) {
	for _, member := range g.members {
		m.endSync(member, syncError(kproto.RebalanceInProgress))
		g.expectSync(member, false)
	}
	m.stop(&g.phase)
	first := g.state == Empty
	g.enter(PreparingRebalance)
	switch {
	case first:
		m.waitForMore(g, m.settings.InitialRebalanceDelay, g.rebalanceTimeout()-m.settings.InitialRebalanceDelay)
	case g.allJoined():
		m.completeJoin(g)
	default:
		m.start(&g.phase, g.rebalanceTimeout(), g)
	}
}

// waitForMore lets the first rebalance of an empty group wait, so that consumers which start together make one generation.
func (m *Machine) waitForMore(g *group, delay, left time.Duration) {
	if delay <= 0 {
		m.completeJoin(g)
		return
	}
	g.initial = &initialDelay{left: max(left, 0)}
	m.start(&g.phase, delay, g)
}

// ring implements ringer: the time of the phase is up.
func (g *group) ring(m *Machine) {
	switch {
	case g.state != PreparingRebalance:
		m.expelUnsynced(g)
	case g.initial != nil && g.initial.joined && g.initial.left > 0:
		delay := min(m.settings.InitialRebalanceDelay, g.initial.left)
		m.waitForMore(g, delay, g.initial.left-delay)
	default:
		m.completeJoin(g)
	}
	m.forgetIfNothing(g)
}

// completeIfJoined ends the wait if nobody is missing. The first rebalance waits for its time.
func (m *Machine) completeIfJoined(g *group) {
	if g.state == PreparingRebalance && g.initial == nil && g.allJoined() {
		m.completeJoin(g)
	}
}

// completeJoin makes a generation of those that have joined. Dynamic members that have not are out; static ones stay, they
// are given until the end of their session.
func (m *Machine) completeJoin(g *group) {
	m.stop(&g.phase)
	g.initial = nil
	m.expel(g, func(member *member) bool { return member.joining == 0 && !member.static() })
	if len(g.members) == 0 {
		m.becomeEmpty(g)
		return
	}
	if !g.elect() {
		m.start(&g.phase, max(g.rebalanceTimeout(), minRebalanceRetry), g)
		return
	}
	g.generation++
	g.protocol = g.choose()
	g.enter(CompletingRebalance)
	for _, member := range g.members {
		m.welcome(member)
	}
	m.start(&g.phase, g.rebalanceTimeout(), g)
}

// welcome tells a member of the new generation; its time to sync, and its session, begin.
func (m *Machine) welcome(member *member) {
	if ticket := member.joining; ticket != 0 {
		member.joining = 0
		member.g.waiting--
		m.answerJoin(ticket, member)
	}
	member.fresh = false
	member.g.expectSync(member, true)
	m.touch(member)
}

// becomeEmpty records that nobody is left.
func (m *Machine) becomeEmpty(g *group) {
	g.generation++
	g.protocol = ""
	g.leader = ""
	g.known = nil
	g.since = m.millis
	g.enter(Empty)
	m.record(g)
	m.tellOwnership(g)
}

// expelUnsynced ends the membership of those that were told of the generation and never asked for their assignment.
func (m *Machine) expelUnsynced(g *group) {
	if m.expel(g, func(member *member) bool { return member.unsynced }) > 0 {
		m.prepare(g)
	}
}

func (m *Machine) expel(g *group, which func(*member) bool) (n int) {
	var gone []*member
	for _, member := range g.members {
		if which(member) {
			gone = append(gone, member)
		}
	}
	for _, member := range gone {
		m.remove(member)
	}
	return len(gone)
}

// remove ends a membership. What the member waits for it is told that it is none.
func (m *Machine) remove(member *member) {
	m.endJoin(member, joinError("", kproto.UnknownMemberID))
	m.endSync(member, syncError(kproto.UnknownMemberID))
	m.stop(&member.alive)
	m.tellGone(member)
	member.g.remove(member)
}

// removeAndGoOn removes one member and lets the others share what it had.
func (m *Machine) removeAndGoOn(member *member) {
	g := member.g
	m.remove(member)
	m.goOnWithout(g)
	m.forgetIfNothing(g)
}

// goOnWithout follows the removal of members.
func (m *Machine) goOnWithout(g *group) {
	if g.state == Empty {
		return
	}
	m.rebalance(g)
}
