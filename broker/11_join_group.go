package broker

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
)

// joinGroup answers JoinGroup, v0-9, when the group has decided: at once, or when all members have come. A request that
// waits is a number in the machine and costs no goroutine.
//
//	v1  rebalance timeout; before, the session timeout stands for it
//	v4  a member without id is told one and joins again with it (KIP-394)
//	v5  static members (KIP-345)
//	v7  protocol type in the answer
//	v8  the reason (KIP-800), which nothing reads
//	v9  a static leader may keep the assignment (KIP-814)
func (b *Broker) joinGroup(c *call, q *kmsg.JoinGroupRequest) {
	if q.Version < 1 {
		q.RebalanceTimeoutMillis = q.SessionTimeoutMillis
	}
	refuse := func(code int16) kmsg.Response {
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.ErrorCode, resp.Generation, resp.MemberID = code, -1, q.MemberID
		return resp
	}
	if err := checkGroupID(q.Group); err != nil {
		c.answer(refuse(c.code(err)))
		return
	}
	c.conn().carry(q.Group)
	ev := group.Join{Req: q, Client: c.groupClient(), NewMemberID: c.newMemberID(q.InstanceID)}
	c.awaitGroup(q.Group, ev, refuse)
}

// newMemberID makes an id for a member that has none, of Kafka's form.
func (c *call) newMemberID(instance *string) string {
	prefix := c.ClientID
	if instance != nil {
		prefix = *instance
	}
	return prefix[:min(len(prefix), maxMemberPrefix)] + "-" + uuidString(newUUID())
}

// maxMemberPrefix keeps a member's id within what a record can say of a string's length, with a dash and a UUID behind it.
const maxMemberPrefix = math.MaxInt16 - 37
