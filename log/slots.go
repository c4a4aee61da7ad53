package log

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// slotSyncGap bounds how often the file is written and synced for durable offsets alone. It is also how much acknowledged data, in time, recovery
// could mistake for a torn tail if it rotted between two syncs of this file and the end of the process.
const slotSyncGap = 50 * time.Millisecond

type slotKey struct {
	id        kproto.TopicID
	partition int32
}

// slots is the open durable-offsets file. A slot is put into an image of the file in memory; sync writes it and makes it durable. So a slot can be put while
// its log is locked: not even the write may be made there, as it waits for the disk too where the page is just being written back.
type slots struct {
	fs   vfs.FS
	path string

	gap     time.Duration            // between tries to write the file anew
	noticed func(error) (freed bool) // told of errors of the disk

	mu      sync.Mutex
	image   []byte           // what the file is to hold
	changed map[int]struct{} // slots of the image that are not in the file
	whole   bool             // so is all of it
	failed  error            // a write or sync failed: nothing is durable through this file any more; a new one is to be written
	retry   time.Time
	found   map[slotKey]foundSlot
	free    []int
	used    int    // slots in the file
	puts    uint64 // count of changes to the image
	synced  uint64 // changes that are durable
	last    time.Time
	kick    *time.Timer
	closed  bool
	rotten  int // slots that hold something and do not check

	syncing bool // by one goroutine at a time; file and created are its own
	done    *sync.Cond
	file    vfs.File
	created bool // the file's directory entry is not synced yet
}

type foundSlot struct {
	index int
	slot  slot
}

// openSlots reads the file. A slot that does not check is free: its partition is then recovered from its files alone. Errors: ErrStorage, ErrNewer.
func openSlots(fs vfs.FS, dir string, logger *slog.Logger) (*slots, error) {
	s := &slots{fs: fs, path: filepath.Join(dir, durableFile), gap: retryGap, noticed: func(error) bool { return false },
		changed: map[int]struct{}{}, found: map[slotKey]foundSlot{}}
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
	s.whole = true
	s.puts++
	n := s.puts
	s.mu.Unlock()
	return s.sync(n)
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

// put changes a slot, in memory alone; it gives the number that sync wants.
func (s *slots) put(index int, sl slot) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putLocked(index, sl.encode())
}

func (s *slots) putLocked(index int, b []byte) uint64 {
	if n := (index + 1) * slotSize; n > len(s.image) {
		s.image = append(s.image, make([]byte, n-len(s.image))...)
	}
	copy(s.image[index*slotSize:], b)
	s.changed[index] = struct{}{}
	s.puts++
	return s.puts
}

// note records a durable offset soon: within slotSyncGap.
func (s *slots) note(index int, sl slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(index, sl.encode())
	s.syncWithin(slotSyncGap - time.Since(s.last))
}

// release frees the slot of a deleted partition, soon.
func (s *slots) release(index int, key slotKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(index, make([]byte, slotSize))
	s.syncWithin(slotSyncGap - time.Since(s.last))
	s.free = append(s.free, index)
	delete(s.found, key)
}

// syncWithin sets the timer unless it is set. Called with mu held.
func (s *slots) syncWithin(d time.Duration) {
	if s.kick == nil && !s.closed {
		s.kick = time.AfterFunc(max(0, d), s.syncSoon)
	}
}

func (s *slots) syncSoon() {
	s.mu.Lock()
	s.kick = nil
	upTo := s.puts
	s.mu.Unlock()
	_ = s.sync(upTo) // a failure is remembered in failed
}

// sync returns when change number n is durable. One sync serves all who wait. After a failed one the file is written anew, at most once each gap.
// Errors: ErrStorage, ErrClosed.
func (s *slots) sync(n uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.syncing && s.synced < n {
		s.done.Wait()
	}
	switch {
	case s.synced >= n:
		return nil
	case s.closed:
		return ErrClosed
	case s.failed != nil && time.Now().Before(s.retry):
		return s.failed
	}
	s.syncing = true
	upTo := s.puts
	err := s.flush()
	s.syncing, s.last = false, time.Now()
	s.done.Broadcast()
	if err != nil {
		s.fail(fmt.Errorf("write durable offsets: %w: %w", ErrStorage, err))
		return s.failed
	}
	s.synced, s.failed = upTo, nil
	return nil
}

// flush writes what has changed and makes it durable. It lets go of the lock while it waits for the disk.
func (s *slots) flush() error {
	parts, anew := s.takeChanged(), s.failed != nil
	s.mu.Unlock()
	defer s.mu.Lock()
	var err error
	if anew {
		err = s.renewFile(parts[0].data)
	} else {
		err = s.writeParts(parts)
	}
	if err != nil {
		s.noticed(err)
	}
	return err
}

// slotRun is a part of the image: slots beside each other, as of one moment.
type slotRun struct {
	at   int64
	data []byte
}

// takeChanged copies what is not in the file yet. Called with mu held.
func (s *slots) takeChanged() (parts []slotRun) {
	defer clear(s.changed)
	if s.whole {
		s.whole = false
		return []slotRun{{0, bytes.Clone(s.image)}}
	}
	next := -1
	for _, i := range slices.Sorted(maps.Keys(s.changed)) {
		b := s.image[i*slotSize : (i+1)*slotSize]
		if i == next {
			last := &parts[len(parts)-1]
			last.data = append(last.data, b...)
		} else {
			parts = append(parts, slotRun{int64(i) * slotSize, bytes.Clone(b)})
		}
		next = i + 1
	}
	return parts
}

func (s *slots) writeParts(parts []slotRun) error {
	if s.file == nil {
		f, err := s.fs.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		s.file, s.created = f, true
	}
	for _, p := range parts {
		if _, err := s.file.WriteAt(p.data, p.at); err != nil {
			return err
		}
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	if s.created {
		if err := s.fs.SyncDir(filepath.Dir(s.path)); err != nil {
			return err
		}
		s.created = false
	}
	return nil
}

// fail has the file written anew soon, whether anybody asks or not. Called with mu held.
func (s *slots) fail(err error) {
	s.failed, s.whole = err, true
	s.retry = time.Now().Add(s.gap)
	s.syncWithin(max(s.gap, slotSyncGap))
}

// renewFile puts a new file in the place of one of which a write or sync has failed: nobody knows what of that is on the disk.
func (s *slots) renewFile(image []byte) error {
	file, err := writeRenamed(s.fs, s.path, image)
	if err != nil {
		return err
	}
	if s.file != nil {
		_ = s.file.Close() // what was written there is in the new file
	}
	s.file, s.created = file, false
	return nil
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

// close makes what was put durable.
func (s *slots) close() error {
	s.mu.Lock()
	s.retry = time.Time{}
	upTo := s.puts
	s.mu.Unlock()
	err := s.sync(upTo)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.kick != nil {
		s.kick.Stop()
	}
	for s.syncing {
		s.done.Wait()
	}
	if s.file == nil {
		return err
	}
	if cerr := s.file.Close(); err == nil && cerr != nil {
		err = storageError("close durable offsets", cerr)
	}
	return err
}
