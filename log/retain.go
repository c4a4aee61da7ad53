package log

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"sluice/kproto"
)

// Cause is why segments were deleted.
type Cause uint8

const (
	ByStart Cause = iota // they lie below the log start, which DeleteRecords moved
	BySize               // retention.bytes
	ByTime               // retention.ms
)

// Causes are all of them.
var Causes = [...]Cause{ByStart, BySize, ByTime}

func (c Cause) String() string { return [...]string{"log_start", "retention_bytes", "retention_ms"}[c] }

// Deleted counts the segments that were deleted for one cause since the data directory was opened, and their bytes.
type Deleted struct{ Segments, Bytes int64 }

// deletions is Deleted by Cause.
type deletions [len(Causes)]struct{ segments, bytes atomic.Int64 }

func (d *deletions) add(why Cause, segments, bytes int64) {
	d[why].segments.Add(segments)
	d[why].bytes.Add(bytes)
}

// Deleted tells what was deleted for the cause.
func (d *Dir) Deleted(why Cause) Deleted {
	c := &d.deleted[why]
	return Deleted{c.segments.Load(), c.bytes.Load()}
}

// WaitingFiles is how many files of deleted segments wait to be removed.
func (d *Dir) WaitingFiles() int { return d.reaper.pending() }

// retainChunk is how many partitions share one sync of their new log starts. It bounds how long the first of them waits for the last.
const retainChunk = 1000

// Retain deletes the segments that the partitions' settings no longer keep, by Kafka's rules: whole segments from the oldest on, the last one
// only after the next was begun, nothing above the high watermark, and never before the new log start is durable. now is the clock that
// timestamps are held against. What fails stays for the next time. It returns early when ctx ends.
func (d *Dir) Retain(ctx context.Context, now time.Time) {
	logs, err := d.written()
	if err != nil {
		d.logger.Warn("retention waits", "error", err)
		return
	}
	for len(logs) > 0 && ctx.Err() == nil {
		n := min(len(logs), retainChunk)
		d.retain(ctx, logs[:n], now)
		logs = logs[n:]
	}
}

func (d *Dir) retain(ctx context.Context, logs []*Log, now time.Time) {
	var moves []startMove
	var rolling []*Log
	for _, l := range logs {
		m, waits := l.retire(now)
		switch {
		case waits:
			rolling = append(rolling, l)
		case m.log != nil:
			moves = append(moves, m)
		}
	}
	for _, l := range rolling {
		l.awaitSealed(ctx)
		if m, waits := l.retire(now); !waits && m.log != nil {
			moves = append(moves, m)
		}
	}
	d.moveStarts(moves)
}

// startMove is a log start on its way forward, put into the partition's slot and not durable yet.
type startMove struct {
	log    *Log
	offset int64
	put    uint64 // number of the slot's change
	why    Cause
}

// moveStarts makes the new starts durable with one sync, then shows them and lets the segments below go.
func (d *Dir) moveStarts(moves []startMove) {
	if len(moves) == 0 {
		return
	}
	last := uint64(0)
	for _, m := range moves {
		last = max(last, m.put)
	}
	if err := d.slots.sync(last); err != nil {
		d.logger.Warn("retention waits: new log starts could not be made durable", "partitions", len(moves), "error", err)
		return
	}
	for _, m := range moves {
		if _, err := m.log.moveStart(m.offset, m.why); err != nil && !errors.Is(err, ErrDeleted) && !errors.Is(err, ErrClosed) {
			m.log.warn("retention waits", err)
		}
	}
}

// retire decides which segments go and writes the new start to the slot. waits tells that a sync must end first: the segments' side files, above
// all the producers' state at their end, are not written yet.
func (l *Log) retire(now time.Time) (m startMove, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.retirable(now) {
		return startMove{}, false
	}
	n, why, err := l.expired(l.cfg.Load(), now.UnixMilli())
	switch {
	case err != nil:
	case l.state == stateCut:
		n = min(n, l.sealedFront()) // the disk takes no new file now
	case n > 0 && n == len(l.segs):
		err = l.rollExpired(now)
	}
	if err != nil {
		l.warn("retention waits", err)
		return startMove{}, false
	}
	if n == 0 {
		return startMove{}, false
	}
	if !l.segs[n-1].sealed {
		l.scheduleSync(true)
		return startMove{}, true
	}
	offset := max(l.segs[n].base, l.start)
	return startMove{l, offset, l.putStart(offset), why}, false
}

// retirable tells whether retention may look at the log. A log that nobody uses is opened only if something is due. A damaged one is left as it
// is, for whoever repairs it. Called with mu held.
func (l *Log) retirable(now time.Time) bool {
	switch l.state {
	case stateIdle:
		return l.idleDue(now) && l.open() == nil && l.damage == nil
	case stateOpen, stateCut:
		return l.damage == nil
	}
	return false
}

// sealedFront counts the segments, from the oldest on, that may go without further ado. Called with mu held.
func (l *Log) sealedFront() (n int) {
	for n+1 < len(l.segs) && l.segs[n].sealed {
		n++
	}
	return n
}

// expired counts the segments, from the oldest on, that are no longer kept, and tells why the last of them goes. Called with mu held.
func (l *Log) expired(c *Config, nowMs int64) (n int, why Cause, err error) {
	excess := l.bytes() - c.RetentionBytes
	for ; n < len(l.segs); n++ {
		s, end := l.segs[n], l.end
		if n+1 < len(l.segs) {
			end = l.segs[n+1].base
		} else if s.size == 0 {
			break
		}
		if end > l.visible.offset {
			break
		}
		cause, goes, err := l.outlived(s, c, excess, nowMs)
		if err != nil {
			return 0, 0, err
		}
		switch {
		case n+1 < len(l.segs) && end <= l.start:
			why = ByStart
		case goes:
			why = cause
		default:
			return n, why, nil
		}
		excess -= s.size
	}
	return n, why, nil
}

// outlived tells whether the segment has outlived the settings, given that the log is excess bytes larger than retention.bytes.
func (l *Log) outlived(s *segment, c *Config, excess, nowMs int64) (Cause, bool, error) {
	switch {
	case !c.Delete:
		return 0, false, nil
	case c.RetentionBytes >= 0 && excess >= s.size:
		return BySize, true, nil
	case c.RetentionMs < 0:
		return 0, false, nil
	}
	newest, err := l.largestTime(s)
	return ByTime, err == nil && tooOld(newest, nowMs, c.RetentionMs), err
}

// tooOld is Kafka's rule. Clients may have given any timestamp: the difference must not overflow.
func tooOld(newest, nowMs, retentionMs int64) bool {
	return newest < nowMs && uint64(nowMs)-uint64(newest) > uint64(retentionMs)
}

// largestTime is the largest timestamp in the segment or, when its records have none, when it was last appended to. Called with mu held.
func (l *Log) largestTime(s *segment) (int64, error) {
	if s.lost { // it is as old as what came after it
		return l.largestTime(l.segs[slices.Index(l.segs, s)+1])
	}
	if s.sealed && s.maxTime < 0 {
		if err := s.findNewest(l.cfg.Load().IndexInterval); err != nil {
			return 0, err
		}
	}
	if s.maxTime >= 0 {
		return s.maxTime, nil
	}
	if t, err := s.emptiedTime(); err != nil || t >= 0 {
		return t, err
	}
	info, err := l.dir.fs.Stat(s.path(logSuffix))
	if err != nil {
		return 0, storageError("time of segment", err)
	}
	return info.ModTime().UnixMilli(), nil
}

// emptiedTime is the largest timestamp of the batches that compaction has emptied, -1 where it has none. The time of the file would be that of the
// last compaction: a segment that has only such batches would never grow old, nor let those behind it go.
func (s *segment) emptiedTime() (newest int64, err error) {
	if newest = -1; !s.sealed || s.gaps <= s.base {
		return newest, nil
	}
	defer s.closeAgain()()
	err = s.eachHeader(func(h kproto.Batch) { newest = max(newest, h.MaxTimestamp()) })
	return newest, err
}

func (l *Log) bytes() (n int64) {
	for _, s := range l.segs {
		n += s.size
	}
	return n
}

// rollExpired begins the next segment, so that the last one may go. The new one's name keeps the log's end, whatever becomes of the slot.
func (l *Log) rollExpired(now time.Time) error {
	old := l.active()
	ps := l.copyProducers(l.cfg.Load(), now)
	if _, err := l.addSegment(); err != nil {
		return err
	}
	if !old.sealed {
		l.toSeal(old, ps)
	}
	l.scheduleSync(true)
	return nil
}

// letGo takes the segments below the start out of the log and renames their files. It gives the new names, to be removed when
// readers have had their time. Called with mu held.
func (l *Log) letGo(why Cause) []string {
	var gone []string
	var segments, bytes int64
	for len(l.segs) > 1 && l.segs[0].sealed && !l.segs[0].busy && l.segs[1].base <= l.start {
		s := l.segs[0]
		names, err := l.condemn(s)
		gone = append(gone, names...)
		if err != nil {
			l.warn("segment below the log start remains", err)
			break
		}
		if l.visible.seg == s {
			l.visible.seg = nil // found again by offset
		}
		l.segs = l.segs[1:]
		segments, bytes = segments+1, bytes+s.size
		s.release()
	}
	if segments > 0 {
		l.fill = fullness{}
		l.dir.deleted.add(why, segments, bytes)
		l.dir.logger.Info("segments deleted", "topic", l.topic, "partition", l.partition, "start", l.start, "segments", segments, "bytes", bytes, "cause", why)
	}
	return gone
}

// condemn renames the files of a segment that has left the log, the data last: as long as it has its name, a start finds what is left to do.
func (l *Log) condemn(s *segment) (names []string, err error) {
	for _, suffix := range []string{indexSuffix, timeSuffix, logSuffix} {
		name := s.path(suffix)
		switch err := l.dir.fs.Rename(name, name+deletedSuffix); {
		case err == nil:
			names = append(names, name+deletedSuffix)
		case !errors.Is(err, os.ErrNotExist):
			return names, storageError("rename deleted segment", err)
		}
	}
	return names, nil
}
