package broker

import "github.com/twmb/franz-go/pkg/kmsg"

// OffsetForLeaderEpoch (key 23), versions 2-4.
//
// Does: gives the largest leader epoch not above the one asked for, and the offset where it ends: what a consumer needs
// to find out that records it has read were lost (KIP-101, KIP-320). An epoch that is still to come is -1, -1.
// Version 2 is all that librdkafka uses, so the minimum stays there.
//
// Leaves out: followers. Their replica id changes nothing.

// offsetForLeaderEpoch is the handler.
func (b *Broker) offsetForLeaderEpoch(c *call, q *kmsg.OffsetForLeaderEpochRequest) {
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for _, t := range q.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition = p.Partition
			epoch, end, err := b.epochEnd(t.Topic, &p)
			if rp.ErrorCode = c.code(err); err == nil {
				rp.LeaderEpoch, rp.EndOffset = epoch, end
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	c.answer(resp)
}

// epochEnd answers for one partition.
func (b *Broker) epochEnd(topic string, p *kmsg.OffsetForLeaderEpochRequestTopicPartition) (epoch int32, end int64, err error) {
	l, err := b.leader(topic, p.Partition, p.CurrentLeaderEpoch)
	if err != nil {
		return -1, -1, err
	}
	offsets, err := l.Offsets()
	if err != nil {
		return -1, -1, err
	}
	return b.endOfEpoch(l, p.LeaderEpoch, offsets.High)
}

// endOfEpoch gives the largest leader epoch not above e and its end; (-1, -1) for one that is still to come. An epoch up
// to the current one of which the log has no data, nor of any later one, ends where the log does: clients learn it from
// Metadata and ListOffsets and may come back with it.
func (b *Broker) endOfEpoch(l source, e int32, logEnd int64) (epoch int32, end int64, err error) {
	epoch, end, err = l.EpochEnd(e)
	if err == nil && epoch < 0 && e >= 0 && e <= b.epoch {
		return e, logEnd, nil
	}
	return epoch, end, err
}
