package main

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// partition names one.
type partition struct {
	Topic string
	N     int32
}

// view is what clients see of partitions.
type view map[partition]*seen

type seen struct {
	Start, End int64
	Records    []record
	Epochs     map[int32]int64 // end offsets, by the epochs of the records
}

// record is all there is to see of one.
type record struct {
	Offset, Timestamp int64
	Epoch             int32
	ProducerID        int64
	ProducerEpoch     int16
	Codec             uint8
	Control           bool
	Transactional     bool
	Key, Value        []byte
	Headers           []kgo.RecordHeader
}

// read reads topics from start to end. With a view to compare with it reads up to the last record there, and whatever comes then: behind that there may be offsets without
// records.
func read(ctx context.Context, address string, topics []string, isolation kgo.IsolationLevel, like view) (view, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	v := view{}
	starts.Each(func(o kadm.ListedOffset) {
		v[partition{o.Topic, o.Partition}] = &seen{Start: o.Offset, Epochs: map[int32]int64{}}
	})
	ends.Each(func(o kadm.ListedOffset) { v[partition{o.Topic, o.Partition}].End = o.Offset })
	for p, s := range v {
		last := int64(-1)
		if like[p] != nil && len(like[p].Records) > 0 {
			last = like[p].Records[len(like[p].Records)-1].Offset
		}
		if err := s.read(ctx, address, p, isolation, last); err != nil {
			return nil, fmt.Errorf("%v: %w", p, err)
		}
	}
	return v, v.readEpochs(ctx, admin)
}

// quiet is how long nothing comes where there is nothing.
const quiet = 300 * time.Millisecond

// read consumes a partition with its control records. A reader of what is committed does not come to the end where a transaction is open.
func (s *seen) read(ctx context.Context, address string, p partition, isolation kgo.IsolationLevel, last int64) error {
	if s.Start == s.End {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.Topic: {p.N: kgo.NewOffset().At(s.Start)}}))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		end := s.End
		fetches.EachPartition(func(f kgo.FetchTopicPartition) { end = min(end, f.LastStableOffset) })
		if last >= 0 {
			end = last + 1
		}
		s.take(fetches)
		if n := len(s.Records); n > 0 && s.Records[n-1].Offset+1 >= end {
			break
		}
	}
	if last >= 0 {
		rest, cancel := context.WithTimeout(ctx, quiet)
		defer cancel()
		s.take(client.PollFetches(rest))
	}
	return nil
}

func (s *seen) take(fetches kgo.Fetches) {
	for _, r := range fetches.Records() {
		s.Records = append(s.Records, newRecord(r))
	}
}

func newRecord(r *kgo.Record) record {
	return record{
		Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Epoch: r.LeaderEpoch, ProducerID: r.ProducerID, ProducerEpoch: r.ProducerEpoch,
		Codec: r.Attrs.CompressionType(), Control: r.Attrs.IsControl(), Transactional: r.Attrs.IsTransactional(), Key: r.Key, Value: r.Value, Headers: r.Headers,
	}
}

// readEpochs asks where each epoch ended.
func (v view) readEpochs(ctx context.Context, admin *kadm.Client) error {
	for p, s := range v {
		for _, r := range s.Records {
			if _, known := s.Epochs[r.Epoch]; known {
				continue
			}
			var ask kadm.OffsetForLeaderEpochRequest
			ask.Add(p.Topic, p.N, r.Epoch)
			answers, err := admin.OffsetForLeaderEpoch(ctx, ask)
			if err != nil {
				return err
			}
			answer := answers[p.Topic][p.N]
			if answer.Err != nil {
				return answer.Err
			}
			s.Epochs[r.Epoch] = answer.EndOffset
		}
	}
	return nil
}

// same compares what was seen of Kafka with what is seen of the broker under test.
func (v view) same(got view) error {
	if len(got) != len(v) {
		return fmt.Errorf("there are %d partitions, not %d", len(got), len(v))
	}
	for _, p := range slices.SortedFunc(maps.Keys(v), func(a, b partition) int { return slices.Compare([]byte(fmt.Sprint(a)), []byte(fmt.Sprint(b))) }) {
		if got[p] == nil {
			return fmt.Errorf("%v is not there", p)
		}
		if err := v[p].same(got[p]); err != nil {
			return fmt.Errorf("%v: %w", p, err)
		}
	}
	return nil
}

func (s *seen) same(got *seen) error {
	if got.Start != s.Start || got.End != s.End || len(got.Records) != len(s.Records) || !maps.Equal(got.Epochs, s.Epochs) {
		return fmt.Errorf("there are %d records from %d to %d, epochs end at %v; in Kafka %d from %d to %d, %v",
			len(got.Records), got.Start, got.End, got.Epochs, len(s.Records), s.Start, s.End, s.Epochs)
	}
	for i, want := range s.Records {
		if !reflect.DeepEqual(got.Records[i], want) {
			return fmt.Errorf("got %+v, in Kafka %+v", got.Records[i], want)
		}
	}
	return nil
}

// of gives the partitions of some topics.
func (v view) of(topics ...string) view {
	some := view{}
	for p, s := range v {
		if slices.Contains(topics, p.Topic) {
			some[p] = s
		}
	}
	return some
}
