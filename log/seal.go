package log

import (
	"context"
	"slices"
)

// scheduleSeal has the side files written of the rolled segments that a sync has made durable: beside the syncs that follow, whose appends do not wait for
// it. While something is being sealed more waits for its end. Called with mu held.
func (l *Log) scheduleSeal(w *syncWork) {
	if l.seals != nil || l.state != stateOpen {
		return
	}
	w.sealing = slices.DeleteFunc(w.sealing, func(s sealing) bool { return s.seg.sealed }) // while the sync went on
	if len(w.sealing) == 0 && w.epochs == nil && !w.unlisted {
		return
	}
	for _, s := range w.sealing {
		s.seg.acquire()
	}
	l.seals = w
	l.dir.sealer.add(l)
}

// seal does what scheduleSeal has asked for. What fails is tried again with the next sync.
func (l *Log) seal() {
	l.mu.Lock()
	w, open := l.seals, l.state == stateOpen
	l.mu.Unlock()
	sealed := open && (l.leaveToClose(w) || l.finishSealing(w))
	if sealed && len(w.sealing) > 0 {
		l.forgetSnapshots()
	}
	for _, s := range w.sealing {
		s.seg.release()
	}
	l.dir.reaper.add(l.endSeal(sealed), l.cfg.Load().FileDeleteDelay)
}

// leaveToClose tells whether there is nothing left to do because the log is about to be closed: what is wanted is the leader epoch checkpoint alone, and the mark
// of a clean stop has the epochs too.
func (l *Log) leaveToClose(w *syncWork) bool {
	return l.dir.stopping.Load() && len(w.sealing) == 0 && !w.unlisted
}

// endSeal gives the files of segments that could not go when the log start was moved beyond them.
func (l *Log) endSeal(sealed bool) (gone []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seals = nil
	if sealed && l.state == stateOpen {
		gone = l.letGo(ByStart)
		if len(l.sealing) > 0 {
			l.scheduleSync(false)
		}
	}
	if l.syncDone != nil {
		l.syncDone.Broadcast()
	}
	return gone
}

// finishSealing writes the side files of rolled segments: only then does recovery begin after them. It tells whether that succeeded.
func (l *Log) finishSealing(w *syncWork) bool {
	var sum uint32
	if w.epochs != nil {
		var err error
		if sum, err = writeEpochs(l.dir.fs, l.path(), w.epochs); err != nil {
			l.warn("leader epoch checkpoint not written", err)
			return false
		}
	}
	if len(w.sealing) > 0 || w.unlisted {
		if err := l.writeSealed(w.sealing); err != nil {
			l.warn("segment not sealed", err)
			return false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != stateOpen {
		return false
	}
	if w.epochs != nil {
		l.epochsSum = sum
		l.epochsDirty = len(w.epochs) != len(l.epochs)
	}
	for _, s := range w.sealing {
		s.seg.seal()
	}
	l.unlisted = l.unlisted && !w.unlisted
	l.sealing = slices.Clone(l.sealing[len(w.sealing):])
	if len(w.sealing) > 0 {
		l.recovery = l.firstUnsealed()
	}
	l.noteSlot()
	return true
}

// forgetSnapshots removes the producer snapshots that recovery no longer needs, once the recovery point is durable: a recovery from an earlier one
// would find nothing that tells of producers whose segments are deleted. Where something fails they stay until the next time.
func (l *Log) forgetSnapshots() {
	l.mu.Lock()
	if l.state != stateOpen {
		l.mu.Unlock()
		return
	}
	recovery := l.recovery
	n := l.dir.slots.put(l.slotIndex, l.slot())
	l.mu.Unlock()
	if l.dir.slots.sync(n) == nil {
		if err := l.removeOldSnapshots(recovery, recovery+1); err != nil {
			l.warn("old producer snapshots remain", err)
		}
	}
}

// awaitSealed waits until the segments are sealed that have been rolled by now, nothing is under way that would do it, or ctx ends.
func (l *Log) awaitSealed(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sealing) == 0 {
		return
	}
	last := l.sealing[len(l.sealing)-1].seg
	l.waitWhile(ctx, func() bool { return !last.sealed && l.busy() })
}
