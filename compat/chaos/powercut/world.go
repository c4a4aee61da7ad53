package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/compat/harness"
)

const (
	topic      = "kept"
	partitions = 4
	// waitTime is how long anything may take before it counts as hung.
	waitTime = 60 * time.Second
)

// place of a record.
type place struct {
	partition int32
	offset    int64
}

// tally sums up the lives on one kind of file system.
type tally struct{ cuts, acked, seen, topics, flushes int }

// state of a topic beside the one that is kept.
type state int

const (
	unsure state = iota // asked for, and not answered
	there
	gone
)

// world is the broker on the disk, and the books of what it promised.
type world struct {
	bin, home string
	machine   *machine
	broker    *harness.Broker
	made      bool // the topic
	next      int  // number of the next topic beside it
	life      int

	mu     sync.Mutex
	sent   map[string]bool // values
	acked  map[place]string
	seen   map[place]string
	topics map[string]state
}

func newWorld(bin, home string, m *machine) *world {
	return &world{bin: bin, home: home, machine: m, sent: map[string]bool{}, acked: map[place]string{}, seen: map[place]string{}, topics: map[string]state{}}
}

func (w *world) add(sum *tally) {
	sum.acked += len(w.acked)
	sum.seen += len(w.seen)
	sum.topics += len(w.topics)
	sum.flushes += w.machine.disk.flushes
}

// cycle starts the broker on what the last cut has left, holds it against the books, loads it, and cuts the power.
func (w *world) cycle(ctx context.Context, rng *rand.Rand) (err error) {
	if err := w.machine.on(); err != nil {
		return fmt.Errorf("the kernel's recovery: %w", err)
	}
	if err := w.start(); err != nil {
		return err
	}
	if w.life++; w.made {
		if err := w.check(ctx); err != nil {
			_ = w.broker.Kill()
			return err
		}
	}
	promised, err := w.loadAndCut(ctx, rng)
	if err != nil {
		return err
	}
	w.acked, w.seen, w.topics = promised.acked, promised.seen, promised.topics
	return w.machine.off()
}

func (w *world) start() (err error) {
	dir := filepath.Join(w.home, "process")
	if w.broker == nil {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		w.broker, err = harness.StartAt(w.bin, dir, filepath.Join(w.machine.mount, "data"), "--set", "sluice.ballast.bytes=0")
		return err
	}
	return w.broker.Restart()
}

// books are what was promised at one moment.
type books struct {
	acked, seen map[place]string
	topics      map[string]state
}

func (w *world) promised() books {
	w.mu.Lock()
	defer w.mu.Unlock()
	return books{maps.Clone(w.acked), maps.Clone(w.seen), maps.Clone(w.topics)}
}

// loadAndCut runs clients for a while. The books are closed before the power goes: what is answered later is no promise.
func (w *world) loadAndCut(ctx context.Context, rng *rand.Rand) (books, error) {
	if err := w.makeTopic(ctx); err != nil {
		return books{}, errors.Join(err, w.broker.Kill())
	}
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for n := range 3 {
		clients.Go(func() { w.produce(ctx, n) })
	}
	clients.Go(func() { w.consume(ctx) })
	clients.Go(func() { w.makeAndDelete(ctx) })
	time.Sleep(time.Duration(50+rng.IntN(350)) * time.Millisecond)
	b := w.promised()
	w.machine.disk.powerOff(rng)
	err := w.broker.Kill()
	cancel()
	clients.Wait()
	return b, err
}

func (w *world) makeTopic(ctx context.Context) error {
	if w.made {
		return nil
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(w.broker.Address))
	if err != nil {
		return err
	}
	defer c.Close()
	age := "150" // segments roll often
	r, err := kadm.NewClient(c).CreateTopic(ctx, partitions, 1, map[string]*string{"segment.ms": &age}, topic)
	if err = errors.Join(err, r.Err); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	w.made = true
	return nil
}

// produce sends some records at a time, and waits for the answers.
func (w *world) produce(ctx context.Context, n int) {
	c, err := kgo.NewClient(kgo.SeedBrokers(w.broker.Address), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		panic(err) // the options are wrong
	}
	context.AfterFunc(ctx, c.Close) // or what waits for an answer would wait for ever
	for i := 0; ctx.Err() == nil; i++ {
		var rs []*kgo.Record
		for j := range 1 + i%5 {
			value := fmt.Sprintf("%d/%d/%d/%d %0*d", w.life, n, i, j, 10+97*((i+j)%20), 0)
			rs = append(rs, kgo.StringRecord(value))
			w.mu.Lock()
			w.sent[value] = true
			w.mu.Unlock()
		}
		for _, r := range c.ProduceSync(ctx, rs...) {
			if r.Err == nil {
				w.mu.Lock()
				w.acked[place{r.Record.Partition, r.Record.Offset}] = string(r.Record.Value)
				w.mu.Unlock()
			}
		}
	}
}

// consume reads what is new. What it has read must stay.
func (w *world) consume(ctx context.Context) {
	c, err := kgo.NewClient(kgo.SeedBrokers(w.broker.Address), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	if err != nil {
		panic(err) // the options are wrong
	}
	context.AfterFunc(ctx, c.Close) // or what waits for an answer would wait for ever
	for ctx.Err() == nil {
		f := c.PollFetches(ctx)
		w.mu.Lock()
		f.EachRecord(func(r *kgo.Record) { w.seen[place{r.Partition, r.Offset}] = string(r.Value) })
		w.mu.Unlock()
	}
}

// makeAndDelete makes topics, writes to each, and deletes the one before.
func (w *world) makeAndDelete(ctx context.Context) {
	c, err := kgo.NewClient(kgo.SeedBrokers(w.broker.Address), kgo.UnknownTopicRetries(-1))
	if err != nil {
		panic(err) // the options are wrong
	}
	context.AfterFunc(ctx, c.Close) // or what waits for an answer would wait for ever
	admin := kadm.NewClient(c)
	for before := ""; ctx.Err() == nil; {
		name := fmt.Sprint("extra-", w.next)
		w.next++
		w.note(name, unsure)
		if r, err := admin.CreateTopic(ctx, 2, 1, nil, name); errors.Join(err, r.Err) == nil {
			w.note(name, there)
		}
		_ = c.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte(name)}) // so that there is a directory
		if before != "" {
			w.note(before, unsure)
			if r, err := admin.DeleteTopic(ctx, before); errors.Join(err, r.Err) == nil {
				w.note(before, gone)
			}
		}
		before = name
	}
}

func (w *world) note(name string, s state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.topics[name] = s
}

// check reads everything, and holds it against the books.
func (w *world) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	found, err := w.readAll(ctx)
	if err != nil {
		return err
	}
	for what, promised := range map[string]map[place]string{"acknowledged": w.acked, "read": w.seen} {
		for at, value := range promised {
			if found[at] != value {
				return fmt.Errorf("partition %d offset %d was %s as %.40q and is now %.40q", at.partition, at.offset, what, value, found[at])
			}
		}
	}
	twice := map[string]place{}
	for at, value := range found {
		if other, ok := twice[value]; ok || !w.sent[value] {
			return fmt.Errorf("%.40q at %+v: sent %v, also at %+v", value, at, w.sent[value], other)
		}
		twice[value] = at
	}
	return w.checkTopics(ctx)
}

// readAll reads the topic up to its high watermarks; offsets must be dense.
func (w *world) readAll(ctx context.Context) (map[place]string, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(w.broker.Address), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err = errors.Join(err, ends.Error()); err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	total := int64(0)
	ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
	found := map[place]string{}
	for int64(len(found)) < total {
		f := c.PollFetches(ctx)
		if err := f.Err(); err != nil {
			return nil, fmt.Errorf("%d of %d records: %w", len(found), total, err)
		}
		f.EachRecord(func(r *kgo.Record) { found[place{r.Partition, r.Offset}] = string(r.Value) })
	}
	return found, nil
}

func (w *world) checkTopics(ctx context.Context) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(w.broker.Address))
	if err != nil {
		return err
	}
	defer c.Close()
	have, err := kadm.NewClient(c).ListTopics(ctx)
	if err != nil {
		return err
	}
	for name, s := range w.topics {
		is := have.Has(name) && !errors.Is(have[name].Err, kerr.UnknownTopicOrPartition)
		if s == there && !is || s == gone && is {
			return fmt.Errorf("topic %s: promised to be there %v, is there %v", name, s == there, is)
		}
	}
	return nil
}
