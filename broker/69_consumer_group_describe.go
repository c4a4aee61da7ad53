package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
	"sluice/internal/machine"
)

// consumerGroupDescribe answers ConsumerGroupDescribe, v0-1: the groups of the consumer protocol (KIP-848). A tagged
// field of ours marks members that are stalled (kproto.StalledTag).
func (b *Broker) consumerGroupDescribe(c *call, q *kmsg.ConsumerGroupDescribeRequest) {
	resp := kmsg.NewPtrConsumerGroupDescribeResponse()
	resp.Groups = make([]kmsg.ConsumerGroupDescribeResponseGroup, len(q.Groups))
	if !b.config().Groups.ConsumerProtocol {
		for i, id := range q.Groups {
			resp.Groups[i] = kmsg.NewConsumerGroupDescribeResponseGroup()
			resp.Groups[i].Group = id
			resp.Groups[i].ErrorCode, resp.Groups[i].ErrorMessage = c.fail(errNotOffered)
		}
		c.answer(resp)
		return
	}
	each(c, q.Groups, func(i int) machine.Event { return group.ConsumerDescribe{Group: q.Groups[i]} },
		func(i int, v any, err error) {
			g := kmsg.NewConsumerGroupDescribeResponseGroup()
			if err == nil {
				g = v.(kmsg.ConsumerGroupDescribeResponseGroup)
				for j := range g.Members {
					b.tagStalled(q.Groups[i], g.Members[j].MemberID, &g.Members[j].UnknownTags)
				}
			}
			g.Group = q.Groups[i]
			if err != nil {
				g.ErrorCode, g.ErrorMessage = c.fail(err)
			}
			g.AuthorizedOperations = operations(q.IncludeAuthorizedOperations && g.ErrorCode == 0, groupOperations)
			resp.Groups[i] = g
		}, func() { c.answer(resp) })
}
