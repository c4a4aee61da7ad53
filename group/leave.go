package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// leaveBatch is the version of LeaveGroup from which on it names several members, static ones by instance (KIP-345).
const leaveBatch = 3

func (m *Machine) leave(r *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	resp := kmsg.NewPtrLeaveGroupResponse()
	if r.Group == "" {
		resp.ErrorCode = kproto.InvalidGroupID
		return resp
	}
	leavers := r.Members
	if r.Version < leaveBatch {
		leavers = []kmsg.LeaveGroupRequestMember{{MemberID: r.MemberID}}
	}
	codes := m.leaveAll(m.groups[r.Group], leavers)
	if r.Version < leaveBatch {
		resp.ErrorCode = codes[0]
		return resp
	}
	for i, l := range leavers {
		member := kmsg.NewLeaveGroupResponseMember()
		member.MemberID, member.InstanceID, member.ErrorCode = l.MemberID, l.InstanceID, codes[i]
		resp.Members = append(resp.Members, member)
	}
	return resp
}

// leaveAll removes each of them that is there, and then lets the others go on, once.
func (m *Machine) leaveAll(g *group, leavers []kmsg.LeaveGroupRequestMember) []int16 {
	codes := make([]int16, len(leavers))
	left := false
	for i, l := range leavers {
		codes[i] = m.leaveOne(g, l)
		left = left || codes[i] == kproto.NoError
	}
	if left && g.consumers == nil {
		m.goOnWithout(g)
		m.forgetIfNothing(g)
	}
	return codes
}

// leaveOne removes a member, an id that was given out, or, for an administrator, whoever holds an instance id.
func (m *Machine) leaveOne(g *group, l kmsg.LeaveGroupRequestMember) int16 {
	if g == nil {
		return kproto.UnknownMemberID
	}
	if g.consumers != nil {
		return m.mixedLeave(g, l)
	}
	if p := g.pending[l.MemberID]; p != nil {
		m.removePending(p)
		return kproto.NoError
	}
	id := l.MemberID
	if id == "" && l.InstanceID != nil && g.statics[*l.InstanceID] != nil {
		id = g.statics[*l.InstanceID].id
	}
	member, code := g.check(id, l.InstanceID)
	if code == kproto.NoError {
		m.remove(member)
	}
	return code
}
