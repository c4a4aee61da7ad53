package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	kept       = "kept" // the topic whose records must all stay, but for those that DeleteRecords takes
	partitions = 4
	recordSize = 20_000
	perCycle   = 3 * partitions // records while there is space
	maxKept    = 300            // records; then DeleteRecords makes room
	// waitTime is how long anything may take before it counts as hung.
	waitTime = 30 * time.Second
	// returnTime is how long after the space came back a partition may refuse appends.
	returnTime = 5 * time.Second
)

// place of a record.
type place struct {
	partition int32
	offset    int64
}

// drill is the broker on one file system, and what it acknowledged.
type drill struct {
	bin, disk, home string
	process         *exec.Cmd
	client          *kgo.Client
	admin           *kadm.Client
	acked           map[place][]byte
	acks            int

	slowestAnswer, slowestReturn time.Duration
}

func (d *drill) run(ctx context.Context, cycles int) error {
	d.acked = map[place][]byte{}
	if err := d.start(ctx); err != nil {
		return err
	}
	defer d.kill()
	segment := "1048576" // the least there is, so that DeleteRecords frees something
	if _, err := d.admin.CreateTopic(ctx, partitions, 1, map[string]*string{"segment.bytes": &segment}, kept); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	for i := range cycles {
		if err := d.cycle(ctx, i); err != nil {
			return fmt.Errorf("cycle %d: %w", i, err)
		}
	}
	d.kill()
	if err := d.start(ctx); err != nil {
		return fmt.Errorf("after a kill: %w", err)
	}
	if err := d.readAll(ctx); err != nil {
		return fmt.Errorf("after a kill: %w", err)
	}
	return nil
}

func (d *drill) cycle(ctx context.Context, i int) error {
	victim := fmt.Sprint("victim-", i)
	if _, err := d.admin.CreateTopic(ctx, 1, 1, nil, victim); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	if err := d.produce(ctx, victim, 1, 10); err != nil {
		return fmt.Errorf("with space: %w", err)
	}
	if err := d.produce(ctx, kept, partitions, perCycle); err != nil {
		return fmt.Errorf("with space: %w", err)
	}
	if err := d.fill(); err != nil {
		return err
	}
	if err := d.whileFull(ctx, victim); err != nil {
		return fmt.Errorf("on the full disk: %w", err)
	}
	if err := os.Remove(d.filler()); err != nil {
		return err
	}
	if err := d.afterwards(ctx); err != nil {
		return err
	}
	return nil
}

// whileFull: a producer learns of it, all else goes on.
func (d *drill) whileFull(ctx context.Context, victim string) error {
	began := time.Now()
	refused := d.produce(ctx, kept, partitions, partitions*4)
	d.slowestAnswer = max(d.slowestAnswer, time.Since(began))
	if !errors.Is(refused, kerr.KafkaStorageError) {
		return fmt.Errorf("a producer got: %v", refused)
	}
	if _, err := d.admin.Metadata(ctx); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	if err := d.readAll(ctx); err != nil {
		return err
	}
	if err := d.trim(ctx); err != nil {
		return err
	}
	return d.deleteTopic(ctx, victim)
}

func (d *drill) deleteTopic(ctx context.Context, name string) error {
	r, err := d.admin.DeleteTopics(ctx, name)
	if err = errors.Join(err, r.Error()); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("DeleteTopics: %w", err)
	}
	return nil
}

// trim deletes the records of one partition when there are many.
func (d *drill) trim(ctx context.Context) error {
	if len(d.acked) < maxKept {
		return nil
	}
	p := rand.Int32N(partitions)
	ends, err := d.admin.ListEndOffsets(ctx, kept)
	if err != nil {
		return fmt.Errorf("list offsets: %w", err)
	}
	end, _ := ends.Lookup(kept, p)
	r, err := d.admin.DeleteRecords(ctx, kadm.Offsets{kept: {p: {Topic: kept, Partition: p, At: end.Offset}}})
	if err = errors.Join(err, r.Error()); err != nil {
		return fmt.Errorf("DeleteRecords: %w", err)
	}
	for at := range d.acked {
		if at.partition == p {
			delete(d.acked, at)
		}
	}
	return nil
}

// afterwards: every partition takes appends again, without a restart.
func (d *drill) afterwards(ctx context.Context) error {
	began := time.Now()
	for {
		err := d.produce(ctx, kept, partitions, partitions)
		if err == nil {
			d.slowestReturn = max(d.slowestReturn, time.Since(began))
			return nil
		}
		if time.Since(began) > returnTime {
			return fmt.Errorf("%v after the space came back: %w", returnTime, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// produce sends n records, in turn to the partitions, and gives an error of one that failed.
func (d *drill) produce(ctx context.Context, topic string, parts int32, n int) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	records := make([]*kgo.Record, n)
	for i := range records {
		value := make([]byte, recordSize)
		for j := range value {
			value[j] = byte(rand.Uint32())
		}
		records[i] = &kgo.Record{Topic: topic, Partition: int32(i) % parts, Value: value}
	}
	var failed error
	for _, r := range d.client.ProduceSync(ctx, records...) {
		switch {
		case r.Err != nil:
			failed = r.Err
		case topic == kept:
			d.acked[place{r.Record.Partition, r.Record.Offset}] = r.Record.Value
			d.acks++
		}
	}
	return failed
}

// readAll reads the topic from its beginning; every acknowledged record must be in its place.
func (d *drill) readAll(ctx context.Context) error {
	starts, err := d.admin.ListStartOffsets(ctx, kept)
	if err != nil {
		return fmt.Errorf("list offsets: %w", err)
	}
	ends, err := d.admin.ListEndOffsets(ctx, kept)
	if err != nil {
		return fmt.Errorf("list offsets: %w", err)
	}
	if err := errors.Join(starts.Error(), ends.Error()); err != nil {
		return fmt.Errorf("list offsets: %w", err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) {
		s, _ := starts.Lookup(kept, o.Partition)
		left += o.Offset - s.Offset
	})
	got, err := d.read(ctx, left)
	if err != nil {
		return err
	}
	for at, value := range d.acked {
		if !bytes.Equal(got[at], value) {
			return fmt.Errorf("partition %d offset %d was acknowledged and is lost", at.partition, at.offset)
		}
	}
	return nil
}

// read reads so many records with a client of its own.
func (d *drill) read(ctx context.Context, left int64) (map[place][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(d.address()), kgo.ConsumeTopics(kept), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	got := map[place][]byte{}
	for int64(len(got)) < left {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("fetch: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got[place{r.Partition, r.Offset}] = r.Value })
	}
	return got, nil
}

func (d *drill) filler() string { return filepath.Join(d.disk, "filler") }

// fill writes until the disk takes no byte more.
func (d *drill) fill() error {
	f, err := os.Create(d.filler())
	if err != nil {
		return err
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4096, 1} {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		err = nil
	}
	return f.Sync()
}

func (d *drill) ready() string { return filepath.Join(d.home, "ready") }

func (d *drill) address() string {
	line, _ := os.ReadFile(d.ready())
	return strings.TrimSpace(string(line))
}

func (d *drill) said() string {
	out, _ := os.ReadFile(filepath.Join(d.home, "stderr"))
	return string(out[max(0, len(out)-1000):])
}

// start runs the broker and connects.
func (d *drill) start(ctx context.Context) error {
	stderr, err := os.OpenFile(filepath.Join(d.home, "stderr"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer stderr.Close()
	_ = os.Remove(d.ready()) // the broker does too, but later
	d.process = exec.Command(d.bin, "serve", "--data-dir", filepath.Join(d.disk, "data"), "--listen", "127.0.0.1:0", "--ready-file", d.ready())
	d.process.Stderr = stderr
	if err := d.process.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(waitTime); d.address() == ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.New("the broker is not ready")
		}
	}
	// No retries: each answer of the broker counts.
	d.client, err = kgo.NewClient(kgo.SeedBrokers(d.address()), kgo.DisableIdempotentWrite(), kgo.RecordRetries(0),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	d.admin = kadm.NewClient(d.client)
	return d.client.Ping(ctx)
}

// kill is kill -9.
func (d *drill) kill() {
	if d.client != nil {
		d.client.Close()
		d.client = nil
	}
	_ = d.process.Process.Kill()
	_ = d.process.Wait() // it was killed
}
