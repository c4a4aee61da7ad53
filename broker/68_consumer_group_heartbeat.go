package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
)

// consumerGroupHeartbeat answers ConsumerGroupHeartbeat, v0-1 (KIP-848).
//
//	v1  the member makes its id; subscription by pattern
func (b *Broker) consumerGroupHeartbeat(c *call, q *kmsg.ConsumerGroupHeartbeatRequest) {
	refuse := func(code int16) kmsg.Response {
		resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
		resp.ErrorCode = code
		return resp
	}
	if err := c.checkConsumerGroup(q.Group); err != nil {
		c.answer(refuse(c.code(err)))
		return
	}
	c.conn().carry(q.Group)
	b.groups.wantTopics()
	b.groups.pace.count(b.groups)
	c.askGroup(q.Group, group.ConsumerHeartbeat{Req: q, Client: c.groupClient(), NewMemberID: newUUID().String()}, refuse)
}
