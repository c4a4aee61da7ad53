package log

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// checks knows which bytes of a segment this process has not yet held against their CRCs: those that were there when it started and that recovery had no
// reason to read. What it has written itself, and read once, it gives out without another look, from file to socket.
type checks struct {
	until atomic.Int64 // bytes from here on need no check; 0: none does

	mu   sync.Mutex
	done []span // below until, ascending, apart from each other
}

type span struct{ from, to int64 }

// maxSpans bounds the memory of a segment that is read here and there. Beyond it the smallest span is forgotten, and read twice at worst.
const maxSpans = 64

func (c *checks) need(size int64) { c.until.Store(size) }

// all notes that everything was checked.
func (c *checks) all() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until.Store(0)
	c.done = nil
}

// open tells whether some of the bytes were not checked yet.
func (c *checks) open(from, to int64) bool {
	until := c.until.Load()
	if from >= until {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(c.done, func(s span) bool { return s.from <= from && min(to, until) <= s.to })
}

// add notes that bytes were checked.
func (c *checks) add(from, to int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rest []span
	for _, s := range c.done {
		if s.to < from || to < s.from {
			rest = append(rest, s)
			continue
		}
		from, to = min(from, s.from), max(to, s.to)
	}
	if from == 0 && to >= c.until.Load() {
		c.until.Store(0)
		c.done = nil
		return
	}
	if len(rest) == maxSpans {
		least := slices.MinFunc(rest, func(a, b span) int { return cmp.Compare(a.to-a.from, b.to-b.from) })
		rest = slices.DeleteFunc(rest, func(s span) bool { return s == least })
	}
	rest = append(rest, span{from, to})
	slices.SortFunc(rest, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	c.done = rest
}

// vouch reads what nobody has checked yet before it is given out. A range that runs into damage ends before it; one that begins there is a *badBatch.
func (v *view) vouch(r *Range) error {
	if r.Len == 0 || !v.seg.checks.open(r.Pos, r.Pos+r.Len) {
		return nil
	}
	good, next, err := v.seg.check(r.Pos, r.Pos+r.Len, nil)
	v.seg.checks.add(r.Pos, good)
	var bad *badBatch
	if good == r.Pos || err != nil && !errors.As(err, &bad) {
		return err
	}
	if bad != nil {
		v.log.noteBad(v.seg, bad)
		r.Len, r.Next = good-r.Pos, next
	}
	return nil
}

// check holds whole batches against their CRCs and the order of their offsets. It gives where the good ones end, the offset after them, and
// why: a *badBatch, ErrStorage, or nil at the end. spend is the budget; nil: there is none.
func (s *segment) check(from, to int64, spend func(n int) error) (good, next int64, err error) {
	w := newWalker(s.file, from, to)
	defer w.close()
	next = -1
	for good = from; ; {
		h, pos, size, err := w.next()
		switch {
		case errors.Is(err, io.EOF):
			return good, next, nil
		case err != nil:
			return good, next, err
		case next >= 0 && !s.follows(h, next):
			return good, next, &badBatch{pos, fmt.Sprintf("offset %d where %d was expected", h.BaseOffset(), next)}
		}
		if spend != nil {
			if err := spend(int(size)); err != nil {
				return good, next, err
			}
		}
		if err := checkCRC(s.file, pos, size); err != nil {
			return good, next, err
		}
		good, next = pos+size, h.NextOffset()
	}
}
