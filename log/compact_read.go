package log

import (
	"errors"
	"fmt"
	"io"

	"sluice/kproto"
)

// cleanerBlock is how much of a segment the cleaner reads and writes at a time (log.cleaner.io.buffer.size of Kafka), in bytes.
const cleanerBlock = 512 << 10

// sealedReader reads a sealed segment's batches in order, whole and checked, through one block of memory that grows for a batch that is larger.
type sealedReader struct {
	seg      *segment
	spend    func(n int) error // the I/O budget
	buf      []byte
	at       int64 // file position of buf
	pos      int64 // of the next batch
	expected int64
}

// read begins with a segment. The buffer is that of the one before.
func (r *sealedReader) read(s *segment) {
	r.seg, r.at, r.pos, r.expected = s, 0, 0, s.base
	r.buf = r.buf[:0]
}

// next gives the next batch, valid until the next call, and its position. At the end, which must be where the segment ends, the error is io.EOF; a
// *badBatch where the bytes are not what was written.
func (r *sealedReader) next() (kproto.Batch, int64, error) {
	if r.pos == r.seg.size {
		if r.expected != r.seg.next && r.seg.next != maxOffset {
			return nil, 0, &badBatch{r.pos, fmt.Sprintf("the segment ends at offset %d and should end at %d", r.expected, r.seg.next)}
		}
		return nil, 0, io.EOF
	}
	if r.seg.size-r.pos < kproto.HeaderSize {
		return nil, 0, &badBatch{r.pos, "fewer bytes than a batch header"}
	}
	head, err := r.have(kproto.HeaderSize)
	if err != nil {
		return nil, 0, err
	}
	h := kproto.Batch(head)
	size := int64(h.Length()) + batchOverhead
	if reason := headerFault(h, size, r.seg.size-r.pos); reason != "" {
		return nil, 0, &badBatch{r.pos, reason}
	}
	if !r.seg.follows(h, r.expected) {
		return nil, 0, &badBatch{r.pos, fmt.Sprintf("offset %d where %d was expected", h.BaseOffset(), r.expected)}
	}
	whole, err := r.have(int(size))
	if err != nil {
		return nil, 0, err
	}
	b, pos := kproto.Batch(whole), r.pos
	if !b.ValidCRC() {
		return nil, 0, &badBatch{pos, "CRC does not match"}
	}
	r.pos += size
	r.expected = b.NextOffset()
	return b, pos, nil
}

// have gives the n bytes at pos.
func (r *sealedReader) have(n int) ([]byte, error) {
	if skip := int(r.pos - r.at); skip > len(r.buf) || skip+n > len(r.buf) {
		if err := r.fill(n); err != nil {
			return nil, err
		}
	}
	skip := int(r.pos - r.at)
	return r.buf[skip : skip+n : skip+n], nil
}

func (r *sealedReader) fill(n int) error {
	want := int(min(int64(max(n, cleanerBlock)), r.seg.size-r.pos))
	if cap(r.buf) < want {
		r.buf = make([]byte, want)
	}
	r.buf, r.at = r.buf[:want], r.pos
	if err := r.spend(want); err != nil {
		return err
	}
	got, err := r.seg.file.ReadAt(r.buf, r.at)
	switch {
	case got == want:
		return nil
	case errors.Is(err, io.EOF):
		return &badBatch{r.pos, "the file is shorter than it was"}
	}
	return storageError("read "+r.seg.path(logSuffix), err)
}
