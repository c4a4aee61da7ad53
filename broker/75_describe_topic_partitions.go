package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// maxDescribedPartitions is how many partitions one answer holds at most: Kafka's max.request.partition.size.limit.
const maxDescribedPartitions = 2000

// describeTopicPartitions answers DescribeTopicPartitions, v0 (KIP-966): topics in order of name, up to a number of
// partitions, and a cursor to go on from. No topics means all.
func (b *Broker) describeTopicPartitions(c *call, q *kmsg.DescribeTopicPartitionsRequest) {
	d := &partitionsPage{b: b, c: c, resp: kmsg.NewPtrDescribeTopicPartitionsResponse(), left: pageSize(q.ResponsePartitionLimit)}
	names, named := b.namesToDescribe(q)
	if q.Cursor != nil && q.Cursor.Partition < 0 {
		for _, rt := range q.Topics {
			d.fail(rt.Topic, errNegativeCursor)
		}
		c.answer(d.resp)
		return
	}
	if q.Cursor != nil {
		i, _ := slices.BinarySearch(names, q.Cursor.Topic)
		names = names[i:]
	}
	for _, name := range names {
		from := int32(0)
		if q.Cursor != nil && q.Cursor.Topic == name {
			from = q.Cursor.Partition
		}
		if !d.add(name, from, named) {
			break
		}
	}
	c.answer(d.resp)
}

var errNegativeCursor = kproto.Errorf(kproto.InvalidRequest, "The partition of the cursor is negative.")

func pageSize(limit int32) int {
	if limit <= 0 {
		return maxDescribedPartitions
	}
	return int(min(limit, maxDescribedPartitions))
}

// namesToDescribe are the asked topics or all, sorted, each once. named tells that the client asked for them.
func (b *Broker) namesToDescribe(q *kmsg.DescribeTopicPartitionsRequest) (names []string, named bool) {
	if len(q.Topics) > 0 {
		for _, rt := range q.Topics {
			names = append(names, rt.Topic)
		}
		slices.Sort(names)
		return slices.Compact(names), true
	}
	b.topics.each(func(t *topic) bool {
		names = append(names, t.name)
		return true
	})
	return names, false
}

// partitionsPage is one answer under way.
type partitionsPage struct {
	b    *Broker
	c    *call
	resp *kmsg.DescribeTopicPartitionsResponse
	left int // partitions that still fit
}

// add puts a topic's partitions on the page, and tells whether there is room for the next topic.
func (d *partitionsPage) add(name string, from int32, named bool) bool {
	if d.left == 0 {
		d.cursor(name, 0)
		return false
	}
	t := d.b.topics.byName(name)
	if t == nil {
		if named { // else it was deleted just now
			d.fail(name, unknownTopicError(name))
		}
		return true
	}
	n := t.partitions()
	to := min(int64(n), int64(from)+int64(d.left))
	x := kmsg.NewDescribeTopicPartitionsResponseTopic()
	x.Topic, x.TopicID, x.IsInternal = &t.name, t.id, t.internal
	x.AuthorizedOperations = topicOperations
	for i := from; int64(i) < to; i++ {
		x.Partitions = append(x.Partitions, d.partition(i))
	}
	d.left -= len(x.Partitions)
	d.resp.Topics = append(d.resp.Topics, x)
	if to < int64(n) {
		d.cursor(name, int32(to))
		return false
	}
	return true
}

func (d *partitionsPage) partition(i int32) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	p.Partition, p.LeaderID, p.LeaderEpoch = i, NodeID, d.b.epoch
	p.Replicas, p.ISR = onlyNode, onlyNode
	p.EligibleLeaderReplicas, p.LastKnownELR = []int32{}, []int32{}
	return p
}

func (d *partitionsPage) cursor(name string, partition int32) {
	n := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	n.Topic, n.Partition = name, partition
	d.resp.NextCursor = &n
}

func (d *partitionsPage) fail(name string, err error) {
	x := kmsg.NewDescribeTopicPartitionsResponseTopic()
	x.ErrorCode, x.Topic = d.c.code(err), &name
	d.resp.Topics = append(d.resp.Topics, x)
}

// unknownTopicError tells a topic that is not there from one that can never be.
func unknownTopicError(name string) error {
	if err := checkTopicName(name); err != nil {
		return err
	}
	return errUnknownTopic
}
