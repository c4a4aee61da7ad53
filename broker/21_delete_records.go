package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// deleteRecords answers DeleteRecords, v0-2: it moves the start of partitions forward, durably before the answer
// (Kafka may forget it within a minute).
//
// -1 stands for the high watermark. Beyond it, or below -1, is OFFSET_OUT_OF_RANGE; below the start nothing happens.
// A topic that is not cleaned by deletion refuses with POLICY_VIOLATION, an internal one with
// INVALID_TOPIC_EXCEPTION.
func (b *Broker) deleteRecords(c *call, q *kmsg.DeleteRecordsRequest) {
	resp := kmsg.NewPtrDeleteRecordsResponse()
	resp.Topics = make([]kmsg.DeleteRecordsResponseTopic, len(q.Topics))
	var jobs []func(context.Context)
	for i := range q.Topics {
		rt, x := &q.Topics[i], &resp.Topics[i]
		x.Topic = rt.Topic
		x.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(rt.Partitions))
		for j, rp := range rt.Partitions {
			p := &x.Partitions[j]
			p.Partition = rp.Partition
			jobs = append(jobs, func(ctx context.Context) {
				p.LowWatermark = -1
				p.ErrorCode = c.code(c.attempt(func() (err error) {
					p.LowWatermark, err = b.deletePartitionRecords(ctx, rt.Topic, rp.Partition, rp.Offset)
					return err
				}))
			})
		}
	}
	go c.guard(func() {
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout(q.TimeoutMillis))
		defer cancel()
		inParallel(len(jobs), func(i int) { jobs[i](ctx) })
		c.answer(resp)
	})
}

// deletePartitionRecords gives the new start, or -1 and why there is none.
func (b *Broker) deletePartitionRecords(ctx context.Context, name string, partition int32, offset int64) (int64, error) {
	t := b.topics.byName(name)
	if t == nil {
		return -1, errUnknownTopic
	}
	if t.internal {
		return -1, kproto.Errorf(kproto.InvalidTopic, "Cannot delete records of the internal topic %s.", name)
	}
	l := t.partition(partition)
	if l == nil {
		return -1, errUnknownTopic
	}
	if !t.config().CleanupDelete {
		return -1, kproto.Errorf(kproto.PolicyViolation, "Records of %s-%d cannot be deleted due to its cleanup.policy.", name, partition)
	}
	o, err := l.Offsets()
	if err != nil {
		return -1, err
	}
	if offset == -1 {
		offset = o.High
	}
	if offset < 0 || offset > o.High {
		return -1, kproto.Errorf(kproto.OffsetOutOfRange, "Offset %d is outside of 0-%d.", offset, o.High)
	}
	start, err := l.AdvanceStart(ctx, offset)
	if err != nil {
		return -1, err
	}
	return start, nil
}

// Bounds of the timeout that a client gives for work on the disk.
const (
	defaultRequestTimeout = 30 * time.Second // for 0 and less: Kafka's request.timeout.ms
	maxRequestTimeout     = 5 * time.Minute  // longer, nobody waits
)

func requestTimeout(ms int32) time.Duration {
	if ms <= 0 {
		return defaultRequestTimeout
	}
	return min(time.Duration(ms)*time.Millisecond, maxRequestTimeout)
}
