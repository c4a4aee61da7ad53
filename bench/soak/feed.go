package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// feed is a topic, its one writer and what is known of its records.
type feed struct {
	number     int32
	topic      string
	partitions int
	size       int     // bytes of a value
	keys       int     // of each partition; 0: records without keys, at full rate
	rate       float64 // bytes a second; 0: as fast as it goes
	configs    map[string]string

	parts    []part
	produced atomic.Int64 // bytes acknowledged
	consumed atomic.Int64 // bytes
	tally    *tally
	alive    context.Context // until the broker has ended
}

// part is a partition. next is of the writer alone.
type part struct {
	next   int64          // sequence of the next record
	acked  atomic.Int64   // records acknowledged
	seen   atomic.Int64   // offset that the follower has come to
	latest []atomic.Int64 // of each key: the newest acknowledged record; -1: none
}

// tally counts what was found wrong, for all feeds.
type tally struct {
	wrong, missing, expired, failed, checked, rebuilt atomic.Int64

	mu    sync.Mutex
	first []string // the first of each kind of trouble, to be shown
}

// complain counts n and keeps the first sentences.
func (t *tally) complain(counter *atomic.Int64, n int64, format string, args ...any) {
	counter.Add(n)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.first) < 20 {
		t.first = append(t.first, fmt.Sprintf(format, args...))
	}
}

func (f *feed) init(alive context.Context, t *tally) {
	f.alive, f.tally = alive, t
	f.parts = make([]part, f.partitions)
	for p := range f.parts {
		f.parts[p].latest = make([]atomic.Int64, f.keys)
		for k := range f.parts[p].latest {
			f.parts[p].latest[k].Store(-1)
		}
	}
}

func (f *feed) create(ctx context.Context, addr string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer client.Close()
	configs := map[string]*string{}
	for key, value := range f.configs {
		configs[key] = &value
	}
	created, err := kadm.NewClient(client).CreateTopic(ctx, int32(f.partitions), 1, configs, f.topic)
	return errors.Join(err, created.Err)
}

func (f *feed) remove(ctx context.Context, addr string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer client.Close()
	deleted, err := kadm.NewClient(client).DeleteTopic(ctx, f.topic)
	return errors.Join(err, deleted.Err)
}

// bufferedBytes is how much a writer has on its way: enough to keep all partitions busy, and far less than retention keeps.
const bufferedBytes = 16 << 20

// write produces until ctx ends, and returns when all is acknowledged.
func (f *feed) write(ctx context.Context, addr string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(f.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedBytes(bufferedBytes), kgo.ClientID("write-"+f.topic))
	if err != nil {
		return err
	}
	defer client.Close()
	begin, sent := time.Now(), 0.0
	for n := 0; ctx.Err() == nil; n++ {
		f.produce(client, n%f.partitions)
		sent += float64(f.size)
		if f.rate > 0 {
			pause(ctx, time.Until(begin.Add(time.Duration(sent/f.rate*float64(time.Second)))))
		}
	}
	ctx, cancel := context.WithTimeout(f.alive, patience)
	defer cancel()
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("%s: records are not acknowledged within %v: %w", f.topic, patience, err)
	}
	return nil
}

// patience is how long what must come in the end may take.
const patience = time.Minute

// pause waits for a while if that is worth it.
func pause(ctx context.Context, d time.Duration) {
	if d < time.Millisecond {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// values are reused: what does not have to be collected does not disturb the measurement.
var values sync.Pool

func (f *feed) produce(client *kgo.Client, partition int) {
	p := &f.parts[partition]
	seq := p.next
	p.next++
	value, _ := values.Get().(*[]byte)
	if value == nil || cap(*value) < f.size {
		value = new(make([]byte, f.size))
	}
	r := &kgo.Record{Partition: int32(partition), Value: (*value)[:f.size]}
	key := 0
	if f.keys > 0 {
		key = keyOf(r.Partition, seq, f.keys)
		r.Key = keyName(key)
	}
	stamp(r.Value, f.number, r.Partition, seq, r.Key)
	client.Produce(f.alive, r, func(r *kgo.Record, err error) {
		if err != nil {
			f.tally.complain(&f.tally.failed, 1, "%s-%d: record %d was refused: %v", f.topic, partition, seq, err)
			return
		}
		if r.Offset != seq {
			f.tally.complain(&f.tally.wrong, 1, "%s-%d: record %d was acknowledged at offset %d", f.topic, partition, seq, r.Offset)
		}
		p.acked.Add(1)
		f.produced.Add(int64(len(r.Value) + len(r.Key)))
		if f.keys > 0 {
			p.latest[key].Store(seq)
		}
		values.Put(value)
	})
}
