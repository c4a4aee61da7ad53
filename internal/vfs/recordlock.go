package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// LockJava takes the lock that a program in Java takes with FileChannel.tryLock, which flock(2) knows nothing of. It makes no file: where there
// is none there is nothing to lock. On a disk that cannot be written it only looks. It returns an error that is ErrLocked when the lock is held.
func LockJava(fsys FS, name string) (io.Closer, error) {
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	readOnly := errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)
	if readOnly {
		f, err = fsys.OpenFile(name, os.O_RDONLY, 0)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothing{}, nil
	case err != nil:
		return nil, err
	case f.OS() == nil: // no other process sees this disk
		return f, nil
	case readOnly:
		held, lerr := recordsLocked(f)
		if err = lerr; held {
			err = ErrLocked
		}
	default:
		err = lockRecords(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

type nothing struct{}

func (nothing) Close() error { return nil }
