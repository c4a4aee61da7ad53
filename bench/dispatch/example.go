package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice"
)

// example is one run: a backlog of batches and some groups that read it.
type example struct {
	name, title string
	settings    map[string]string // of the broker
	topic       map[string]string // of the topic
	partitions  int
	first       int // messages of the first batch of a partition; 0: as the others
	batch       int // messages of each batch
	groups      []string
	line        int // messages a period to draw a line at: what the limit allows
}

const (
	precise   = "dispatch.throttling.precise.flow.control"
	onBatches = "dispatch.throttling.on.batch.message.enabled"
	rate      = "dispatch.throttling.rate.in.msg"
)

var ten = map[string]string{rate: "10"}

var examples = []example{
	{name: "partitions", title: "10/s on a topic of two partitions: 20/s", topic: ten, partitions: 2, batch: 1, groups: []string{"g"}, line: 20},
	{name: "shared", title: "10/s on a topic, two groups share it", topic: ten, partitions: 1, batch: 1, groups: []string{"a", "b"}, line: 10},
	{name: "each", title: "10/s for each subscription, two groups", topic: map[string]string{"subscription." + rate: "10"}, partitions: 1, batch: 1, groups: []string{"a", "b"}, line: 20},
	{name: "approximate", title: "batches of 6 at 10/s, default counting", topic: ten, partitions: 1, batch: 6, groups: []string{"g"}, line: 10},
	{name: "precise", title: "batches of 6 at 10/s, precise counting", settings: map[string]string{precise: "true"}, topic: ten, partitions: 1, batch: 6, groups: []string{"g"}, line: 10},
	{name: "batches", title: "batches of 6 at 10/s, batches counted", settings: map[string]string{onBatches: "true"}, topic: ten, partitions: 1, batch: 6, groups: []string{"g"}, line: 60},
	{name: "eleven", title: "a batch of 11 at 10/s: 11, then 9", settings: map[string]string{precise: "true"}, topic: ten, partitions: 1, first: 11, batch: 1, groups: []string{"g"}, line: 10},
	{name: "thirty", title: "a batch of 30 at 10/s: 30, then two empty periods", settings: map[string]string{precise: "true"}, topic: ten, partitions: 1, first: 30, batch: 1, groups: []string{"g"}, line: 10},
}

const topicName = "examples"

// run starts a broker in memory, fills the topic and lets the groups read for some periods of one second.
func (e example) run(ctx context.Context, seconds int) (result, error) {
	settings := map[string]string{"offsets.topic.num.partitions": "1"}
	maps.Copy(settings, e.settings)
	b, err := sluice.Start(sluice.Options{InMemory: true, Settings: settings})
	if err != nil {
		return result{}, err
	}
	defer b.Close() //nolint:errcheck // nothing is kept
	if err := e.fill(ctx, b.Addr(), seconds); err != nil {
		return result{}, err
	}
	return e.read(ctx, b.Addr(), seconds)
}

// fill makes the topic and its backlog, more than the limit lets through.
func (e example) fill(ctx context.Context, addr string, seconds int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ManualFlushing(), kgo.DefaultProduceTopic(topicName))
	if err != nil {
		return err
	}
	defer client.Close()
	configs := map[string]*string{}
	for key, value := range e.topic {
		configs[key] = &value
	}
	created, err := kadm.NewClient(client).CreateTopic(ctx, int32(e.partitions), 1, configs, topicName)
	if err == nil {
		err = created.Err
	}
	if err != nil {
		return fmt.Errorf("create the topic: %w", err)
	}
	for p := range e.partitions {
		for n, sent := 0, 0; sent < 2*(seconds+1)*e.line; n++ {
			size := e.batch
			if n == 0 && e.first > 0 {
				size = e.first
			}
			if err := produceBatch(ctx, client, int32(p), size); err != nil {
				return err
			}
			sent += size
		}
	}
	return nil
}

// produceBatch sends records that are buffered together, which franz-go makes one batch of.
func produceBatch(ctx context.Context, client *kgo.Client, partition int32, size int) error {
	var first kgo.FirstErrPromise
	for range size {
		client.Produce(ctx, &kgo.Record{Partition: partition, Value: []byte("a message")}, first.Promise())
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	return first.Err()
}

// arrival is some messages at one time.
type arrival struct {
	at       time.Time
	messages int
}

func (e example) read(ctx context.Context, addr string, seconds int) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds+3)*time.Second) // three for joining and the first answer
	defer cancel()
	arrivals := make([][]arrival, len(e.groups))
	errs := make([]error, len(e.groups))
	var wg sync.WaitGroup
	for i, group := range e.groups {
		wg.Go(func() { arrivals[i], errs[i] = consume(ctx, addr, group) })
	}
	wg.Wait()
	r := result{names: e.groups}
	begin := time.Now()
	for i := range e.groups {
		if errs[i] != nil {
			return r, errs[i]
		}
		if len(arrivals[i]) > 0 && arrivals[i][0].at.Before(begin) {
			begin = arrivals[i][0].at
		}
	}
	for i := range e.groups {
		r.series = append(r.series, byPeriod(arrivals[i], begin, seconds))
	}
	return r, nil
}

func consume(ctx context.Context, addr, group string) ([]arrival, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topicName), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return poll(ctx, client, nil)
}

// poll notes what comes until ctx ends. took, if there is one, is called with the last offset of each arrival.
func poll(ctx context.Context, client *kgo.Client, took func(last int64)) (arrivals []arrival, err error) {
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil && ctx.Err() == nil {
			return nil, err
		}
		n := fetches.NumRecords()
		if n == 0 {
			continue
		}
		arrivals = append(arrivals, arrival{time.Now(), n})
		if took != nil {
			took(fetches.Records()[n-1].Offset)
		}
	}
	return arrivals, nil
}

// margin is how long before the first messages their period is taken to begin: they needed some time, those at the
// beginning of later periods may need less.
const margin = 100 * time.Millisecond

// byPeriod counts messages by seconds since begin.
func byPeriod(arrivals []arrival, begin time.Time, seconds int) []int {
	counts := make([]int, seconds)
	for _, a := range arrivals {
		if n := int(a.at.Sub(begin.Add(-margin)) / time.Second); n < seconds {
			counts[n] += a.messages
		}
	}
	return counts
}
