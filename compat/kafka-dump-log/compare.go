package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// compare holds what the tool found of a topic against what was produced.
func (t *topic) compare(d *dumped) error {
	switch {
	case len(d.complaints) > 0:
		return d.complaint()
	case len(d.records) == 0:
		return errors.New("there are no records")
	}
	if err := d.checkIndexes(); err != nil {
		return err
	}
	for _, r := range d.records {
		if r.offset >= int64(len(t.produced)) {
			return fmt.Errorf("there is a record at offset %d, and the last was produced at %d", r.offset, len(t.produced)-1)
		}
		if want := dumpedForm(t.produced[r.offset]); r != want {
			return fmt.Errorf("got %+v, want %+v", r, want)
		}
	}
	if t.compact {
		return t.compareCompacted(d)
	}
	return t.compareWhole(d)
}

// checkIndexes wants an entry in both indexes for each batch but the first of a segment. The last segment has no index files: what they would hold is in
// the mark of the clean stop.
func (d *dumped) checkIndexes() error {
	bases := slices.Sorted(maps.Keys(d.segments))
	if len(bases) < 2 {
		return fmt.Errorf("there are %d segments", len(bases))
	}
	for _, base := range bases[:len(bases)-1] {
		if s := d.segments[base]; !s.indexed || s.entries < 2*(s.batches-1) {
			return fmt.Errorf("segment %s: there are %d index entries for %d batches", base, s.entries, s.batches)
		}
	}
	return nil
}

// compareWhole wants every record from the first segment's on, which may begin below the log start.
func (t *topic) compareWhole(d *dumped) error {
	first := d.records[0].offset
	switch {
	case first > t.start || t.start > 0 && first == 0:
		return fmt.Errorf("the first record is at offset %d, and the log starts at %d", first, t.start)
	case int64(len(d.records)) != int64(len(t.produced))-first || d.gaps > 0:
		return fmt.Errorf("there are %d records from offset %d on, and %d gaps; %d were produced", len(d.records), first, d.gaps, len(t.produced))
	}
	return nil
}

// compareCompacted wants the newest record of each key, and fewer than were produced.
func (t *topic) compareCompacted(d *dumped) error {
	kept := map[int64]bool{}
	for _, r := range d.records {
		if kept[r.offset] {
			return fmt.Errorf("offset %d is there twice", r.offset)
		}
		kept[r.offset] = true
	}
	newest := map[string]int64{}
	for _, r := range t.produced {
		newest[string(r.Key)] = r.Offset
	}
	for key, offset := range newest {
		if !kept[offset] {
			return fmt.Errorf("the newest record of %s, at offset %d, is gone", key, offset)
		}
	}
	if len(kept) == len(t.produced) {
		return errors.New("nothing was compacted")
	}
	return nil
}

// dumpedForm is how the tool prints a record.
func dumpedForm(r *kgo.Record) record {
	names := make([]string, len(r.Headers))
	for i, h := range r.Headers {
		names[i] = h.Key
	}
	d := record{offset: r.Offset, timestamp: r.Timestamp.UnixMilli(), keySize: -1, valueSize: -1, headers: strings.Join(names, ",")}
	if r.Key != nil {
		d.keySize, d.key = len(r.Key), string(r.Key)
	}
	if r.Value != nil {
		d.valueSize, d.value = len(r.Value), string(r.Value)
	}
	return d
}

// commitsIn wants each topic's committed offset, decoded by Kafka.
func commitsIn(d *dump, topics []*topic) error {
	found := map[string]string{} // value by key
	for name, p := range d.partitions {
		if len(p.complaints) > 0 {
			return fmt.Errorf("%s: %w", name, p.complaint())
		}
		for _, r := range p.records {
			found[r.key] = r.value
		}
	}
	for _, t := range topics {
		key := fmt.Sprintf(`{"type":"1","data":{"group":%q,"topic":%q,"partition":0}}`, group, t.name)
		if !strings.Contains(found[key], fmt.Sprintf(`"offset":%d,`, t.commit())) {
			return fmt.Errorf("%s has the value %q, and not the offset %d", key, found[key], t.commit())
		}
	}
	return nil
}

// complains damages copies of a topic's files, one byte in a batch and one in an index, and wants the tool to see both.
func complains(ctx context.Context, data, damaged string, t *topic) error {
	partition := filepath.Join(data, t.name+"-0")
	inLog, inIndex := filepath.Join(damaged, "log-0"), filepath.Join(damaged, "index-0")
	for _, dir := range []string{inLog, inIndex} {
		if err := os.CopyFS(dir, os.DirFS(partition)); err != nil {
			return err
		}
	}
	log, index := files(damaged, "log-0", ".log")[0], files(damaged, "index-0", ".index")[0]
	if err := errors.Join(flip(log, -2), flip(index, 3)); err != nil { // the end of the last value; the offset of the first entry
		return err
	}
	d, err := dumpLogSegments(ctx, []string{log, index}, "--deep-iteration")
	if err != nil {
		return err
	}
	for _, name := range []string{"log-0", "index-0"} {
		if len(d.of(name).complaints) == 0 {
			return fmt.Errorf("the tool sees nothing in %s", name)
		}
	}
	return nil
}

// flip changes a bit of the byte at a position, which counts from the end when it is negative.
func flip(name string, at int) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 1
	return os.WriteFile(name, b, 0o600)
}
