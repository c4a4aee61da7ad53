package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const group = "readers"

// Topics, by what is special about them.
const (
	plain     = "plain"
	compacted = "compacted"
	trimmed   = "trimmed"
	unused    = "unused"
	committed = "transactions"
	aborted   = "transactions.aborted" // one is aborted, and one is open when Kafka stops
)

// topicConfigs are the topics' settings. Timestamps are a second apart, so that there are several segments.
var topicConfigs = map[string]map[string]string{
	plain:     {"retention.ms": "-1", "segment.ms": "100000"},
	compacted: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "20000", "delete.retention.ms": "86400000"},
	trimmed:   {"segment.ms": "20000", "file.delete.delay.ms": "0"},
	unused:    {},
	committed: {},
	aborted:   {},
}

// Sizes; fewer make a directory that is small enough to be kept among the tests of a program.
var (
	partitions int32 = 3 // of each topic
	perBatch         = 14
)

// trimTo is the log start of a partition of the topic trimmed, within a segment.
func trimTo() int64 { return int64(4*perBatch - 1) }

// commit is the offset that the group has in a partition of the topic plain.
func commit(partition int32) int64 { return int64(10 + partition) }

// writer produces to Kafka.
type writer struct {
	address string
	begin   time.Time // timestamp of the first record
	n       int       // records written
}

func (w *writer) create(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(w.address))
	if err != nil {
		return err
	}
	defer client.Close()
	for name, values := range topicConfigs {
		configs := map[string]*string{}
		for k, v := range values {
			configs[k] = kmsg.StringPtr(v)
		}
		if r, err := kadm.NewClient(client).CreateTopic(ctx, partitions, 1, configs, name); err != nil || r.Err != nil {
			return fmt.Errorf("create %s: %v, %v", name, err, r.Err)
		}
	}
	return nil
}

// round writes some of everything: to each partition of each topic, in each codec, with and without idempotence, and transactions.
func (w *writer) round(ctx context.Context) error {
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for i, codec := range codecs {
		opts := []kgo.Opt{kgo.ProducerBatchCompression(codec)}
		if i%2 == 1 {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
		for _, topic := range []string{plain, compacted, trimmed} {
			if err := w.write(ctx, topic, opts); err != nil {
				return err
			}
		}
	}
	return errors.Join(w.transact(ctx, committed, kgo.TryCommit), w.transact(ctx, aborted, kgo.TryCommit), w.transact(ctx, aborted, kgo.TryAbort), w.transact(ctx, aborted, kgo.TryCommit))
}

func (w *writer) write(ctx context.Context, topic string, opts []kgo.Opt) error {
	client, err := w.client(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	for p := range partitions {
		if err := client.ProduceSync(ctx, w.records(topic, p, perBatch)...).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(w.address), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
}

// filler is what makes a batch worth compressing.
var filler = strings.Repeat("z", 50)

// records have nulls, empties and headers among them.
func (w *writer) records(topic string, partition int32, n int) []*kgo.Record {
	all := make([]*kgo.Record, n)
	for i := range all {
		r := &kgo.Record{Topic: topic, Partition: partition, Timestamp: w.begin.Add(time.Duration(w.n) * time.Second), Key: fmt.Appendf(nil, "key-%d", w.n%9), Value: fmt.Appendf(nil, "value %d %s", w.n, filler)}
		switch w.n % 10 {
		case 2:
			r.Value = nil
		case 4:
			r.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "", Value: []byte{}}}
		case 6:
			r.Value = []byte{}
		case 8:
			if topic != compacted {
				r.Key = nil
			}
		}
		all[i] = r
		w.n++
	}
	return all
}

// transact writes to each partition in one transaction, and ends it.
func (w *writer) transact(ctx context.Context, topic string, end kgo.TransactionEndTry) error {
	client, err := w.begun(ctx, topic)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.EndTransaction(ctx, end)
}

// begun gives a client with a transaction under way.
func (w *writer) begun(ctx context.Context, topic string) (*kgo.Client, error) {
	client, err := w.client(kgo.TransactionalID(fmt.Sprintf("writer-%d", w.n)))
	if err != nil {
		return nil, err
	}
	if err = client.BeginTransaction(); err == nil {
		for p := range partitions {
			err = errors.Join(err, client.ProduceSync(ctx, w.records(topic, p, 5)...).FirstErr())
		}
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// finish moves log starts, commits offsets, leaves a transaction open, and waits for compaction.
func (w *writer) finish(ctx context.Context) error {
	client, err := w.begun(ctx, aborted)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	starts, commits := kadm.Offsets{}, kadm.Offsets{}
	for p := range partitions {
		commits.AddOffset(plain, p, commit(p), -1)
	}
	starts.AddOffset(trimmed, 0, trimTo(), -1)
	if partitions > 1 {
		starts.AddOffset(trimmed, 1, -1, -1) // all of it
	}
	_, err = admin.DeleteRecords(ctx, starts)
	return errors.Join(err, admin.CommitAllOffsets(ctx, group, commits), w.awaitCompaction(ctx))
}

// awaitCompaction waits until a partition of the compacted topic has fewer records than offsets.
func (w *writer) awaitCompaction(ctx context.Context) error {
	for {
		v, err := read(ctx, w.address, []string{compacted}, kgo.ReadUncommitted(), nil)
		if err != nil {
			return err
		}
		done := int32(0)
		for _, p := range v {
			if int64(len(p.Records)) < p.End-p.Start {
				done++
			}
		}
		if done == partitions {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}
