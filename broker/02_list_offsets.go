package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
	"sluice/log"
)

// ListOffsets (key 2), versions 1-11.
//
// Does: finds the first record at or after a timestamp, or one of the special offsets. An answer by timestamp lies below
// the high watermark, or below the last stable offset for read_committed.
//
// Leaves out: tiered storage: the earliest local offset is the earliest one, and what is in a tier, or waits for its
// upload, is nothing.
//
// Differs from Kafka: an unknown isolation level is INVALID_REQUEST, where Kafka answers -1.
//
// By version: 2 isolation levels; 4 leader epochs (KIP-320); 7 max timestamp (KIP-734); 8 earliest local (KIP-405);
// 9 latest tiered (KIP-1005); 11 earliest pending upload (KIP-1023).

// Special timestamps.
const (
	latestTimestamp        = -1
	earliestTimestamp      = -2
	maxTimestamp           = -3
	earliestLocalTimestamp = -4
	latestTieredTimestamp  = -5
	pendingUploadTimestamp = -6
)

// specialSince says which version of ListOffsets brought a special timestamp.
var specialSince = map[int64]int16{
	latestTimestamp:        1,
	earliestTimestamp:      1,
	maxTimestamp:           7,
	earliestLocalTimestamp: 8,
	latestTieredTimestamp:  9,
	pendingUploadTimestamp: 11,
}

var (
	errUnsupportedTimestamp = &kproto.Error{Code: kproto.UnsupportedVersion, Message: "this version knows no such special timestamp"}
	errIsolationLevel       = &kproto.Error{Code: kproto.InvalidRequest, Message: "the isolation level is 0 or 1"}
)

// partitionKey is one partition of a request.
type partitionKey struct {
	topic     string
	partition int32
}

// timesAsked counts how often a request names each partition.
func timesAsked(q *kmsg.ListOffsetsRequest) map[partitionKey]int {
	n := map[partitionKey]int{}
	for _, t := range q.Topics {
		for _, p := range t.Partitions {
			n[partitionKey{t.Topic, p.Partition}]++
		}
	}
	return n
}

// listOffsets is the handler.
func (b *Broker) listOffsets(c *call, q *kmsg.ListOffsetsRequest) {
	resp := kmsg.NewPtrListOffsetsResponse()
	asked := timesAsked(q)
	for _, t := range q.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition = p.Partition
			pos, err := log.Position{}, error(errPartitionTwice)
			if asked[partitionKey{t.Topic, p.Partition}] == 1 {
				pos, err = b.listOffset(q, t.Topic, &p)
			}
			if rp.ErrorCode = c.code(err); err == nil {
				rp.Offset, rp.Timestamp, rp.LeaderEpoch = pos.Offset, pos.Timestamp, pos.Epoch
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	c.answer(resp)
}

// listOffset answers for one partition.
func (b *Broker) listOffset(q *kmsg.ListOffsetsRequest, topic string, p *kmsg.ListOffsetsRequestTopicPartition) (log.Position, error) {
	since, special := specialSince[p.Timestamp]
	switch {
	case p.Timestamp < 0 && (!special || q.Version < since):
		return log.Position{}, errUnsupportedTimestamp
	case q.IsolationLevel < 0 || q.IsolationLevel > 1:
		return log.Position{}, errIsolationLevel
	}
	l, err := b.leader(topic, p.Partition, p.CurrentLeaderEpoch)
	if err != nil {
		return log.Position{}, err
	}
	return b.findOffset(l, p.Timestamp, q.IsolationLevel == 1)
}

// leader finds a partition's log for a client that believes in the leader epoch given (-1: none).
func (b *Broker) leader(topic string, partition, epoch int32) (*log.Log, error) {
	t := b.topics.byName(topic)
	if t == nil {
		return nil, errUnknownTopic
	}
	l := t.partition(partition)
	if l == nil {
		return nil, errUnknownTopic
	}
	return l, checkLeaderEpoch(epoch, b.epoch)
}

// findOffset looks a timestamp up, which may be special.
func (b *Broker) findOffset(l *log.Log, timestamp int64, committed bool) (log.Position, error) {
	offsets, err := l.Offsets()
	if err != nil {
		return log.Position{}, err
	}
	limit := offsets.High
	if committed {
		limit = offsets.Stable
	}
	switch timestamp {
	case latestTimestamp:
		return log.Position{Offset: limit, Timestamp: -1, Epoch: b.epoch}, nil
	case earliestTimestamp, earliestLocalTimestamp:
		return b.earliest(l, offsets)
	case latestTieredTimestamp, pendingUploadTimestamp:
		return log.Position{Offset: -1, Timestamp: -1, Epoch: -1}, nil
	case maxTimestamp:
		return l.MaxTime(limit)
	}
	return l.FindTime(timestamp, limit)
}

// earliest is the log start, with the leader epoch of the batch that stands there, if there is one that can be read.
func (b *Broker) earliest(l *log.Log, offsets log.Offsets) (log.Position, error) {
	pos := log.Position{Offset: offsets.Start, Timestamp: -1, Epoch: -1}
	if offsets.Start == offsets.High {
		return pos, nil
	}
	r, err := l.Read(offsets.Start, offsets.High, 0, true)
	if err != nil {
		return pos, nil
	}
	defer r.Release()
	var head [kproto.HeaderSize]byte
	if _, err := r.File.ReadAt(head[:], r.Pos); err == nil {
		pos.Epoch = kproto.Batch(head[:]).LeaderEpoch()
	}
	return pos, nil
}
