package log

import (
	"errors"
	"fmt"
	"time"

	"sluice/internal/vfs"
)

// retryGap keeps a full or failing disk from being asked at every request.
const retryGap = time.Second

// spoil is called when the end of the log is no longer what was written: a sync failed, so the kernel may have dropped what was not durable,
// or a partial write could not be taken back. Nothing is acknowledged any more through the files as they are open. Called with mu held.
//
// If nothing beyond the durable offset was ever shown, it is taken back (see cut). Modes interval and os have shown and acknowledged more, and its
// offsets must not be given to other records in this epoch: the log is frozen until all of that was found on the disk, and made durable.
func (l *Log) spoil(cause error) {
	l.cuts = append(l.cuts, l.durable)
	l.gen++
	l.become(stateCut)
	l.offline = cause
	l.dir.space.noticed(cause)
	if l.visible.offset > l.durable {
		l.become(stateFrozen)
	}
	l.retry = time.Now().Add(l.dir.retryGap)
	l.fire()
}

// mayRetry tells whether the log may be brought back now: not while a sync or a sealing is under way, which would take its old files for the new
// ones, and not too often.
func (l *Log) mayRetry() bool {
	now := time.Now()
	if l.busy() || now.Before(l.retry) {
		return false
	}
	l.retry = now.Add(l.dir.retryGap)
	return true
}

// retryCut takes the tail back and goes on, if the disk lets it. Called with mu held.
func (l *Log) retryCut() error {
	if !l.mayRetry() {
		return fmt.Errorf("%w: %w", ErrStorage, l.offline)
	}
	err := l.cut()
	l.dir.space.noticed(err)
	return err
}

// reopen reads a frozen log anew from the disk, as a start after an unclean stop does: what is not known to be durable is written once more and
// synced, through newly opened files. If records that were shown are lost, only the next start, which begins a new epoch, may go on.
// It works with mu held: nothing else may happen to the log until it is done. Readers of the old files go on.
func (l *Log) reopen() error {
	if l.cleaner.stop != nil {
		l.cleaner.stop() // it touches files by name
		return fmt.Errorf("%w: %w", ErrStorage, l.offline)
	}
	if !l.mayRetry() {
		return fmt.Errorf("%w: %w", ErrStorage, l.offline)
	}
	if l.slotIndex < 0 {
		l.slotIndex = l.dir.slots.assign()
	}
	n := l.twin()
	err := n.openFrom(l.slot(), true, false)
	l.dir.space.noticed(err)
	if err == nil && (n.damage != nil || n.end < l.visible.offset) {
		err = fmt.Errorf("offsets up to %d were acknowledged, and the disk has them up to %d: %w", l.visible.offset, n.end, l.offline)
	}
	switch {
	case err == nil:
		l.adopt(n)
		return nil
	case !errors.Is(err, ErrStorage):
		l.goOffline(err)
		err = l.ready()
	}
	n.dropSegments(n.segs)
	return err
}

// twin is the log as one that was not opened yet.
func (l *Log) twin() *Log {
	n := &Log{dir: l.dir, topic: l.topic, id: l.id, partition: l.partition, slotIndex: l.slotIndex, start: l.start, nextStart: l.nextStart,
		recovery: l.recovery, cleaned: l.cleaned, failed: true, enlisted: true} // sweeps look at l and not at its twin, whose lock nobody holds
	n.cfg.Store(l.cfg.Load())
	return n
}

// adopt goes on with what n has found on the disk. Called with mu held.
func (l *Log) adopt(n *Log) {
	l.dropSegments(l.segs)
	l.segs, l.sealing = n.segs, n.sealing
	for _, s := range l.segs {
		s.log = l
	}
	l.enlist()
	l.end, l.durable, l.visible, l.tail = n.end, n.durable, n.visible, tail{}
	l.producers, l.epochs, l.epochsDirty, l.epochsSum = n.producers, n.epochs, n.epochsDirty, n.epochsSum
	l.newDir, l.newFiles, l.unlisted = n.newDir, n.newFiles, n.unlisted
	l.recovery, l.cleaned, l.cleaner.unfinished = n.recovery, n.cleaned, nil
	l.become(stateOpen)
	l.offline = nil
	l.dir.logger.Warn("partition is back: what was acknowledged is durable", "topic", l.topic, "partition", l.partition, "end", l.end)
	l.scheduleSync(true) // the side files
	l.fire()
}

// beginSegment has the log go on in a new file, whose sync succeeds: where a sync has failed before, no more is entrusted to the old one.
func (l *Log) beginSegment() error {
	if len(l.segs) == 0 || l.active().size == 0 {
		return nil
	}
	old := l.active()
	if err := l.freshSegment(); err != nil {
		return err
	}
	l.toSeal(old, l.copyProducers(l.cfg.Load(), time.Now()))
	l.visible.seg = nil // found again by offset
	return nil
}

// truncateSynced makes a file's size durable. An earlier sync of the same size may have failed, after which the kernel may take it for clean:
// so the size is changed once more.
func truncateSynced(f vfs.File, size int64) error {
	for _, n := range []int64{size + 1, size} {
		if err := f.Truncate(n); err != nil {
			return storageError("cut "+f.Name(), err)
		}
	}
	if err := f.Sync(); err != nil {
		return storageError("sync "+f.Name()+" after cutting it", err)
	}
	return nil
}
