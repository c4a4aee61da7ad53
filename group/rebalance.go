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
		m.beginFirst(g)
	case g.allJoined():
		m.completeJoin(g)
	default:
		m.start(&g.phase, g.rebalanceTimeout(), g)
	}
}

// beginFirst lets the first rebalance of an empty group wait for more members, so that consumers which start together make one
// generation: for group.initial.rebalance.delay.ms, and again while new members come, as Kafka does. If that is shorter than
// Settings.Gather, the wait ends when nobody has come for so long: the second member of a generation would otherwise have to wait for
// the first one's next heartbeat, seconds later, and the first to give up what it was just given.
func (m *Machine) beginFirst(g *group) {
	limit := g.rebalanceTimeout()
	if m.gathers() {
		limit = min(limit, maxGather)
	}
	now := m.clock.running
	g.initial = &initialDelay{since: now, until: now + max(limit, m.firstDelay()), last: now}
	m.waitForMore(g, m.firstDelay())
}

// gathers tells whether Settings.Gather decides on the end of a first rebalance.
func (m *Machine) gathers() bool { return m.settings.InitialRebalanceDelay < m.settings.Gather }

func (m *Machine) firstDelay() time.Duration {
	return max(m.settings.InitialRebalanceDelay, m.settings.Gather)
}

// waitForMore lets the first rebalance wait, or go on to wait.
func (m *Machine) waitForMore(g *group, delay time.Duration) {
	delay = min(delay, g.initial.until-m.clock.running)
	if delay <= 0 {
		m.completeJoin(g)
		return
	}
	g.initial.joined = false
	m.start(&g.phase, delay, g)
}

// comes notes, during a first rebalance, that a new member has joined, or been given the id with which it will be back at once.
func (m *Machine) comes(g *group) {
	i, now := g.initial, m.clock.running
	i.pause = max(i.pause, now-i.last)
	i.joined, i.last = true, now
	if m.gathers() {
		m.waitForMore(g, max(m.settings.Gather, min((now-i.since)/gatherShare, gatherPauses*i.pause)))
	}
}

// ring implements ringer: the time of the phase is up.
func (g *group) ring(m *Machine) {
	switch {
	case g.state != PreparingRebalance:
		m.expelUnsynced(g)
	case g.initial != nil && (g.initial.joined || m.gathers() && len(g.pending) > 0):
		m.waitForMore(g, m.firstDelay())
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
	g.revived = false
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
