package log

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"sync"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// damage is where the data is no longer what was once durable: offsets from offset to end, bytes from pos to posEnd of a file.
type damage struct {
	offset, end int64 // end is maxOffset when nobody knows where it ends
	file        string
	pos, posEnd int64
	reason      string
}

func (d *damage) Error() string {
	if d.end == maxOffset {
		return fmt.Sprintf("%s at position %d, offset %d: %s", d.file, d.pos, d.offset, d.reason)
	}
	return fmt.Sprintf("%s, bytes %d to %d, offsets %d to %d: %s", d.file, d.pos, d.posEnd, d.offset, d.end-1, d.reason)
}

func (d *damage) holds(offset int64) bool { return d.offset <= offset && offset < d.end }

// DamagedRange is a stretch of a partition that answers ErrDamaged.
type DamagedRange struct {
	Topic       string
	Partition   int32
	File        string
	Offset, End int64 // the first offset and the one after the last; math.MaxInt64: up to the end of the log
	Bytes       int64
	Reason      string
}

// Damages lists the damage known of all partitions: what recovery, reads, compaction and the scrubber have met and retention has not yet deleted.
func (d *Dir) Damages() []DamagedRange {
	var all []DamagedRange
	d.damaged.Range(func(l, _ any) bool {
		all = append(all, l.(*Log).damages()...)
		return true
	})
	return all
}

func (l *Log) damages() (rs []DamagedRange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.known() {
		rs = append(rs, DamagedRange{l.topic, l.partition, d.file, d.offset, d.end, d.posEnd - d.pos, d.reason})
	}
	return rs
}

// known is all damage that is known of the log and lies above its start. Called with mu held.
func (l *Log) known() (all []damage) {
	if l.state == stateDeleted {
		return nil
	}
	for _, s := range l.segs {
		all = append(all, s.holes...)
	}
	if l.damage != nil {
		all = append(all, *l.damage)
	}
	return slices.DeleteFunc(all, func(d damage) bool { return d.end <= l.start })
}

// damageAt is the damage that holds the offset. Called with mu held.
func (l *Log) damageAt(offset int64) *damage {
	if l.damage != nil && l.damage.holds(offset) {
		return l.damage
	}
	if s := l.segmentOf(offset); s != nil {
		return s.holeAt(offset)
	}
	return nil
}

func (s *segment) holeAt(offset int64) *damage {
	for i := range s.holes {
		if s.holes[i].holds(offset) {
			return &s.holes[i]
		}
	}
	return nil
}

// window is a stretch of a segment without damage: bytes from pos to end, offsets from base to next.
type window struct{ pos, end, base, next int64 }

// windows gives the stretches between the segment's holes, in order. Called with Log.mu held.
func (s *segment) windows() []window {
	w := window{0, s.size, s.base, s.next}
	if len(s.holes) == 0 {
		return []window{w}
	}
	var ws []window
	for _, h := range s.holes {
		ws = append(ws, window{w.pos, h.pos, w.base, h.offset})
		w.pos, w.base = h.posEnd, h.end
	}
	ws = append(ws, w)
	return slices.DeleteFunc(ws, func(w window) bool { return w.pos >= w.end })
}

// windowOf is the window that holds the offset, or the last before it.
func (s *segment) windowOf(offset int64) window {
	w := window{0, s.size, s.base, s.next}
	for _, h := range s.holes {
		if offset < h.end {
			w.end, w.next = h.pos, h.offset
			break
		}
		w.pos, w.base = h.posEnd, h.end
	}
	return w
}

// noteBad takes in that the bytes of a segment are bad at a position: it finds out how far the damage goes, has it refused from now on, and says so, once.
// Called without mu.
func (l *Log) noteBad(s *segment, bad *badBatch) {
	l.mu.Lock()
	size, next := s.size, s.next
	w := window{0, size, s.base, next}
	for _, h := range s.holes {
		if h.posEnd <= bad.pos {
			w.pos, w.base = h.posEnd, h.end
		}
	}
	err := s.open(os.O_RDWR)
	if err == nil {
		err = s.openIndexes(l.cfg.Load().IndexInterval)
	}
	index := s.offsets
	s.acquire()
	l.mu.Unlock()
	defer s.release()
	if err != nil {
		return
	}
	x := extent{seg: s, index: index, size: size, next: next}
	d, err := x.find(w, bad)
	if err != nil || d.offset >= d.end {
		return // the disk says nothing now, or nothing is missing
	}
	d.file = s.path(logSuffix)
	l.mu.Lock()
	isNew := l.addHole(s, d)
	l.mu.Unlock()
	if isNew {
		l.tellDamage(d)
	}
}

// tellDamage has Damages ask the log, and says where the damage is.
func (l *Log) tellDamage(d damage) {
	l.dir.damaged.Store(l, nil)
	l.dir.logger.Error("data is damaged: what lies before and after it can be read", "topic", l.topic, "partition", l.partition, "file", d.file,
		"position", d.pos, "bytes", d.posEnd-d.pos, "offset", d.offset, "end", d.end, "reason", d.reason)
}

// addHole takes damage in, together with what it touches, and tells whether it was not known. Called with mu held.
func (l *Log) addHole(s *segment, d damage) bool {
	if !slices.Contains(l.segs, s) {
		return false // compaction or retention was faster
	}
	var holes []damage // a new slice: readers may hold the old one
	for _, h := range s.holes {
		switch {
		case h.offset <= d.offset && d.end <= h.end:
			return false
		case h.end < d.offset || d.end < h.offset:
			holes = append(holes, h)
		default:
			d.offset, d.end, d.pos, d.posEnd = min(d.offset, h.offset), max(d.end, h.end), min(d.pos, h.pos), max(d.posEnd, h.posEnd)
		}
	}
	holes = append(holes, d)
	slices.SortFunc(holes, func(a, b damage) int { return int(min(max(a.offset-b.offset, -1), 1)) })
	s.holes = holes
	if s.sealed && s.offsets.file == nil && s.offsets.mem != nil {
		if err := s.rebuild(l.cfg.Load().IndexInterval); err != nil { // the first time it went only as far as the damage
			l.warn("index not made anew", err)
		}
	}
	return true
}

// extent finds out how far damage goes in one segment.
type extent struct {
	seg   *segment
	index offsets
	size  int64 // of the segment
	next  int64 // offset after it
}

// find gives the damage that begins at a bad batch, or before it where the batches no longer follow each other; none if all is right. w begins where the
// damage before it ends.
func (x *extent) find(w window, bad *badBatch) (damage, error) {
	pos, expected, err := x.reach(w, bad.pos)
	if err != nil {
		return damage{}, err
	}
	h, err := x.batchAt(pos)
	if err != nil {
		return damage{}, err
	}
	if h != nil && x.seg.follows(h, expected) {
		return damage{}, nil // it is right now
	}
	d := damage{offset: expected, pos: pos, reason: bad.reason}
	d.posEnd, d.end, err = x.resync(pos, expected)
	return d, err
}

// reach walks the batches towards a position, from the last index entry before it. It gives where it came to, and the offset expected there.
func (x *extent) reach(w window, to int64) (pos, expected int64, err error) {
	pos, expected = w.pos, w.base
	if to > 0 {
		e, ok, err := x.index.floorPosition(uint32(min(to-1, math.MaxUint32)), math.MaxUint32)
		if err != nil {
			return 0, 0, storageError("read offset index", err)
		}
		if ok && int64(e.pos) > pos {
			h, err := x.batchAt(int64(e.pos))
			if err != nil {
				return 0, 0, err
			}
			if h != nil && h.LastOffset() == x.seg.base+int64(e.rel) {
				pos, expected = int64(e.pos), -1
			}
		}
	}
	walk := newWalker(x.seg.file, pos, x.size)
	defer walk.close()
	for pos < to {
		h, at, size, err := walk.next()
		switch {
		case errors.Is(err, ErrStorage):
			return 0, 0, err
		case err != nil || expected >= 0 && !x.seg.follows(h, expected):
			return pos, expected, nil
		}
		if err := checkCRC(x.seg.file, at, size); err != nil {
			return pos, expected, ignoreBad(err)
		}
		pos, expected = at+size, h.NextOffset()
	}
	return pos, expected, nil
}

// batchAt gives the header of the batch at a position if all of it is right, else nil. Where the disk gives an error nobody knows.
func (x *extent) batchAt(pos int64) (kproto.Batch, error) {
	w := newWalker(x.seg.file, pos, x.size)
	defer w.close()
	h, _, size, err := w.next()
	if err == nil {
		err = checkCRC(x.seg.file, pos, size)
	}
	if err != nil {
		return nil, ignoreBad(err)
	}
	return slices.Clone(h), nil
}

// resync finds the first right batch after a bad one at pos: by the length in the bad one's header, or else by the index. It looks nowhere else: bytes
// inside a record may be a batch too. Without one the damage goes to the segment's end.
func (x *extent) resync(pos, expected int64) (posEnd, end int64, err error) {
	w := newWalker(x.seg.file, pos, x.size)
	_, _, size, werr := w.next()
	w.close()
	if errors.Is(werr, ErrStorage) {
		return 0, 0, werr
	}
	if werr == nil {
		if pos+size == x.size {
			return x.size, x.next, nil
		}
		h, err := x.goesOn(pos+size, expected)
		if err != nil {
			return 0, 0, err
		}
		if h != nil {
			return pos + size, h.BaseOffset(), nil
		}
	}
	for i := range x.index.len() {
		e, err := x.index.at(i)
		if err != nil {
			return 0, 0, storageError("read offset index", err)
		}
		if int64(e.pos) <= pos {
			continue
		}
		h, err := x.goesOn(int64(e.pos), expected)
		if err != nil {
			return 0, 0, err
		}
		if h != nil && h.LastOffset() == x.seg.base+int64(e.rel) {
			return int64(e.pos), h.BaseOffset(), nil
		}
	}
	return max(pos, x.size), x.next, nil
}

// goesOn gives the batch at a position if the log may go on with it after some offsets from expected on were lost, else nil.
func (x *extent) goesOn(pos, expected int64) (kproto.Batch, error) {
	h, err := x.batchAt(pos)
	if h == nil || h.BaseOffset() <= expected || h.NextOffset() > x.next {
		return nil, err
	}
	return h, nil
}

// crcBlock is how much of a batch is in memory while its CRC is checked, in bytes.
const crcBlock = 128 << 10

var crcBlocks = sync.Pool{New: func() any { return new([crcBlock]byte) }}

// checkCRC reads a batch block by block: however large it is, it costs one block of memory.
func checkCRC(file vfs.File, pos, size int64) error {
	block := crcBlocks.Get().(*[crcBlock]byte)
	defer crcBlocks.Put(block)
	sum, want := uint32(0), uint32(0)
	for at := int64(0); at < size; {
		b := block[:min(crcBlock, size-at)]
		n := int64(len(b))
		if _, err := file.ReadAt(b, pos+at); err != nil {
			if errors.Is(err, io.EOF) {
				return &badBatch{pos, "the file ends inside a batch"}
			}
			return storageError("read "+file.Name(), err)
		}
		if at == 0 {
			if len(b) < kproto.HeaderSize {
				return &badBatch{pos, "fewer bytes than a batch header"}
			}
			want = kproto.Batch(b).CRC()
			b = b[kproto.ChecksumFrom:]
		}
		sum = crc32.Update(sum, castagnoli, b)
		at += n
	}
	if sum != want {
		return &badBatch{pos, "CRC does not match"}
	}
	return nil
}
