package log

import (
	"fmt"
	"maps"
	"math"
	"os"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

const maxOffset = math.MaxInt64

// AppendOptions say what kind of append it is. The zero value is a client's Produce.
type AppendOptions struct {
	Internal bool // from the broker itself: no idempotence check, control batches allowed, and a batch larger than a segment has one to itself
}

// Appended is the answer of stage one.
type Appended struct {
	Base          int64 // offset of the first record; of the original for a duplicate
	LogAppendTime int64 // ms, or -1 with CreateTime
	Start         int64 // log start offset
	Duplicate     bool
	Ticket        Ticket
}

// Append is stage one for one checked batch. It stamps the batch in place. It does not wait for the disk to sync, unless no more files may be open and those of
// all others wait for theirs.
// While the disk is full only internal batches are taken. Errors: ErrTooLarge, ErrOutOfOrderSequence, ErrInvalidProducerEpoch, ErrDamaged, ErrStorage (ErrTooManyFiles), ErrOffline, ErrDeleted; nothing was appended then.
func (l *Log) Append(b kproto.Batch, o AppendOptions) (Appended, error) {
	var a Appended
	err := l.dir.files.untilRoom(l.dir.files.roomToAppend, func() (err error) {
		a, err = l.append(b, o)
		return err
	})
	return a, err
}

// append is Append, and errRoomTaken where a file must be opened and as many are as may be.
func (l *Log) append(b kproto.Batch, o AppendOptions) (Appended, error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	cfg := l.cfg.Load()
	if len(b) > maxSegmentBytes || !o.Internal && int64(len(b)) > cfg.SegmentBytes {
		return Appended{}, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(b))
	}
	if err := l.appendable(); err != nil {
		return Appended{}, err
	}
	if !o.Internal && b.ProducerID() >= 0 {
		original, dup, err := l.producers.check(b, now.UnixMilli(), cfg.ProducerExpiration)
		if err != nil {
			return Appended{}, err
		}
		if dup {
			return l.appended(cfg, original.base, original.last+1, original.time, true), nil
		}
	}
	replyTime := int64(-1)
	if cfg.LogAppendTime && !b.Control() {
		replyTime = now.UnixMilli()
		b.SetAppendTime(replyTime)
	}
	base := l.end
	if err := l.writeIfRoom(b, cfg, now, replyTime, o); err != nil {
		return Appended{}, err
	}
	l.afterAppend(cfg)
	l.noteFill(cfg)
	return l.appended(cfg, base, l.end, replyTime, false), nil
}

// appendable opens the log and refuses appends to a damaged one: what follows the damage must not get new offsets.
func (l *Log) appendable() error {
	if err := l.ready(); err != nil {
		return err
	}
	if l.damage != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, l.damage)
	}
	return nil
}

func (l *Log) appended(cfg *Config, base, end, replyTime int64, dup bool) Appended {
	a := Appended{Base: base, LogAppendTime: replyTime, Start: l.start, Duplicate: dup}
	if cfg.Durability == Fsync && l.durable < end {
		a.Ticket = Ticket{l, end, l.gen}
	}
	return a
}

// writeIfRoom is write on a disk that may be full.
func (l *Log) writeIfRoom(b kproto.Batch, cfg *Config, now time.Time, replyTime int64, o AppendOptions) error {
	if !o.Internal {
		if err := l.dir.space.appendable(); err != nil {
			return err
		}
	}
	if !o.Internal && !l.reserveFiles(l.lackingFor(b, cfg, now), l.dir.files.appendLimit()) {
		return errRoomTaken
	}
	defer l.endReserve()
	err := l.write(b, cfg, now, replyTime)
	if err != nil && l.dir.space.noticed(err) && o.Internal && l.state == stateOpen {
		err = l.write(b, cfg, now, replyTime)
	}
	return err
}

// write puts the batch at the end of the log.
func (l *Log) write(b kproto.Batch, cfg *Config, now time.Time, replyTime int64) error {
	seg, err := l.segmentFor(b, cfg, now)
	if err != nil {
		return err
	}
	b.SetBaseOffset(l.end)
	b.SetLeaderEpoch(l.dir.epoch.Load())
	pos := seg.size
	if err := l.writeAt(seg, b, pos); err != nil {
		return err
	}
	seg.note(b, pos, int64(len(b)), cfg.IndexInterval)
	l.producers.note(b, now.UnixMilli(), replyTime)
	if l.epochs.assign(b.LeaderEpoch(), l.end) {
		l.epochsDirty = true
	}
	l.tail.push(tailEntry{seg: seg, pos: pos, Header: headerOf(b)})
	l.end = seg.next
	return nil
}

// writeAt writes whole batches only: what a failed write left behind is taken back before the next append.
func (l *Log) writeAt(seg *segment, b []byte, pos int64) error {
	if _, err := seg.file.WriteAt(b, pos); err != nil {
		if terr := seg.file.Truncate(pos); terr != nil {
			seg.torn = true
			l.spoil(fmt.Errorf("take back a partial write to %s: %w", seg.file.Name(), terr))
			l.warn("partial write not taken back yet", terr)
		}
		return storageError("append to "+seg.file.Name(), err)
	}
	return nil
}

// afterAppend schedules the sync that the durability mode asks for and, where a write is enough, shows the batch.
func (l *Log) afterAppend(cfg *Config) {
	switch cfg.Durability {
	case Fsync:
		l.scheduleSync(false)
		return
	case Interval:
		l.scheduleLater(cfg.SyncInterval)
	case OS:
		if len(l.sealing) > 0 && l.seals == nil || l.newDir || l.newFiles {
			l.scheduleSync(false)
		}
	}
	l.show(l.end, l.active(), l.active().size)
}

// show moves the visible end, which never goes back, and wakes those who wait for it.
func (l *Log) show(offset int64, seg *segment, pos int64) {
	if offset <= l.visible.offset {
		return
	}
	l.visible = visible{offset, seg, pos}
	l.fire()
}

func (l *Log) active() *segment { return l.segs[len(l.segs)-1] }

// segmentFor gives the segment that takes the batch, rolling if need be.
func (l *Log) segmentFor(b kproto.Batch, cfg *Config, now time.Time) (*segment, error) {
	if len(l.segs) == 0 {
		if err := l.makeDir(); err != nil {
			return nil, err
		}
		return l.addSegment()
	}
	seg := l.active()
	if !mustRoll(seg, b, l.end, cfg, now) {
		return seg, seg.open(os.O_RDWR)
	}
	ps := l.copyProducers(cfg, now)
	next, err := l.addSegment()
	if err != nil {
		return nil, err
	}
	l.toSeal(seg, ps)
	return next, nil
}

// lackingFor is how many files segmentFor has to open.
func (l *Log) lackingFor(b kproto.Batch, cfg *Config, now time.Time) int64 {
	if len(l.segs) > 0 && l.active().isOpen() && !mustRoll(l.active(), b, l.end, cfg, now) {
		return 0
	}
	return 1
}

// mustRoll: by size, by time (segment.ms, by record timestamps as Kafka does, so that a replay rolls alike), by index size, by offset range.
func mustRoll(s *segment, b kproto.Batch, end int64, cfg *Config, now time.Time) bool {
	if s.size == 0 {
		return false
	}
	age := now.Sub(s.created)
	if s.firstTime >= 0 {
		newest := max(b.MaxTimestamp(), s.firstTime) // a client may send any number: no overflow
		age = time.Duration(min(newest-s.firstTime, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	}
	return s.size+int64(len(b)) > min(cfg.SegmentBytes, maxSegmentBytes) ||
		age > cfg.SegmentAge ||
		s.indexFull(cfg.IndexBytes) ||
		end+int64(b.LastOffsetDelta())-s.base > math.MaxInt32
}

// addSegment makes the file of the next segment; its entry becomes durable with the first sync of its data.
func (l *Log) addSegment() (*segment, error) {
	s := l.newSegment(l.end)
	if err := s.open(os.O_RDWR | os.O_CREATE | os.O_TRUNC); err != nil {
		return nil, err
	}
	l.newFiles, l.fill = true, fullness{}
	// Readers hold slices of segs: a new one is made, never changed in place.
	l.segs = append(l.segs[:len(l.segs):len(l.segs)], s)
	return s, nil
}

// makeDir makes the partition's directory at its first append.
func (l *Log) makeDir() error {
	made, err := vfs.MkdirAll(l.dir.fs, l.path(), 0o700)
	if err != nil {
		return storageError("make partition directory", err)
	}
	if len(made) > 0 {
		l.newDir = true
	}
	return nil
}

func (l *Log) copyProducers(cfg *Config, now time.Time) producers {
	l.producers.expire(now.UnixMilli(), cfg.ProducerExpiration)
	c := maps.Clone(l.producers)
	for id, p := range c {
		copied := *p
		c[id] = &copied
	}
	if c == nil {
		c = producers{}
	}
	return c
}
