package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/compat/members"
)

// The limit, and the settings that it may be.
const (
	limit        = 10 // messages a second
	ofTopic      = "dispatch.throttling.rate.in.msg"
	ofEachReader = "subscription.dispatch.throttling.rate.in.msg"
)

// situation is who reads a topic under which limit, and what each group is to get of it in a second.
type situation struct {
	name       string
	setting    string
	partitions int32
	groups     int
	members    int // of each group
	each       int // messages a second for each group from each partition
}

var situations = []situation{
	{"a topic's limit is that of each partition", ofTopic, 2, 1, 1, limit},
	{"two groups share a topic's limit", ofTopic, 1, 2, 1, limit / 2},
	{"two groups with the same client id have a limit each", ofEachReader, 1, 2, 1, limit},
	{"two members of a group share its limit by partition", ofEachReader, 2, 1, 2, limit},
}

// check runs the members and counts.
func (r situation) check(ctx context.Context, c members.Client, topic, address string, seconds int) error {
	if err := r.fill(ctx, topic, address, seconds); err != nil {
		return fmt.Errorf("write the backlog: %w", err)
	}
	var counts []*count
	for g := range r.groups {
		for range r.members {
			n := &count{group: g}
			counts = append(counts, n)
			stop, err := n.start(c.Argv(address, fmt.Sprintf("%s-%d", topic, g), topic))
			if err != nil {
				return err
			}
			defer stop()
		}
	}
	begin, err := allRead(ctx, counts)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(begin.Add(time.Duration(seconds) * time.Second))):
	}
	return r.compare(counts, begin, seconds)
}

// compare allows what one period brings, or one in a hundred if that is more.
func (r situation) compare(counts []*count, begin time.Time, seconds int) error {
	end := begin.Add(time.Duration(seconds) * time.Second)
	want := r.each * seconds
	var errs []error
	for g := range r.groups {
		for p := range r.partitions {
			got := 0
			for _, n := range counts {
				if n.group == g {
					got += n.between(begin, end, p)
				}
			}
			errs = append(errs, near(fmt.Sprintf("group %d, partition %d, in %d s", g, p, seconds), got, want, max(r.each, want/100)))
		}
	}
	return errors.Join(errs...)
}

// fill makes the topic, with more in each partition than is read; each record is a batch.
func (r situation) fill(ctx context.Context, topic, address string, seconds int) error {
	const valueSize, batchSize = 400, 700 // bytes: two records do not fit into a batch
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(batchSize),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	value, os := strings.Repeat("m", valueSize), "os"
	rate := fmt.Sprint(limit)
	configs := map[string]*string{r.setting: &rate, "sluice.durability": &os}
	created, err := kadm.NewClient(client).CreateTopic(ctx, r.partitions, 1, configs, topic)
	if err = errors.Join(err, created.Err); err != nil {
		return err
	}
	var first kgo.FirstErrPromise
	for p := range r.partitions {
		for range (seconds + int(startTime/time.Second)) * r.each {
			client.Produce(ctx, &kgo.Record{Partition: p, Value: []byte(value)}, first.Promise())
		}
	}
	return errors.Join(client.Flush(ctx), first.Err())
}

// count is when a member said that it has read something.
type count struct {
	group int

	mu   sync.Mutex
	read []reading
}

// reading is that a member said that it has read a record.
type reading struct {
	at        time.Time
	partition int32
}

// start runs a member; stop kills it and waits for its end.
func (n *count) start(argv []string) (stop func(), err error) {
	command := exec.Command(argv[0], argv[1:]...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lines, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start a member: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.take(lines)
		_ = command.Wait() // it was killed
	}()
	return func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		<-ended
	}, nil
}

func (n *count) take(lines io.Reader) {
	for scan := bufio.NewScanner(lines); scan.Scan(); {
		var partition int32
		if _, err := fmt.Sscanf(scan.Text(), "read %d ", &partition); err == nil {
			n.mu.Lock()
			n.read = append(n.read, reading{time.Now(), partition})
			n.mu.Unlock()
		}
	}
}

func (n *count) between(begin, end time.Time, partition int32) (messages int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.read {
		if r.partition == partition && !r.at.Before(begin) && r.at.Before(end) {
			messages++
		}
	}
	return messages
}

// reads tells whether the member has read anything.
func (n *count) reads() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.read) > 0
}

// settle is how long a group may need until a member that has come last has its share.
const settle = 2 * time.Second

// allRead waits until all members have read something, and gives a time from which on they read as they will.
func allRead(ctx context.Context, counts []*count) (time.Time, error) {
	for {
		reading := 0
		for _, n := range counts {
			if n.reads() {
				reading++
			}
		}
		if reading == len(counts) {
			return time.Now().Add(settle), nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%d of %d members read", reading, len(counts))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
