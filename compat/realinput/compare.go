package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"

	"sluice/compat/checks"
)

// entry is what stays of a record that was read.
type entry struct {
	millis int64
	key    string
	sum    sum // of the value
}

// partitionLog is one partition as the first reader saw it: the entry at index i has offset i.
type partitionLog struct {
	entries []entry
	joined  sum // of all values with a newline behind each
}

// readLog reads a partition from an offset to an end with a client.
func readLog(ctx context.Context, from source, topic string, partition int32, offset, end int64) (*partitionLog, error) {
	log := &partitionLog{}
	joined := sha256.New()
	if offset < end {
		reader, err := from.Open(ctx, topic, partition, offset)
		if err != nil {
			return nil, err
		}
		defer reader.Close()
		for ; offset < end; offset++ {
			r, err := reader.Read(ctx)
			if err != nil {
				return nil, fmt.Errorf("read offset %d: %w", offset, err)
			}
			if r.Offset != offset {
				return nil, fmt.Errorf("read offset %d, want %d", r.Offset, offset)
			}
			log.entries = append(log.entries, entry{r.Timestamp.UnixMilli(), string(r.Key), sha256.Sum256(r.Value)})
			joined.Write(r.Value)
			joined.Write([]byte("\n"))
		}
	}
	log.joined = sum(joined.Sum(nil))
	return log, nil
}

// replay reads a partition with three clients: all of it with the first, from the middle with the second, from a
// timestamp with the third. The second and third must get what the first got. It returns what the first got.
func replay(ctx context.Context, from [3]source, topic string, partition int32) (*partitionLog, error) {
	end, err := from[0].Offset(ctx, topic, partition, checks.Latest)
	if err != nil {
		return nil, err
	}
	whole, err := readLog(ctx, from[0], topic, partition, 0, end)
	if err != nil {
		return nil, fmt.Errorf("from offset 0: %w", err)
	}
	if end == 0 {
		return whole, nil
	}
	if err := whole.sameFrom(ctx, from[1], topic, partition, end/2, end); err != nil {
		return nil, fmt.Errorf("from offset %d: %w", end/2, err)
	}
	at := whole.entries[end*2/3].millis
	found, err := from[2].Offset(ctx, topic, partition, at)
	if err != nil {
		return nil, err
	}
	want := slices.IndexFunc(whole.entries, func(e entry) bool { return e.millis >= at })
	if found != int64(want) {
		return nil, fmt.Errorf("timestamp %d is offset %d, want %d", at, found, want)
	}
	if err := whole.sameFrom(ctx, from[2], topic, partition, found, end); err != nil {
		return nil, fmt.Errorf("from timestamp %d: %w", at, err)
	}
	return whole, nil
}

// replayAll replays the partitions of a topic, a few at the same time: clients mostly wait.
func replayAll(ctx context.Context, from [3]source, topic string, partitions int) ([]*partitionLog, error) {
	logs, errs := make([]*partitionLog, partitions), make([]error, partitions)
	slots := make(chan struct{}, 4)
	var all sync.WaitGroup
	for p := range partitions {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if logs[p], errs[p] = replay(ctx, from, topic, int32(p)); errs[p] != nil {
				errs[p] = fmt.Errorf("partition %d: %w", p, errs[p])
			}
		})
	}
	all.Wait()
	return logs, errors.Join(errs...)
}

func (l *partitionLog) sameFrom(ctx context.Context, from source, topic string, partition int32, offset, end int64) error {
	part, err := readLog(ctx, from, topic, partition, offset, end)
	if err != nil {
		return err
	}
	if !slices.Equal(part.entries, l.entries[offset:]) {
		return errors.New("the records differ from those of the first reading")
	}
	return nil
}

// difference counts how the records of all partitions differ from the files.
type difference struct{ missing, different, twice, strange int }

// compareFiles wants each file once, with its bytes.
func compareFiles(files []file, logs []*partitionLog) error {
	want := map[string]sum{}
	for _, f := range files {
		want[f.key] = f.sum
	}
	var d difference
	found := map[string]bool{}
	for _, log := range logs {
		for _, e := range log.entries {
			sum, known := want[e.key]
			switch {
			case !known:
				d.strange++
			case found[e.key]:
				d.twice++
			case sum != e.sum:
				d.different++
			}
			found[e.key] = true
		}
	}
	for key := range want {
		if !found[key] {
			d.missing++
		}
	}
	if d != (difference{}) {
		return fmt.Errorf("of %d files: %+v", len(files), d)
	}
	return nil
}
