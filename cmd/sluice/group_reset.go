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
	ToEarliest bool         `xor:"to" help:"To the first record of each partition."`
	ToLatest   bool         `xor:"to" help:"To the end: nothing written so far will be read."`
	ToCurrent  bool         `xor:"to" help:"To the offset that it has, or the end if it has none; with -o csv this is a backup."`
	ToOffset   *int64       `xor:"to" placeholder:"N" help:"To this offset."`
	ToDatetime *instant     `xor:"to" placeholder:"TIME" help:"To the first record of this time or later: 2026-01-02T15:04:05Z or milliseconds since 1970."`
	ByDuration *isoDuration `xor:"to" placeholder:"AGE" help:"To the first record that is not older: P1DT2H (ISO 8601) or 26h."`
	ShiftBy    *int64       `xor:"to" placeholder:"N" help:"Forward by N offsets, or back by -N."`
	FromFile   csvFile      `xor:"to" placeholder:"FILE" help:"To the offsets in a CSV file of lines topic,partition,offset."`
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
		if _, ok := c.target(); !ok {
			return errors.New("say where to: --to-earliest, --to-latest, --to-current, --to-offset N, --to-datetime TIME, --by-duration AGE, --shift-by N or --from-file FILE")
		}
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
	target, _ := c.target()
	all, err := resetBounds(ctx, admin, wanted.Topics(), target)
	if err != nil {
		return nil, explain("group "+c.Group, err, "")
	}
	var resets []offsetReset
	for _, t := range wanted.Sorted() {
		for _, p := range t.Partitions {
			r := offsetReset{Topic: t.Topic, Partition: p}
			if o, ok := committed.Lookup(t.Topic, p); ok {
				r.Before = &o.At
			}
			id := partition{t.Topic, p}
			if offset, ok := c.FromFile.offsets[id]; ok {
				target = resetTarget{toOffset, offset}
			}
			b, ok := all[id]
			if !ok {
				return nil, fmt.Errorf("topic %s has no partition %d\n`sluice topic list` shows the topics and their partitions", t.Topic, p)
			}
			if err := r.aim(target, b, s.err); err != nil {
				return nil, err
			}
			resets = append(resets, r)
		}
	}
	return resets, nil
}

// aim sets After. An offset that is not in the log becomes the nearest that is, and w is told.
func (r *offsetReset) aim(target resetTarget, b bounds, w io.Writer) error {
	asked, err := target.offset(b, r.Before)
	if err != nil {
		return fmt.Errorf("partition %d of topic %s: %w", r.Partition, r.Topic, err)
	}
	if r.After = min(max(asked, b.start), b.end); r.After != asked {
		fmt.Fprintf(w, "offset %d of partition %d of topic %s is not in the log: it becomes %d\n", asked, r.Partition, r.Topic, r.After)
	}
	return nil
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

// target is what the flags say, if they say it for all partitions alike.
func (c *groupResetCmd) target() (target resetTarget, ok bool) {
	switch {
	case c.ToEarliest:
		return resetTarget{kind: toEarliest}, true
	case c.ToLatest:
		return resetTarget{kind: toLatest}, true
	case c.ToCurrent:
		return resetTarget{kind: toCurrent}, true
	case c.ToOffset != nil:
		return resetTarget{toOffset, *c.ToOffset}, true
	case c.ToDatetime != nil:
		return resetTarget{toTime, c.ToDatetime.millis}, true
	case c.ByDuration != nil:
		return resetTarget{toTime, max(0, time.Now().Add(-c.ByDuration.Duration).UnixMilli())}, true
	case c.ShiftBy != nil:
		return resetTarget{shiftBy, *c.ShiftBy}, true
	}
	return resetTarget{}, false
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
