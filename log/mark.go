package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// The clean-shutdown file is there only between a clean stop and the next start. It holds, for the last segments of most partitions, what else their side files
// would: so a stop writes and syncs one file, and not five for each partition. It is written beside its name and renamed when it is whole and synced; the next
// start removes the name before it does anything else, and reads the open file when a partition is first used.
//
//	one after another: last segments, in the form of lastSegment.encode
//	count times: topic id (16) | partition (i32) | position of its last segment (i64) | bytes (u32)
//	position of the table (i64) | count (u32) | "SLCS" | version 1 (u32) | CRC-32C of the table and of this up to here (u32)
//
// An empty file is a clean stop too: all side files are written, as releases did that knew nothing of this.
const (
	markMagic      = "SLCS"
	markVersion    = 1
	markEntrySize  = 16 + 4 + 8 + 4
	epochEntrySize = 4 + 8 // of lastSegment
	markFooter     = 8 + 4 + 4 + 4 + 4
	// maxMark bounds the last segments in the file, in bytes: a stop writes it, and the disk has it until the last of its partitions is used.
	maxMark = 256 << 20
	// maxLastSegment bounds one of them: the indexes of some 200 MB of small batches, or several thousand producers. A log with more has side files.
	maxLastSegment = 1 << 20
	// maxMarkTable bounds what is read at start: as many partitions as there are slots.
	maxMarkTable = markEntrySize << 20
)

var errBadMark = errors.New(cleanFile + " is damaged")

// lastSegment is what a start needs to go on with the last segment of a log and would have to read it for.
type lastSegment struct {
	entry     sealedEntry
	offsets   []offsetEntry
	times     []timeEntry
	epochs    epochs
	producers producers
}

// encode: base (i64) | next (i64) | size (i64) | first CRC (u32) | headers' CRC-32C (u32) | count (u32), entries as in .index | count, entries as in .timeindex |
// count, leader epochs of the log: epoch (i32), start (i64) | what would be in .producers | CRC-32C of everything before (u32)
func (x *lastSegment) encode() []byte {
	b := x.entry.append(nil)
	b = binary.BigEndian.AppendUint32(b, uint32(len(x.offsets)))
	b = append(b, encodeOffsets(x.offsets)...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(x.times)))
	b = append(b, encodeTimes(x.times)...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(x.epochs)))
	for _, e := range x.epochs {
		b = binary.BigEndian.AppendUint32(b, uint32(e.epoch))
		b = binary.BigEndian.AppendUint64(b, uint64(e.start))
	}
	b = append(b, x.producers.encode()...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// large tells, before it is encoded, that it cannot be small enough.
func (x *lastSegment) large() bool {
	return len(x.offsets)*offsetEntrySize+len(x.times)*timeEntrySize+len(x.epochs)*epochEntrySize+len(x.producers)*(producerHeaderSize+producerBatchSize) > maxLastSegment
}

// markLast puts the last segment into the mark of a clean stop, if it is the only one without side files. The slot is synced before the mark is.
func (l *Log) markLast(mark *markWriter) (marked bool, err error) {
	s := l.active()
	if l.damage != nil || l.unlisted || len(l.sealing) > 0 || s.sealed {
		return false, nil
	}
	s.noteTime()
	l.producers.expire(time.Now().UnixMilli(), l.cfg.Load().ProducerExpiration)
	x := lastSegment{offsets: s.offsets.mem, times: s.times.mem, epochs: l.epochs, producers: l.producers}
	if x.large() {
		return false, nil
	}
	if x.entry, err = s.entry(); err != nil {
		return false, err
	}
	if marked, err = mark.add(slotKey{l.id, l.partition}, x.encode()); !marked || err != nil {
		return false, err
	}
	l.recovery = s.base
	if l.slotIndex < 0 {
		l.slotIndex = l.dir.slots.assign()
	}
	l.dir.slots.put(l.slotIndex, l.slot())
	return true, nil
}

func decodeLastSegment(b []byte) (*lastSegment, error) {
	if len(b) < sealedEntrySize+4 || crc32.Checksum(b[:len(b)-4], castagnoli) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return nil, errBadMark
	}
	x := &lastSegment{entry: decodeSealedEntry(b)}
	b = b[sealedEntrySize : len(b)-4]
	at, b, ok := cutEntries(b, offsetEntrySize)
	for ; ok && len(at) > 0; at = at[offsetEntrySize:] {
		x.offsets = append(x.offsets, decodeOffset(at))
	}
	if ok {
		at, b, ok = cutEntries(b, timeEntrySize)
	}
	for ; ok && len(at) > 0; at = at[timeEntrySize:] {
		x.times = append(x.times, decodeTime(at))
	}
	if ok {
		at, b, ok = cutEntries(b, epochEntrySize)
	}
	for ; ok && len(at) > 0; at = at[epochEntrySize:] {
		x.epochs = append(x.epochs, epochEntry{int32(binary.BigEndian.Uint32(at)), int64(binary.BigEndian.Uint64(at[4:]))})
	}
	if !ok {
		return nil, errBadMark
	}
	var err error
	x.producers, err = decodeProducers(b)
	return x, err
}

// cutEntries takes a count and as many entries from the front.
func cutEntries(b []byte, size int) (entries, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint32(b))
	if b = b[4:]; n > len(b)/size {
		return nil, nil, false
	}
	return b[:n*size], b[n*size:], true
}

// markWriter makes the file, beside its name.
type markWriter struct {
	fs   vfs.FS
	name string

	mu    sync.Mutex
	room  int64 // bytes that add may still take
	file  vfs.File
	end   int64
	table []byte
}

// add takes what a lastSegment encodes to, if there is room for it. It may be called again after an error.
func (m *markWriter) add(key slotKey, b []byte) (taken bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if int64(len(b)) > min(m.room, maxLastSegment) {
		return false, nil
	}
	if err := m.putLocked(key, b); err != nil {
		return false, err
	}
	m.room -= int64(len(b))
	return true, nil
}

func (m *markWriter) put(key slotKey, b []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.putLocked(key, b)
}

func (m *markWriter) putLocked(key slotKey, b []byte) error {
	if err := m.writeLocked(b, m.end); err != nil {
		return err
	}
	m.table = append(m.table, key.id[:]...)
	m.table = binary.BigEndian.AppendUint32(m.table, uint32(key.partition))
	m.table = binary.BigEndian.AppendUint64(m.table, uint64(m.end))
	m.table = binary.BigEndian.AppendUint32(m.table, uint32(len(b)))
	m.end += int64(len(b))
	return nil
}

func (m *markWriter) writeLocked(b []byte, at int64) error {
	if m.file == nil {
		f, err := m.fs.OpenFile(m.name+tempSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return storageError("create clean shutdown mark", err)
		}
		m.file = f
	}
	if _, err := m.file.WriteAt(b, at); err != nil {
		return storageError("write clean shutdown mark", err)
	}
	return nil
}

// finish gives the file its name; that is durable with the next sync of the directory.
func (m *markWriter) finish() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := binary.BigEndian.AppendUint64(m.table, uint64(m.end))
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.table)/markEntrySize))
	b = append(b, markMagic...)
	b = binary.BigEndian.AppendUint32(b, markVersion)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if err := m.writeLocked(b, m.end); err != nil {
		return err
	}
	if err := m.file.Sync(); err != nil {
		return storageError("sync clean shutdown mark", err)
	}
	if err := m.fs.Rename(m.name+tempSuffix, m.name); err != nil {
		return storageError("rename clean shutdown mark", err)
	}
	return nil
}

// close lets go of the file. One that did not get its name is removed by the next start too.
func (m *markWriter) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file != nil {
		_ = m.file.Close()
		_ = m.fs.Remove(m.name + tempSuffix)
	}
}

// lastSegments are those of the last clean stop whose logs were not opened since. The zero value has none.
type lastSegments struct {
	mu    sync.Mutex
	file  vfs.File // nil when at is empty
	at    map[slotKey]markedPlace
	bytes int64
}

type markedPlace struct {
	pos  int64
	size int64
}

// openMark reads the table. Errors: os.ErrNotExist, errBadMark, or one of the disk.
func openMark(fs vfs.FS, dir string) (*lastSegments, error) {
	f, err := fs.OpenFile(filepath.Join(dir, cleanFile), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	s := &lastSegments{file: f, at: map[slotKey]markedPlace{}}
	if err := s.readTable(); err != nil {
		_ = f.Close()
		return nil, err
	}
	s.closeIfEmpty()
	return s, nil
}

func (s *lastSegments) readTable() error {
	size, err := s.file.Size()
	if err != nil || size == 0 {
		return err
	}
	footer := make([]byte, markFooter)
	if size < markFooter {
		return errBadMark
	}
	if _, err := s.file.ReadAt(footer, size-markFooter); err != nil {
		return err
	}
	begin, count := int64(binary.BigEndian.Uint64(footer)), int64(binary.BigEndian.Uint32(footer[8:]))
	if string(footer[12:16]) != markMagic || count*markEntrySize > maxMarkTable || begin < 0 || begin != size-markFooter-count*markEntrySize {
		return errBadMark
	}
	if v := binary.BigEndian.Uint32(footer[16:]); v != markVersion {
		return fmt.Errorf("%w: version %d", errBadMark, v)
	}
	b := make([]byte, size-begin)
	if _, err := s.file.ReadAt(b, begin); err != nil {
		return err
	}
	if crc32.Checksum(b[:len(b)-4], castagnoli) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return errBadMark
	}
	for b = b[:count*markEntrySize]; len(b) > 0; b = b[markEntrySize:] {
		key := slotKey{id: kproto.TopicID(b[:16]), partition: int32(binary.BigEndian.Uint32(b[16:]))}
		p := markedPlace{int64(binary.BigEndian.Uint64(b[20:])), int64(binary.BigEndian.Uint32(b[28:]))}
		if p.pos < 0 || p.size > maxLastSegment || p.pos > begin-p.size {
			return errBadMark
		}
		s.at[key] = p
		s.bytes += p.size
	}
	return nil
}

// read gives a log's last segment as it is in the file; nil: it has none there.
func (s *lastSegments) read(key slotKey) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.at[key]
	if !ok {
		return nil, nil
	}
	b := make([]byte, p.size)
	if _, err := s.file.ReadAt(b, p.pos); err != nil {
		return nil, storageError("read "+cleanFile, err)
	}
	return b, nil
}

// find gives a log's last segment; nil: its side files have it. Errors: ErrStorage, or that it is damaged.
func (s *lastSegments) find(key slotKey) (*lastSegment, error) {
	b, err := s.read(key)
	if b == nil || err != nil {
		return nil, err
	}
	return decodeLastSegment(b)
}

// drop forgets a log's last segment: it may have changed by now.
func (s *lastSegments) drop(key slotKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= s.at[key].size
	delete(s.at, key)
	s.closeIfEmpty()
}

// size is how many bytes they have.
func (s *lastSegments) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// copyTo has the next start find what this one did not use. There is room for it.
func (s *lastSegments) copyTo(m *markWriter) error {
	s.mu.Lock()
	keys := slices.Collect(maps.Keys(s.at))
	s.mu.Unlock()
	for _, key := range keys {
		b, err := s.read(key)
		if err != nil {
			return err
		}
		if err := m.put(key, b); err != nil {
			return err
		}
	}
	return nil
}

func (s *lastSegments) closeIfEmpty() {
	if s.file != nil && len(s.at) == 0 {
		_ = s.file.Close()
		s.file = nil
	}
}

func (s *lastSegments) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.at)
	s.closeIfEmpty()
}
