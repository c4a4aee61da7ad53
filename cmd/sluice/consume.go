package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type consumeCmd struct {
	clientFlags `embed:""`

	Topic     string       `arg:"" help:"Topic to read."`
	Group     string       `short:"g" placeholder:"GROUP" help:"Read as a member of this consumer group: share the partitions with its other members, begin at its offsets, and commit what was printed."`
	Protocol  string       `enum:"classic,consumer" default:"classic" placeholder:"PROTOCOL" help:"With --group, the group's protocol: classic, or consumer, the next generation (KIP-848) (default: ${default})."`
	Partition []int32      `short:"p" placeholder:"N" help:"Read only this partition; may be repeated (default: all)."`
	From      position     `default:"beginning" placeholder:"WHERE" help:"Where to begin: beginning, end, an offset, or -N for the last N of each partition (default: ${default})."`
	FromTime  *instant     `placeholder:"TIME" help:"Begin at the first record of this time or later: 2026-01-02T15:04:05Z or milliseconds since 1970."`
	Until     limit        `default:"forever" placeholder:"WHERE" help:"Where to stop: forever, end (as it is now), or the first offset not to read (default: ${default})."`
	ExitAtEnd bool         `short:"e" help:"Short for --until end."`
	Count     int64        `short:"c" placeholder:"N" help:"Stop after N records."`
	Isolation string       `enum:"read_committed,read_uncommitted" default:"read_uncommitted" placeholder:"LEVEL" help:"read_uncommitted or read_committed, which hides the records of open and aborted transactions (default: ${default})."`
	Format    recordFormat `short:"f" default:"%s\\n" help:"How to print a record: %t topic, %p partition, %o offset, %T timestamp in ms, %k key, %K its length, %s value, %S its length, %h headers, and \\n \\t \\r \\0 \\xHH (default: '%s\\n')."`
	Output    string       `short:"o" enum:"text,json" default:"text" placeholder:"text|json" help:"text prints by --format; json prints one object a line."`
	Null      string       `placeholder:"TEXT" help:"What to print for a null key or value (default: nothing)."`
}

// Validate settles the flags that are two ways to say the same.
func (c *consumeCmd) Validate() error {
	if c.Count < 0 {
		return errors.New("--count must not be negative")
	}
	if c.ExitAtEnd {
		c.Until = limit{kind: untilEnd}
	}
	if c.FromTime != nil {
		if c.From.kind != fromBeginning {
			return errors.New("--from and --from-time exclude each other")
		}
		c.From = position{fromTime, c.FromTime.millis}
	}
	return c.checkGroup()
}

// Run prints records until the stop, the count or an interrupt.
func (c *consumeCmd) Run(ctx context.Context, s *streams) error {
	if c.Group != "" {
		return c.runMember(ctx, s)
	}
	client, err := c.connect(ctx, s, c.options()...)
	if err != nil {
		return err
	}
	defer client.Close()
	spans, err := c.plan(ctx, kadm.NewClient(client))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(s.out)
	err = c.read(ctx, client, spans, out)
	return errors.Join(err, out.Flush())
}

// options keep control records, which are not printed but tell that the end is reached when it is a transaction's.
func (c *consumeCmd) options() []kgo.Opt {
	opts := []kgo.Opt{kgo.KeepControlRecords()}
	if c.Isolation == "read_committed" {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	return opts
}

// plan asks for the offsets of the topic and works out what to read of each partition.
func (c *consumeCmd) plan(ctx context.Context, admin *kadm.Client) (map[int32]span, error) {
	detail, err := topicDetail(ctx, admin, c.Topic)
	if err != nil {
		return nil, err
	}
	partitions := c.Partition
	if len(partitions) == 0 {
		partitions = detail.Partitions.Numbers()
	}
	all, err := c.bounds(ctx, admin)
	if err != nil {
		return nil, explain("topic "+c.Topic, err, "")
	}
	spans := make(map[int32]span, len(partitions))
	for _, p := range partitions {
		b, ok := all[p]
		if !ok {
			return nil, fmt.Errorf("topic %s has no partition %d; it has %d partitions, from 0 on", c.Topic, p, len(all))
		}
		if spans[p], err = spanOf(b, c.From, c.Until); err != nil {
			return nil, fmt.Errorf("partition %d of topic %s: %w", p, c.Topic, err)
		}
	}
	return spans, nil
}

// bounds lists the offsets of every partition. The end is the last stable offset for read_committed.
func (c *consumeCmd) bounds(ctx context.Context, admin *kadm.Client) (map[int32]bounds, error) {
	listEnd := admin.ListEndOffsets
	if c.Isolation == "read_committed" {
		listEnd = admin.ListCommittedOffsets
	}
	starts, err := listOffsets(admin.ListStartOffsets(ctx, c.Topic))
	if err != nil {
		return nil, err
	}
	ends, err := listOffsets(listEnd(ctx, c.Topic))
	if err != nil {
		return nil, err
	}
	var times kadm.ListedOffsets
	if c.From.kind == fromTime {
		if times, err = listOffsets(admin.ListOffsetsAfterMilli(ctx, c.From.n, c.Topic)); err != nil {
			return nil, err
		}
	}
	all := map[int32]bounds{}
	for p, end := range ends[c.Topic] {
		all[p] = bounds{start: starts[c.Topic][p].Offset, end: end.Offset, atTime: times[c.Topic][p].Offset}
	}
	return all, nil
}

// listOffsets joins the error of a request with those of its partitions.
func listOffsets(listed kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	if err != nil {
		return nil, err
	}
	return listed, listed.Error()
}

// read prints the records of the spans to out, which it flushes whenever there is nothing more to read at once.
func (c *consumeCmd) read(ctx context.Context, client *kgo.Client, spans map[int32]span, out *bufio.Writer) error {
	starts := map[int32]kgo.Offset{}
	for p, s := range spans {
		if !s.done(s.start) {
			starts[p] = kgo.NewOffset().At(s.start)
		}
	}
	printer := recordPrinter{cmd: c, out: out}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: starts})
	for len(starts) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil // an interrupt is how one stops reading
		}
		if err := fetchError(fetches); err != nil {
			return explain("topic "+c.Topic, err, "")
		}
		for records := fetches.RecordIter(); !records.Done(); {
			r := records.Next()
			if _, reading := starts[r.Partition]; !reading {
				continue // fetched before the partition was dropped
			}
			s := spans[r.Partition]
			if !s.done(r.Offset) {
				if err := printer.print(r); err != nil {
					return err
				}
			}
			if c.Count > 0 && printer.printed == c.Count {
				return nil
			}
			if s.done(r.Offset + 1) {
				delete(starts, r.Partition)
				client.RemoveConsumePartitions(map[string][]int32{c.Topic: {r.Partition}})
			}
		}
		if err := out.Flush(); err != nil {
			return fmt.Errorf("write records: %w", err)
		}
	}
	return nil
}

// fetchError is the first error of a poll.
func fetchError(fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		return e.Err
	}
	return nil
}

// recordPrinter prints data records and counts them.
type recordPrinter struct {
	cmd     *consumeCmd
	out     *bufio.Writer
	buf     []byte
	printed int64
}

func (p *recordPrinter) print(r *kgo.Record) (err error) {
	if r.Attrs.IsControl() {
		return nil
	}
	p.printed++
	if p.cmd.Output == "json" {
		p.buf, err = appendJSON(p.buf[:0], r)
	} else {
		p.buf = p.cmd.Format.append(p.buf[:0], r, p.cmd.Null)
	}
	if err != nil {
		return err
	}
	if _, err := p.out.Write(p.buf); err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	return nil
}
