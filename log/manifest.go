package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// sealedEntry is what must be known of a sealed segment to see that it was lost, cut short, or taken for another: no checksum inside a file tells that.
type sealedEntry struct {
	base, next int64
	size       int64
	head       uint32 // CRC field of the first batch, 0 if there is none
	sum        uint32 // CRC-32C of all batch headers: offsets and epochs, which the batches' own CRCs do not cover, are in it
}

// The sealed-segments file lists the sealed segments of a partition, and after a clean stop the last one too. It is replaced by a rename before the slot says that a
// segment needs no recovery, so that every segment below the recovery point is in it.
//
//	"SLSG" | version 1 (u32) | count (u32) | count times: base (i64) | next (i64) | size (i64) | first CRC (u32) | headers' CRC-32C (u32) | CRC-32C of everything before (u32)
const (
	manifestMagic   = "SLSG"
	manifestVersion = 1
	manifestHeader  = 12
	sealedEntrySize = 32
	// maxManifest bounds what is read: two million segments.
	maxManifest = 64 << 20
)

var errBadManifest = errors.New(manifestFile + " is damaged")

func encodeManifest(es []sealedEntry) []byte {
	b := make([]byte, 0, manifestHeader+len(es)*sealedEntrySize+4)
	b = append(b, manifestMagic...)
	b = binary.BigEndian.AppendUint32(b, manifestVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(es)))
	for _, e := range es {
		b = e.append(b)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func (e sealedEntry) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(e.base))
	b = binary.BigEndian.AppendUint64(b, uint64(e.next))
	b = binary.BigEndian.AppendUint64(b, uint64(e.size))
	b = binary.BigEndian.AppendUint32(b, e.head)
	return binary.BigEndian.AppendUint32(b, e.sum)
}

func decodeSealedEntry(b []byte) sealedEntry {
	return sealedEntry{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:])), int64(binary.BigEndian.Uint64(b[16:])),
		binary.BigEndian.Uint32(b[24:]), binary.BigEndian.Uint32(b[28:])}
}

func decodeManifest(b []byte) ([]sealedEntry, error) {
	if len(b) < manifestHeader+4 || string(b[:4]) != manifestMagic || crc32.Checksum(b[:len(b)-4], castagnoli) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return nil, errBadManifest
	}
	if v := binary.BigEndian.Uint32(b[4:]); v != manifestVersion {
		return nil, fmt.Errorf("%w: version %d", errBadManifest, v)
	}
	n := int(binary.BigEndian.Uint32(b[8:]))
	b = b[manifestHeader : len(b)-4]
	if len(b) != n*sealedEntrySize {
		return nil, errBadManifest
	}
	es := make([]sealedEntry, n)
	for i := range es {
		es[i] = decodeSealedEntry(b[i*sealedEntrySize:])
		if e := es[i]; e.base < 0 || e.next < e.base || e.size < 0 || i > 0 && e.base < es[i-1].next {
			return nil, errBadManifest
		}
	}
	return es, nil
}

// readManifest fails with os.ErrNotExist, errBadManifest, or an error of the disk.
func readManifest(fs vfs.FS, dir string) ([]sealedEntry, error) {
	b, err := vfs.ReadFile(fs, filepath.Join(dir, manifestFile), maxManifest)
	if err != nil {
		return nil, err
	}
	return decodeManifest(b)
}

// storeManifest replaces the file; the rename is durable with the next sync of the directory.
func (l *Log) storeManifest(es []sealedEntry) error {
	name := filepath.Join(l.path(), manifestFile)
	if err := writeSynced(l.dir.fs, name+tempSuffix, encodeManifest(es)); err != nil {
		return err
	}
	if err := l.dir.fs.Rename(name+tempSuffix, name); err != nil {
		return storageError("rename list of sealed segments", err)
	}
	return nil
}

// writeManifest lists what is sealed, and what is about to be.
func (l *Log) writeManifest(about []sealing) error {
	l.manifest.Lock()
	defer l.manifest.Unlock()
	l.mu.Lock()
	segs := slices.DeleteFunc(slices.Clone(l.segs), func(s *segment) bool {
		return !s.sealed && !slices.ContainsFunc(about, func(x sealing) bool { return x.seg == s })
	})
	l.mu.Unlock()
	es := make([]sealedEntry, 0, len(segs))
	for _, s := range segs {
		e, err := l.entryOf(s)
		switch {
		case errors.Is(err, errSegmentGone):
			continue
		case err != nil:
			return err
		}
		es = append(es, e)
	}
	if len(es) == 0 {
		return nil // deleted meanwhile
	}
	return l.storeManifest(es)
}

// entryOf is segment.entry without the lock, which may take long.
func (l *Log) entryOf(s *segment) (sealedEntry, error) {
	l.mu.Lock()
	if s.listed != nil || s.summed {
		defer l.mu.Unlock()
		return s.entry()
	}
	l.mu.Unlock()
	release, err := l.borrow(s)
	if err != nil {
		return sealedEntry{}, err
	}
	defer release()
	return s.entry()
}

// listAll lists every segment at a clean stop, the last one too. Called with mu held, when nothing else is at work on the log.
func (l *Log) listAll() error {
	segs := l.segs
	if l.damage != nil {
		segs = slices.DeleteFunc(slices.Clone(segs), func(s *segment) bool { return !s.sealed })
	}
	es, err := l.entriesOf(segs)
	if err == nil {
		err = l.storeManifest(es)
	}
	if err != nil {
		return err
	}
	if err := l.dir.fs.SyncDir(l.path()); err != nil {
		return storageError("sync partition directory", err)
	}
	return nil
}

func (l *Log) entriesOf(segs []*segment) ([]sealedEntry, error) {
	es := make([]sealedEntry, 0, len(segs))
	for _, s := range segs {
		e, err := s.entry()
		if err != nil {
			return nil, err
		}
		es = append(es, e)
	}
	return es, nil
}

// entry is the segment's line. Its sums are known since it was written or read; else they are made of the headers.
func (s *segment) entry() (sealedEntry, error) {
	if s.listed != nil {
		return *s.listed, nil
	}
	e := sealedEntry{s.base, s.next, s.size, s.head, s.sum}
	if s.summed {
		return e, nil
	}
	f := s.file
	if f == nil {
		var err error
		if f, err = s.fs.OpenFile(s.path(logSuffix), os.O_RDONLY, 0); err != nil {
			return e, storageError("open segment", err)
		}
		defer f.Close()
	}
	var err error
	e.head, e.sum, _, err = sumHeaders(f, s.size)
	return e, err
}

// sumHeaders goes over the headers of a file, up to the first that is none, and gives the offset after the last one too.
func sumHeaders(f vfs.File, size int64) (head, sum uint32, next int64, err error) {
	w := newWalker(f, 0, size)
	defer w.close()
	first := true
	err = eachHeader(&w, func(h kproto.Batch) {
		if first {
			head, first = h.CRC(), false
		}
		sum = crc32.Update(sum, castagnoli, h[:kproto.HeaderSize])
		next = h.NextOffset()
	})
	var bad *badBatch
	if errors.Is(err, io.EOF) || errors.As(err, &bad) {
		err = nil
	}
	return head, sum, next, err
}

// sumUp takes a batch into the segment's sums.
func (s *segment) sumUp(h kproto.Batch, pos int64) {
	switch {
	case pos == 0:
		s.head, s.sum, s.summed = h.CRC(), crc32.Checksum(h[:kproto.HeaderSize], castagnoli), true
	case s.summed:
		s.sum = crc32.Update(s.sum, castagnoli, h[:kproto.HeaderSize])
	}
}

// relist puts a segment that is about to get its name into the list, in the place of those whose offsets it has. It is for swaps that are finished without the
// log being open.
func (l *Log) relist(fresh *segment) error {
	es, err := readManifest(l.dir.fs, l.path())
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, errBadManifest) {
		return nil // it is made anew when the log is opened
	}
	if err != nil { // what the disk may give next time would be about the old segments
		return storageError("read list of sealed segments", err)
	}
	f, err := l.dir.fs.OpenFile(fresh.path(swapSuffix), os.O_RDONLY, 0)
	if err != nil {
		return ignoreMissing(err)
	}
	defer f.Close()
	e := sealedEntry{base: fresh.base}
	if e.size, err = f.Size(); err != nil {
		return storageError("size of swap file", err)
	}
	if e.head, e.sum, e.next, err = sumHeaders(f, e.size); err != nil {
		return err
	}
	es = slices.DeleteFunc(es, func(x sealedEntry) bool { return e.base <= x.base && x.base < e.next })
	i, _ := slices.BinarySearchFunc(es, e.base, func(x sealedEntry, base int64) int { return int(min(max(x.base-base, -1), 1)) })
	return l.storeManifest(slices.Insert(es, i, e))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return storageError("open swap file", err)
}

// sealedList is what the list says of the segments that recovery does not read.
type sealedList struct {
	entries []sealedEntry // of those from the log start on
	all     []sealedEntry
	missing bool
}

// loadManifest reads the list. Only what lies below the recovery point counts: above it a start may change what was there.
func (l *Log) loadManifest(sl slot, known bool) (m sealedList) {
	var err error
	m.all, err = readManifest(l.dir.fs, l.path())
	if m.missing = err != nil; m.missing && !errors.Is(err, os.ErrNotExist) {
		l.warn("list of sealed segments is made anew", err)
	}
	for _, e := range m.all {
		if known && e.base < sl.recovery && e.next > l.start {
			m.entries = append(m.entries, e)
		}
	}
	return m
}

func (m *sealedList) find(base int64) *sealedEntry {
	for i := range m.entries {
		if m.entries[i].base == base {
			return &m.entries[i]
		}
	}
	return nil
}

// expect compares the segments found with those listed. It adds the bases of segments that are lost, as long as what comes after all of them is there, and drops
// files that are no segments of this log: their offsets are in others.
func (l *Log) expect(bases []int64, m *sealedList, recovery int64) []int64 {
	var out []int64
	for _, b := range bases {
		foreign := slices.ContainsFunc(m.entries, func(e sealedEntry) bool { return e.base < b && b < e.next })
		if foreign {
			l.dir.logger.Error("a file that is no segment of the log is ignored", "file", filepath.Join(l.path(), segmentName(b, logSuffix)))
			continue
		}
		out = append(out, b)
	}
	if !slices.Contains(out, recovery) {
		return out
	}
	for _, e := range m.entries {
		if !slices.Contains(out, e.base) {
			out = append(out, e.base)
		}
	}
	slices.Sort(out)
	return out
}

// openSealed takes a segment that recovery does not read. One that is not listed yet will be.
func (l *Log) openSealed(s *segment, m *sealedList) error {
	if e := m.find(s.base); e != nil {
		return l.openListed(s, e)
	}
	if !l.unlisted {
		l.unlisted = true
		l.dir.logger.Info("sealed segments are listed", "topic", l.topic, "partition", l.partition)
	}
	return s.openSealed()
}

// recall takes the sums of the last segment from the list, where it is as a clean stop left it. The size is compared when it is known.
func (s *segment) recall(all []sealedEntry) {
	for i := range all {
		if all[i].base == s.base {
			s.listed = &all[i]
		}
	}
}

// openListed is openSealed for a segment of the list: it sees whether it is the one that was sealed.
func (l *Log) openListed(s *segment, e *sealedEntry) error {
	s.next, s.listed, s.sealed = e.next, e, true
	err := s.openSealed()
	if errors.Is(err, os.ErrNotExist) {
		s.lost = true
		l.condemnSegment(s, "the segment is missing")
		return nil
	}
	if err != nil {
		return err
	}
	if s.size > e.size {
		l.dir.logger.Error("bytes behind the end of a sealed segment are ignored", "file", s.path(logSuffix), "bytes", s.size-e.size)
		s.size, s.synced = e.size, e.size
	}
	other, err := s.identify(e)
	if other {
		l.condemnSegment(s, "it is not the segment that was sealed here")
	}
	return err
}

// identify is isOther for a segment whose file is not needed open.
func (s *segment) identify(e *sealedEntry) (other bool, err error) {
	if err := s.open(os.O_RDWR); err != nil {
		return false, err
	}
	defer s.shut()
	return s.isOther(e), nil
}

// isOther tells whether the file begins with a batch that is right, and not the one that was there.
func (s *segment) isOther(e *sealedEntry) bool {
	b := make([]byte, kproto.HeaderSize)
	if s.size < kproto.HeaderSize {
		return false
	}
	if _, err := s.file.ReadAt(b, 0); err != nil || kproto.Batch(b).CRC() == e.head {
		return false
	}
	x := extent{seg: s, size: s.size, next: s.next}
	h, err := x.batchAt(0)
	return h != nil && err == nil
}

// condemnSegment marks all of a segment as damaged.
func (l *Log) condemnSegment(s *segment, reason string) {
	d := damage{offset: s.base, end: s.next, file: s.path(logSuffix), posEnd: s.size, reason: reason}
	s.holes = []damage{d}
	l.tellDamage(d)
}

// checkLengths finds what is missing of segments that are shorter than they were. Called when all segments are there.
func (l *Log) checkLengths() {
	for _, s := range l.segs {
		if s.listed == nil || s.size >= s.listed.size || len(s.holes) > 0 || s.open(os.O_RDWR) != nil {
			continue
		}
		x := extent{seg: s, size: s.size, next: s.next}
		bad := &badBatch{s.size, fmt.Sprintf("the segment has %d bytes, and had %d", s.size, s.listed.size)}
		d, err := x.find(window{0, s.size, s.base, s.next}, bad)
		if err != nil || d.offset >= d.end {
			continue
		}
		d.file = s.path(logSuffix)
		if l.addHole(s, d) {
			l.tellDamage(d)
		}
	}
}

// unlikeList tells whether a log that nobody uses has lost a segment, or part of one. It opens none of its files but the list.
func (l *Log) unlikeList() bool {
	l.mu.Lock()
	idle := l.state == stateIdle
	l.mu.Unlock()
	if !idle {
		return false // opening it told
	}
	_, sl, known := l.dir.slots.claim(l.id, l.partition)
	all, err := readManifest(l.dir.fs, l.path())
	if !known || err != nil {
		return false
	}
	return slices.ContainsFunc(all, func(e sealedEntry) bool {
		if e.base >= sl.recovery || e.next <= sl.start {
			return false
		}
		info, err := l.dir.fs.Stat(filepath.Join(l.path(), segmentName(e.base, logSuffix)))
		return errors.Is(err, os.ErrNotExist) || err == nil && info.Size() != e.size
	})
}
