package log

import (
	"errors"
	"fmt"
	"io"
	"os"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// Survey is what is in a partition's directory that Apache Kafka wrote.
type Survey struct {
	Segments   int   `json:"segments"`
	Batches    int64 `json:"batches"`
	Records    int64 `json:"records"` // without control records; below the log start there may be some
	Bytes      int64 `json:"bytes"`
	Start      int64 `json:"start"` // log start offset
	End        int64 `json:"end"`   // offset after the last record
	Epoch      int32 `json:"leaderEpoch"`
	ProducerID int64 `json:"producerId"` // the highest, -1 if there is none
	Aborted    int64 `json:"aborted"`    // records of transactions that were aborted
	Open       int64 `json:"open"`       // records of transactions that have not ended

	partition KafkaPartition
	bases     []int64 // of the segments from the log start on
	txns      *transactions
	gaps      int64 // offsets below it are missing, here and there
	epochs    epochs
	buf       []byte
	inTxn     map[int64]int64 // records of the transaction under way of each producer id
	seen      epochs          // as the batches say
	checked   bool            // Kafka's checkpoint, in epochs, agrees with the batches
}

// Survey reads every byte of the partition, and writes nothing. What a broker of Kafka could not have written is an error that is ErrDamaged and names file, position
// and offset.
func (p KafkaPartition) Survey() (*Survey, error) {
	s := &Survey{
		partition: p, Start: p.start, Epoch: -1, ProducerID: -1, inTxn: map[int64]int64{},
		txns: &transactions{aborted: map[int64][]offsetSpan{}, open: map[int64]int64{}},
	}
	if p.ID.IsZero() {
		return nil, fmt.Errorf("%s: %w: %s is missing or names no topic id", p.Path, ErrDamaged, metadataFile)
	}
	entries, err := p.fs.ReadDir(p.Path)
	if err != nil {
		return nil, err
	}
	s.take(segmentBases(entries))
	es, _, err := readEpochs(p.fs, p.Path)
	s.epochs, s.checked = es, err == nil
	for i, base := range s.bases {
		next := int64(maxOffset)
		if i+1 < len(s.bases) {
			next = s.bases[i+1]
		}
		if err := s.segment(base, next); err != nil {
			return nil, err
		}
	}
	return s, s.finish()
}

// take leaves out the segments below the log start, which Kafka was about to delete.
func (s *Survey) take(bases []int64) {
	for len(bases) > 1 && bases[1] <= s.Start {
		bases = bases[1:]
	}
	s.bases, s.Segments, s.End = bases, len(bases), s.Start
	if len(bases) > 0 {
		s.Start, s.End = max(s.Start, bases[0]), bases[0]
	}
}

func (s *Survey) finish() error {
	s.buf = nil // as large as the largest batch, and there may be many surveys
	for id := range s.txns.open {
		s.Open += s.inTxn[id]
	}
	if !s.checked {
		s.epochs = s.seen
	}
	for len(s.epochs) > 0 && s.epochs[len(s.epochs)-1].start >= s.End { // of a leader that wrote nothing
		s.epochs = s.epochs[:len(s.epochs)-1]
	}
	if s.End < s.Start {
		return fmt.Errorf("%s: %w: the log starts at offset %d, and ends at %d", s.partition.Path, ErrDamaged, s.Start, s.End)
	}
	return nil
}

// openKafka opens a segment for reading.
func (s *Survey) open(base int64) (*segment, int64, error) {
	seg := newSegment(s.partition.fs, s.partition.Path, base)
	var err error
	if seg.file, err = seg.fs.OpenFile(seg.path(logSuffix), os.O_RDONLY, 0); err != nil {
		return nil, 0, err
	}
	size, err := seg.file.Size()
	if err == nil && size > maxSegmentBytes {
		err = fmt.Errorf("%s: %w: %d bytes are more than a segment has", seg.path(logSuffix), ErrDamaged, size)
	}
	if err != nil {
		seg.release()
		return nil, 0, err
	}
	return seg, size, nil
}

// segment reads the batches of one segment; the next one begins at the offset next.
func (s *Survey) segment(base, next int64) error {
	seg, size, err := s.open(base)
	if err != nil {
		return err
	}
	defer seg.release()
	s.Bytes += size
	s.missing(base)
	w := newWalker(seg.file, 0, size)
	defer w.close()
	for {
		h, pos, n, err := w.next()
		if errors.Is(err, io.EOF) {
			if next != maxOffset {
				s.missing(next)
			}
			return nil
		}
		if err == nil {
			err = s.batch(seg, h, pos, n, next)
		}
		if err != nil {
			return s.spoiled(seg, err)
		}
	}
}

// missing takes note of the offsets up to the one given that no batch has: compaction took them.
func (s *Survey) missing(offset int64) {
	if s.End < offset {
		s.End, s.gaps = offset, offset
	}
}

// batch takes one batch in.
func (s *Survey) batch(seg *segment, h kproto.Batch, pos, size, next int64) error {
	switch base := h.BaseOffset(); {
	case base < s.End:
		return &badBatch{pos, fmt.Sprintf("offset %d where %d was expected", base, s.End)}
	case h.LastOffset() >= next:
		return &badBatch{pos, fmt.Sprintf("offsets up to %d, and the next segment begins at %d", h.LastOffset(), next)}
	case h.LeaderEpoch() < s.seen.last():
		return &badBatch{pos, fmt.Sprintf("leader epoch %d after %d", h.LeaderEpoch(), s.seen.last())}
	}
	b, err := readBatch(seg.file, pos, size, s.buf)
	if err != nil {
		return err
	}
	s.buf = b
	if err := s.transaction(seg, b, pos, size); err != nil {
		return err
	}
	s.missing(b.BaseOffset())
	s.seen.assign(b.LeaderEpoch(), b.BaseOffset())
	s.checked = s.checked && s.epochs.at(b.BaseOffset()) == b.LeaderEpoch()
	s.Epoch, s.ProducerID = s.seen.last(), max(s.ProducerID, b.ProducerID())
	s.Batches++
	s.End = b.NextOffset()
	return nil
}

// transaction counts the batch's records, and those of an aborted transaction that it ends.
func (s *Survey) transaction(seg *segment, b kproto.Batch, pos, size int64) error {
	id := b.ProducerID()
	_, was := s.txns.open[id]
	aborted := len(s.txns.aborted[id])
	if err := s.txns.note(seg, b, pos, size, true); err != nil {
		return fmt.Errorf("%w: %s at position %d: %w", ErrDamaged, seg.path(logSuffix), pos, err)
	}
	if !b.Control() {
		s.Records += int64(b.Count())
	}
	if b.Transactional() && !b.Control() {
		s.inTxn[id] += int64(b.Count())
	}
	if _, is := s.txns.open[id]; was && !is {
		if len(s.txns.aborted[id]) > aborted {
			s.Aborted += s.inTxn[id]
		}
		delete(s.inTxn, id)
	}
	return nil
}

// spoiled names the place of what is wrong in a segment.
func (s *Survey) spoiled(seg *segment, err error) error {
	var bad *badBatch
	if !errors.As(err, &bad) {
		return err
	}
	if magic, old := oldMagic(seg.file, bad.pos); old {
		bad.reason = fmt.Sprintf("message format v%d, which Kafka 4 no longer has: have Kafka 3 write the topic anew", magic)
	}
	err = fmt.Errorf("%s %w (offset %d): %w", seg.path(logSuffix), bad, s.End, ErrDamaged)
	if !s.partition.clean {
		err = fmt.Errorf("%w; Kafka was not stopped cleanly: start it and stop it once, then what was torn is set right", err)
	}
	return err
}

// oldMagic tells whether the bytes at a position may be a message of the formats before record batches.
func oldMagic(f vfs.File, pos int64) (int8, bool) {
	b := make([]byte, kproto.HeaderSize)
	n, _ := f.ReadAt(b, pos) // a short message is one too
	h := kproto.Batch(b)
	return h.Magic(), n > 16 && h.Length() > 0 && (h.Magic() == 0 || h.Magic() == 1)
}

// lost tells whether a batch belongs to a transaction that was aborted or has not ended.
func (s *Survey) lost(h kproto.Batch) bool {
	first, open := s.txns.open[h.ProducerID()]
	return s.txns.isAborted(h) || open && h.Transactional() && !h.Control() && h.BaseOffset() >= first
}

// EachRecord gives fn the records from the log start on, but for control records and those of transactions that did not commit.
func (s *Survey) EachRecord(fn func(kproto.Record) error) error {
	for _, base := range s.bases {
		seg, size, err := s.open(base)
		if err != nil {
			return err
		}
		err = s.eachOf(seg, size, fn)
		seg.release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Survey) eachOf(seg *segment, size int64, fn func(kproto.Record) error) error {
	w := newWalker(seg.file, 0, size)
	defer w.close()
	for {
		h, pos, n, err := w.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return s.spoiled(seg, err)
		}
		if h.Control() || s.lost(h) || h.NextOffset() <= s.Start {
			continue
		}
		b, err := readBatch(seg.file, pos, n, nil)
		if err != nil {
			return s.spoiled(seg, err)
		}
		var failed error
		err = b.EachRecord(func(r kproto.Record) bool {
			if r.Offset >= s.Start {
				failed = fn(r)
			}
			return failed == nil
		})
		if err = errors.Join(failed, err); err != nil {
			return fmt.Errorf("%s at position %d: %w", seg.path(logSuffix), pos, err)
		}
	}
}
