package vfs

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrPowerOff is what every operation on a Mem gives after PowerOff.
var ErrPowerOff = errors.New("the power is off")

// Mem is a file system in memory that can lose power. Its names start at one root; a
// relative name is taken from there too. Beside the files as programs see them it knows
// what of them is durable and, in order, each change that is not yet; Crash makes of these
// the disk that a machine may find after a power cut.
type Mem struct {
	still sync.Mutex // held by Pause and by what changes m; taken before mu

	mu   sync.RWMutex // guards all below, and every inode and blob
	root *inode
	seq  uint64 // number of the last change
	ops  int    // number of the last mutating operation
	hook func(Op)
	off  bool
}

var _ FS = (*Mem)(nil)

// Op announces a mutating operation to the hook of Mem.OnOp.
type Op struct {
	Kind Kind   // one of OpMutating
	Name string // as given by the caller; the old name of a rename
	N    int    // 1 for the first mutating operation of this Mem
}

// inode is a file or a directory, apart from its name.
type inode struct {
	mode    fs.FileMode
	mtime   time.Time
	locked  bool
	pending []*change // not durable yet, oldest first

	content blob // a file as seen by programs
	durable blob // as of its last Sync

	entries map[string]*inode // a directory as seen by programs; nil for a file
	synced  map[string]*inode // as of its last SyncDir; nil while nothing is pending
}

func (ino *inode) isDir() bool { return ino.entries != nil }

// change is one thing that a power cut may undo. See Item for what the kinds mean.
type change struct {
	Item
	seq   uint64
	ino   *inode // of data and sizes
	image []byte // data: the whole sectors that it touches as they are after it
	edits []edit // entries: one, or two for a rename
}

// edit sets one entry of a directory; to is nil when the entry goes.
type edit struct {
	dir    *inode
	name   string
	to     *inode
	synced bool
}

// NewMem returns an empty file system.
func NewMem() *Mem {
	return &Mem{root: newDir(fs.ModeDir | 0o777)}
}

func newDir(mode fs.FileMode) *inode {
	return &inode{mode: mode, mtime: time.Now(), entries: map[string]*inode{}}
}

// OnOp sets a function that is called before each mutating operation, in the goroutine that
// makes it. It holds no lock: it may call Crash, Pause and PowerOff, the last failing the
// operation that it was called for. nil takes it away.
func (m *Mem) OnOp(hook func(Op)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = hook
}

// Pause calls f while nothing on m changes, so that the images that f makes and what it
// notes elsewhere are of one moment. f must not change m, nor wait for somebody who does.
func (m *Mem) Pause(f func()) {
	m.still.Lock()
	defer m.still.Unlock()
	f()
}

// PowerOff makes every operation from now on fail with ErrPowerOff, so that the program
// that runs on m notices. What survived is told by Crash.
func (m *Mem) PowerOff() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = true
}

// mutate runs f, which returns a bare errno, under the lock.
func (m *Mem) mutate(kind Kind, name string, f func() error) error {
	m.announce(kind, name)
	m.still.Lock()
	defer m.still.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run(kind, name, f)
}

// view runs f, which changes nothing, under the read lock.
func (m *Mem) view(kind Kind, name string, f func() error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.run(kind, name, f)
}

func (m *Mem) run(kind Kind, name string, f func() error) error {
	err := ErrPowerOff
	if !m.off {
		err = f()
	}
	if err != nil {
		return &fs.PathError{Op: kind.String(), Path: name, Err: err}
	}
	return nil
}

func (m *Mem) announce(kind Kind, name string) {
	m.mu.Lock()
	m.ops++
	op, hook := Op{Kind: kind, Name: name, N: m.ops}, m.hook
	m.mu.Unlock()
	if hook != nil {
		hook(op)
	}
}

// clean is the path of name from the root, without a slash in front; "" is the root.
func clean(name string) string {
	return filepath.Clean("/" + name)[1:]
}

func (m *Mem) lookup(name string) (*inode, error) {
	ino := m.root
	for rest := clean(name); rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if !ino.isDir() {
			return nil, syscall.ENOTDIR
		}
		if ino = ino.entries[part]; ino == nil {
			return nil, syscall.ENOENT
		}
	}
	return ino, nil
}

func (m *Mem) lookupDir(name string) (*inode, error) {
	dir, err := m.lookup(name)
	if err == nil && !dir.isDir() {
		err = syscall.ENOTDIR
	}
	return dir, err
}

// locate finds the directory and the entry of name; to is nil when there is none yet.
func (m *Mem) locate(name string) (edit, error) {
	path := clean(name)
	if path == "" {
		return edit{}, syscall.EBUSY // the root is no entry
	}
	dir, err := m.lookupDir(filepath.Dir("/" + path))
	if err != nil {
		return edit{}, err
	}
	base := filepath.Base(path)
	return edit{dir: dir, name: base, to: dir.entries[base]}, nil
}

// edit applies a directory operation and remembers it as not yet durable.
func (m *Mem) edit(it Item, edits ...edit) {
	it.Sectors = 1
	m.seq++
	c := &change{Item: it, seq: m.seq, edits: edits}
	for i, e := range edits {
		c.dirs[i] = e.dir
		if e.dir.synced == nil {
			e.dir.synced = maps.Clone(e.dir.entries)
		}
		e.apply(e.dir.entries)
		e.dir.mtime = time.Now()
		if i == 0 || e.dir != edits[0].dir {
			e.dir.pending = append(e.dir.pending, c)
		}
	}
}

func (e edit) apply(entries map[string]*inode) {
	if e.to == nil {
		delete(entries, e.name)
	} else {
		entries[e.name] = e.to
	}
}

func (m *Mem) Mkdir(name string, perm fs.FileMode) error {
	return m.mutate(OpMkdir, name, func() error {
		at, err := m.locate(name)
		if err != nil {
			return mkdirErr(err)
		}
		if at.to != nil {
			return syscall.EEXIST
		}
		at.to = newDir(fs.ModeDir | perm.Perm())
		m.edit(Item{Kind: OpMkdir, Name: clean(name)}, at)
		return nil
	})
}

// mkdirErr corrects the one case in which making a name that is the root differs from removing it.
func mkdirErr(err error) error {
	if err == syscall.EBUSY {
		return syscall.EEXIST
	}
	return err
}

func (m *Mem) Remove(name string) error {
	return m.mutate(OpRemove, name, func() error {
		at, err := m.locate(name)
		switch {
		case err != nil:
			return err
		case at.to == nil:
			return syscall.ENOENT
		case len(at.to.entries) > 0:
			return syscall.ENOTEMPTY
		}
		at.to = nil
		m.edit(Item{Kind: OpRemove, Name: clean(name)}, at)
		return nil
	})
}

func (m *Mem) Rename(oldname, newname string) error {
	return m.mutate(OpRename, oldname, func() error {
		from, err := m.locate(oldname)
		if err != nil {
			return err
		}
		to, err := m.locate(newname)
		if err != nil {
			return err
		}
		oldpath, newpath := clean(oldname), clean(newname)
		if err := checkRename(from.to, to.to, oldpath, newpath); err != nil || oldpath == newpath {
			return err
		}
		from.to, to.to = nil, from.to
		m.edit(Item{Kind: OpRename, Name: oldpath, NewName: newpath}, from, to)
		return nil
	})
}

// checkRename has the answers of os.Rename, which never replaces a directory.
func checkRename(old, replaced *inode, oldpath, newpath string) error {
	switch {
	case old == nil:
		return syscall.ENOENT
	case replaced != nil && replaced.isDir():
		return syscall.EEXIST
	case old.isDir() && strings.HasPrefix(newpath, oldpath+"/"):
		return syscall.EINVAL
	case old.isDir() && replaced != nil:
		return syscall.ENOTDIR
	}
	return nil
}

func (m *Mem) SyncDir(name string) error {
	return m.mutate(OpSyncDir, name, func() error {
		dir, err := m.lookupDir(name)
		if err != nil {
			return err
		}
		for _, c := range dir.pending {
			for i := range c.edits {
				c.edits[i].synced = c.edits[i].synced || c.edits[i].dir == dir
			}
		}
		dir.pending, dir.synced = nil, nil
		return nil
	})
}

func (m *Mem) Stat(name string) (info fs.FileInfo, err error) {
	err = m.view(OpStat, name, func() error {
		ino, err := m.lookup(name)
		if err == nil {
			info = ino.info(filepath.Base("/" + clean(name)))
		}
		return err
	})
	return info, err
}

func (m *Mem) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = m.view(OpReadDir, name, func() error {
		dir, err := m.lookupDir(name)
		if err != nil {
			return err
		}
		entries = dir.list()
		return nil
	})
	return entries, err
}
