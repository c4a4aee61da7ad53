package log

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// recovery reads the segments from first on, batch by batch, and decides what the log is.
type recovery struct {
	log   *Log
	cfg   *Config
	slot  slot
	known bool
	first int

	renewing bool        // in this segment
	expected int64       // next offset
	rolled   []producers // at the end of each segment but the last
	buf      []byte
	scanned  int64
}

func (r *recovery) run() error {
	l := r.log
	segs := l.segs
	if err := l.loadProducers(segs[:r.first], segs[r.first].base); err != nil {
		return err
	}
	l.epochs.cut(segs[r.first].base)
	r.expected = segs[r.first].base
	for i := r.first; i < len(segs); i++ {
		next := int64(maxOffset)
		if i+1 < len(segs) {
			next = segs[i+1].base
		}
		bad, err := r.scan(segs[i], next)
		if err != nil {
			return err
		}
		switch {
		case bad != nil:
		case i+1 < len(segs) && r.expected != next:
			bad = &badBatch{segs[i].size, fmt.Sprintf("the segment ends at offset %d, the next one begins at %d", r.expected, next)}
		case i+1 == len(segs) && r.known && r.expected < r.slot.durable:
			bad = &badBatch{segs[i].size, fmt.Sprintf("the log ends at offset %d, and was durable up to %d", r.expected, r.slot.durable)}
		}
		if bad != nil && next <= l.start {
			return r.skip(i + 1)
		}
		if bad != nil {
			if err := r.stop(i, bad); err != nil {
				return err
			}
			break
		}
		if i+1 < len(segs) {
			r.rolled = append(r.rolled, l.copyProducers(r.cfg, time.Now()))
		}
	}
	return r.settle()
}

// skip begins anew without the first n segments, which lie below the log's start: a crash has left only part of them, or they are damaged.
func (r *recovery) skip(n int) error {
	l := r.log
	for _, s := range l.segs[:n] {
		if err := l.removeFiles(s); err != nil {
			return err
		}
	}
	l.dropSegments(l.segs[:n])
	l.segs = l.segs[n:]
	r.first, r.rolled = 0, nil
	if err := l.loadEpochs(0, r.slot); err != nil { // not those of batches that are gone: the next start will not see them
		return err
	}
	return r.run()
}

// scan takes the batches of one segment in. What overlaps the next segment was taken back after a failed sync and is dropped.
func (r *recovery) scan(s *segment, limit int64) (*badBatch, error) {
	if err := s.open(os.O_RDWR); err != nil {
		return nil, err
	}
	size, err := s.file.Size()
	if err != nil {
		return nil, storageError("size of segment", err)
	}
	if r.renewing, err = r.mustRenew(s); err != nil {
		return nil, err
	}
	s.forget()
	if s.other {
		return &badBatch{0, "it is not the segment that was there at the last stop"}, nil
	}
	s.checks.all()
	w := newWalker(s.file, 0, size)
	defer w.close()
	for {
		h, pos, n, err := w.next()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err == nil {
			err = r.check(s, h, pos, n)
		}
		var bad *badBatch
		switch isBad := errors.As(err, &bad); {
		case err != nil && !isBad:
			return nil, err
		case r.expected >= limit:
			return nil, r.keepTail(s, s.size, "overlaps the next segment")
		case isBad:
			return bad, nil
		}
		if err := r.renew(s, pos); err != nil {
			return nil, err
		}
		r.take(s, h, pos, n)
	}
}

// check reads the whole batch.
func (r *recovery) check(s *segment, h kproto.Batch, pos, n int64) error {
	if !s.follows(h, r.expected) {
		return &badBatch{pos, fmt.Sprintf("offset %d where %d was expected", h.BaseOffset(), r.expected)}
	}
	// The CRC does not cover the epoch. The catalog's log is read before the broker knows its epoch.
	if newest := r.log.dir.epoch.Load(); h.LeaderEpoch() < r.log.epochs.last() || newest > 0 && h.LeaderEpoch() > newest {
		return &badBatch{pos, fmt.Sprintf("leader epoch %d between %d and %d", h.LeaderEpoch(), r.log.epochs.last(), newest)}
	}
	b, err := readBatch(s.file, pos, n, r.buf)
	if err == nil {
		r.buf = b
	}
	return err
}

// renew writes the batch just read once more if it is not known to be durable. After a failed sync the kernel may give bytes that count as clean
// and are not on the disk, and no later sync would bring them there.
func (r *recovery) renew(s *segment, pos int64) error {
	if !r.renewing || r.known && kproto.Batch(r.buf).NextOffset() <= r.slot.durable {
		return nil
	}
	if _, err := s.file.WriteAt(r.buf, pos); err != nil {
		return storageError("write recovered batch again", err)
	}
	return nil
}

// mustRenew tells whether batches of s may not be durable. Without a recorded durable offset an index tells: it is made after a sync.
func (r *recovery) mustRenew(s *segment) (bool, error) {
	if r.known {
		return true, nil
	}
	sealed, err := vfs.Exists(s.fs, s.path(indexSuffix))
	if err != nil {
		return false, storageError("look for index", err)
	}
	return !sealed, nil
}

func (r *recovery) take(s *segment, h kproto.Batch, pos, n int64) {
	s.note(h, pos, n, r.cfg.IndexInterval)
	r.log.producers.note(h, time.Now().UnixMilli(), replayTime(h))
	if r.log.epochs.assign(h.LeaderEpoch(), h.BaseOffset()) {
		r.log.epochsDirty = true
	}
	r.expected = s.next
	r.scanned += n
}

// stop ends the log at the first bad batch. Below the recorded durable offset that is damage: everything is kept, nothing after it is served, and nothing is appended;
// unless nothing above the log's start was durable: what lies below it is nobody's any more.
// At or above it, it is what a power cut leaves of writes that were never acknowledged: cut off, loudly, and kept aside.
func (r *recovery) stop(i int, bad *badBatch) error {
	l := r.log
	s := l.segs[i]
	if r.known && max(r.expected, l.start) < r.slot.durable {
		l.damage = &damage{offset: r.expected, end: maxOffset, file: s.path(logSuffix), pos: bad.pos, posEnd: bad.pos, reason: bad.reason}
		l.dir.damaged.Store(l, nil)
		l.dir.logger.Error("data is damaged: earlier offsets can be read, nothing can be appended", "topic", l.topic, "partition", l.partition, "damage", l.damage.Error())
		l.dropSegments(l.segs[i+1:])
		l.segs = l.segs[: i+1 : i+1]
		return nil
	}
	if err := r.keepTail(s, bad.pos, bad.reason); err != nil {
		return err
	}
	for _, later := range l.segs[i+1:] {
		if err := l.setAside(later); err != nil {
			return err
		}
	}
	l.dropSegments(l.segs[i+1:])
	l.segs = l.segs[: i+1 : i+1]
	return nil
}

// keepTail cuts a segment at pos, after copying what is cut off into a .torn file.
func (r *recovery) keepTail(s *segment, pos int64, reason string) error {
	size, err := s.file.Size()
	if err != nil {
		return storageError("size of segment", err)
	}
	if size == pos {
		return nil
	}
	name := fmt.Sprintf("%s.%d%s", s.path(logSuffix), pos, tornSuffix)
	r.log.dir.logger.Warn("log cut at a batch that was never acknowledged; its bytes are kept", "topic", r.log.topic, "partition", r.log.partition,
		"offset", r.expected, "bytes", size-pos, "reason", reason, "kept", name)
	if err := copyRange(r.log.dir.fs, name, s.file, pos, size); err != nil {
		return err
	}
	if err := r.log.dir.fs.SyncDir(r.log.path()); err != nil {
		return storageError("sync partition directory", err)
	}
	if err := s.file.Truncate(pos); err != nil {
		return storageError("cut torn tail", err)
	}
	return nil
}

// copyChunk is how much of a torn tail is in memory at a time.
const copyChunk = 1 << 20

func copyRange(fs vfs.FS, name string, from vfs.File, pos, end int64) error {
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return storageError("create torn file", err)
	}
	defer f.Close()
	buf := make([]byte, min(copyChunk, end-pos))
	for at := pos; at < end; {
		n, err := from.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
		if n == 0 && err != nil {
			return storageError("read torn tail", err)
		}
		if _, err := f.WriteAt(buf[:n], at-pos); err != nil {
			return storageError("write torn file", err)
		}
		at += int64(n)
	}
	if err := f.Sync(); err != nil {
		return storageError("sync torn file", err)
	}
	return nil
}

// settle makes what was kept durable before anybody may see it, and publishes the log.
func (r *recovery) settle() error {
	l := r.log
	for _, s := range l.segs[r.first:] {
		if err := r.sync(s); err != nil {
			return storageError("sync recovered segment", err)
		}
		s.synced = s.size
	}
	if l.damage == nil {
		if err := l.dropSnapshotsAbove(r.expected); err != nil {
			return err
		}
	}
	if err := l.dir.fs.SyncDir(l.path()); err != nil {
		return storageError("sync recovered directory", err)
	}
	if err := l.dir.fs.SyncDir(l.dir.path); err != nil {
		return storageError("sync data directory", err)
	}
	s := l.active()
	l.end, l.durable = r.expected, r.expected
	l.visible = visible{l.end, s, s.size}
	if l.damage != nil {
		l.end, l.durable = r.slot.durable, r.slot.durable
		l.visible = visible{offset: l.end}
	}
	if l.start > l.end {
		return r.restartAtStart()
	}
	for i, rolled := range l.segs[r.first : len(l.segs)-1] {
		l.toSeal(rolled, r.rolled[i])
	}
	l.recovery = l.segs[r.first].base
	if l.damage == nil {
		if l.failed {
			if err := l.beginSegment(); err != nil {
				return err
			}
		}
		l.noteSlot()
	}
	l.dir.logger.Info("recovered partition", "topic", l.topic, "partition", l.partition, "end", l.end, "bytes", r.scanned)
	return nil
}

// sync makes a segment durable as it is now. Only the second time its size may be one that a failed sync has forgotten.
func (r *recovery) sync(s *segment) error {
	if r.log.failed && r.log.damage == nil {
		return truncateSynced(s.file, s.size)
	}
	return s.file.Sync()
}

// restartAtStart is for a log whose start was moved past what survived: it goes on empty at its start, so that no offset is given twice.
func (r *recovery) restartAtStart() error {
	l := r.log
	for _, s := range l.segs {
		if err := l.removeFiles(s); err != nil {
			return err
		}
	}
	if err := l.dir.fs.SyncDir(l.path()); err != nil {
		return storageError("sync partition directory", err)
	}
	l.dropSegments(l.segs)
	l.segs, l.sealing = nil, nil
	l.producers, l.epochs, l.epochsDirty = producers{}, nil, false
	l.end, l.durable = l.start, l.start
	l.visible = visible{offset: l.start}
	l.recovery = l.start
	l.newFiles = true
	return nil
}

// dropSnapshotsAbove removes producer snapshots of offsets that the log no longer has.
func (l *Log) dropSnapshotsAbove(end int64) error {
	snapshots, err := l.snapshots()
	if err != nil {
		return err
	}
	for _, o := range snapshots {
		if o > end {
			if err := l.dir.fs.Remove(filepath.Join(l.path(), segmentName(o, producerSuffix))); err != nil {
				return storageError("remove producer snapshot", err)
			}
		}
	}
	return nil
}
