package log

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// walkBlock is how much a walker reads at a time: a few small batches' headers, or one of a large batch. Who goes on for longer than from one index
// entry to the next is likely to go far, and is given longWalk at a time.
const (
	walkBlock = 4 << 10
	longWalk  = 32 << 10
)

// batchOverhead is the part of a batch before what its length field counts.
const batchOverhead = 12

// badBatch is why bytes at a position are not a batch.
type badBatch struct {
	pos    int64
	reason string
}

func (e *badBatch) Error() string { return fmt.Sprintf("at position %d: %s", e.pos, e.reason) }

// walker goes over the headers of the batches of a file, with one pooled block and no allocation.
type walker struct {
	file  vfs.File
	pos   int64 // of the next header
	end   int64 // bytes that belong to the walk
	block *[longWalk]byte
	at    int64 // file position of block
	n     int   // valid bytes in block
	last  int64 // size of the last batch
	fills int
}

var walkBlocks = sync.Pool{New: func() any { return new([longWalk]byte) }}

func newWalker(file vfs.File, pos, end int64) walker {
	return walker{file: file, pos: pos, end: end, block: walkBlocks.Get().(*[longWalk]byte)}
}

func (w *walker) close() { walkBlocks.Put(w.block) }

// next gives the next header (kproto.HeaderSize bytes, valid until the next call), its position and the size of its batch. At the end it
// returns io.EOF; where the bytes are no whole batch, a *badBatch.
func (w *walker) next() (h kproto.Batch, pos, size int64, err error) {
	if w.pos >= w.end {
		return nil, 0, 0, io.EOF
	}
	if w.end-w.pos < kproto.HeaderSize {
		return nil, 0, 0, &badBatch{w.pos, "fewer bytes than a batch header"}
	}
	if w.pos < w.at || w.pos+kproto.HeaderSize > w.at+int64(w.n) {
		if err := w.fill(); err != nil {
			return nil, 0, 0, err
		}
	}
	off := w.pos - w.at
	h = kproto.Batch(w.block[off : off+kproto.HeaderSize])
	size = int64(h.Length()) + batchOverhead
	if reason := headerFault(h, size, w.end-w.pos); reason != "" {
		return nil, 0, 0, &badBatch{w.pos, reason}
	}
	pos = w.pos
	w.pos += size
	w.last = size
	return h, pos, size, nil
}

func (w *walker) fill() error {
	want := min(walkBlock, w.end-w.pos)
	switch w.fills++; {
	case w.last >= walkBlock: // the next batch is likely to be as large: only its header is of use
		want = kproto.HeaderSize
	case w.fills > 2:
		want = min(longWalk, w.end-w.pos)
	}
	n, err := w.file.ReadAt(w.block[:want], w.pos)
	if n < kproto.HeaderSize {
		if err == nil || errors.Is(err, io.EOF) {
			return &badBatch{w.pos, "the file ends inside a batch header"}
		}
		return storageError("read "+w.file.Name(), err)
	}
	w.at, w.n = w.pos, n
	return nil
}

// headerFault checks what must hold for any stored batch header with left bytes from its beginning on.
func headerFault(h kproto.Batch, size, left int64) string {
	switch {
	case size < kproto.HeaderSize:
		return fmt.Sprintf("batch length %d is less than a header", h.Length())
	case size > left:
		return fmt.Sprintf("batch of %d bytes in %d", size, left)
	case h.Magic() != 2:
		return fmt.Sprintf("magic %d", h.Magic())
	case h.BaseOffset() < 0 || h.LastOffsetDelta() < 0:
		return "negative offset"
	}
	return ""
}

// readBatch reads a whole batch into dst's room and checks its CRC.
func readBatch(file vfs.File, pos, size int64, dst []byte) (kproto.Batch, error) {
	if int64(cap(dst)) < size {
		dst = make([]byte, size)
	}
	dst = dst[:size]
	if _, err := file.ReadAt(dst, pos); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, &badBatch{pos, "the file ends inside a batch"}
		}
		return nil, storageError("read "+file.Name(), err)
	}
	b := kproto.Batch(dst)
	if !b.ValidCRC() {
		return nil, &badBatch{pos, "CRC does not match"}
	}
	return b, nil
}
