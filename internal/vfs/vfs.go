// Package vfs is sluice's only door to the disk. The rest of the program knows FS and
// File; which of three things stands behind them is decided at the top:
//
//   - Disk: the real file system.
//   - Mem: an in-memory file system that can lose power (see mem.go): whatever was
//     not synced may or may not survive, sector by sector and entry by entry.
//   - Inject: a wrapper that fails chosen operations (see inject.go).
//
// The package promises nothing about durability beyond what POSIX does: data is
// durable after File.Sync, a directory entry after SyncDir of its directory.
// It grows no feature that nobody calls.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// ErrLocked is returned by FS.Lock when another process (or another Lock in this one) holds the lock.
var ErrLocked = errors.New("locked by another process")

// FS is a file system. Names use the host's path syntax. Implementations are safe for
// concurrent use. Errors satisfy errors.Is with fs.ErrNotExist, fs.ErrExist and the
// syscall errnos (ENOSPC, EIO, EROFS ...).
type FS interface {
	// OpenFile opens with os.O_* flags. O_APPEND is not used: writes carry their position.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Mkdir makes one directory; its entry is durable after SyncDir of the parent.
	Mkdir(name string, perm fs.FileMode) error
	// Rename replaces newname atomically. Durable after SyncDir of both directories.
	Rename(oldname, newname string) error
	// Remove unlinks a file or an empty directory. An open File goes on working.
	Remove(name string) error
	// ReadDir lists a directory sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the directory's entries durable.
	SyncDir(name string) error
	// Lock creates name if need be and takes an exclusive advisory lock without waiting.
	// It returns an error that is ErrLocked when the lock is held. The lock ends with Close or with the process.
	Lock(name string) (io.Closer, error)
	// Space is the room on the disk that holds name.
	Space(name string) (Space, error)
}

// File is an open file. ReadAt and WriteAt may run concurrently.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Truncate sets the size; durable after Sync.
	Truncate(size int64) error
	// Allocate has the disk keep room for the first size bytes, so that they can be written when it is full. It makes a
	// shorter file longer. It fails with errors.ErrUnsupported where the file system cannot do it.
	Allocate(size int64) error
	// Sync makes data and size durable (fdatasync). After an error the caller must
	// assume that the unsynced data is gone, and must not call Sync again on this file.
	Sync() error
	Size() (int64, error)
	Name() string
	// OS is the file on the real disk, for sendfile, or nil when there is none.
	OS() *os.File
}
