package log

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"sluice/internal/vfs"
)

// What can be made anew from the segments is no damage when it is wrong: the next start, or the first use, makes it anew.
const rebuilt = ": it is made anew when it is needed"

// checkIndexes compares the index files with the segment, of whose batches s.offsets has every one.
func (p *partVerifier) checkIndexes(s *segment, wanted bool) error {
	if err := p.checkIndex(s, indexSuffix, offsetEntrySize, wanted, func(f vfs.File, n int) (string, error) {
		return s.wrongOffsets(offsets{file: f, n: n})
	}); err != nil {
		return err
	}
	return p.checkIndex(s, timeSuffix, timeEntrySize, wanted, func(f vfs.File, n int) (string, error) {
		return s.wrongTimes(times{file: f, n: n})
	})
}

func (p *partVerifier) checkIndex(s *segment, suffix string, entry int64, wanted bool, wrong func(vfs.File, int) (string, error)) error {
	name := s.path(suffix)
	f, n, err := openIndexFile(p.v.fs, name, entry)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if wanted {
			p.note(name, -1, -1, "missing"+rebuilt)
		}
		return nil
	case errors.Is(err, os.ErrInvalid):
		p.note(name, -1, -1, "not a whole number of entries"+rebuilt)
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	reason, err := wrong(f, n)
	if reason != "" {
		p.note(name, -1, -1, "%s%s", reason, rebuilt)
	}
	return err
}

// wrongOffsets tells what is wrong with an offset index, given all batches in s.offsets.
func (s *segment) wrongOffsets(o offsets) (string, error) {
	at := map[offsetEntry]bool{}
	for _, e := range s.offsets.mem {
		at[e] = true
	}
	last := int64(-1)
	for i := range o.len() {
		e, err := o.at(i)
		if err != nil {
			return "", err
		}
		if !at[e] || int64(e.rel) <= last {
			return fmt.Sprintf("entry %d names no batch", i), nil
		}
		last = int64(e.rel)
	}
	return "", nil
}

// wrongTimes tells what is wrong with a time index. The last entry must be the segment's maximum: searches skip the segment by it.
func (s *segment) wrongTimes(t times) (string, error) {
	right := map[timeEntry]bool{}
	for _, e := range s.times.mem {
		right[e] = true
	}
	var last timeEntry
	for i := range t.len() {
		e, err := t.at(i)
		if err != nil {
			return "", err
		}
		if !right[e] || i > 0 && e.time <= last.time {
			return fmt.Sprintf("entry %d is no maximum", i), nil
		}
		last = e
	}
	if n := len(s.times.mem); n > 0 && last != s.times.mem[n-1] {
		return "the last entry is not the maximum", nil
	}
	return "", nil
}

// sideFilesDue: they are all up to date. After a stop that was not clean they need not be, nor where its mark has what they would say.
func (p *partVerifier) sideFilesDue() bool { return p.v.report.Clean && !p.marked }

func (p *partVerifier) checkEpochs() error {
	name := filepath.Join(p.dir, epochFile)
	es, _, err := readEpochs(p.v.fs, p.dir)
	var pathErr *os.PathError
	switch {
	case errors.Is(err, os.ErrNotExist):
		if p.sideFilesDue() && len(p.epochs) > 0 {
			p.note(name, -1, -1, "missing"+rebuilt)
		}
	case errors.As(err, &pathErr):
		return err
	case err != nil:
		p.note(name, -1, -1, "%v%s", err, rebuilt)
	case !p.sameEpochs(es):
		p.note(name, -1, -1, "differs from the batches' leader epochs"+rebuilt)
	}
	return nil
}

// sameEpochs compares a checkpoint with the batches. It may know epochs of batches that were deleted, and a stop that was not clean may have come
// before the last one was written.
func (p *partVerifier) sameEpochs(es epochs) bool {
	if len(p.segs) == 0 {
		return true
	}
	first := p.segs[0].base
	es = slices.DeleteFunc(slices.Clone(es), func(e epochEntry) bool { return e.start < first })
	mine := slices.DeleteFunc(slices.Clone(p.epochs), func(e epochEntry) bool { return e.start <= first })
	es = slices.DeleteFunc(es, func(e epochEntry) bool { return e.start == first })
	// Compaction may have taken an epoch's first batches, or all.
	below := p.segs[0].gaps
	old := slices.DeleteFunc(slices.Clone(es), func(e epochEntry) bool { return e.start >= below })
	es = slices.DeleteFunc(es, func(e epochEntry) bool { return e.start < below })
	mine = slices.DeleteFunc(mine, func(e epochEntry) bool { return e.start < below || e.epoch <= old.last() })
	if p.sideFilesDue() {
		return slices.Equal(es, mine)
	}
	n := min(len(es), len(mine))
	return slices.Equal(es[:n], mine[:n])
}

// checkFiles looks at the producer snapshots and at what lies around.
func (p *partVerifier) checkFiles() error {
	for _, e := range p.entries {
		name := filepath.Join(p.dir, e.Name())
		offset, isSnapshot := parseSegmentName(e.Name(), producerSuffix)
		switch {
		case isSnapshot:
			if err := p.checkSnapshot(name, offset); err != nil {
				return err
			}
		case strings.HasSuffix(e.Name(), tornSuffix):
			p.note(name, -1, -1, "bytes that were cut off the log's end at a recovery, kept for whoever wants to look at them")
		case strings.HasSuffix(e.Name(), damagedSuffix):
			p.note(name, -1, -1, "bytes that a repair cut out, kept for whoever wants to look at them")
		case strings.HasSuffix(e.Name(), deletedSuffix):
			p.note(name, -1, -1, "of a deleted segment; it is removed at the latest when the partition is opened")
		case strings.HasSuffix(e.Name(), tempSuffix):
			p.note(name, -1, -1, "left by a crash; it is overwritten when its turn comes")
		}
	}
	return nil
}

func (p *partVerifier) checkSnapshot(name string, offset int64) error {
	data, err := vfs.ReadFile(p.v.fs, name, maxProducersFile)
	if err != nil {
		return err
	}
	ps, err := decodeProducers(data)
	switch {
	case err != nil:
		p.note(name, -1, -1, "%v: an older one or the batches stand in for it", err)
	case offset > p.out.End:
		p.note(name, -1, offset, "lies above the log's end")
	case offset == p.out.End && p.out.Start == 0 && p.slot.cleaned == 0 && !sameWindows(ps, p.producers):
		p.note(name, -1, offset, "differs from what the batches say")
	}
	return nil
}

// sameWindows ignores producers that have expired and the clocks.
func sameWindows(snapshot, batches producers) bool {
	for id, p := range snapshot {
		q := batches[id]
		if q == nil || p.epoch != q.epoch || !reflect.DeepEqual(p.batches[:p.n], q.batches[:q.n]) {
			return false
		}
	}
	return true
}
