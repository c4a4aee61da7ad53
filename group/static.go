package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// joinReplacing gives the place of a static member to the same instance under a new id, and fences the old id. In a
// stable group nothing else changes: no rebalance for a restart (KIP-345).
func (m *Machine) joinReplacing(g *group, old *member, j *joiner) {
	leader := g.leader
	member := m.replace(g, old, j)
	switch {
	case g.state == Stable && g.choose() == g.protocol:
		m.endJoin(member, g.returned(member, leader, j.Req.Version))
		m.touch(member)
		m.record(g)
		m.tellOwnership(g)
	case g.state == PreparingRebalance:
		m.completeIfJoined(g)
	default: // the leader may assign to the old id, or the protocol changes
		m.prepare(g)
	}
}

// replace makes the new member from the old one.
func (m *Machine) replace(g *group, old *member, j *joiner) *member {
	led, unsynced := g.leader == old.id, old.unsynced
	m.endJoin(old, joinError(old.id, kproto.FencedInstanceID))
	m.endSync(old, syncError(kproto.FencedInstanceID))
	m.stop(&old.alive)
	g.remove(old)

	member := &member{
		g:          g,
		id:         j.NewMemberID,
		instance:   old.instance,
		client:     old.client,
		session:    millis(j.Req.SessionTimeoutMillis),
		rebalance:  rebalanceTimeout(j.Req),
		protocols:  copyProtocols(j.Req.Protocols),
		assignment: old.assignment,
		joining:    j.ticket,
	}
	g.add(member, g.protocolType)
	g.expectSync(member, unsynced)
	g.waiting++
	if led {
		g.leader = member.id
	}
	m.touch(member)
	return member
}

// returned is the answer to a static member that was restarted. Before KIP-814 a leader is given the old leader's id, lest
// it take itself for one that has to assign.
func (g *group) returned(member *member, oldLeader string, version int16) *kmsg.JoinGroupResponse {
	r := g.joined(member)
	switch {
	case version < joinSkipAssignment:
		r.LeaderID = oldLeader
	case g.leader == member.id:
		r.Members = g.roster()
		r.SkipAssignment = true
	}
	return r
}
