package log

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/internal/vfs"
)

// ballastShare bounds the ballast on a small disk, to one in so many bytes of it.
const ballastShare = 64

// spaceGap is how often a full disk is looked at for space.
const spaceGap = time.Second

// space keeps deletions going when the disk is full. A file, the ballast, holds some room. When the disk refuses a write for want of space, the
// ballast is given up, files of deleted segments no longer wait, and clients' appends are refused, so that what it leaves is there for the
// records, renames and slots of deletions. When the ballast can be restored and as much again is free, appends are taken again.
type space struct {
	fs     vfs.FS
	dir    string
	name   string
	reaper *reaper
	logger *slog.Logger
	size   int64 // of the ballast; 0: there is none, and each append asks the disk

	full atomic.Bool

	mu     sync.Mutex
	timer  *time.Timer
	freed  time.Time // when the ballast was last given up
	closed bool
}

// open makes the ballast, or goes without one.
func (s *space) open(bytes int64) {
	if bytes <= 0 {
		_ = s.fs.Remove(s.name) // one of an earlier run
		return
	}
	room, err := s.fs.Space(s.dir)
	if err != nil || room.Total <= 0 {
		return
	}
	size := min(bytes, room.Total/ballastShare)
	if err := s.allocate(size); err != nil {
		s.logger.Warn("no ballast file: on a full disk deletions may fail", "file", s.name, "bytes", size, "error", err)
		if errors.Is(err, errors.ErrUnsupported) {
			return
		}
	}
	s.size = size
}

func (s *space) allocate(size int64) error {
	f, err := s.fs.OpenFile(s.name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err = f.Allocate(size); err == nil {
		err = f.Truncate(size) // it may have been larger
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		_ = s.fs.Remove(s.name)
	}
	return err
}

// noticed looks at an error of the disk. It tells whether room was just made for what failed, be it for another that failed at the same time.
func (s *space) noticed(err error) (freed bool) {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return false
	}
	s.reaper.hurry()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size == 0 || s.closed {
		return false
	}
	if s.full.Load() {
		return time.Since(s.freed) < spaceGap
	}
	s.full.Store(true)
	rerr := s.fs.Remove(s.name)
	if rerr == nil {
		s.freed = time.Now()
	}
	s.logger.Error("the disk is full: appends are refused until there is space; reads and deletions go on", "directory", s.dir, "error", err)
	s.timer = time.AfterFunc(spaceGap, s.look)
	return rerr == nil
}

// look takes appends again if there is space.
func (s *space) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	room, err := s.fs.Space(s.dir)
	if err == nil && room.Usable >= 2*s.size && s.allocate(s.size) == nil {
		s.full.Store(false)
		s.logger.Warn("there is space on the disk again: appends are taken", "directory", s.dir, "usable", room.Usable)
		return
	}
	s.timer = time.AfterFunc(spaceGap, s.look)
}

// appendable refuses appends of clients while the disk is full.
func (s *space) appendable() error {
	if s.full.Load() {
		return fmt.Errorf("%w: the disk is full", ErrStorage)
	}
	return nil
}

func (s *space) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// Disk is the room on the disk of the data directory.
type Disk struct {
	Total, Usable int64 // bytes; -1: unknown. The ballast is not usable.
	Full          bool  // appends are refused
}

// Disk looks at the disk.
func (d *Dir) Disk() Disk {
	room, err := d.fs.Space(d.path)
	if err != nil || room.Total <= 0 {
		return Disk{-1, -1, d.space.full.Load()}
	}
	return Disk{room.Total, room.Usable, d.space.full.Load()}
}
