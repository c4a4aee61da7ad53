package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice"
)

// rateRow is a limit whose rate is measured. A backlog is read again and again.
type rateRow struct {
	setting string
	rate    int64 // in a second
	batch   int   // records
	value   int   // bytes of a record
	records int   // of the backlog: some seconds of the rate
	alone   bool  // it takes much of the machine
}

const byteRate = "dispatch.throttling.rate.in.byte"

var rateRows = []rateRow{
	{setting: rate, rate: 1, batch: 1, value: 10, records: 100},
	{setting: rate, rate: 10, batch: 1, value: 10, records: 1000},
	{setting: rate, rate: 1000, batch: 1, value: 10, records: 20_000},
	{setting: byteRate, rate: 10_000, batch: 1, value: 100, records: 1000},
	{setting: byteRate, rate: 1_000_000, batch: 10, value: 1000, records: 5000},
	{setting: rate, rate: 100_000, batch: 100, value: 10, records: 500_000, alone: true},
	{setting: byteRate, rate: 100_000_000, batch: 1, value: 100_000, records: 3000, alone: true},
}

// accuracy reads at each limit for some seconds, and compares.
func accuracy(ctx context.Context, seconds int) error {
	errs := make([]error, len(rateRows))
	var wg sync.WaitGroup
	for i, r := range rateRows {
		if !r.alone {
			wg.Go(func() { errs[i] = r.measure(ctx, seconds) })
		}
	}
	wg.Wait()
	for i, r := range rateRows {
		if r.alone {
			errs[i] = r.measure(ctx, seconds)
		}
	}
	return errors.Join(errs...)
}

// measure prints a line: what the limit allows, what came, and the difference, which must be one in a hundred or one period at most.
func (r rateRow) measure(ctx context.Context, seconds int) error {
	b, err := sluice.Start(sluice.Options{InMemory: true, Settings: map[string]string{precise: "true"}})
	if err != nil {
		return err
	}
	defer b.Close() //nolint:errcheck // nothing is kept
	size, err := r.fill(ctx, b.Addr())
	if err != nil {
		return fmt.Errorf("%s=%d: write the backlog: %w", r.setting, r.rate, err)
	}
	arrivals, err := r.read(ctx, b.Addr(), seconds)
	if err != nil {
		return fmt.Errorf("%s=%d: %w", r.setting, r.rate, err)
	}
	got := 0.0
	if len(arrivals) > 0 {
		for _, n := range byPeriod(arrivals, arrivals[0].at, seconds) {
			got += float64(n)
		}
	}
	if r.setting == byteRate {
		got *= size
	}
	want := float64(r.rate) * float64(seconds)
	fmt.Printf("%-34s %9d/s  %3d s  want %11.0f  got %11.0f  %+.3f %%\n", r.setting, r.rate, seconds, want, got, 100*(got-want)/want)
	if off := math.Abs(got - want); off > max(want/100, float64(r.rate)) {
		return fmt.Errorf("%s=%d: got %.0f in %d s, want %.0f", r.setting, r.rate, got, seconds, want)
	}
	return nil
}

// fill makes the backlog, and gives the bytes of a record on the wire.
func (r rateRow) fill(ctx context.Context, addr string) (size float64, err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ManualFlushing(), kgo.DefaultProduceTopic(topicName),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	limit := fmt.Sprint(r.rate)
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, 1, map[string]*string{r.setting: &limit}, topicName); err != nil {
		return 0, err
	}
	value := []byte(strings.Repeat("m", r.value))
	var first kgo.FirstErrPromise
	for n := 0; n < r.records; n += r.batch {
		for range r.batch {
			client.Produce(ctx, &kgo.Record{Value: value}, first.Promise())
		}
		if err := client.Flush(ctx); err != nil {
			return 0, err
		}
	}
	dirs, err := admin.DescribeAllLogDirs(ctx, kadm.TopicsSet{topicName: {0: {}}})
	if err != nil {
		return 0, err
	}
	for _, d := range dirs.Sorted() {
		size += float64(d.Size()) / float64(r.records)
	}
	return size, first.Err()
}

// read begins anew where the backlog ends; that counts again.
func (r rateRow) read(ctx context.Context, addr string, seconds int) ([]arrival, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds+1)*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topicName: {0: kgo.NewOffset().At(0)}}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return poll(ctx, client, func(last int64) {
		if last == int64(r.records-1) {
			client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topicName: {0: {Epoch: -1, Offset: 0}}})
		}
	})
}
