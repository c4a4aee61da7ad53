package log

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// Range is whole batches in one file. It must be released.
type Range struct {
	File vfs.File
	Pos  int64
	Len  int64 // 0: nothing there
	Next int64 // offset after the last batch in the range
	from int64 // offset that was asked for
	seg  *segment
}

// Release gives the file back: a deleted segment's file is closed when its last reader lets go.
func (r *Range) Release() {
	if r.seg != nil {
		r.seg.release()
		r.seg = nil
	}
}

// view is what a reader takes of a segment under the lock, to work with outside it.
type view struct {
	seg     *segment
	offsets offsets
	times   times
	window        // what may be read: it has no damage that is known
	newest  int64 // largest timestamp in the segment if all of it may be read, else -1
	limit   int64 // offset below which batches may be read; maxOffset when the window says it
	from    int64 // where the batch of the offset asked for begins, or -1
	log     *Log
}

// Read finds whole batches from the batch that holds offset `from`, or the next one if compaction took that, at most max bytes, below the offset `limit`
// (usually Offsets.High). If whole is set the first batch is given even when it is larger than max. A range ends at a
// segment's end. from == limit gives an empty range. Errors: ErrOffsetOutOfRange (below the start, above limit, or limit above the high watermark),
// ErrStorage (ErrTooManyFiles), ErrOffline, ErrDeleted, ErrDamaged.
func (l *Log) Read(from, limit int64, max int, whole bool) (Range, error) {
	v, err := l.pin(from, limit)
	if err != nil || v.seg == nil {
		return Range{Next: from}, err
	}
	r, err := v.read(from, int64(max), whole)
	if err == nil {
		err = v.vouch(&r)
	}
	if err != nil || r.Len == 0 {
		err = v.explain(err)
		v.seg.release()
		return Range{Next: from}, err
	}
	return r, nil
}

// errRoomTaken: there is no room for the files that are needed, or others have opened theirs since there was.
var errRoomTaken = errors.New("no room for another file")

// pin makes room for the files of a read, and is view. Where many begin to read at once, others may be there first again and again: then there is no room.
func (l *Log) pin(from, limit int64) (view, error) {
	for range roomTries {
		if err := l.admitRead(from); err != nil {
			return view{}, err
		}
		v, err := l.view(from, limit)
		if !errors.Is(err, errRoomTaken) {
			return v, err
		}
	}
	return view{}, l.dir.files.refused()
}

// view checks the offsets and pins the segment that holds from; none if there is nothing to read. Errors: as Read, and errRoomTaken.
func (l *Log) view(from, limit int64) (view, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readable(); err != nil {
		return view{}, err
	}
	if from < l.start || from > limit || limit > l.visible.offset {
		return view{}, fmt.Errorf("%w: %d, log has %d to %d", ErrOffsetOutOfRange, from, l.start, l.visible.offset)
	}
	if d := l.damageAt(from); d != nil {
		return view{}, fmt.Errorf("%w: %w", ErrDamaged, d)
	}
	if from == limit {
		return view{}, nil
	}
	s := l.segmentOf(from)
	if s == nil {
		return view{}, nil
	}
	return l.viewOf(s, from, limit)
}

// viewOf pins a segment, whose files it opens if there is room. Called with mu held.
func (l *Log) viewOf(s *segment, from, limit int64) (view, error) {
	if !l.reserveFiles(s.lacking(), l.dir.files.readLimit()) {
		return view{}, errRoomTaken
	}
	defer l.endReserve()
	if err := s.open(os.O_RDWR); err != nil {
		return view{}, err
	}
	if err := s.openIndexes(l.cfg.Load().IndexInterval); err != nil {
		return view{}, err
	}
	v := view{seg: s, offsets: s.offsets, times: s.times, window: s.windowOf(from), newest: -1, limit: maxOffset, from: -1, log: l}
	switch {
	case v.next <= limit:
	case s == l.visible.seg && limit == l.visible.offset:
		v.end, v.next = l.visible.pos, limit
	default:
		v.limit = limit
	}
	if s.next <= limit { // else the largest may be that of a batch which is not to be seen yet
		v.newest = s.maxTime
	}
	if i, ok := l.tail.find(from); ok && l.tail.at(i).seg == s {
		v.from = l.tail.at(i).pos
	}
	s.acquire()
	return v, nil
}

// segmentOf gives the segment that holds the offset: the last that begins at or below it, or the one after if it ends before. (Compaction leaves
// the last batch of a segment, so that each ends where the next begins.)
func (l *Log) segmentOf(offset int64) *segment {
	i := sort.Search(len(l.segs), func(i int) bool { return l.segs[i].base > offset }) - 1
	if i < 0 {
		i = 0
	}
	for ; i < len(l.segs); i++ {
		if l.segs[i].next > offset {
			return l.segs[i]
		}
	}
	return nil
}

// read finds the range. Its cost is a search in the index and a few headers, whatever its length.
func (v *view) read(from, max int64, whole bool) (Range, error) {
	start, size, next, err := v.locate(from)
	if err != nil {
		return Range{}, err
	}
	if size > max && !whole {
		return Range{}, nil
	}
	r := Range{File: v.seg.file, Pos: start, Len: size, Next: next, from: from, seg: v.seg}
	switch {
	case size > max:
	case v.limit == maxOffset && v.end-start <= max:
		r.Len, r.Next = v.end-start, v.next
	default:
		end, after, err := v.extend(start, size, next, max)
		if err != nil {
			return Range{}, err
		}
		r.Len, r.Next = end-start, after
	}
	return r, nil
}

// locate finds the batch that holds the offset, or the next one after a gap. io.EOF: it ends above the limit.
func (v *view) locate(from int64) (pos, size, next int64, err error) {
	if v.from >= 0 {
		return v.walkTo(from, v.from, nil)
	}
	e, ok, err := v.offsets.floorOffset(v.seg.rel(from))
	if err != nil {
		return 0, 0, 0, storageError("read offset index", err)
	}
	if ok && int64(e.pos) >= v.pos {
		pos, size, next, err = v.walkTo(from, int64(e.pos), &e)
		if !errors.Is(err, errWrongIndex) {
			return pos, size, next, err
		}
	}
	return v.walkTo(from, v.pos, nil)
}

// errWrongIndex: the batch that an index entry names does not stand where it says. That costs a longer walk and nothing else.
var errWrongIndex = errors.New("wrong index entry")

// walkTo goes over the headers from the batch at a position, which is that of e if there is one, to the batch that holds the offset or is the first
// behind it. No checksum covers a batch's offset, so each must follow the one before.
func (v *view) walkTo(from, at int64, e *offsetEntry) (pos, size, next int64, err error) {
	w := newWalker(v.seg.file, at, v.end)
	defer w.close()
	expected := int64(-1)
	if at == v.pos {
		expected = v.base
	}
	for {
		h, pos, size, err := w.next()
		if e != nil && !errors.Is(err, ErrStorage) && (err != nil || !v.names(e, h)) {
			return 0, 0, 0, errWrongIndex
		}
		e = nil
		switch {
		case errors.Is(err, io.EOF):
			return 0, 0, 0, &badBatch{v.end, fmt.Sprintf("the segment ends before offset %d", from)}
		case err != nil:
			return 0, 0, 0, err
		case expected >= 0 && !v.seg.follows(h, expected), h.BaseOffset() > from && h.BaseOffset() > v.seg.gaps:
			return 0, 0, 0, &badBatch{pos, fmt.Sprintf("offset %d where %d was expected", h.BaseOffset(), max(expected, from))}
		case h.LastOffset() < from:
			expected = h.NextOffset()
			continue
		case h.NextOffset() > v.limit:
			return 0, 0, 0, io.EOF
		}
		return pos, size, h.NextOffset(), nil
	}
}

func (v *view) names(e *offsetEntry, h kproto.Batch) bool {
	return h.LastOffset() == v.seg.base+int64(e.rel)
}

// extend goes from the first batch as far as max and limit allow.
func (v *view) extend(start, size, next, max int64) (end, after int64, err error) {
	limitRel := uint32(math.MaxUint32)
	if v.limit != maxOffset {
		limitRel = v.seg.rel(v.limit)
	}
	e, ok, err := v.offsets.floorPosition(uint32(min(start+max, math.MaxUint32)), limitRel)
	if err != nil {
		return 0, 0, storageError("read offset index", err)
	}
	if ok && int64(e.pos) > start+size {
		end, after, err = v.extendFrom(start, int64(e.pos), next, max, &e)
		if !errors.Is(err, errWrongIndex) {
			return end, after, err
		}
	}
	return v.extendFrom(start, start+size, next, max, nil)
}

// extendFrom goes on from the batch at a position, which is that of e if there is one; else the batch before it ends at next.
func (v *view) extendFrom(start, at, next, max int64, e *offsetEntry) (end, after int64, err error) {
	end, after = at, next
	w := newWalker(v.seg.file, at, v.end)
	defer w.close()
	for {
		h, pos, size, err := w.next()
		switch {
		case errors.Is(err, ErrStorage):
			return 0, 0, err
		case e != nil && (err != nil || !v.names(e, h)):
			return 0, 0, errWrongIndex
		case err != nil:
			return end, after, nil // the end, or damage, which whoever reads on will meet
		case e != nil:
			after, e = h.BaseOffset(), nil
		}
		if pos+size-start > max || h.NextOffset() > v.limit {
			return end, after, nil
		}
		end, after = pos+size, h.NextOffset()
	}
}

// explain turns the walk's errors into the reader's.
func (v *view) explain(err error) error {
	var bad *badBatch
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &bad):
		v.log.noteBad(v.seg, bad)
		return fmt.Errorf("%w: %s %w", ErrDamaged, v.seg.path(logSuffix), bad)
	}
	return err
}

// ReadBytes is Read into memory, for replay and tests: it appends to dst.
func (l *Log) ReadBytes(dst []byte, from, limit int64, max int) (b []byte, next int64, err error) {
	r, err := l.Read(from, limit, max, true)
	if err != nil || r.Len == 0 {
		return dst, from, err
	}
	defer r.Release()
	n := len(dst)
	dst = append(dst, make([]byte, r.Len)...)
	if _, err := r.File.ReadAt(dst[n:], r.Pos); err != nil {
		return dst[:n], from, storageError("read "+r.File.Name(), err)
	}
	return dst, r.Next, nil
}
