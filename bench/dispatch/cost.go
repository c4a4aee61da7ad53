package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// contestant is a broker and its limits. Limits are set and unset in the same process, so that one without has everything else alike.
type contestant struct {
	name   string
	broker *served
	limits bool
	mode   string // the setting that says how messages are counted, or ""
	old    bool   // it knows no limits
}

// neverBinding is a limit that nobody reaches.
const neverBinding = "1000000000000000"

// six are all the limits that a fetch can meet: messages and bytes for the broker, the topic and the subscription.
var six = []string{rate, byteRate, "dispatch.throttling.rate.per.topic.in.msg", "dispatch.throttling.rate.per.topic.in.byte",
	"dispatch.throttling.rate.per.subscription.in.msg", "dispatch.throttling.rate.per.subscription.in.byte"}

// costRow is a backlog of batches and those who read it.
type costRow struct {
	batch   int // bytes
	readers int
}

var costRows = []costRow{{100_000, 1}, {100_000, 5}, {1000, 1}, {1000, 5}}

const (
	backlogBytes = 128 << 20 // of each topic; it is read again and again from the page cache
	runBytes     = 256 << 20 // that all readers together have in a run: short, so that runs side by side meet the same neighbours
	segmentBytes = 32 << 20
)

// cost prints the CPU time that brokers use to send a GB, without limits and with six that never bind, and in which ratio they stand. binary is a
// built broker; before, if not "", another, from before there were limits. Runs are interleaved, and ratios are of runs side by side.
func cost(ctx context.Context, out io.Writer, binary, before string, rounds int) error {
	here, err := serve(ctx, binary, "sluice.durability=os")
	if err != nil {
		return err
	}
	defer here.close()
	all := []contestant{
		{name: "no limits", broker: here},
		{name: "six limits", broker: here, limits: true},
		{name: "six, precise", broker: here, limits: true, mode: precise},
		{name: "six, batches counted", broker: here, limits: true, mode: onBatches},
	}
	if before != "" {
		there, err := serve(ctx, before, "sluice.durability=os")
		if err != nil {
			return err
		}
		defer there.close()
		all = slices.Insert(all, 0, contestant{name: "before", broker: there, old: true})
	}
	for i, c := range all {
		if i > 0 && c.broker == all[i-1].broker {
			continue
		}
		for _, size := range []int{1000, 100_000} {
			if err := fillBatches(ctx, c.broker.addr, size); err != nil {
				return fmt.Errorf("%s: write the backlog: %w", c.name, err)
			}
		}
	}
	for _, r := range costRows {
		if err := r.compare(ctx, out, all, rounds); err != nil {
			return err
		}
	}
	return nil
}

func (r costRow) topic() string { return fmt.Sprintf("batches-%d", r.batch) }

// compare prints a line for each contestant. The first round warms up.
func (r costRow) compare(ctx context.Context, out io.Writer, all []contestant, rounds int) error {
	used := make([][]float64, len(all)) // CPU-s/GB by contestant and round
	for round := range rounds + 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		for n := range all {
			i := (n + round) % len(all)
			x, err := r.run(ctx, all[i])
			if err != nil {
				return fmt.Errorf("%s: %w", all[i].name, err)
			}
			if round > 0 {
				used[i] = append(used[i], x)
			}
		}
	}
	fmt.Fprintf(out, "batches of %d bytes, %d readers; CPU-s/GB, and the ratio to %s\n", r.batch, r.readers, all[0].name)
	for i, c := range all {
		ratios := make([]float64, rounds)
		for n := range ratios {
			ratios[n] = used[i][n] / used[0][n]
		}
		fmt.Fprintf(out, "  %-22s %.3f (%.3f-%.3f)  x%.3f\n", c.name, median(used[i]), slices.Min(used[i]), slices.Max(used[i]), median(ratios))
	}
	return nil
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// run has the readers read, and gives the broker's CPU seconds for a GB.
func (r costRow) run(ctx context.Context, c contestant) (float64, error) {
	if err := c.configure(ctx); err != nil {
		return 0, fmt.Errorf("set the limits: %w", err)
	}
	readers := make([]*rawReader, r.readers)
	for i := range readers {
		x, err := dialRaw(c.broker.addr)
		if err != nil {
			return 0, err
		}
		defer x.conn.Close() //nolint:errcheck // nothing is written
		readers[i] = x
	}
	begin, err := c.broker.cpu()
	if err != nil {
		return 0, err
	}
	errs := make([]error, r.readers)
	var wg sync.WaitGroup
	for i, x := range readers {
		wg.Go(func() { errs[i] = x.read(r.topic(), runBytes/int64(r.readers)) })
	}
	wg.Wait()
	end, err := c.broker.cpu()
	return (end - begin).Seconds() / (runBytes / 1e9), errors.Join(append(errs, err)...)
}

// configure sets the limits and the mode, or takes them back.
func (c contestant) configure(ctx context.Context) error {
	if c.old {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.broker.addr))
	if err != nil {
		return err
	}
	defer client.Close()
	configs := []kadm.AlterConfig{set(precise, fmt.Sprint(c.mode == precise)), set(onBatches, fmt.Sprint(c.mode == onBatches))}
	for _, key := range six {
		if c.limits {
			configs = append(configs, set(key, neverBinding))
		} else {
			configs = append(configs, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key})
		}
	}
	done, err := kadm.NewClient(client).AlterBrokerConfigs(ctx, configs)
	for _, d := range done {
		err = errors.Join(err, d.Err)
	}
	return err
}

func set(key, value string) kadm.AlterConfig {
	return kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value}
}

// fillBatches makes a topic of batches of about a size, with one record each.
func fillBatches(ctx context.Context, addr string, size int) error {
	topic := costRow{batch: size}.topic()
	const overhead = 80                                                                                                                  // of a batch of one record
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchMaxBytes(int32(size)+overhead), // two do not fit
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedBytes(16<<20))
	if err != nil {
		return err
	}
	defer client.Close()
	segment := fmt.Sprint(segmentBytes)
	created, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, map[string]*string{"segment.bytes": &segment}, topic)
	if err = errors.Join(err, created.Err); err != nil {
		return err
	}
	value := []byte(strings.Repeat("m", size-overhead))
	var first kgo.FirstErrPromise
	for range backlogBytes / size {
		client.Produce(ctx, &kgo.Record{Value: value}, first.Promise())
	}
	return errors.Join(client.Flush(ctx), first.Err())
}
