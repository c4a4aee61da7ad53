package vfs

import (
	"cmp"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// sectorSize is what a disk writes as one, in bytes.
const sectorSize = 512

// memFile is an open file of a Mem.
type memFile struct {
	m      *Mem
	ino    *inode
	name   string
	flag   int
	closed atomic.Bool
}

func (m *Mem) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	var f *memFile
	open := func() error {
		ino, err := m.open(name, flag, perm)
		f = &memFile{m: m, ino: ino, name: name, flag: flag}
		return err
	}
	var err error
	if kind := openKind(flag); kind == OpCreate {
		err = m.mutate(kind, name, open)
	} else {
		err = m.view(kind, name, open)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (m *Mem) open(name string, flag int, perm fs.FileMode) (*inode, error) {
	at, err := m.locate(name)
	switch {
	case err == syscall.EBUSY:
		return nil, syscall.EISDIR
	case err != nil:
		return nil, err
	case at.to == nil && flag&os.O_CREATE == 0:
		return nil, syscall.ENOENT
	case at.to == nil:
		at.to = &inode{mode: perm.Perm(), mtime: time.Now()}
		m.edit(Item{Kind: OpCreate, Name: clean(name)}, at)
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, syscall.EEXIST
	case at.to.isDir():
		return nil, syscall.EISDIR
	}
	if flag&os.O_TRUNC != 0 {
		m.resize(at.to, name, 0)
	}
	return at.to, nil
}

// Lock locks the file itself, as flock does, so that it follows the file through a rename.
func (m *Mem) Lock(name string) (io.Closer, error) {
	var held *memLock
	err := m.mutate(OpLock, name, func() error {
		ino, err := m.open(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if ino.locked {
			return ErrLocked
		}
		ino.locked = true
		held = &memLock{m: m, ino: ino}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

type memLock struct {
	m    *Mem
	ino  *inode
	once sync.Once
}

func (l *memLock) Close() error {
	l.once.Do(func() {
		l.m.mu.Lock()
		defer l.m.mu.Unlock()
		l.ino.locked = false
	})
	return nil
}

// resize sets a file's size and remembers that it is not yet durable.
func (m *Mem) resize(ino *inode, name string, size int64) {
	if size == ino.content.size {
		return
	}
	ino.content.resize(size)
	m.remember(&change{Item: Item{Kind: OpTruncate, Name: clean(name), Size: size, Sectors: 1}, ino: ino})
}

// write puts data at off, and remembers the sectors and then the size that it changed.
func (m *Mem) write(ino *inode, name string, data []byte, off int64) {
	end := off + int64(len(data))
	ino.content.write(data, off)
	first, last := off/sectorSize, (end+sectorSize-1)/sectorSize
	image := make([]byte, (last-first)*sectorSize)
	ino.content.read(image, first*sectorSize)
	m.remember(&change{
		Item: Item{Kind: OpWrite, Name: clean(name), Off: off, Len: len(data), Sectors: int(last - first)},
		ino:  ino, image: image,
	})
	m.resize(ino, name, max(ino.content.size, end))
	if size := ino.syncedSize(); size < end { // a failed Sync dropped the size; writing back this data sets it
		m.remember(&change{Item: Item{Kind: OpTruncate, Name: clean(name), Size: end, Sectors: 1}, ino: ino})
	}
}

// syncedSize is the size that the file has after the next Sync. It is less than what programs see only after a failed one.
func (ino *inode) syncedSize() int64 {
	for _, c := range slices.Backward(ino.pending) {
		if c.Kind == OpTruncate {
			return c.Size
		}
	}
	return ino.durable.size
}

func (m *Mem) remember(c *change) {
	m.seq++
	c.seq = m.seq
	c.ino.pending = append(c.ino.pending, c)
	c.ino.mtime = time.Now()
}

// check says why f cannot be used in this access mode.
func (f *memFile) check(forbidden int) error {
	switch {
	case f.closed.Load():
		return fs.ErrClosed
	case f.flag&(os.O_RDONLY|os.O_WRONLY|os.O_RDWR) == forbidden:
		return syscall.EBADF
	}
	return nil
}

// anyAccess forbids no access mode.
const anyAccess = -1

func (f *memFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.m.view(OpRead, f.name, func() error {
		if err := f.check(os.O_WRONLY); err != nil {
			return err
		}
		if off < 0 {
			return syscall.EINVAL
		}
		n = int(max(0, min(int64(len(p)), f.ino.content.size-off)))
		f.ino.content.read(p[:n], off)
		return nil
	})
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.m.mutate(OpWrite, f.name, func() error {
		if err := f.check(os.O_RDONLY); err != nil {
			return err
		}
		switch {
		case off < 0:
			return syscall.EINVAL
		case off > maxMemFile-int64(len(p)):
			return syscall.EFBIG
		case len(p) > 0:
			f.m.write(f.ino, f.name, p, off)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *memFile) Truncate(size int64) error {
	return f.m.mutate(OpTruncate, f.name, func() error {
		if err := f.check(os.O_RDONLY); err != nil {
			return err
		}
		switch {
		case size < 0:
			return syscall.EINVAL
		case size > maxMemFile:
			return syscall.EFBIG
		}
		f.m.resize(f.ino, f.name, size)
		return nil
	})
}

// Allocate only makes the file longer: there is no room to run out of.
func (f *memFile) Allocate(size int64) error {
	have, err := f.Size()
	if err != nil || have >= size {
		return err
	}
	return f.Truncate(size)
}

// Space is not known.
func (m *Mem) Space(string) (Space, error) { return Space{}, nil }

// Sync costs as much as was written since the last one, not as much as the file is long.
func (f *memFile) Sync() error {
	return f.m.mutate(OpSync, f.name, func() error {
		if err := f.check(anyAccess); err != nil {
			return err
		}
		ino := f.ino
		for _, c := range ino.pending {
			if c.Kind == OpTruncate {
				ino.durable.resize(c.Size)
			}
		}
		for _, c := range ino.pending {
			if c.Kind == OpWrite {
				for i := c.Off / pageSize; i*pageSize < c.Off+int64(c.Len); i++ {
					ino.durable.share(&ino.content, int(i))
				}
			}
		}
		ino.pending = nil
		return nil
	})
}

// dropUnsynced is what a kernel does when a write-back fails: the pages count as clean and
// stay readable, the disk has none of them, and the next Sync has nothing to complain about.
func (f *memFile) dropUnsynced() {
	f.m.still.Lock()
	defer f.m.still.Unlock()
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.ino.pending = nil
}

func (f *memFile) Size() (size int64, err error) {
	err = f.m.view(OpStat, f.name, func() error {
		size = f.ino.content.size
		return f.check(anyAccess)
	})
	return size, err
}

// Close works without power too: it asks nothing of the disk.
func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	return nil
}

func (f *memFile) Name() string { return f.name }
func (f *memFile) OS() *os.File { return nil }

// memInfo is an inode at one moment.
type memInfo struct {
	name  string
	size  int64
	mode  fs.FileMode
	mtime time.Time
}

func (ino *inode) info(name string) fs.FileInfo {
	return memInfo{name: name, size: ino.content.size, mode: ino.mode, mtime: ino.mtime}
}

func (ino *inode) list() []fs.DirEntry {
	list := make([]fs.DirEntry, 0, len(ino.entries))
	for name, child := range maps.All(ino.entries) {
		list = append(list, fs.FileInfoToDirEntry(child.info(name)))
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return list
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.mtime }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
