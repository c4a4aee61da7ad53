package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
)

// leaveGroup answers LeaveGroup, v0-5.
//
//	v3  several members, static ones by their instance, each with an answer of its own (KIP-345)
//	v5  reasons (KIP-800), which nothing reads
func (b *Broker) leaveGroup(c *call, q *kmsg.LeaveGroupRequest) {
	refuse := func(code int16) kmsg.Response {
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.ErrorCode = code
		return resp
	}
	if err := checkGroupID(q.Group); err != nil {
		c.answer(refuse(c.code(err)))
		return
	}
	c.askGroup(q.Group, group.Leave{Req: q}, refuse)
}
