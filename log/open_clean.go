package log

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"sluice/kproto"
)

// openSealed takes a segment that was sealed before the last stop; its indexes are opened when they are needed.
func (s *segment) openSealed() error {
	size, err := s.fileSize()
	if err != nil {
		return err
	}
	s.size, s.synced, s.sealed = size, size, true
	s.checks.need(size)
	return nil
}

var errNotClean = errors.New("not as a clean stop leaves it")

// openClean loads the last segment after a clean stop: its indexes and the producers, from the mark of the stop or else from side files, and the few headers
// after the last index entry.
func (l *Log) openClean() error {
	s := l.active()
	last, err := l.dir.last.find(slotKey{l.id, l.partition})
	switch {
	case errors.Is(err, ErrStorage):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errNotClean, err)
	case last != nil && last.entry.base != s.base:
		return fmt.Errorf("%w: the last segment is %s, it was that of offset %d", errNotClean, s.path(logSuffix), last.entry.base)
	case last != nil:
		s.listed = &last.entry
	}
	if err := s.openSealed(); err != nil {
		return err
	}
	if err := s.open(os.O_RDWR); err != nil {
		return err
	}
	s.sealed = false
	if e := s.listed; e != nil {
		s.listed = nil // it will be longer
		if s.other = s.isOther(e); s.other {
			return fmt.Errorf("%w: %s is not the segment that was there", errNotClean, s.path(logSuffix))
		}
		s.head, s.sum, s.summed = e.head, e.sum, e.size == s.size && s.size > 0
	}
	if last != nil {
		s.useLast(last)
	} else if err := s.loadIndexes(); err != nil {
		return fmt.Errorf("%w: %w", errNotClean, err)
	}
	var from int64
	if n := len(s.offsets.mem); n > 0 {
		from = int64(s.offsets.mem[n-1].pos)
	}
	newest, err := s.walkTail(from)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotClean, err)
	}
	l.end, l.durable = s.next, s.next
	l.visible = visible{s.next, s, s.size}
	l.recovery = s.base
	if last != nil {
		l.producers = last.producers
		l.epochsDirty = l.epochsSum == 0 || !slices.Equal(l.epochs, last.epochs)
		l.epochs = last.epochs
		return nil
	}
	if newest > l.epochs.last() { // the checkpoint is lost
		if err := s.eachHeader(func(h kproto.Batch) { l.epochs.assign(h.LeaderEpoch(), h.BaseOffset()) }); err != nil {
			return err
		}
		l.epochsDirty = true
	}
	return l.loadProducers(l.segs, l.end)
}

// useLast takes the indexes of a segment from the mark of a clean stop.
func (s *segment) useLast(x *lastSegment) {
	s.offsets, s.times = offsets{mem: x.offsets}, times{mem: x.times}
	if n := len(x.times); n > 0 {
		s.maxTime, s.maxTimeOffset = x.times[n-1].time, s.base+int64(x.times[n-1].rel)
	}
}

// loadIndexes reads the index files of a segment that will be appended to into memory.
func (s *segment) loadIndexes() error {
	if err := func() error { s.sealed = true; defer func() { s.sealed = false }(); return s.openIndexes(0) }(); err != nil {
		return err
	}
	o, t := s.offsets, s.times
	s.offsets, s.times = offsets{}, times{}
	defer s.gave(o.files() + t.files())
	defer closeAll(o.file, t.file)
	for i := range o.len() {
		e, err := o.at(i)
		if err != nil {
			return err
		}
		s.offsets.mem = append(s.offsets.mem, e)
	}
	for i := range t.len() {
		e, err := t.at(i)
		if err != nil {
			return err
		}
		s.times.mem = append(s.times.mem, e)
	}
	return nil
}

// walkTail goes over the headers from a batch's position to the end, which must be a batch's end. It gives the last one's leader epoch, -1 if there is none.
func (s *segment) walkTail(from int64) (epoch int32, err error) {
	if s.size > 0 {
		first := newWalker(s.file, 0, s.size)
		h, _, _, err := first.next()
		if err == nil {
			s.firstTime = h.MaxTimestamp()
		}
		first.close()
	}
	w := newWalker(s.file, from, s.size)
	defer w.close()
	for epoch = -1; ; {
		h, pos, size, err := w.next()
		if errors.Is(err, io.EOF) {
			return epoch, nil
		}
		if err != nil {
			return -1, err
		}
		s.next, epoch = h.NextOffset(), h.LeaderEpoch()
		s.sinceIndex = pos + size - from
		if h.MaxTimestamp() > s.maxTime && h.Count() > 0 {
			s.maxTime, s.maxTimeOffset = h.MaxTimestamp(), h.LastOffset()
		}
	}
}
