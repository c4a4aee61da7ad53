package crashtest

import (
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"sluice/internal/vfs"
)

// SmallDisk is a file system that holds so many bytes and no more. Files count by their size.
type SmallDisk struct {
	vfs.FS
	Bytes int64

	mu sync.Mutex
}

// Space of the whole disk.
func (d *SmallDisk) Space(string) (vfs.Space, error) {
	used, err := d.used("/")
	return vfs.Space{Total: d.Bytes, Usable: max(0, d.Bytes-used)}, err
}

func (d *SmallDisk) used(dir string) (n int64, err error) {
	entries, err := d.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			below, err := d.used(name)
			if err != nil {
				return 0, err
			}
			n += below
			continue
		}
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		n += info.Size()
	}
	return n, nil
}

func (d *SmallDisk) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return smallFile{f, d}, nil
}

type smallFile struct {
	vfs.File
	d *SmallDisk
}

// grow runs f, which makes the file so long, if there is space.
func (s smallFile) grow(end int64, f func() error) error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	size, err := s.Size()
	if err != nil {
		return err
	}
	if end > size {
		used, err := s.d.used("/")
		if err != nil {
			return err
		}
		if used+end-size > s.d.Bytes {
			return &fs.PathError{Op: "write", Path: s.Name(), Err: syscall.ENOSPC}
		}
	}
	return f()
}

func (s smallFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = s.grow(off+int64(len(p)), func() error {
		n, err = s.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (s smallFile) Allocate(size int64) error {
	return s.grow(size, func() error { return s.File.Allocate(size) })
}
