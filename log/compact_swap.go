package log

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// swap replaces segments by one that was written from them. The names are Kafka's; docs/storage.md says what a crash leaves of each step.
type swap struct {
	old     []*segment
	fresh   *segment // open, under the name .log.cleaned
	reached int64    // the log is clean below
	shown   bool     // it has the place of the old ones
}

// swap makes the change durable, shows it, and then tidies up. If the disk refuses before the change was shown, the old segments stay; after that,
// the rest is done at the next run of the cleaner, or at the next start.
func (l *Log) swap(x *swap) error {
	if err := l.reserve(x); err != nil {
		x.fresh.release()
		_ = l.dir.fs.Remove(x.fresh.path(cleanedSuffix)) // else the next start does it
		return err
	}
	if err := l.commitSwap(x); err != nil {
		return l.undoSwap(x, err)
	}
	l.showSwap(x)
	l.mu.Lock()
	l.cleaner.unfinished = x
	l.mu.Unlock()
	return l.finishSwap(x)
}

// reserve keeps the old segments from being removed by anybody else. Some may be gone by now.
func (l *Log) reserve(x *swap) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.cleanable(); err != nil {
		return err
	}
	if _, ok := l.indexOf(x.old); !ok {
		return fmt.Errorf("%w: segments from offset %d on were removed while they were cleaned", errSegmentGone, x.old[0].base)
	}
	for _, s := range x.old {
		s.busy = true
	}
	return nil
}

// indexOf finds a run of segments.
func (l *Log) indexOf(run []*segment) (int, bool) {
	i := slices.Index(l.segs, run[0])
	return i, i >= 0 && i+len(run) <= len(l.segs) && slices.Equal(l.segs[i:i+len(run)], run)
}

// commitSwap renames the file, from where on the swap is finished by whoever comes first. Then the slot says that offsets may be missing, which it must
// before they are missing in a .log file.
func (l *Log) commitSwap(x *swap) error {
	if err := l.dir.fs.Rename(x.fresh.path(cleanedSuffix), x.fresh.path(swapSuffix)); err != nil {
		return storageError("rename cleaned segment", err)
	}
	if err := l.dir.fs.SyncDir(l.path()); err != nil {
		return storageError("sync partition directory", err)
	}
	l.mu.Lock()
	before, reached := l.cleaned, l.cleaner.reached
	l.reach(x.reached)
	if l.slotIndex < 0 {
		l.slotIndex = l.dir.slots.assign()
	}
	n := l.dir.slots.put(l.slotIndex, l.slot())
	l.mu.Unlock()
	err := l.dir.slots.sync(n)
	if err != nil {
		l.mu.Lock()
		l.cleaned, l.cleaner.reached = before, reached
		l.mu.Unlock()
	}
	return err
}

// undoSwap takes the file away again. If that is not durable the next start may find it, which does no harm as long as the old segments are as they
// were: then they must not be cleaned again before.
func (l *Log) undoSwap(x *swap, cause error) error {
	err := l.dir.fs.Remove(x.fresh.path(swapSuffix))
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = l.dir.fs.SyncDir(l.path())
	}
	x.fresh.release()
	l.free(x.old)
	if err != nil {
		return fmt.Errorf("%w: %w, and the swap file may be left: %w", ErrUncleanable, cause, err)
	}
	return cause
}

// free ends what reserve began, and removes what was to be removed meanwhile.
func (l *Log) free(segs []*segment) {
	l.mu.Lock()
	for _, s := range segs {
		s.busy = false
	}
	gone := l.letGo(ByStart)
	l.mu.Unlock()
	l.dir.reaper.add(gone, l.cfg.Load().FileDeleteDelay)
}

// showSwap puts the new segment in the place of the old ones. Readers keep what they hold.
func (l *Log) showSwap(x *swap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.indexOf(x.old)
	if !ok { // deleted or closed: there are no segments any more
		x.fresh.release()
		return
	}
	x.fresh.busy, x.shown = true, true
	l.segs, l.fill = slices.Concat(l.segs[:i], []*segment{x.fresh}, l.segs[i+len(x.old):]), fullness{}
	l.enlist()
	if slices.Contains(x.old, l.visible.seg) {
		l.visible.seg = nil // found again by offset
	}
	l.dropSegments(x.old)
}

// finishSwap removes the old files, the indexes of the first among them, gives the new one its name, and writes its indexes. It may be called again
// after an error.
func (l *Log) finishSwap(x *swap) error {
	list := func() error { return l.writeManifest(nil) }
	if !x.shown {
		list = func() error { return l.relist(x.fresh) }
	}
	if err := l.replaceFiles(x.fresh, x.old[1:], list); err != nil {
		return err
	}
	if x.shown {
		if err := l.sealSwapped(x.fresh); err != nil {
			l.warn("indexes of a cleaned segment not written", err) // they are made anew when they are needed
		}
	}
	l.mu.Lock()
	l.cleaner.unfinished = nil
	l.mu.Unlock()
	l.free([]*segment{x.fresh})
	l.closeIdle(x.fresh)
	return nil
}

// replaceFiles: an old index must never meet the new segment, nor an old segment lie beside it, so both are durably gone before it has its name. So is
// the line of the list that is about them: list writes that for the new segment.
func (l *Log) replaceFiles(fresh *segment, old []*segment, list func() error) error {
	fs := l.dir.fs
	gone := []string{fresh.path(indexSuffix), fresh.path(timeSuffix)}
	for _, s := range old {
		gone = append(gone, s.path(logSuffix), s.path(indexSuffix), s.path(timeSuffix))
	}
	for _, name := range gone {
		if err := fs.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return storageError("remove what was cleaned", err)
		}
	}
	if err := list(); err != nil {
		return err
	}
	if err := fs.SyncDir(l.path()); err != nil {
		return storageError("sync partition directory", err)
	}
	if err := fs.Rename(fresh.path(swapSuffix), fresh.path(logSuffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return storageError("rename cleaned segment", err)
	}
	if err := fs.SyncDir(l.path()); err != nil {
		return storageError("sync partition directory", err)
	}
	return nil
}

// sealSwapped writes the indexes, which are in memory since the segment was written.
func (l *Log) sealSwapped(s *segment) error {
	if err := s.writeIndexes(); err != nil {
		return err
	}
	if err := l.dir.fs.SyncDir(l.path()); err != nil {
		return storageError("sync partition directory", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.seal()
	return nil
}

// finishSwaps does at the start what a crash left undone of swaps: a file that was never committed goes, one that was gets its place. Called with mu
// held, before the segments are listed.
func (l *Log) finishSwaps(sl slot, known bool) error {
	entries, err := l.list()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), cleanedSuffix) {
			if err := l.dir.fs.Remove(filepath.Join(l.path(), e.Name())); err != nil {
				return storageError("remove unfinished cleaned segment", err)
			}
		}
		if base, ok := parseSegmentName(e.Name(), swapSuffix); ok {
			if err := l.completeSwap(base, entries, sl, known); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Log) completeSwap(base int64, entries []iofs.DirEntry, sl slot, known bool) error {
	fresh := newSegment(l.dir.fs, l.path(), base)
	end, err := swapEnd(fresh)
	if err != nil {
		return err
	}
	l.dir.logger.Info("finishing a compaction that was interrupted", "topic", l.topic, "partition", l.partition, "from", base, "to", end)
	if err := l.allowGaps(end, sl, known); err != nil {
		return err
	}
	var old []*segment
	for _, e := range entries {
		if o, ok := parseSegmentName(e.Name(), logSuffix); ok && base < o && o < end {
			old = append(old, newSegment(l.dir.fs, l.path(), o))
		}
	}
	return l.replaceFiles(fresh, old, func() error { return l.relist(fresh) })
}

// allowGaps makes durable that offsets below end may be missing, if it is not known yet. Where there is no slot, they may be missing everywhere.
func (l *Log) allowGaps(end int64, sl slot, known bool) error {
	if l.cleaned.gaps() >= end {
		return nil
	}
	l.cleaned = missingBelow(end)
	if !known {
		return nil
	}
	sl.cleaned = l.cleaned
	return l.dir.slots.sync(l.dir.slots.put(l.slotIndex, sl))
}

// swapEnd reads where a committed swap file ends. It was synced before it was committed, so it is whole unless it rotted.
func swapEnd(s *segment) (int64, error) {
	f, err := s.fs.OpenFile(s.path(swapSuffix), os.O_RDONLY, 0)
	if err != nil {
		return 0, storageError("open swap file", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, storageError("size of swap file", err)
	}
	w := newWalker(f, 0, size)
	defer w.close()
	for end := s.base; ; {
		h, pos, _, err := w.next()
		if errors.Is(err, io.EOF) && size > 0 {
			return end, nil
		}
		if err == nil && h.BaseOffset() < end {
			err = &badBatch{pos, fmt.Sprintf("offset %d after %d", h.BaseOffset(), end)}
		}
		var bad *badBatch
		if errors.As(err, &bad) || errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("%w: %s, which was to replace segments: %w", ErrDamaged, s.path(swapSuffix), err)
		}
		if err != nil {
			return 0, err
		}
		end = h.NextOffset()
	}
}
