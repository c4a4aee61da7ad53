package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Disk is the real file system.
type Disk struct{}

var _ FS = Disk{}

func (Disk) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

func (Disk) Mkdir(name string, perm fs.FileMode) error  { return os.Mkdir(name, perm) }
func (Disk) Rename(oldname, newname string) error       { return os.Rename(oldname, newname) }
func (Disk) Remove(name string) error                   { return os.Remove(name) }
func (Disk) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (Disk) Stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }

func (Disk) SyncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Lock uses flock(2): the kernel drops it with the process, so a kill leaves no stale lock.
func (Disk) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = onFD(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	f.Close()
	return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
}

// diskFile is os.File, whose ReadAt and WriteAt already go on after EINTR and short counts.
type diskFile struct{ *os.File }

func (f diskFile) Sync() error {
	if err := onFD(f.File, datasync); err != nil {
		return &fs.PathError{Op: "sync", Path: f.Name(), Err: err}
	}
	return nil
}

func (f diskFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f diskFile) OS() *os.File { return f.File }

// onFD makes a system call on f's descriptor, which a concurrent Close cannot pull away, and
// repeats it as long as a signal interrupts it.
func onFD(f *os.File, call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	ctlErr := conn.Control(func(fd uintptr) {
		for {
			if err = call(int(fd)); err != unix.EINTR {
				return
			}
		}
	})
	if ctlErr != nil {
		return fs.ErrClosed // the only error that Control has of its own
	}
	return err
}
