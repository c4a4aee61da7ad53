package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	offsetsTopic = "__consumer_offsets"
	group        = "dump-log"

	batches      = 12
	batchRecords = 40
	keys         = 150
	recordGap    = 10 * time.Millisecond // between timestamps: three batches are in a segment of segmentAge
	segmentAge   = "1000"
	logStart     = 300 // of the topic whose start is moved
)

// topic is one that was written, and what is to be found of it.
type topic struct {
	what     string // the name of its check
	name     string
	codec    kgo.CompressionCodec
	compact  bool
	start    int64
	produced []*kgo.Record // by offset
}

func topicList() []*topic {
	list := []*topic{
		{what: "plain", codec: kgo.NoCompression()},
		{what: "gzip", codec: kgo.GzipCompression()},
		{what: "snappy", codec: kgo.SnappyCompression()},
		{what: "lz4", codec: kgo.Lz4Compression()},
		{what: "zstd", codec: kgo.ZstdCompression()},
		{what: "compacted", codec: kgo.NoCompression(), compact: true},
		{what: "compacted zstd", codec: kgo.ZstdCompression(), compact: true},
		{what: "log start moved", codec: kgo.NoCompression(), start: logStart},
	}
	for i, t := range list {
		t.name = fmt.Sprintf("dump-%d", i)
	}
	return list
}

// write fills the topics, moves a log start, commits offsets, and waits for compaction.
func write(ctx context.Context, address string) ([]*topic, error) {
	topics := topicList()
	for _, t := range topics {
		if err := t.write(ctx, address); err != nil {
			return nil, fmt.Errorf("%s: %w", t.what, err)
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	commits := kadm.Offsets{}
	for _, t := range topics {
		commits.AddOffset(t.name, 0, t.commit(), -1)
	}
	if err := admin.CommitAllOffsets(ctx, group, commits); err != nil {
		return nil, err
	}
	for _, t := range topics {
		if t.start > 0 {
			to := kadm.Offsets{}
			to.AddOffset(t.name, 0, t.start, -1)
			if _, err := admin.DeleteRecords(ctx, to); err != nil {
				return nil, err
			}
		}
		if t.compact {
			if err := t.awaitCompaction(ctx, address); err != nil {
				return nil, fmt.Errorf("%s: %w", t.what, err)
			}
		}
	}
	return topics, nil
}

// commit is the offset that the group has there, another one for each topic.
func (t *topic) commit() int64 { return int64(100 + len(t.what)) }

func (t *topic) write(ctx context.Context, address string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ProducerBatchCompression(t.codec), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	configs := map[string]*string{"segment.ms": kmsg.StringPtr(segmentAge), "index.interval.bytes": kmsg.StringPtr("100")}
	if t.compact {
		configs["cleanup.policy"], configs["min.cleanable.dirty.ratio"] = kmsg.StringPtr("compact"), kmsg.StringPtr("0")
	}
	if r, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, configs, t.name); err != nil || r.Err != nil {
		return fmt.Errorf("create: %v, %v", err, r.Err)
	}
	begin := time.UnixMilli(time.Now().Add(-time.Hour).UnixMilli())
	for b := range batches {
		batch := make([]*kgo.Record, batchRecords)
		for i := range batch {
			n := b*batchRecords + i
			batch[i] = t.record(n, begin.Add(time.Duration(n)*recordGap))
		}
		if err := client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
			return err
		}
		t.produced = append(t.produced, batch...)
	}
	return nil
}

// record is the n-th of a topic: some have no key, some no value, some headers.
func (t *topic) record(n int, at time.Time) *kgo.Record {
	r := &kgo.Record{Topic: t.name, Timestamp: at, Key: fmt.Appendf(nil, "key-%d", n%keys), Value: fmt.Appendf(nil, "value %d of %s", n, t.what)}
	switch n % 7 {
	case 3:
		r.Value = nil
	case 5:
		r.Headers = []kgo.RecordHeader{{Key: "first", Value: []byte("1")}, {Key: "second", Value: nil}}
	}
	if n%11 == 4 && !t.compact {
		r.Key = nil
	}
	return r
}

// awaitCompaction reads until there are fewer records than were written.
func (t *topic) awaitCompaction(ctx context.Context, address string) error {
	for {
		n, err := t.count(ctx, address)
		if err != nil || n < len(t.produced) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (t *topic) count(ctx context.Context, address string) (n int, err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.name: {0: kgo.NewOffset().At(0)}}))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	last := t.produced[len(t.produced)-1].Offset
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, err
		}
		records := fetches.Records()
		n += len(records)
		if slices.ContainsFunc(records, func(r *kgo.Record) bool { return r.Offset == last }) {
			return n, nil
		}
	}
}
