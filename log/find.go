package log

import (
	"errors"
	"fmt"
	"io"

	"sluice/kproto"
)

// Position of a record.
type Position struct {
	Offset    int64 // -1: none
	Timestamp int64 // ms, -1: none
	Epoch     int32 // -1: none
}

var nowhere = Position{-1, -1, -1}

// FindTime gives the first record at or after the start and below limit whose timestamp is >= ms (KIP-79), or a Position with Offset -1.
func (l *Log) FindTime(ms int64, limit int64) (Position, error) {
	return l.whileThere(func() (Position, error) { return l.findTime(ms, limit) })
}

// MaxTime gives the record with the largest timestamp below limit, the first of equals (KIP-734), or a Position with Offset -1.
func (l *Log) MaxTime(limit int64) (Position, error) {
	return l.whileThere(func() (Position, error) { return l.maxTime(limit) })
}

// whileThere repeats a search whose find is below the log start by its end: of the segments before it some were searched, some deleted already, and
// there was no moment at which it would have been the one.
func (l *Log) whileThere(search func() (Position, error)) (Position, error) {
	for {
		p, err := search()
		if err != nil || p.Offset < 0 {
			return p, err
		}
		l.mu.Lock()
		there := p.Offset >= l.start
		l.mu.Unlock()
		if there {
			return p, nil
		}
	}
}

func (l *Log) findTime(ms int64, limit int64) (Position, error) {
	newer := func(s *segment) bool { return s.maxTime >= ms }
	found := nowhere
	err := l.eachView(limit, newer, func(v *view, start, limit int64) (err error) {
		if found, err = v.findTime(ms, start, limit); err == nil && found.Offset >= 0 {
			err = io.EOF
		}
		return err
	})
	if err != nil || found.Offset >= 0 {
		return found, err
	}
	return nowhere, l.lostBelow(limit, newer)
}

func (l *Log) maxTime(limit int64) (Position, error) {
	best := nowhere
	newer := func(s *segment) bool { return s.maxTime > best.Timestamp }
	err := l.eachView(limit, newer, func(v *view, start, limit int64) error {
		p, err := v.maxTime(start, limit, best.Timestamp)
		if err == nil && p.Timestamp > best.Timestamp {
			best = p
		}
		return err
	})
	if err != nil {
		return nowhere, err
	}
	return best, l.lostBelow(limit, func(*segment) bool { return true })
}

// lostBelow is why a search below limit that found nothing proves nothing: there is damage in a segment that may have had it.
func (l *Log) lostBelow(limit int64, mayHave func(*segment) bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.damage != nil && l.damage.offset < limit {
		return fmt.Errorf("%w: %w", ErrDamaged, l.damage)
	}
	for _, s := range l.segs {
		for i := range s.holes {
			if h := &s.holes[i]; h.offset < limit && h.end > l.start && mayHave(s) {
				return fmt.Errorf("%w: %w", ErrDamaged, h)
			}
		}
	}
	return nil
}

// eachView gives fn the windows with visible records of the segments that the filter wants, in order, with the log's start and the end of what is visible below
// limit. One segment at a time is pinned. fn ends it with io.EOF, which is no error.
func (l *Log) eachView(limit int64, want func(*segment) bool, fn func(v *view, start, limit int64) error) error {
	for at, more := int64(0), true; more; {
		x, err := l.roomyViews(at, limit, want)
		if err != nil || len(x.views) == 0 {
			return err
		}
		err = eachOf(x.views, func(v *view) error { return fn(v, x.start, x.end) })
		x.views[0].seg.release()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at, more = x.next, x.next < x.end
	}
	return nil
}

// roomyViews is viewsFrom, and waits for room for the files: a search holds none meanwhile.
func (l *Log) roomyViews(at, limit int64, want func(*segment) bool) (x pinned, err error) {
	err = l.dir.files.untilRoom(l.dir.files.roomToRead, func() error {
		x, err = l.viewsFrom(at, limit, want)
		return err
	})
	return x, err
}

// pinned is a segment as eachView goes over it.
type pinned struct {
	views      []view // of its windows; they share one reference
	next       int64  // offset after the segment
	start, end int64  // of the log, as far as it is visible
}

func eachOf(vs []view, fn func(*view) error) error {
	for i := range vs {
		if err := fn(&vs[i]); err != nil {
			if errors.Is(err, io.EOF) {
				return err
			}
			return vs[i].explain(err)
		}
	}
	return nil
}

// viewsFrom pins the first wanted segment that ends after an offset; none if there is none.
func (l *Log) viewsFrom(at, limit int64, want func(*segment) bool) (x pinned, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readable(); err != nil {
		return x, err
	}
	x.start, x.end = l.start, min(limit, l.visible.offset)
	for _, s := range l.segs {
		if s.next <= max(at, l.start) || s.maxTime >= 0 && !want(s) {
			continue
		}
		if s.base >= x.end {
			break
		}
		x.next = s.next
		if x.views, err = l.windowViews(s, x.end, want); err != nil || len(x.views) > 0 {
			break
		}
	}
	return x, err
}

// windowViews pins a segment once for all its windows; none if it is not wanted. What it opened to find out is closed again.
func (l *Log) windowViews(s *segment, limit int64, want func(*segment) bool) (vs []view, err error) {
	closeAgain := s.closeAgain()
	for _, w := range s.windows() {
		if w.base >= limit {
			break
		}
		v, err := l.viewOf(s, w.base, limit)
		if err != nil {
			if len(vs) > 0 {
				s.release()
			}
			return nil, err
		}
		if !want(s) {
			s.release()
			closeAgain()
			return nil, nil
		}
		if len(vs) > 0 {
			s.release()
		}
		vs = append(vs, v)
	}
	return vs, nil
}

// after gives an offset below which everything in the segment is older than ms. The index entry that says so is taken only if the batch that it
// names has that time.
func (v *view) after(ms int64) (int64, error) {
	e, ok, err := v.times.floorTime(ms)
	if err != nil {
		return 0, storageError("read time index", err)
	}
	if !ok {
		return v.base, nil
	}
	last := v.seg.base + int64(e.rel)
	pos, _, next, err := v.locate(last)
	if err != nil {
		return v.base, ignoreBad(err)
	}
	w := newWalker(v.seg.file, pos, v.end)
	defer w.close()
	h, _, _, err := w.next()
	if err != nil || next != last+1 || h.MaxTimestamp() != e.time {
		return v.base, ignoreBad(err)
	}
	return next, nil
}

// ignoreBad lets only errors of the disk through.
func ignoreBad(err error) error {
	if errors.Is(err, ErrStorage) {
		return err
	}
	return nil
}

// findTime looks through the batches after the last index entry that is older than ms.
func (v *view) findTime(ms, start, limit int64) (Position, error) {
	from, err := v.after(ms)
	if err != nil {
		return nowhere, err
	}
	from = max(from, start)
	found := nowhere
	err = v.eachBatch(from, func(h kproto.Batch) bool { return h.MaxTimestamp() >= ms }, func(b kproto.Batch) (bool, error) {
		err := b.EachRecord(func(r kproto.Record) bool {
			if r.Timestamp >= ms && r.Offset >= start && r.Offset < limit {
				found = Position{r.Offset, r.Timestamp, b.LeaderEpoch()}
			}
			return found.Offset < 0
		})
		return found.Offset < 0, err
	})
	return found, err
}

// maxTime finds the first record with the largest timestamp above floor. The time index tells where to begin when all of the segment is visible.
func (v *view) maxTime(start, limit, floor int64) (Position, error) {
	from := max(start, v.base)
	if v.newest >= 0 && v.seg.base >= start {
		var err error
		if from, err = v.after(v.newest); err != nil {
			return nowhere, err
		}
	}
	best := Position{-1, floor, -1}
	err := v.eachBatch(from, func(h kproto.Batch) bool { return h.MaxTimestamp() > best.Timestamp }, func(b kproto.Batch) (bool, error) {
		return true, b.EachRecord(func(r kproto.Record) bool {
			if r.Timestamp > best.Timestamp && r.Offset >= start && r.Offset < limit {
				best = Position{r.Offset, r.Timestamp, b.LeaderEpoch()}
			}
			return true
		})
	})
	return best, err
}

// eachBatch gives fn the whole batches, from the one that holds the offset on, whose header is wanted, until fn says stop.
func (v *view) eachBatch(from int64, want func(kproto.Batch) bool, fn func(kproto.Batch) (bool, error)) error {
	if from >= v.next && v.limit == maxOffset {
		return nil
	}
	at, _, _, err := v.locate(from)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	w := newWalker(v.seg.file, at, v.end)
	defer w.close()
	var buf []byte
	for {
		h, pos, size, err := w.next()
		if errors.Is(err, io.EOF) || err == nil && h.NextOffset() > v.limit {
			return nil
		}
		if err != nil {
			return err
		}
		if !want(h) {
			continue
		}
		b, err := readBatch(v.seg.file, pos, size, buf)
		if err != nil {
			return err
		}
		buf = b
		if more, err := fn(b); err != nil || !more {
			return err
		}
	}
}
