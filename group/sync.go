package group

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

func (m *Machine) sync(ticket uint64, r *kmsg.SyncGroupRequest) {
	if g := m.groups[r.Group]; g != nil && g.consumers != nil {
		m.reply(ticket, m.mixedSync(g, r))
		return
	}
	member, code := m.checkSync(r)
	if code != kproto.NoError {
		m.reply(ticket, syncError(code))
		return
	}
	g := member.g
	m.synced(member)
	switch {
	case g.state == Stable:
		m.reply(ticket, g.syncOf(member))
	case g.leader == member.id:
		m.assign(ticket, member, r.GroupAssignment)
	default:
		m.endSync(member, syncError(kproto.RebalanceInProgress)) // of an earlier SyncGroup, on a connection that is given up
		member.syncing = ticket
	}
}

// checkSync finds the member. A late SyncGroup is told first that its generation is over, then that the next is being made.
func (m *Machine) checkSync(r *kmsg.SyncGroupRequest) (*member, int16) {
	if r.Group == "" {
		return nil, kproto.InvalidGroupID
	}
	g := m.groups[r.Group]
	if g == nil {
		return nil, kproto.UnknownMemberID
	}
	member, code := g.checkMember(r.MemberID, r.InstanceID, r.Generation)
	switch {
	case code != kproto.NoError:
		return nil, code
	case differs(r.ProtocolType, g.protocolType), differs(r.Protocol, g.protocol):
		return nil, kproto.InconsistentGroupProtocol
	case g.state == PreparingRebalance:
		return nil, kproto.RebalanceInProgress
	}
	return member, kproto.NoError
}

// differs compares what a client may have said (version 5 on) with what is.
func differs(said *string, is string) bool { return said != nil && *said != is }

// synced notes that a member has asked for its assignment; with the last one, the time to do so ends.
func (m *Machine) synced(member *member) {
	g := member.g
	g.expectSync(member, false)
	if g.unsynced == 0 {
		m.stop(&g.phase)
	}
}

// expectSync keeps count of the members that have yet to ask.
func (g *group) expectSync(member *member, expect bool) {
	switch {
	case expect && !member.unsynced:
		g.unsynced++
	case !expect && member.unsynced:
		g.unsynced--
	}
	member.unsynced = expect
}

// assign takes the leader's word: it is recorded, and who waits is told. Members that it forgot get nothing; others it names are
// ignored.
func (m *Machine) assign(ticket uint64, leader *member, list []kmsg.SyncGroupRequestGroupAssignment) {
	g := leader.g
	size := g.recordSize()
	for _, a := range list {
		size += len(a.MemberAssignment)
	}
	if size > maxStepBytes {
		m.reply(ticket, syncError(kproto.UnknownServerError)) // as Kafka answers a record that is too large
		m.prepare(g)
		return
	}
	for _, member := range g.members {
		member.assignment = nil
	}
	for _, a := range list {
		if member := g.member(a.MemberID); member != nil {
			member.assignment = bytes.Clone(a.MemberAssignment)
		}
	}
	g.assigned = g.generation
	g.since = m.millis
	g.enter(Stable)
	leader.syncing = ticket
	for _, member := range g.members {
		if member.syncing != 0 {
			m.endSync(member, g.syncOf(member))
			m.touch(member)
		}
	}
	m.record(g)
	m.tellOwnership(g)
}

// endSync answers a member that waits in SyncGroup, if it does.
func (m *Machine) endSync(member *member, r *kmsg.SyncGroupResponse) {
	if member.syncing != 0 {
		m.reply(member.syncing, r)
		member.syncing = 0
	}
}

func (g *group) syncOf(member *member) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	r.ProtocolType = kmsg.StringPtr(g.protocolType)
	r.Protocol = kmsg.StringPtr(g.protocol)
	r.MemberAssignment = member.assignment
	return r
}

func syncError(code int16) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	r.ErrorCode = code
	return r
}
