package log

import (
	"errors"
	"io"
	"sync"

	"sluice/kproto"
)

// tally is how many batches with records for an application each block of a segment has. Offsets do not tell that, as they tell the number of records, and no
// file does: it is learned from the batches that are appended and from those whose headers are read for whatever reason, in any order and as often as may be.
//
// It lives as long as the segment's files are open, so an idle partition has none.
type tally struct {
	mu     sync.Mutex
	blocks []blockTally // by position / tallyBlock, as far as anything is known
}

// tallyBlock is how many bytes of a segment are counted together: of a range the rest of the first and the beginning of the last block are read, and
// a GB takes 192 kB of memory at 6 bytes a block.
const tallyBlock = 32 << 10

// blockTally counts the batches that begin in a block, one after another from the first on. The zero blockTally knows nothing.
type blockTally struct {
	first uint16 // where in the block the first one begins, plus one; tallyBlock+1: none does
	until uint16 // where in the block the next one begins that is not counted yet; tallyBlock: all are
	n     uint16 // those counted
}

// begin notes where the first batch begins.
func (b *blockTally) begin(at int64) {
	if b.first == 0 {
		b.first, b.until = uint16(at)+1, uint16(at)
	}
}

// counts tells whether a batch is one that a tally counts: a fetch that is given it gets a record at least.
func counts(h kproto.Batch) bool { return h.Count() > 0 && !h.Control() }

// add takes in a batch. It is counted when all that begin before it in its block are; where it ends says where the first of the next block begins.
func (t *tally) add(pos, size int64, counted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, end := pos/tallyBlock, pos+size
	for int64(len(t.blocks)) <= end/tallyBlock {
		t.blocks = append(t.blocks, blockTally{})
	}
	b := &t.blocks[k]
	if pos == 0 {
		b.begin(0)
	}
	if b.first != 0 && int64(b.until) == pos-k*tallyBlock {
		b.until = uint16(min(end-k*tallyBlock, tallyBlock))
		if counted {
			b.n++
		}
	}
	for k++; k <= end/tallyBlock; k++ {
		t.blocks[k].begin(min(end-k*tallyBlock, tallyBlock))
	}
}

// between is how many batches count in a range from the first that begins in a later block than the range does to the first of the block in which it ends, and
// where these two begin. It is not known of a range within one block.
func (t *tally) between(from, to int64) (n, first, last int64, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, end := from/tallyBlock+1, to/tallyBlock
	if k > end || end >= int64(len(t.blocks)) || t.blocks[end].first == 0 {
		return 0, 0, 0, false
	}
	last = end*tallyBlock + int64(t.blocks[end].first) - 1
	first = last
	for i := end - 1; i >= k; i-- {
		b := t.blocks[i]
		if b.until != tallyBlock {
			return 0, 0, 0, false
		}
		if b.first <= tallyBlock {
			first = i*tallyBlock + int64(b.first) - 1
		}
		n += int64(b.n)
	}
	return n, first, last, last <= to
}

// forget gives the memory back.
func (t *tally) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.blocks = nil
}

// Batches is how many batches of the range have records for an application. known is false where the headers of all must be read to tell; for a short
// range that is no loss.
func (r *Range) Batches() (n int64, known bool) {
	if r.seg == nil {
		return 0, r.Len == 0
	}
	n, first, last, known := r.seg.tally.between(r.Pos, r.Pos+r.Len)
	if !known {
		return 0, false
	}
	for _, x := range []span{{r.Pos, first}, {last, r.Pos + r.Len}} {
		more, err := r.count(x)
		if err != nil {
			return 0, false // Trim meets that again and says it
		}
		n += more
	}
	if r.hides() {
		n--
	}
	return n, true
}

// count reads the headers of a part of the range. It ends with a batch, or that is an error.
func (r *Range) count(x span) (n int64, err error) {
	w := newWalker(r.File, x.from, x.to)
	defer w.close()
	err = eachHeader(&w, func(h kproto.Batch) {
		if counts(h) {
			n++
		}
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}
