package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrTooLarge is returned by ReadFile for a file above the caller's bound.
var ErrTooLarge = errors.New("file is larger than allowed")

// Exists reports whether name exists. An error means that this could not be found out.
func Exists(fsys FS, name string) (bool, error) {
	_, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// MkdirAll makes name and the parents that are missing, and returns those that it made,
// outermost first, so that the caller can sync the parent of each.
func MkdirAll(fsys FS, name string, perm fs.FileMode) (created []string, err error) {
	name = filepath.Clean(name)
	info, err := fsys.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return nil, nil
	case err == nil:
		return nil, &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if parent := filepath.Dir(name); parent != name {
		if created, err = MkdirAll(fsys, parent, perm); err != nil {
			return created, err
		}
	}
	if err := fsys.Mkdir(name, perm); err != nil {
		return created, err
	}
	return append(created, name), nil
}

// RemoveAll removes name and what is below it; a missing name is no error. It is not
// atomic: who needs that renames the directory first and syncs the parent.
func RemoveAll(fsys FS, name string) error {
	err := fsys.Remove(name)
	if errors.Is(err, syscall.ENOTEMPTY) {
		err = removeChildren(fsys, name)
		if err == nil {
			err = fsys.Remove(name)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func removeChildren(fsys FS, name string) error {
	entries, err := fsys.ReadDir(name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := RemoveAll(fsys, filepath.Join(name, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// ReadFile reads a whole file of at most maxBytes; a larger one gives ErrTooLarge and costs no memory.
func ReadFile(fsys FS, name string, maxBytes int64) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxBytes {
		return nil, &fs.PathError{Op: "read", Path: name,
			Err: fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, maxBytes)}
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if n == len(data) {
		return data, nil
	}
	if err == io.EOF {
		err = &fs.PathError{Op: "read", Path: name, Err: io.ErrUnexpectedEOF}
	}
	return nil, err
}

// WriteFileAtomic replaces name by a file of the given content, durably: after a power cut
// at any moment name holds the old content or the new one, and the new one once this has
// returned nil. After an error it may be either. It passes through name + ".tmp", which a
// power cut may leave behind, so two calls for one name must not overlap.
func WriteFileAtomic(fsys FS, name string, data []byte, perm fs.FileMode) error {
	tmp := name + ".tmp"
	err := writeSynced(fsys, tmp, data, perm)
	if err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err != nil {
		_ = fsys.Remove(tmp) // the first error is the one that tells
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

func writeSynced(fsys FS, name string, data []byte, perm fs.FileMode) error {
	f, err := fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
