package log

import (
	"errors"
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
	start, views, err := l.views(limit, func(s *segment) bool { return s.maxTime >= ms })
	defer releaseAll(views)
	if err != nil {
		return nowhere, err
	}
	for _, v := range views {
		p, err := v.findTime(ms, start, limit)
		if err != nil || p.Offset >= 0 {
			return p, v.explain(err)
		}
	}
	return nowhere, nil
}

// MaxTime gives the record with the largest timestamp below limit, the first of equals (KIP-734), or a Position with Offset -1.
func (l *Log) MaxTime(limit int64) (Position, error) {
	start, views, err := l.views(limit, func(s *segment) bool { return s.maxTime >= 0 })
	defer releaseAll(views)
	if err != nil {
		return nowhere, err
	}
	best := nowhere
	for _, v := range views {
		p, err := v.maxTime(start, limit, best.Timestamp)
		if err != nil {
			return nowhere, v.explain(err)
		}
		if p.Timestamp > best.Timestamp {
			best = p
		}
	}
	return best, nil
}

// views pins the segments with visible records that the filter wants.
func (l *Log) views(limit int64, want func(*segment) bool) (start int64, vs []view, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readable(); err != nil {
		return 0, nil, err
	}
	limit = min(limit, l.visible.offset)
	for _, s := range l.segs {
		if s.base >= limit || s.next <= l.start {
			continue
		}
		v, err := l.viewOf(s, s.base, limit)
		if err != nil {
			return 0, vs, err
		}
		if !want(s) {
			s.release()
			continue
		}
		vs = append(vs, v)
	}
	return l.start, vs, nil
}

func releaseAll(vs []view) {
	for _, v := range vs {
		v.seg.release()
	}
}

// findTime looks through the batches after the last index entry that is older than ms.
func (v *view) findTime(ms, start, limit int64) (Position, error) {
	from := start
	if e, ok, err := v.times.floorTime(ms); err != nil {
		return nowhere, storageError("read time index", err)
	} else if ok {
		from = max(from, v.seg.base+int64(e.rel)+1)
	}
	found := nowhere
	err := v.eachBatch(from, func(h kproto.Batch) bool { return h.MaxTimestamp() >= ms }, func(b kproto.Batch) (bool, error) {
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
	from := start
	if n := v.times.len(); n > 0 && v.limit == maxOffset && v.seg.base >= start {
		if e, ok, err := v.times.floorTime(v.seg.maxTime); err != nil {
			return nowhere, storageError("read time index", err)
		} else if ok {
			from = v.seg.base + int64(e.rel) + 1
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
