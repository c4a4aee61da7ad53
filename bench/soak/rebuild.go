package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// rebuild reads a compacted topic from its beginning to its end, as a program does that keeps its state there, and checks that the newest record of
// each key that was acknowledged before is found, or a newer one. What lies below the log start in the end may be gone, and so may what has a newer one
// beyond the end.
func (f *feed) rebuild(ctx context.Context, addr string) error {
	floors := make([][]int64, f.partitions)
	for p := range f.parts {
		floors[p] = make([]int64, f.keys)
		for k := range floors[p] {
			floors[p][k] = f.parts[p].latest[k].Load()
		}
	}
	client, err := f.reader(addr, "rebuild-", func(int) kgo.Offset { return kgo.NewOffset().AtStart() })
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	found, ends, err := f.readToEnd(ctx, client, admin)
	if err != nil {
		return err
	}
	for p := range f.parts {
		start, err := f.offset(admin.ListStartOffsets, int32(p))
		if err != nil {
			return fmt.Errorf("log start of %s-%d: %w", f.topic, p, err)
		}
		for k, floor := range floors[p] {
			if floor >= start && found[p][k] < floor && f.parts[p].latest[k].Load() < ends[p] {
				f.tally.complain(&f.tally.missing, 1, "%s-%d: the newest record of %s is that at offset %d, not %d, after compaction", f.topic, p, keyName(k), found[p][k], floor)
			}
		}
	}
	f.tally.rebuilt.Add(1)
	return nil
}

// readToEnd gives the newest offset of each key of each partition, up to the ends of now.
func (f *feed) readToEnd(ctx context.Context, client *kgo.Client, admin *kadm.Client) (found [][]int64, ends []int64, err error) {
	last := make([]int64, f.partitions)
	found, ends = make([][]int64, f.partitions), make([]int64, f.partitions)
	for p := range found {
		found[p] = make([]int64, f.keys)
		for k := range found[p] {
			found[p][k] = -1
		}
		end, err := f.offset(admin.ListEndOffsets, int32(p))
		if err != nil {
			return nil, nil, fmt.Errorf("end of %s-%d: %w", f.topic, p, err)
		}
		last[p], ends[p] = -1, end
	}
	for {
		done := true
		for p := range ends {
			done = done && last[p]+1 >= ends[p]
		}
		if done {
			return found, ends, nil
		}
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, nil, fmt.Errorf("%s: read to the end: offsets %d of %d: %w", f.topic, last, ends, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			f.checkOne(r)
			if r.Offset <= last[r.Partition] {
				f.tally.complain(&f.tally.wrong, 1, "%s-%d: offset %d after %d", f.topic, r.Partition, r.Offset, last[r.Partition])
			}
			last[r.Partition] = r.Offset
			found[r.Partition][keyOf(r.Partition, r.Offset, f.keys)] = r.Offset
		})
	}
}
