package log

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// scheduleSync puts the log into the syncer's queue unless it is there; if it is being synced just now, it goes again after. Called with mu held.
func (l *Log) scheduleSync(force bool) {
	l.force = l.force || force
	if l.queued {
		l.again = true
		return
	}
	l.queued = true
	l.stopTimer()
	l.dir.syncer.add(l)
}

// scheduleLater is scheduleSync within d.
func (l *Log) scheduleLater(d time.Duration) {
	if l.syncTimer != nil || l.queued {
		l.again = l.again || l.queued
		return
	}
	l.syncTimer = time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.syncTimer = nil
		if l.state == stateOpen {
			l.scheduleSync(false)
		}
	})
}

// syncWork is what one sync covers, captured under the lock.
type syncWork struct {
	files    []syncFile
	sealing  []sealing
	end      int64 // offset below which everything is durable afterwards
	seg      *segment
	pos      int64
	newDir   bool
	newFiles bool
	unlisted bool
	epochs   epochs // to be written, or nil
}

type syncFile struct {
	seg  *segment
	size int64
}

// sync is stage two: it makes what was written before it durable, then shows it, then answers. It runs on one goroutine at a time for a log.
func (l *Log) sync() {
	l.mu.Lock()
	l.again = false
	if l.state != stateOpen {
		l.endSync()
		return
	}
	w := l.capture()
	l.mu.Unlock()
	err := l.makeDurable(w)
	l.mu.Lock()
	ready, result := l.finish(w, err)
	if err == nil {
		l.scheduleSeal(&w)
	}
	l.mu.Unlock()
	resolve(ready, result)
	for _, f := range w.files {
		f.seg.release()
	}
	l.mu.Lock()
	l.endSync()
}

// endSync leaves the queue, or goes back into it. Who waits for a log that was spoilt meanwhile is answered now: once it takes appends again, other
// records get the offsets. Called with mu held; unlocks.
func (l *Log) endSync() {
	var lost []waiting
	var err error
	l.queued = false
	switch {
	case l.state != stateOpen:
		lost, err = l.takeWaiters(maxOffset), l.lost()
	case l.again && (l.durable < l.end || len(l.sealing) > 0): // retention waits for what it has rolled to be sealed
		if cfg := l.cfg.Load(); cfg.Durability == Interval && !l.force {
			l.scheduleLater(cfg.SyncInterval)
		} else {
			l.scheduleSync(false)
		}
	}
	if l.syncDone != nil {
		l.syncDone.Broadcast()
	}
	l.mu.Unlock()
	resolve(lost, err)
}

func (l *Log) capture() syncWork {
	w := syncWork{sealing: slices.Clone(l.sealing), newDir: l.newDir, newFiles: l.newFiles, unlisted: l.unlisted}
	active := l.active()
	segs := l.segs
	w.end, w.seg, w.pos = l.end, active, active.size
	if l.cfg.Load().Durability == OS && !l.force {
		segs = segs[:len(segs)-1]
		w.end = active.base
	}
	l.force = false
	for _, s := range segs {
		if s.synced < s.size {
			s.acquire()
			w.files = append(w.files, syncFile{s, s.size})
		}
	}
	if l.epochsDirty {
		w.epochs = slices.Clone(l.epochs)
	}
	return w
}

// makeDurable syncs data first, then the entries that lead to it.
func (l *Log) makeDurable(w syncWork) error {
	for _, f := range w.files {
		if err := f.seg.file.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", f.seg.file.Name(), err)
		}
	}
	if !w.newDir && !w.newFiles {
		return nil
	}
	if w.newDir && l.id != ReservedID {
		if err := writeMetadata(l.dir.fs, l.path(), l.id); err != nil {
			return err
		}
	}
	if err := l.dir.fs.SyncDir(l.path()); err != nil {
		return fmt.Errorf("sync directory %s: %w", l.path(), err)
	}
	if w.newDir {
		if err := l.dir.fs.SyncDir(l.dir.path); err != nil {
			return fmt.Errorf("sync directory %s: %w", l.dir.path, err)
		}
	}
	return nil
}

// lost is the answer to those who wait for a sync that does not come. Called with mu held.
func (l *Log) lost() error {
	switch l.state {
	case stateCut:
		return ErrNotDurable
	case stateFrozen:
		return fmt.Errorf("%w: %w", ErrStorage, l.offline)
	}
	return ErrOffline
}

// finish takes the result of a sync in. It returns the waiters to be answered, outside the lock.
func (l *Log) finish(w syncWork, err error) ([]waiting, error) {
	if err != nil { // what is done then reads and writes side files too, by name
		l.waitWhile(context.Background(), func() bool { return l.seals != nil })
	}
	if l.state != stateOpen {
		return l.takeWaiters(maxOffset), l.lost() // none when it was deleted: they were answered then
	}
	if err != nil {
		return l.failSync(err)
	}
	for _, f := range w.files {
		f.seg.synced = max(f.seg.synced, f.size)
	}
	l.newDir = l.newDir && !w.newDir
	l.newFiles = l.newFiles && len(l.segs) > 0 && l.active() != w.seg
	if w.end > l.durable {
		l.durable = w.end
		l.show(w.end, w.seg, w.pos)
	}
	l.noteSlot()
	return l.takeWaiters(l.durable), nil
}

// noteSlot records the durable offset. Called with mu held.
func (l *Log) noteSlot() {
	if l.slotIndex < 0 {
		l.slotIndex = l.dir.slots.assign()
	}
	l.dir.slots.note(l.slotIndex, l.slot())
}

func (l *Log) slot() slot {
	return slot{id: l.id, partition: l.partition, durable: l.durable, recovery: l.recovery, start: max(l.start, l.nextStart), epochs: l.epochsSum, cleaned: l.cleaned}
}

// toSeal has the side files of a segment written that gets no more appends. Called with mu held, as readers look at the indexes under it.
func (l *Log) toSeal(s *segment, ps producers) {
	s.noteTime()
	l.sealing = append(l.sealing[:len(l.sealing):len(l.sealing)], sealing{s, ps})
}

// unseal takes a segment out of those that wait for their side files.
func (l *Log) unseal(s *segment) {
	l.sealing = slices.DeleteFunc(slices.Clone(l.sealing), func(x sealing) bool { return x.seg == s })
}

// firstUnsealed is the base of the first segment whose side files are not written.
func (l *Log) firstUnsealed() int64 {
	if len(l.sealing) > 0 {
		return l.sealing[0].seg.base
	}
	return l.active().base
}

// writeSealed makes the side files of segments durable, then their place in the list.
func (l *Log) writeSealed(segs []sealing) error {
	for _, s := range segs {
		if err := l.writeSideFiles(s); err != nil {
			return err
		}
	}
	if err := l.writeManifest(segs); err != nil {
		return err
	}
	if err := l.dir.fs.SyncDir(l.path()); err != nil {
		return storageError("sync partition directory", err)
	}
	return nil
}

func (l *Log) writeSideFiles(s sealing) error {
	if err := s.seg.writeIndexes(); err != nil {
		return err
	}
	if s.producers != nil {
		if err := l.writeProducers(s.seg.next, s.producers); err != nil {
			return err
		}
	}
	return nil
}

// writeProducers writes a snapshot of the end of a segment.
func (l *Log) writeProducers(offset int64, ps producers) error {
	return writeSynced(l.dir.fs, filepath.Join(l.path(), segmentName(offset, producerSuffix)), ps.encode())
}

// removeOldSnapshots keeps, of those below offset, the newest at or below the base where recovery begins, and the one before it in
// case it should be unreadable.
func (l *Log) removeOldSnapshots(base, offset int64) error {
	old, err := l.snapshots()
	if err != nil {
		return err
	}
	old = slices.DeleteFunc(old, func(o int64) bool { return o >= offset })
	first, found := slices.BinarySearch(old, base)
	if found {
		first++
	}
	old = slices.Delete(old, max(0, first-2), first)
	for _, o := range old {
		if err := l.dir.fs.Remove(filepath.Join(l.path(), segmentName(o, producerSuffix))); err != nil {
			return storageError("remove old producer snapshot", err)
		}
	}
	return nil
}

// snapshots lists the offsets of the producer snapshots, ascending.
func (l *Log) snapshots() ([]int64, error) {
	entries, err := l.dir.fs.ReadDir(l.path())
	if err != nil {
		return nil, storageError("list partition directory", err)
	}
	var offsets []int64
	for _, e := range entries {
		if o, ok := parseSegmentName(e.Name(), producerSuffix); ok {
			offsets = append(offsets, o)
		}
	}
	return offsets, nil // ReadDir sorts, and the names have fixed width
}

// warn tells of an error of the disk that nobody is answered with.
func (l *Log) warn(what string, err error) {
	l.dir.space.noticed(err)
	l.dir.logger.Warn(what, "topic", l.topic, "partition", l.partition, "error", err)
}

// failSync handles a failed sync: the kernel may have dropped the unsynced pages, so a second sync would lie. What was not durable is taken back,
// and the log goes on in a new file whose sync must succeed (or is frozen, see spoil). Called with mu held; returns all waiters and their error.
func (l *Log) failSync(cause error) ([]waiting, error) {
	waiters := l.takeWaiters(maxOffset)
	l.dir.logger.Error("sync failed", "topic", l.topic, "partition", l.partition, "durable", l.durable, "end", l.end, "error", cause)
	l.spoil(cause)
	if l.state == stateFrozen {
		return waiters, fmt.Errorf("%w: %w", ErrStorage, cause)
	}
	if err := l.cut(); err != nil {
		l.warn("unsynced tail not taken back yet", err)
	}
	return waiters, ErrNotDurable
}

// cut takes everything above the durable offset back and begins a new segment there. It may be called again after an error. It syncs with the lock held:
// nothing else may happen to the log until it is done.
func (l *Log) cut() error {
	for len(l.segs) > 0 {
		s := l.active()
		if s.base < l.durable || s.synced > 0 {
			break
		}
		if err := l.removeFiles(s); err != nil {
			return err
		}
		l.segs = l.segs[: len(l.segs)-1 : len(l.segs)-1]
		l.unseal(s)
		s.release()
	}
	if err := l.cutLast(); err != nil {
		return err
	}
	l.end = l.durable
	l.epochs.cut(l.end)
	l.epochsDirty = true
	l.tail = tail{}
	if err := l.loadProducers(l.segs, l.end); err != nil {
		return err
	}
	if len(l.segs) > 0 && !l.active().sealed {
		// If it had rolled already, the producers' state at its old end knows batches that are taken back.
		l.unseal(l.active())
		l.toSeal(l.active(), l.copyProducers(l.cfg.Load(), time.Now()))
	}
	if err := l.freshSegment(); err != nil {
		return err
	}
	l.become(stateOpen)
	l.offline = nil
	l.visible.seg = nil // found again by offset; the new segment is where the next batch goes
	return nil
}

// cutLast truncates the last segment to its synced bytes. What is synced here is only the new size: all data that the failed sync was for is cut off.
// A sealed segment is taken as long as its file, so the size must not come back.
func (l *Log) cutLast() error {
	if len(l.segs) == 0 {
		return nil
	}
	s := l.active()
	if s.size == s.synced && !s.torn {
		return nil
	}
	if err := truncateSynced(s.file, s.synced); err != nil {
		return err
	}
	s.size, s.next, s.torn, s.summed = s.synced, l.durable, false, false
	if err := s.rebuild(l.cfg.Load().IndexInterval); err != nil {
		return err
	}
	return nil
}

// freshSegment begins a new segment at the end and makes its (empty) file durable.
func (l *Log) freshSegment() error {
	if err := l.makeDir(); err != nil {
		return err
	}
	s := l.newSegment(l.end)
	if err := s.open(os.O_RDWR | os.O_CREATE | os.O_TRUNC); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		s.release()
		return storageError("sync new segment", err)
	}
	if err := l.dir.fs.SyncDir(l.path()); err != nil {
		s.release()
		return storageError("sync partition directory", err)
	}
	l.segs = append(l.segs[:len(l.segs):len(l.segs)], s)
	return nil
}

// close makes everything durable and writes the side files of the last segment too. Without an error, clean tells whether the next start may trust
// the files: it may not where damage was found, which it must find again, nor where nobody looked after an unclean stop.
func (l *Log) close(ctx context.Context, mark *markWriter) (clean bool, err error) {
	l.mu.Lock()
	l.stopCleaning()
	l.stopTimer()
	if l.state == stateOpen && (l.durable < l.end || len(l.sealing) > 0) {
		l.scheduleSync(true)
	}
	l.waitSync(ctx)
	defer l.mu.Unlock()
	switch l.state {
	case stateIdle:
		l.become(stateOffline)
		l.offline = ErrClosed
		return l.untouched()
	case stateDeleted:
		return true, nil
	case stateCut, stateFrozen, stateOffline:
		return false, fmt.Errorf("not clean: %w", l.offline)
	}
	if err = l.closeFiles(mark); err != nil && l.dir.space.noticed(err) {
		err = l.closeFiles(mark)
	}
	l.become(stateOffline)
	l.offline = ErrClosed
	l.fire()
	l.dropSegments(l.segs)
	l.segs = nil
	return l.damage == nil, err
}

// untouched tells whether the files of a log that was never opened are as a clean stop left them.
func (l *Log) untouched() (bool, error) {
	if l.dir.clean {
		return true, nil
	}
	entries, err := l.list()
	return len(segmentBases(entries)) == 0, err
}

// waitSync waits until no sync and no sealing is under way. Called with mu held.
func (l *Log) waitSync(ctx context.Context) { l.waitWhile(ctx, l.busy) }

// busy tells whether a sync or a sealing is under way, or waits for its turn.
func (l *Log) busy() bool { return l.queued || l.seals != nil }

// waitWhile waits until cond does not hold any more, looking whenever a sync or a sealing has ended. Called with mu held.
func (l *Log) waitWhile(ctx context.Context, cond func() bool) {
	if l.syncDone == nil {
		l.syncDone = sync.NewCond(&l.mu)
	}
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.syncDone.Broadcast()
	})
	defer stop()
	for cond() && ctx.Err() == nil {
		l.syncDone.Wait()
	}
}

// finishSync waits until no sync and no sealing is under way.
func (l *Log) finishSync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waitSync(context.Background())
}

func (l *Log) closeFiles(mark *markWriter) error {
	if len(l.segs) == 0 {
		return nil
	}
	if l.durable < l.end {
		return fmt.Errorf("%w: appends from offset %d on are not synced", ErrStorage, l.durable)
	}
	if marked, err := l.markLast(mark); marked || err != nil {
		return err
	}
	if l.epochsDirty {
		var err error
		if l.epochsSum, err = writeEpochs(l.dir.fs, l.path(), l.epochs); err != nil {
			return err
		}
	}
	if l.damage == nil && !l.active().sealed {
		l.toSeal(l.active(), l.copyProducers(l.cfg.Load(), time.Now()))
	}
	for _, s := range l.sealing {
		if err := l.writeSideFiles(s); err != nil {
			return err
		}
	}
	if err := l.listAll(); err != nil {
		return err
	}
	l.recovery = l.active().base
	if l.slotIndex < 0 {
		l.slotIndex = l.dir.slots.assign()
	}
	if err := l.dir.slots.sync(l.dir.slots.put(l.slotIndex, l.slot())); err != nil {
		return err
	}
	return l.removeOldSnapshots(l.recovery, l.active().next)
}

// AdvanceStart moves the log start offset forward (DeleteRecords); it is durable when it returns. offset must not pass the high watermark (ErrOffsetOutOfRange).
func (l *Log) AdvanceStart(ctx context.Context, offset int64) (int64, error) {
	l.mu.Lock()
	if err := l.readable(); err != nil {
		l.mu.Unlock()
		return -1, err
	}
	if offset < 0 || offset > l.visible.offset {
		l.mu.Unlock()
		return -1, fmt.Errorf("%w: %d, high watermark %d", ErrOffsetOutOfRange, offset, l.visible.offset)
	}
	if offset <= l.start {
		defer l.mu.Unlock()
		return l.start, nil
	}
	n := l.putStart(offset)
	l.mu.Unlock()
	if err := l.dir.slots.sync(n); err != nil {
		return -1, err
	}
	return l.moveStart(offset, ByStart)
}

// putStart puts the start to come into the slot. A sync of the slots up to the number given makes it durable. Called with mu held.
func (l *Log) putStart(offset int64) uint64 {
	if l.slotIndex < 0 {
		l.slotIndex = l.dir.slots.assign()
	}
	l.nextStart = max(l.nextStart, offset) // so that a sync meanwhile does not write the old one
	return l.dir.slots.put(l.slotIndex, l.slot())
}

// moveStart shows the new start, which is durable, and lets go of the segments below it.
func (l *Log) moveStart(offset int64, why Cause) (int64, error) {
	start, gone, err := l.showStart(offset, why)
	l.dir.reaper.add(gone, l.cfg.Load().FileDeleteDelay)
	return start, err
}

func (l *Log) showStart(offset int64, why Cause) (start int64, gone []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readable(); err != nil {
		return -1, nil, err
	}
	l.start = max(l.start, offset)
	gone = l.letGo(why)
	l.fire()
	return l.start, gone, nil
}
