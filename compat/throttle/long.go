package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

// slowSarama has a consumer of sarama get a message a minute (a period of as many seconds as are counted) for three minutes, with a session timeout of ten
// seconds: it joins once and stays.
func slowSarama(t *trial) error {
	if err := errors.Join(t.topic("t", 1, ofTopic+"=1", period+"="+fmt.Sprint(t.seconds)), t.fill("t", 0, 10)); err != nil {
		return err
	}
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout = 10 * time.Second
	group, err := sarama.NewConsumerGroup([]string{t.broker.Address}, "g", config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(t.ctx)
	h := &saramaCounter{}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			_ = group.Consume(ctx, []string{"t"}, h) // one generation
		}
	}()
	err = t.wait(time.Now().Add(3*t.span() + 3*time.Second))
	generations, messages := h.generations.Load(), h.messages.Load()
	cancel()
	<-stopped
	return errors.Join(err, group.Close(), near("generations", int(generations), 1, 0), near("messages", int(messages), 4, 0))
}

type saramaCounter struct{ generations, messages atomic.Int64 }

func (h *saramaCounter) Setup(sarama.ConsumerGroupSession) error {
	h.generations.Add(1)
	return nil
}

func (h *saramaCounter) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *saramaCounter) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		h.messages.Add(1)
		session.MarkMessage(m, "")
	}
	return nil
}

// The many partitions. A group reads each of them, so there are a hundred thousand that share the broker's limit.
const (
	manyTopics = 100
	ofManyEach = 100 // partitions of each
	manyGroups = 10
	manyRate   = 100_000 // messages a second, for all
	manyBatch  = 8
	// manyMemory bounds how much more the broker may have resident with the limit than without, in bytes: a claim and a wait for each partition and group, some
	// 200 bytes, the answers of the fetches that wait for slow clients, and half as much again until the garbage collector runs.
	manyMemory = 128 << 20
)

// manyPartitions compares what ten groups get in the time, and what the broker needs for them, with and without a limit. Each time it is a new process.
func manyPartitions(t *trial) error {
	topics, err := t.fillMany()
	if err != nil {
		return err
	}
	without, err := t.readMany(topics, "free", nil)
	if err != nil {
		return err
	}
	if err := t.set("", ofTopic+"="+fmt.Sprint(manyRate)); err != nil {
		return err
	}
	with, err := t.readMany(topics, "limited", func(begin time.Time, readers []*arrivals) error {
		begin = begin.Add(t.span() / 6) // all have joined
		end := begin.Add(t.span())
		if err := t.wait(end); err != nil {
			return err
		}
		n, each := 0, make([]int, t.seconds) // by second
		for _, a := range readers {
			n += a.between(begin, end)
			for i := range each {
				each[i] += a.between(begin.Add(time.Duration(i)*time.Second), begin.Add(time.Duration(i+1)*time.Second))
			}
		}
		fmt.Fprintf(os.Stderr, "throttle: many partitions: %d messages in %d s: %d\n", n, t.seconds, each)
		return near("messages", n, manyRate*t.seconds, manyRate*t.seconds/100)
	})
	if with-without > manyMemory {
		err = errors.Join(err, fmt.Errorf("%d bytes more than without a limit", with-without))
	}
	return err
}

// fillMany makes the topics, with as much in them as each group may read in twice the time.
func (t *trial) fillMany() (topics []string, err error) {
	for i := range manyTopics {
		topics = append(topics, fmt.Sprint("many-", i))
		if err := t.topic(topics[i], ofManyEach); err != nil {
			return nil, err
		}
	}
	const perRound = manyTopics * ofManyEach * manyBatch
	var first kgo.FirstErrPromise
	for n := 0; n < 2*t.seconds*manyRate/manyGroups; n += perRound {
		for i := range perRound {
			p := i / manyBatch
			t.client.Produce(t.ctx, &kgo.Record{Topic: topics[p/ofManyEach], Partition: int32(p % ofManyEach), Value: []byte("a message")}, first.Promise())
		}
		if err := t.client.Flush(t.ctx); err != nil {
			return nil, err
		}
	}
	return topics, first.Err()
}

// readMany starts the broker anew and has the groups read. It gives what the broker had resident at most. Without a measure they read until they
// have everything.
func (t *trial) readMany(topics []string, name string, measure func(begin time.Time, readers []*arrivals) error) (memory int64, err error) {
	if err := errors.Join(t.broker.Kill(), t.broker.Restart()); err != nil {
		return 0, err
	}
	started := time.Now()
	var readers []*arrivals
	var begin time.Time
	for g := range manyGroups {
		a, err := t.read(kgo.ConsumerGroup(fmt.Sprint(name, g)), kgo.ClientID(fmt.Sprint(name, g)), kgo.ConsumeTopics(topics...), kgo.DisableAutoCommit())
		if err != nil {
			return 0, err
		}
		defer a.stop()
		readers = append(readers, a)
	}
	for _, a := range readers {
		if begin, err = a.first(t.ctx); err != nil {
			return 0, err
		}
	}
	if measure != nil {
		err = measure(begin, readers)
	} else {
		err = t.untilIdle(readers)
	}
	_, memory, merr := t.broker.Memory()
	used, cerr := t.broker.CPUTime()
	fmt.Fprintf(os.Stderr, "throttle: many partitions: groups %s: %.1f MB resident at most, %.1f s of CPU in %.1f s\n", name, float64(memory)/1e6, used.Seconds(), time.Since(started).Seconds())
	return memory, errors.Join(err, merr, cerr)
}

// untilIdle waits until nothing came for some seconds.
func (t *trial) untilIdle(readers []*arrivals) error {
	for {
		since := time.Now()
		if err := t.wait(since.Add(3 * time.Second)); err != nil {
			return err
		}
		if !slices.ContainsFunc(readers, func(a *arrivals) bool { return a.between(since, time.Now()) > 0 }) {
			return nil
		}
	}
}
