package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

func (m *Machine) heartbeat(r *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.ErrorCode = m.heartbeatCode(r)
	return resp
}

func (m *Machine) heartbeatCode(r *kmsg.HeartbeatRequest) int16 {
	if r.Group == "" {
		return kproto.InvalidGroupID
	}
	g := m.groups[r.Group]
	if g == nil {
		return kproto.UnknownMemberID
	}
	if g.consumers != nil {
		return m.mixedHeartbeat(g, r)
	}
	member, code := g.checkMember(r.MemberID, r.InstanceID, r.Generation)
	if member == nil {
		return code
	}
	m.touch(member)
	if g.state == PreparingRebalance {
		return kproto.RebalanceInProgress
	}
	return code
}
