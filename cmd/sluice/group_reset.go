package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// groupResetCmd takes the flags of Kafka's kafka-consumer-groups --reset-offsets, and like it changes nothing without
// --execute.
type groupResetCmd struct {
	clientFlags `embed:""`
	topicFlags  `embed:""`

	Group      string       `arg:"" help:"Name of the group. Its members must have stopped."`
	ToEarliest bool         `xor:"to" required:"" help:"To the first record of each partition."`
	ToLatest   bool         `xor:"to" required:"" help:"To the end: nothing written so far will be read."`
	ToCurrent  bool         `xor:"to" required:"" help:"To the offset that it has, or the end if it has none; with -o csv this is a backup."`
	ToOffset   *int64       `xor:"to" required:"" placeholder:"N" help:"To this offset."`
	ToDatetime *instant     `xor:"to" required:"" placeholder:"TIME" help:"To the first record of this time or later: 2026-01-02T15:04:05Z or milliseconds since 1970."`
	ByDuration *isoDuration `xor:"to" required:"" placeholder:"AGE" help:"To the first record that is not older: P1DT2H (ISO 8601) or 26h."`
	ShiftBy    *int64       `xor:"to" required:"" placeholder:"N" help:"Forward by N offsets, or back by -N."`
	FromFile   csvFile      `xor:"to" required:"" placeholder:"FILE" help:"To the offsets in a CSV file of lines topic,partition,offset."`
	DryRun     bool         `xor:"run" help:"Show the offsets before and after, and change nothing. This is the default, as with kafka-consumer-groups."`
	Execute    bool         `xor:"run" help:"Commit the offsets."`
	Output     string       `short:"o" enum:"table,json,csv" default:"table" env:"SLUICE_OUTPUT" placeholder:"table|json|csv" help:"How to print: table, json, or csv, which --from-file reads."`
}

// Validate wants to know which offsets. A file says it itself.
func (c *groupResetCmd) Validate() error {
	if c.ToOffset != nil && *c.ToOffset < 0 {
		return errors.New("--to-offset must not be negative")
	}
	if c.FromFile.name == "" {
		return c.check()
	}
	if len(c.Topic) > 0 || c.AllTopics {
		return errors.New("--from-file names the partitions itself: leave out --topic and --all-topics")
	}
	return nil
}

// offsetReset is one partition of `group reset-offsets -o json`. Before is null when the group has no offset there.
type offsetReset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Before    *int64 `json:"before"`
	After     int64  `json:"after"`
}

// Run shows where each partition goes, and commits that with --execute.
func (c *groupResetCmd) Run(ctx context.Context, s *streams) error {
	admin, err := c.connectAdmin(ctx, s)
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := refuseMembers(ctx, admin, c.Group); err != nil {
		return err
	}
	resets, err := c.plan(ctx, s, admin)
	if err != nil {
		return err
	}
	if c.Execute {
		if err := commitResets(ctx, admin, c.Group, resets); err != nil {
			return err
		}
	}
	if err := c.show(s.out, resets); err != nil {
		return fmt.Errorf("print offsets: %w", err)
	}
	if !c.Execute && !c.DryRun {
		fmt.Fprintln(s.err, "This was a dry run, nothing is changed: --execute commits these offsets.")
	}
	return nil
}

// refuseMembers fails for a group with members: they would go on where they are and commit over what is set here.
func refuseMembers(ctx context.Context, admin *kadm.Client, group string) error {
	described, err := describeMembers(ctx, admin, []string{group})
	if err != nil {
		return explain("group "+group, err, "")
	}
	if n := len(described[group].Members); n > 0 {
		return fmt.Errorf("group %s has members (%d), and offsets can be set only while nobody reads: stop them first\n"+
			"`sluice group describe %s` shows them", group, n, group)
	}
	return nil
}

// plan works out the offset of each partition.
func (c *groupResetCmd) plan(ctx context.Context, s *streams, admin *kadm.Client) ([]offsetReset, error) {
	committed, err := committedOffsets(ctx, admin, c.Group)
	if err != nil {
		return nil, err
	}
	wanted, err := c.wanted(ctx, admin, committed)
	if err != nil {
		return nil, err
	}
	target := c.target()
	all, err := resetBounds(ctx, admin, wanted.Topics(), target)
	if err != nil {
		return nil, explain("group "+c.Group, err, "")
	}
	var resets []offsetReset
	for _, t := range wanted.Sorted() {
		for _, p := range t.Partitions {
			id := partition{t.Topic, p}
			b, ok := all[id]
			if !ok {
				return nil, fmt.Errorf("topic %s has no partition %d\n`sluice topic describe %s` shows those it has", t.Topic, p, t.Topic)
			}
			r := offsetReset{Topic: t.Topic, Partition: p}
			if o, ok := committed.Lookup(t.Topic, p); ok {
				r.Before = &o.At
			}
			if offset, ok := c.FromFile.offsets[id]; ok {
				target = resetTarget{toOffset, offset}
			}
			asked, err := target.offset(b, r.Before)
			if err != nil {
				return nil, fmt.Errorf("partition %d of topic %s: %w", p, t.Topic, err)
			}
			if r.After = min(max(asked, b.start), b.end); r.After != asked {
				fmt.Fprintf(s.err, "offset %d of partition %d of topic %s is not in the log: it becomes %d\n", asked, p, t.Topic, r.After)
			}
			resets = append(resets, r)
		}
	}
	return resets, nil
}

// wanted chooses the partitions.
func (c *groupResetCmd) wanted(ctx context.Context, admin *kadm.Client, committed kadm.OffsetResponses) (kadm.TopicsSet, error) {
	switch {
	case c.FromFile.name != "":
		wanted := kadm.TopicsSet{}
		for p := range c.FromFile.offsets {
			wanted.Add(p.topic, p.number)
		}
		return wanted, nil
	case c.AllTopics:
		return c.committed(c.Group, committed)
	}
	return c.existing(ctx, admin)
}

// target is what the flags say. A file has one for each partition.
func (c *groupResetCmd) target() resetTarget {
	switch {
	case c.ToLatest:
		return resetTarget{kind: toLatest}
	case c.ToCurrent:
		return resetTarget{kind: toCurrent}
	case c.ToOffset != nil:
		return resetTarget{toOffset, *c.ToOffset}
	case c.ToDatetime != nil:
		return resetTarget{toTime, c.ToDatetime.millis}
	case c.ByDuration != nil:
		return resetTarget{toTime, max(0, time.Now().Add(-c.ByDuration.Duration).UnixMilli())}
	case c.ShiftBy != nil:
		return resetTarget{shiftBy, *c.ShiftBy}
	}
	return resetTarget{kind: toEarliest}
}

// resetBounds lists the offsets of topics that a target stands on.
func resetBounds(ctx context.Context, admin *kadm.Client, topics []string, target resetTarget) (map[partition]bounds, error) {
	starts, ends, err := logBounds(ctx, admin, topics)
	if err != nil {
		return nil, err
	}
	times := kadm.ListedOffsets{}
	if target.kind == toTime {
		if times, err = admin.ListOffsetsAfterMilli(ctx, target.n, topics...); err != nil {
			return nil, err
		}
	}
	all := map[partition]bounds{}
	for topic, partitions := range ends {
		for p, end := range partitions {
			if p < 0 { // stands for a topic that does not exist
				continue
			}
			start, at := starts[topic][p], times[topic][p]
			if err := errors.Join(start.Err, end.Err, at.Err); err != nil {
				return nil, err
			}
			all[partition{topic, p}] = bounds{start: start.Offset, end: end.Offset, atTime: at.Offset}
		}
	}
	return all, nil
}

// resetTarget is where the offset of a partition goes.
type resetTarget struct {
	kind resetKind
	n    int64 // an offset, a number of offsets, or milliseconds since 1970, by kind
}

type resetKind int

const (
	toEarliest resetKind = iota
	toLatest
	toCurrent
	toOffset // to offset n
	toTime   // to the first record whose timestamp is n or later, or the end
	shiftBy  // by n offsets
)

var errNothingToShift = errors.New("the group has no offset there that could be shifted: use another target, such as --to-earliest")

// offset works out where a partition goes, before it is brought into the log's bounds.
func (t resetTarget) offset(b bounds, current *int64) (int64, error) {
	switch t.kind {
	case toLatest:
		return b.end, nil
	case toCurrent:
		if current == nil {
			return b.end, nil
		}
		return *current, nil
	case toOffset:
		return t.n, nil
	case toTime:
		return b.atTime, nil
	case shiftBy:
		if current == nil {
			return 0, errNothingToShift
		}
		return shifted(*current, t.n), nil
	}
	return b.start, nil
}

// shifted adds n to an offset, and stays where it can be told from an overflow.
func shifted(offset, n int64) int64 {
	const most = 1<<63 - 1
	if n > 0 && offset > most-n {
		return most
	}
	return offset + n // offsets are not negative, so that this cannot fall below the least
}

// commitResets commits, and tells of each partition that could not be.
func commitResets(ctx context.Context, admin *kadm.Client, group string, resets []offsetReset) error {
	offsets := kadm.Offsets{}
	for _, r := range resets {
		offsets.AddOffset(r.Topic, r.Partition, r.After, -1)
	}
	responses, err := admin.CommitOffsets(ctx, group, offsets)
	if err != nil {
		return explain("group "+group, err, "")
	}
	var errs []error
	for _, r := range responses.Sorted() {
		if errors.Is(r.Err, kerr.UnknownMemberID) {
			return fmt.Errorf("a member has joined group %s meanwhile: stop it and try again", group)
		}
		errs = append(errs, explain(fmt.Sprintf("partition %d of topic %s", r.Partition, r.Topic), r.Err, ""))
	}
	return errors.Join(errs...)
}

// show prints the offsets before and after; as CSV only those after, in the form that --from-file reads.
func (c *groupResetCmd) show(w io.Writer, resets []offsetReset) error {
	if c.Output == "csv" {
		out := csv.NewWriter(w)
		for _, r := range resets {
			_ = out.Write([]string{r.Topic, strconv.Itoa(int(r.Partition)), strconv.FormatInt(r.After, 10)}) // kept for Error
		}
		out.Flush()
		return out.Error()
	}
	return outputFlag{c.Output}.print(w, resets, func(w io.Writer) {
		row(w, "TOPIC", "PARTITION", "BEFORE", "AFTER")
		for _, r := range resets {
			row(w, r.Topic, r.Partition, known(r.Before), r.After)
		}
	})
}
