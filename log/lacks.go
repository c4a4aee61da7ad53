package log

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"sluice/kproto"
)

// An offset is a record, so how many records a range has need not be read: it is the difference of two offsets. It is less where offsets have no
// record for an application: in control batches, and where compaction was. lacks remembers the first of these; where compaction has been, headers must be read.
//
// Every batch of a segment is looked at before it is given out for the first time: when it is appended, recovered or first checked. So what is not
// noted here by then is as said.
type lacks struct {
	some atomic.Bool // there is something to look for; without it there is no need for the lock

	mu   sync.Mutex // guards what follows
	list []lack     // by position
	many bool       // there are more than maxLacks, or some that cannot be counted: nothing is known
}

// lack is a batch that has fewer records for an application than offsets.
type lack struct {
	pos int64 // where it begins
	n   int64 // offsets without
}

// maxLacks bounds what is remembered of a segment, at 16 bytes each: as many transactions may end in it.
const maxLacks = 1024

// lackOf is how many of a batch's offsets have no record for an application; below zero: that is not to be had from its header.
func lackOf(h kproto.Batch) int64 {
	offsets := int64(h.LastOffsetDelta()) + 1
	if h.Control() {
		return offsets
	}
	return offsets - int64(h.Count())
}

// add takes in a batch. Nothing changes if it is known: where a batch was taken back, its segment gets no other.
func (k *lacks) add(pos, n int64) {
	if n == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.some.Store(true)
	i, known := k.search(pos)
	switch {
	case known || k.many:
	case n < 0 || len(k.list) == maxLacks:
		k.list, k.many = nil, true
	default:
		k.list = slices.Insert(k.list, i, lack{pos, n})
	}
}

func (k *lacks) search(pos int64) (int, bool) {
	return slices.BinarySearchFunc(k.list, pos, func(x lack, pos int64) int { return cmp.Compare(x.pos, pos) })
}

// between is how many offsets lack a record in the batches from one position to another. It is not known if there are too many, or if the
// first batch is one of them: what a fetch into it gets depends on more.
func (k *lacks) between(from, to int64) (n int64, known bool) {
	if !k.some.Load() {
		return 0, true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	i, first := k.search(from)
	if k.many || first {
		return 0, false
	}
	for ; i < len(k.list) && k.list[i].pos < to; i++ {
		n += k.list[i].n
	}
	return n, true
}

// Records is how many records the range has for an application that asked for the offset that it was read from. known is false
// where that cannot be told without reading headers.
func (r *Range) Records() (n int64, known bool) {
	if r.seg == nil {
		return 0, r.Len == 0
	}
	if r.from < r.seg.gaps {
		return 0, false
	}
	n, known = r.seg.lacks.between(r.Pos, r.Pos+r.Len)
	return r.Next - r.from - n, known
}
