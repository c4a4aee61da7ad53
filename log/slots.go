package log

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// slot is what must be known of a partition beyond its own files. It tells damage from a torn tail: what lies below durable was once
// synced, so if it is bad now, it rotted; what lies above may have been torn by a power cut.
type slot struct {
	id        kproto.TopicID
	partition int32
	durable   int64  // every offset below was synced before this was written
	recovery  int64  // base offset of the first segment that is not sealed and synced: recovery begins there
	start     int64  // log start offset
	epochs    uint32 // CRC-32C of the leader epoch checkpoint as last written, 0 before that: the file has Kafka's format, which has no checksum
	cleaned   cleanPoint
}

// The durable-offsets file is an array of 64-byte slots, overwritten in place: a slot lies within one sector, so a power cut leaves the old or the new one.
//
//	CRC-32C of the rest (u32) | version 1 (u32) | topic id (16) | partition (i32) | CRC-32C of the epoch checkpoint (u32) | durable (i64) | recovery (i64) | start (i64) | cleaned (i64)
//
// A slot that is all zeros is free.
const (
	slotSize    = 64
	slotVersion = 1
	// maxSlotFile bounds what is read at start: a million partitions.
	maxSlotFile = slotSize << 20
	// slotSyncGap bounds how often the file is synced for durable offsets alone. It is also how much acknowledged data, in time, recovery
	// could mistake for a torn tail if it rotted between two syncs of this file and a power cut.
	slotSyncGap = 50 * time.Millisecond
)

func (s slot) encode() []byte {
	b := make([]byte, slotSize)
	binary.BigEndian.PutUint32(b[4:], slotVersion)
	copy(b[8:], s.id[:])
	binary.BigEndian.PutUint32(b[24:], uint32(s.partition))
	binary.BigEndian.PutUint32(b[28:], s.epochs)
	binary.BigEndian.PutUint64(b[32:], uint64(s.durable))
	binary.BigEndian.PutUint64(b[40:], uint64(s.recovery))
	binary.BigEndian.PutUint64(b[48:], uint64(s.start))
	binary.BigEndian.PutUint64(b[56:], uint64(s.cleaned))
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

func decodeSlot(b []byte) (s slot, ok bool) {
	if binary.BigEndian.Uint32(b[4:]) != slotVersion || crc32.Checksum(b[4:slotSize], castagnoli) != binary.BigEndian.Uint32(b) {
		return slot{}, false
	}
	copy(s.id[:], b[8:])
	s.partition = int32(binary.BigEndian.Uint32(b[24:]))
	s.epochs = binary.BigEndian.Uint32(b[28:])
	s.durable = int64(binary.BigEndian.Uint64(b[32:]))
	s.recovery = int64(binary.BigEndian.Uint64(b[40:]))
	s.start = int64(binary.BigEndian.Uint64(b[48:]))
	s.cleaned = cleanPoint(binary.BigEndian.Uint64(b[56:]))
	return s, true
}

// checkSlotVersions refuses slots of a version that is to come. It is they that speak for all files of the data directory: whoever changes the form of any
// raises slotVersion, so that an older broker leaves the directory as it is. A newer slot keeps its size and where its checksum and version stand.
func checkSlotVersions(file string, data []byte) error {
	for ; len(data) >= slotSize; data = data[slotSize:] {
		v := binary.BigEndian.Uint32(data[4:])
		if v > slotVersion && crc32.Checksum(data[4:slotSize], castagnoli) == binary.BigEndian.Uint32(data) {
			return fmt.Errorf("%w: %s has version %d, and this one reads versions up to %d; nothing was changed", ErrNewer, file, v, slotVersion)
		}
	}
	return nil
}

type slotKey struct {
	id        kproto.TopicID
	partition int32
}

// slots is the open durable-offsets file.
type slots struct {
	fs   vfs.FS
	path string

	gap     time.Duration            // between tries to write the file anew
	noticed func(error) (freed bool) // told of errors of the disk

	mu      sync.Mutex
	file    vfs.File
	image   []byte // what the file is to hold
	failed  error  // a write or sync failed: nothing is durable through this file any more; a new one is to be written
	retry   time.Time
	found   map[slotKey]foundSlot
	free    []int
	used    int // slots in the file
	syncing bool
	written uint64 // count of writes
	synced  uint64 // writes covered by the last sync
	last    time.Time
	kick    *time.Timer
	done    *sync.Cond
	created bool // the file's directory entry is not synced yet
	closed  bool
	rotten  int // slots that hold something and do not check
}

type foundSlot struct {
	index int
	slot  slot
}

// openSlots reads the file. A slot that does not check is free: its partition is then recovered from its files alone. Errors: ErrStorage, ErrNewer.
func openSlots(fs vfs.FS, dir string, logger *slog.Logger) (*slots, error) {
	s := &slots{fs: fs, path: filepath.Join(dir, durableFile), gap: retryGap, noticed: func(error) bool { return false }, found: map[slotKey]foundSlot{}}
	s.done = sync.NewCond(&s.mu)
	data, err := vfs.ReadFile(fs, s.path, maxSlotFile)
	if os.IsNotExist(err) {
		return s, nil
	}
	if err != nil {
		return nil, storageError("read durable offsets", err)
	}
	if err := checkSlotVersions(s.path, data); err != nil {
		return nil, err
	}
	s.used = len(data) / slotSize
	s.image = data[:s.used*slotSize]
	for i := range s.used {
		raw := data[i*slotSize : (i+1)*slotSize]
		sl, ok := decodeSlot(raw)
		if ok {
			s.take(i, sl)
			continue
		}
		s.free = append(s.free, i)
		if !isZero(raw) {
			s.rotten++
		}
	}
	if s.rotten > 0 {
		logger.Warn("durable offsets are damaged, or were torn by a power cut: their partitions are recovered from their files alone", "file", s.path, "slots", s.rotten)
	}
	return s, nil
}

func isZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// settle makes what was read durable, if there is a file. It writes it again first, for the reason that recovery.renew gives.
func (s *slots) settle() error {
	s.mu.Lock()
	if s.used == 0 {
		s.mu.Unlock()
		return nil
	}
	err := s.rewriteLocked()
	n := s.written
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.sync(n)
}

func (s *slots) rewriteLocked() error {
	if err := s.openLocked(); err != nil {
		return err
	}
	s.written++
	if _, err := s.file.WriteAt(s.image, 0); err != nil {
		return storageError("write durable offsets again", err)
	}
	return nil
}

func (s *slots) openLocked() error {
	if s.file != nil {
		return nil
	}
	f, err := s.fs.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return storageError("open durable offsets", err)
	}
	s.file, s.created = f, true
	return nil
}

// take keeps the slot that is further on if a partition has two.
func (s *slots) take(i int, sl slot) {
	key := slotKey{sl.id, sl.partition}
	if old, twice := s.found[key]; twice {
		if old.slot.durable >= sl.durable {
			s.free = append(s.free, i)
			return
		}
		s.free = append(s.free, old.index)
	}
	s.found[key] = foundSlot{i, sl}
}

// claim gives the slot of a partition from the last run.
func (s *slots) claim(id kproto.TopicID, partition int32) (index int, sl slot, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.found[slotKey{id, partition}]
	return f.index, f.slot, ok
}

// assign finds room for a partition that has no slot.
func (s *slots) assign() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	s.used++
	return s.used - 1
}

// write puts a slot into the file, not yet durably; it gives the number of the write.
func (s *slots) write(index int, sl slot) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeLocked(index, sl.encode())
}

func (s *slots) writeLocked(index int, b []byte) (uint64, error) {
	if s.closed {
		return 0, ErrClosed
	}
	if n := (index + 1) * slotSize; n > len(s.image) {
		s.image = append(s.image, make([]byte, n-len(s.image))...)
	}
	copy(s.image[index*slotSize:], b)
	if s.failed != nil {
		s.written++
		return s.written, nil // goes into the new file
	}
	if err := s.openLocked(); err != nil {
		return 0, err
	}
	s.written++
	if _, err := s.file.WriteAt(b, int64(index)*slotSize); err != nil {
		s.fail(fmt.Errorf("write durable offsets: %w: %w", ErrStorage, err))
		return 0, s.failed
	}
	return s.written, nil
}

// release frees the slot of a deleted partition.
func (s *slots) release(index int, key slotKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.writeLocked(index, make([]byte, slotSize)); err == nil {
		s.free = append(s.free, index)
	}
	delete(s.found, key)
}

// note records a durable offset soon: written now, synced within slotSyncGap.
func (s *slots) note(index int, sl slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.writeLocked(index, sl.encode()); err != nil || s.kick != nil || s.closed {
		return
	}
	s.kick = time.AfterFunc(max(0, slotSyncGap-time.Since(s.last)), s.syncSoon)
}

func (s *slots) syncSoon() {
	s.mu.Lock()
	s.kick = nil
	upTo := s.written
	s.mu.Unlock()
	_ = s.sync(upTo) // a failure is remembered in failed
}

// sync returns when write number n is durable. One sync serves all who wait. After a failed one the file is written anew, at most once each gap.
func (s *slots) sync(n uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.syncing && s.synced < n {
		s.done.Wait()
	}
	if s.synced >= n {
		return nil
	}
	if s.failed != nil && time.Now().Before(s.retry) {
		return s.failed
	}
	s.syncing = true
	upTo, renewing := s.written, s.failed != nil
	err := s.syncUnlocked(upTo)
	s.syncing, s.last = false, time.Now()
	s.done.Broadcast()
	if err != nil {
		s.fail(fmt.Errorf("sync durable offsets: %w: %w", ErrStorage, err))
		return s.failed
	}
	s.synced, s.created = upTo, false
	if renewing {
		s.failed = nil
	}
	return nil
}

// syncUnlocked lets go of the lock while it waits for the disk.
func (s *slots) syncUnlocked(upTo uint64) error {
	if s.failed != nil {
		return s.renewFile(upTo)
	}
	file, created := s.file, s.created
	s.mu.Unlock()
	defer s.mu.Lock()
	err := file.Sync()
	if err == nil && created {
		err = s.fs.SyncDir(filepath.Dir(s.path))
	}
	return err
}

// fail has the file written anew soon, whether anybody asks or not.
func (s *slots) fail(err error) {
	s.noticed(err)
	s.failed = err
	s.retry = time.Now().Add(s.gap)
	if s.kick == nil && !s.closed {
		s.kick = time.AfterFunc(max(s.gap, slotSyncGap), s.syncSoon)
	}
}

// renewFile puts a new file in the place of one whose sync has failed: nobody knows what of that is on the disk. It is called with the lock held,
// and lets go of it while it waits for the disk.
func (s *slots) renewFile(upTo uint64) error {
	image := bytes.Clone(s.image)
	s.mu.Unlock()
	file, err := writeRenamed(s.fs, s.path, image)
	s.mu.Lock()
	if err != nil {
		return err
	}
	if s.file != nil {
		_ = s.file.Close() // what was written there is in the new file
	}
	s.file = file
	if s.written == upTo {
		return nil
	}
	_, err = file.WriteAt(s.image, 0)
	return err
}

// writeRenamed replaces a file durably, and gives the new one.
func writeRenamed(fs vfs.FS, name string, data []byte) (vfs.File, error) {
	f, err := fs.OpenFile(name+tempSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = fs.Rename(name+tempSuffix, name)
	}
	if err == nil {
		err = fs.SyncDir(filepath.Dir(name))
	}
	if err != nil {
		_ = f.Close() // it is written again
		return nil, err
	}
	return f, nil
}

// close syncs what was written.
func (s *slots) close() error {
	s.mu.Lock()
	s.stopKick()
	upTo, file := s.written, s.file
	s.retry = time.Time{}
	s.mu.Unlock()
	if file == nil {
		return nil
	}
	err := s.sync(upTo)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.stopKick()
	if cerr := s.file.Close(); err == nil && cerr != nil {
		err = storageError("close durable offsets", cerr)
	}
	return err
}

func (s *slots) stopKick() {
	if s.kick != nil {
		s.kick.Stop()
		s.kick = nil
	}
}
