package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
)

// heartbeat answers Heartbeat, v0-4.
//
//	v3  static members (KIP-345)
func (b *Broker) heartbeat(c *call, q *kmsg.HeartbeatRequest) {
	refuse := func(code int16) kmsg.Response {
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ErrorCode = code
		return resp
	}
	if err := checkGroupID(q.Group); err != nil {
		c.answer(refuse(c.code(err)))
		return
	}
	c.conn().carry(q.Group)
	c.askGroup(q.Group, group.Heartbeat{Req: q}, refuse)
}
