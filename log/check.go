package log

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"sluice/internal/vfs"
	"sluice/kproto"
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
	good, next, err := v.seg.check(r.Pos, r.Pos+r.Len)
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

// check holds whole batches against their CRCs and the order of their offsets. It gives where the good ones end, the offset after them, and why: a *badBatch,
// ErrStorage, or nil at the end.
func (s *segment) check(from, to int64) (good, next int64, err error) {
	block := crcBlocks.Get().(*[crcBlock]byte)
	defer crcBlocks.Put(block)
	c := blockReader{file: s.file, end: to, block: block[:]}
	next = -1
	for good = from; good < to; {
		h, size, err := c.header(good)
		switch {
		case err != nil:
			return good, next, err
		case next >= 0 && !s.follows(h, next):
			return good, next, &badBatch{good, fmt.Sprintf("offset %d where %d was expected", h.BaseOffset(), next)}
		}
		after, lack, counted := h.NextOffset(), lackOf(h), counts(h) // the block may hold other bytes below
		if err := c.checkBatch(good, size); err != nil {
			return good, next, err
		}
		s.lacks.add(good, lack)
		s.tally.add(good, size, counted)
		good, next = good+size, after
	}
	return good, next, nil
}

// blockReader reads batches of a file through one block of memory, many small ones at a time.
type blockReader struct {
	file  vfs.File
	end   int64 // bytes that belong to the walk
	block []byte
	at    int64 // file position of have
	have  []byte
}

// bytes gives n bytes at a position, or what there is of them. n is at most the block's size.
func (c *blockReader) bytes(pos, n int64) ([]byte, error) {
	n = min(n, c.end-pos)
	if pos < c.at || pos+n > c.at+int64(len(c.have)) {
		got, err := c.file.ReadAt(c.block[:min(int64(len(c.block)), c.end-pos)], pos)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, storageError("read "+c.file.Name(), err)
		}
		c.at, c.have = pos, c.block[:got]
	}
	off := pos - c.at
	return c.have[off:min(off+n, int64(len(c.have)))], nil
}

func (c *blockReader) header(pos int64) (kproto.Batch, int64, error) {
	b, err := c.bytes(pos, kproto.HeaderSize)
	if err != nil {
		return nil, 0, err
	}
	if len(b) < kproto.HeaderSize {
		return nil, 0, &badBatch{pos, "fewer bytes than a batch header"}
	}
	h := kproto.Batch(b)
	size := int64(h.Length()) + batchOverhead
	if reason := headerFault(h, size, c.end-pos); reason != "" {
		return nil, 0, &badBatch{pos, reason}
	}
	return h, size, nil
}

func (c *blockReader) checkBatch(pos, size int64) error {
	if size > int64(len(c.block)) {
		return checkCRC(c.file, pos, size)
	}
	b, err := c.bytes(pos, size)
	switch {
	case err != nil:
		return err
	case int64(len(b)) < size:
		return &badBatch{pos, "the file ends inside a batch"}
	case !kproto.Batch(b).ValidCRC():
		return &badBatch{pos, "CRC does not match"}
	}
	return nil
}
