package log

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"sluice/kproto"
)

// transactions are what the control batches of a part of a log say about the data there. The log itself is asked, and no index, since whatever is
// to be cleaned is read anyway.
type transactions struct {
	aborted  map[int64][]offsetSpan // by producer id, ascending
	unstable int64                  // first offset of the first transaction that has not ended; maxOffset if there is none
	records  int64                  // upper bound of the records in the part

	open map[int64]int64 // first offset of the transaction of each producer id
}

// offsetSpan is a transaction's first offset and that of its marker.
type offsetSpan struct{ first, marker int64 }

// scanTransactions reads the headers of segments of the log, which are those to be cleaned and then all that follow, up to the offset end. Of
// the latter it reads only what it needs to see each transaction end.
func scanTransactions(l *Log, segs []sized, clean int, end int64, spend func(int) error) (*transactions, error) {
	t := &transactions{aborted: map[int64][]offsetSpan{}, open: map[int64]int64{}, unstable: maxOffset}
	for i, s := range segs {
		if i >= clean && len(t.open) == 0 {
			break
		}
		release, err := l.borrow(s.seg)
		if err != nil {
			return nil, err
		}
		err = t.scan(s, i < clean, end, spend)
		release()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.seg.path(logSuffix), err)
		}
	}
	for _, first := range t.open {
		t.unstable = min(t.unstable, first)
	}
	return t, nil
}

// sized is a segment and its size when it was looked at.
type sized struct {
	seg  *segment
	size int64
}

func (t *transactions) scan(s sized, clean bool, end int64, spend func(int) error) error {
	w := newWalker(s.seg.file, 0, s.size)
	defer w.close()
	for {
		h, pos, size, err := w.next()
		if errors.Is(err, io.EOF) || err == nil && h.NextOffset() > end {
			return nil
		}
		if err != nil {
			return err
		}
		if err := spend(kproto.HeaderSize); err != nil {
			return err
		}
		if clean {
			t.records += int64(h.Count())
		}
		if err := t.note(s.seg, h, pos, size, clean); err != nil {
			return err
		}
		if !clean && len(t.open) == 0 {
			return nil
		}
	}
}

// note takes a batch in. A transaction that begins behind what is to be cleaned is of no interest.
func (t *transactions) note(s *segment, h kproto.Batch, pos, size int64, clean bool) error {
	id := h.ProducerID()
	first, open := t.open[id]
	switch {
	case h.Control():
		if !open {
			return nil
		}
		b, err := readBatch(s.file, pos, size, nil)
		if err != nil {
			return err
		}
		m, ok, err := b.EndMarker()
		if err != nil || !ok {
			return err
		}
		delete(t.open, id)
		if !m.Commit {
			t.aborted[id] = append(t.aborted[id], offsetSpan{first, b.BaseOffset()})
		}
	case h.Transactional() && clean && !open:
		// A bit that rotted must not make a transaction that never ends.
		if _, err := readBatch(s.file, pos, size, nil); err != nil {
			return err
		}
		t.open[id] = h.BaseOffset()
	}
	return nil
}

// isAborted tells whether a data batch belongs to an aborted transaction.
func (t *transactions) isAborted(h kproto.Batch) bool {
	if !h.Transactional() || h.Control() {
		return false
	}
	spans := t.aborted[h.ProducerID()]
	i := sort.Search(len(spans), func(i int) bool { return spans[i].marker > h.BaseOffset() })
	return i < len(spans) && spans[i].first <= h.BaseOffset()
}
