package log

import (
	"bytes"
	"fmt"
	"os"

	"sluice/kproto"
)

// cleanedWriter writes a group of segments into one file beside them. A group of one is not written before there is a change.
type cleanedWriter struct {
	round   *round
	group   []*segment
	seg     *segment // has the base and in the end the name of the group's first
	changed bool
	buf     []byte // not yet written
	flushed int64  // bytes in the file
}

func newCleanedWriter(r *round, group []*segment) *cleanedWriter {
	return &cleanedWriter{
		round: r, group: group, changed: len(group) > 1,
		seg: r.log.newSegment(group[0].base),
	}
}

// take gets a batch of a source and what is left of it.
func (w *cleanedWriter) take(s *segment, pos int64, b, kept kproto.Batch) error {
	if !w.changed && !bytes.Equal(b, kept) {
		w.changed = true
		if err := w.copyBefore(s, pos); err != nil {
			return err
		}
	}
	if kept == nil {
		return nil
	}
	at, size := w.seg.size, int64(len(kept))
	if at+size > maxSegmentBytes {
		return fmt.Errorf("%w: what is left of %s is more than %d bytes in the codec's default level", ErrUncleanable, s.path(logSuffix), maxSegmentBytes)
	}
	w.seg.note(kept, at, size, w.round.cfg.IndexInterval)
	if !w.changed {
		return nil
	}
	w.buf = append(w.buf, kept...)
	if len(w.buf) < cleanerBlock {
		return nil
	}
	return w.flush()
}

// copyBefore copies what comes before the first change.
func (w *cleanedWriter) copyBefore(s *segment, end int64) error {
	block := make([]byte, min(cleanerBlock, end))
	for at := int64(0); at < end; {
		n := min(int64(len(block)), end-at)
		if err := w.round.spendRead(int(n)); err != nil {
			return err
		}
		if _, err := s.file.ReadAt(block[:n], at); err != nil {
			return storageError("read "+s.path(logSuffix), err)
		}
		w.buf = append(w.buf[:0], block[:n]...)
		if err := w.flush(); err != nil {
			return err
		}
		at += n
	}
	return nil
}

func (w *cleanedWriter) flush() error {
	if err := w.create(); err != nil || len(w.buf) == 0 {
		return err
	}
	if err := w.round.spend(len(w.buf)); err != nil {
		return err
	}
	if _, err := w.seg.file.WriteAt(w.buf, w.flushed); err != nil {
		return storageError("write "+w.seg.file.Name(), err)
	}
	w.flushed += int64(len(w.buf))
	w.round.done.Written += int64(len(w.buf))
	w.buf = w.buf[:0]
	return nil
}

func (w *cleanedWriter) create() error {
	if w.seg.file != nil {
		return nil
	}
	f, err := w.seg.fs.OpenFile(w.seg.path(cleanedSuffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return storageError("create cleaned segment", err)
	}
	w.seg.file = f
	w.round.log.dir.files.took(1, 0)
	return nil
}

// finish makes the file durable under its first name, and gives the segment, which has the offsets up to end and may miss some below reached.
func (w *cleanedWriter) finish(end, reached int64) (*segment, error) {
	if err := w.flush(); err != nil {
		return nil, err
	}
	if err := w.seg.file.Sync(); err != nil {
		return nil, storageError("sync cleaned segment", err)
	}
	s := w.seg
	s.noteTime()
	if s.offsets.mem == nil {
		s.offsets.mem = []offsetEntry{} // they are not in a file yet
	}
	s.synced, s.sealed, s.gaps = s.size, true, reached
	for _, old := range w.group {
		s.gaps = max(s.gaps, old.gaps)
	}
	if s.next != end || s.size != w.flushed {
		return nil, fmt.Errorf("%w: the cleaned segment ends at offset %d, byte %d, not at %d, byte %d", ErrUncleanable, s.next, w.flushed, end, s.size)
	}
	w.seg = nil
	return s, nil
}

// close drops a file that was not finished. It may stay: the next start removes it, and the next round overwrites it.
func (w *cleanedWriter) close() {
	if w.seg != nil && w.seg.file != nil {
		_ = w.seg.fs.Remove(w.seg.path(cleanedSuffix))
		w.seg.release()
	}
}
