package vfs

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// lockRecords asks for a record lock on all of the file, which ends with its last close.
func lockRecords(f File) error {
	err := onFD(f.OS(), func(fd int) error {
		return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	})
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES):
		return ErrLocked
	case err != nil:
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}

// recordsLocked tells whether another process has such a lock. The file may be open for reading only.
func recordsLocked(f File) (bool, error) {
	l := unix.Flock_t{Type: unix.F_WRLCK}
	err := onFD(f.OS(), func(fd int) error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l) })
	if err != nil {
		return false, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return l.Type != unix.F_UNLCK, nil
}
