package log

import (
	"sync"

	"sluice/kproto"
)

// A fetch may begin in the middle of a batch, and some clients make it so wherever compaction took a batch's last records: they ask for the offset behind the
// last record that they got, and not for the one behind the batch. Its header then does not tell how many records are left for the client, often none. It is
// charged for what it gets, so they are counted.

// maxAsked bounds the batches that are read for that, in bytes: the default of max.message.bytes, roughly. Of a larger one the header counts.
const maxAsked = 1 << 20

var askedBuffers = sync.Pool{New: func() any { return new([]byte) }}

// asked is how many records the first batch of the range has at or beyond the offset that was asked for, or as many as its header says if that tells as
// much as is needed, or if they cannot be counted.
func (r *Range) asked(h Header) int32 {
	if h.Base >= r.from || h.Control || int64(h.Records) > h.Last-h.Base || h.Size > maxAsked {
		return h.Records
	}
	buf := askedBuffers.Get().(*[]byte)
	defer askedBuffers.Put(buf)
	if cap(*buf) < int(h.Size) {
		*buf = make([]byte, h.Size)
	}
	b := kproto.Batch((*buf)[:h.Size])
	if n, _ := r.File.ReadAt(b, r.Pos); n < len(b) {
		return h.Records // whoever sends it meets that again and says it
	}
	n, err := b.RecordsFrom(r.from)
	if err != nil {
		return h.Records
	}
	return n
}

// hides tells whether the first batch has records for an application, but none from the offset on that was asked for.
func (r *Range) hides() bool {
	if r.from >= r.seg.gaps {
		return false
	}
	w := newWalker(r.File, r.Pos, r.Pos+r.Len)
	defer w.close()
	h, _, _, err := w.next()
	return err == nil && counts(h) && r.asked(headerOf(h)) == 0
}
