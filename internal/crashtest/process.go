package crashtest

import (
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"sync"
	"sync/atomic"

	"sluice/internal/vfs"
)

// ErrKilled is what a dead process gets from the disk.
var ErrKilled = errors.New("the process was killed")

// Process is a file system as one process has it. After Kill nothing that the process does
// reaches the disk and its locks are free; the disk keeps all that was written, and still
// knows what of it is not synced. The next process makes its own Process of the same FS.
type Process struct {
	fs   vfs.FS
	dead atomic.Bool

	mu    sync.Mutex
	locks []io.Closer
}

var _ vfs.FS = (*Process)(nil)

// NewProcess starts a process.
func NewProcess(fs vfs.FS) *Process { return &Process{fs: fs} }

// Kill ends the process. An operation under way may still happen.
func (p *Process) Kill() {
	p.dead.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.locks {
		_ = l.Close() // a lock that was given back is closed twice, which does nothing
	}
}

// Dead tells whether the process was killed.
func (p *Process) Dead() bool { return p.dead.Load() }

func (p *Process) alive(op, name string) error {
	if p.dead.Load() {
		return &iofs.PathError{Op: op, Path: name, Err: ErrKilled}
	}
	return nil
}

func (p *Process) OpenFile(name string, flag int, perm iofs.FileMode) (vfs.File, error) {
	if err := p.alive("open", name); err != nil {
		return nil, err
	}
	f, err := p.fs.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return processFile{f, p}, nil
}

func (p *Process) Mkdir(name string, perm iofs.FileMode) error {
	if err := p.alive("mkdir", name); err != nil {
		return err
	}
	return p.fs.Mkdir(name, perm)
}

func (p *Process) Rename(oldname, newname string) error {
	if err := p.alive("rename", oldname); err != nil {
		return err
	}
	return p.fs.Rename(oldname, newname)
}

func (p *Process) Remove(name string) error {
	if err := p.alive("remove", name); err != nil {
		return err
	}
	return p.fs.Remove(name)
}

func (p *Process) ReadDir(name string) ([]iofs.DirEntry, error) {
	if err := p.alive("readdir", name); err != nil {
		return nil, err
	}
	return p.fs.ReadDir(name)
}

func (p *Process) Stat(name string) (iofs.FileInfo, error) {
	if err := p.alive("stat", name); err != nil {
		return nil, err
	}
	return p.fs.Stat(name)
}

func (p *Process) SyncDir(name string) error {
	if err := p.alive("syncdir", name); err != nil {
		return err
	}
	return p.fs.SyncDir(name)
}

func (p *Process) Lock(name string) (io.Closer, error) {
	if err := p.alive("lock", name); err != nil {
		return nil, err
	}
	l, err := p.fs.Lock(name)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.locks = append(p.locks, l)
	return l, nil
}

func (p *Process) Space(name string) (vfs.Space, error) {
	if err := p.alive("stat", name); err != nil {
		return vfs.Space{}, err
	}
	return p.fs.Space(name)
}

type processFile struct {
	vfs.File
	p *Process
}

func (f processFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.p.alive("read", f.Name()); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

func (f processFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.p.alive("write", f.Name()); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, off)
}

func (f processFile) Truncate(size int64) error {
	if err := f.p.alive("truncate", f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f processFile) Allocate(size int64) error {
	if err := f.p.alive("allocate", f.Name()); err != nil {
		return err
	}
	return f.File.Allocate(size)
}

func (f processFile) Sync() error {
	if err := f.p.alive("sync", f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

// OS is nil, so that no read goes past a dead process.
func (f processFile) OS() *os.File { return nil }
