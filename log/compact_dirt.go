package log

import (
	"errors"
	"os"
	"time"
)

// dirt is what a log has to be cleaned of.
type dirt struct {
	log          *Log
	clean, dirty int64         // bytes that were cleaned before, and that were not
	delay        time.Duration // how much longer than max.compaction.lag.ms its oldest dirty record has waited
	due          bool          // tombstones or markers may go
	broken       bool          // it is not cleaned any more
	min          float64       // min.cleanable.dirty.ratio
}

// ratio is the dirty share of what can be cleaned.
func (d dirt) ratio() float64 {
	if d.dirty == 0 {
		return 0
	}
	return float64(d.dirty) / float64(d.clean+d.dirty)
}

// needs tells whether it is time: by Kafka's rule, or for tombstones, which in Kafka wait for the next record.
func (d dirt) needs() bool {
	return !d.broken && (d.dirty > 0 && d.delay > 0 || d.ratio() > d.min || d.due)
}

// dirt looks at the log. ok is false where there is nothing to look at: it is not compacted, is being cleaned, is gone, or cannot be opened. A log
// that nobody uses is opened only if its slot says that something may be dirty.
func (l *Log) dirt(now time.Time) (d dirt, ok bool) {
	cfg := l.cfg.Load()
	if !cfg.Compact {
		return d, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == stateIdle && !l.idleDirty() || l.cleaner.stop != nil {
		return d, false
	}
	d = dirt{log: l, min: cfg.MinDirtyRatio}
	switch err := l.cleanable(); {
	case errors.Is(err, ErrUncleanable):
		d.broken = true
	case err != nil:
		return d, false
	}
	n, err := l.cleanableSegments(cfg, now)
	if err != nil {
		return d, false
	}
	first, oldest := l.firstDirty(), int64(maxOffset)
	for _, s := range l.segs[:n] {
		if s.next <= first {
			d.clean += s.size
			continue
		}
		d.dirty += s.size
		if cfg.MaxCompactionLag > 0 {
			oldest = min(oldest, s.beganAt())
		}
	}
	d.due = n > 0 && l.cleaner.due > 0 && l.cleaner.due <= now.UnixMilli()
	if latest := now.Add(-cfg.MaxCompactionLag).UnixMilli(); oldest < latest {
		d.delay = time.Duration(min(latest-max(oldest, 0), maxDelay.Milliseconds())) * time.Millisecond
	}
	return d, true
}

// maxDelay is a bound against overflow: records may have any timestamp.
const maxDelay = 100 * 365 * 24 * time.Hour

// idleDirty tells from the slot whether a log that was not opened yet may have segments that were not cleaned.
func (l *Log) idleDirty() bool {
	_, sl, known := l.dir.slots.claim(l.id, l.partition)
	return known && sl.recovery > max(sl.cleaned.clean(), sl.start)
}

// beganAt is the largest timestamp of the segment's first batch, ms; maxOffset when it cannot be read. Called with the log's lock held.
func (s *segment) beganAt() int64 {
	if s.firstTime >= 0 || s.size == 0 {
		return s.firstTime
	}
	defer s.closeAgain()()
	if s.open(os.O_RDWR) != nil {
		return maxOffset
	}
	w := newWalker(s.file, 0, s.size)
	defer w.close()
	h, _, _, err := w.next()
	if err != nil {
		return maxOffset
	}
	s.firstTime = h.MaxTimestamp()
	return s.firstTime
}
