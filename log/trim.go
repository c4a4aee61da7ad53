package log

import (
	"errors"
	"io"

	"sluice/kproto"
)

// Header is what is known of a batch without its records.
type Header struct {
	Base, Last int64 // offsets
	Size       int32 // bytes, header and all
	Records    int32
	Control    bool // it holds control records, which are not for applications
}

func headerOf(b kproto.Batch) Header {
	return Header{Base: b.BaseOffset(), Last: b.LastOffset(), Size: b.Length() + batchOverhead, Records: b.Count(), Control: b.Control()}
}

// Admitter decides how far a range goes.
type Admitter interface {
	// Admit tells whether a batch stays in the range; it is asked for each, in order, until it says no. Of a first batch that begins before the offset
	// that was asked for Records may be fewer than it has: those from that offset on.
	Admit(Header) bool
}

// Trim ends a range before the first of its batches that is not admitted. It reads the headers of the batches up to there, as far as they are
// not remembered. Where they are damaged the range ends, too. Errors: ErrStorage, and ErrDamaged when not even the first one is whole; then the
// range is as before.
func (l *Log) Trim(r *Range, a Admitter) error {
	var recent [tailLength]Header
	t := trim{admitter: a, r: r, pos: r.Pos, end: r.Pos + r.Len}
	for _, h := range l.recent(&recent, r) {
		if !t.take(h) {
			t.cut(r)
			return nil
		}
	}
	if err := t.walk(r); err != nil {
		v := view{log: l, seg: r.seg}
		if err = v.explain(err); t.pos == r.Pos || !errors.Is(err, ErrDamaged) {
			return err
		}
	}
	t.cut(r)
	return nil
}

// recent gives the first batches of a range, or none if they are not remembered.
func (l *Log) recent(dst *[tailLength]Header, r *Range) []Header {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, pos := 0, r.Pos
	for i := max(0, l.tail.n-tailLength); i < l.tail.n && pos < r.Pos+r.Len; i++ {
		if e := l.tail.at(i); e.seg == r.seg && e.pos == pos {
			dst[n] = e.Header
			pos += int64(e.Size)
			n++
		}
	}
	return dst[:n]
}

// trim is how far a range was admitted.
type trim struct {
	admitter Admitter
	r        *Range
	pos, end int64 // behind the last admitted batch, and the range
	next     int64 // offset behind the last batch that was looked at if it was admitted, and else its first
}

// take takes in the next batch if it is admitted.
func (t *trim) take(h Header) bool {
	if t.pos == t.r.Pos {
		h.Records = t.r.asked(h)
	}
	if !t.admitter.Admit(h) {
		t.next = h.Base
		return false
	}
	t.pos += int64(h.Size)
	t.next = h.Last + 1
	return true
}

// walk takes in the batches that are left.
func (t *trim) walk(r *Range) error {
	if t.pos == t.end {
		return nil
	}
	w := newWalker(r.File, t.pos, t.end)
	defer w.close()
	for {
		h, pos, size, err := w.next()
		if err == nil {
			r.seg.tally.add(pos, size, counts(h))
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case !t.take(headerOf(h)):
			return nil
		}
	}
}

func (t *trim) cut(r *Range) {
	switch {
	case t.pos == t.end:
	case t.pos == r.Pos:
		r.Release()
		*r = Range{Next: t.next}
	default:
		r.Len, r.Next = t.pos-r.Pos, t.next
	}
}
