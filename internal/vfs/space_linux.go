package vfs

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

func (Disk) Space(name string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(name, &s); err != nil {
		return Space{}, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return Space{Total: int64(s.Blocks) * s.Frsize, Usable: int64(s.Bavail) * s.Frsize}, nil
}

// Allocate fails with errors.ErrUnsupported where the file system cannot do it.
func (f diskFile) Allocate(size int64) error {
	if err := onFD(f.File, func(fd int) error { return unix.Fallocate(fd, 0, 0, size) }); err != nil {
		return &fs.PathError{Op: "allocate", Path: f.Name(), Err: err}
	}
	return nil
}
