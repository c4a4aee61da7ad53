package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
)

// offsetDelete answers OffsetDelete, v0 (KIP-496): the offsets of topics that nobody in the group subscribes to.
func (b *Broker) offsetDelete(c *call, q *kmsg.OffsetDeleteRequest) {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	if err := checkGroupID(q.Group); err != nil {
		resp.ErrorCode = c.code(err)
		c.answer(resp)
		return
	}
	asked, codes := b.splitOffsetDelete(c, q, resp)
	q.Topics = asked
	c.toGroup(q.Group, group.DeleteOffsets{Req: q}, func(v any, err error) {
		if err == nil {
			answer := v.(*kmsg.OffsetDeleteResponse)
			resp.ErrorCode = answer.ErrorCode
			mergeOffsetDelete(answer, codes)
		} else {
			resp.ErrorCode = c.code(err)
		}
		if resp.ErrorCode != 0 {
			resp.Topics = nil
		}
		c.countCodes(codes)
		c.answer(resp)
	})
}

// splitOffsetDelete answers for the partitions that do not exist, and gives the others with the places of their codes.
func (b *Broker) splitOffsetDelete(c *call, q *kmsg.OffsetDeleteRequest, resp *kmsg.OffsetDeleteResponse) (asked []kmsg.OffsetDeleteRequestTopic, codes []*int16) {
	resp.Topics = make([]kmsg.OffsetDeleteResponseTopic, len(q.Topics))
	for i := range q.Topics {
		rt, x := &q.Topics[i], &resp.Topics[i]
		x.Topic = rt.Topic
		x.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(rt.Partitions))
		t := b.topics.byName(rt.Topic)
		known := kmsg.OffsetDeleteRequestTopic{Topic: rt.Topic}
		for j, rp := range rt.Partitions {
			y := &x.Partitions[j]
			y.Partition = rp.Partition
			if t == nil || rp.Partition < 0 || rp.Partition >= t.partitions() {
				y.ErrorCode = c.code(errUnknownTopic)
				continue
			}
			known.Partitions = append(known.Partitions, rp)
			codes = append(codes, &y.ErrorCode)
		}
		if len(known.Partitions) > 0 {
			asked = append(asked, known)
		}
	}
	return asked, codes
}

func mergeOffsetDelete(answer *kmsg.OffsetDeleteResponse, codes []*int16) {
	if answer.ErrorCode != 0 {
		return
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			*codes[0] = p.ErrorCode
			codes = codes[1:]
		}
	}
}
