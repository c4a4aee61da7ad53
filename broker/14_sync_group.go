package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
)

// syncGroup answers SyncGroup, v0-5, when the leader's assignment is durable.
//
//	v3  static members (KIP-345)
//	v5  protocol type and name, which must be there and be the group's (KIP-559)
func (b *Broker) syncGroup(c *call, q *kmsg.SyncGroupRequest) {
	refuse := func(code int16) kmsg.Response {
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode, resp.MemberAssignment = code, []byte{}
		return resp
	}
	if err := checkGroupID(q.Group); err != nil {
		c.answer(refuse(c.code(err)))
		return
	}
	if q.Version >= 5 && (q.ProtocolType == nil || q.Protocol == nil) {
		c.answer(refuse(c.code(errNoProtocol)))
		return
	}
	c.conn().carry(q.Group)
	c.awaitGroup(q.Group, group.Sync{Req: q}, refuse)
}
