package vfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

// Fault makes operations fail.
type Fault struct {
	Ops    Kind   // the kinds that it matches, several or'ed
	Path   string // a filepath.Match pattern for the name or its last element; "" matches all
	Nth    int    // the first match that fails; 0 and 1 are the very first
	Sticky bool   // all later matches fail too
	Err    error  // the errno; nil is EIO
	// Partial is how many bytes a failing write puts into the file first.
	Partial int
}

// Injector decides which operations of the FS made by Inject fail, and counts all of them.
// The zero value fails nothing. It is safe for concurrent use.
//
// A failing operation does nothing, except that a failing write may be partial, and that a
// failing Sync of a file of a Mem loses the data as a kernel does: it stays readable, counts
// as synced from then on, and is gone after a power cut.
type Injector struct {
	mu     sync.Mutex
	faults []*armed
	rots   []rot
	counts map[Kind]int
	fired  int
}

type armed struct {
	Fault
	matches int
}

// rot is a bit that reads wrong.
type rot struct {
	path string
	off  int64
	bit  uint
}

// Add arms a fault. Its count of matches starts now.
func (in *Injector) Add(f Fault) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.faults = append(in.faults, &armed{Fault: f})
}

// Rot flips a bit (0 to 7) of the byte at off in what is read from files that match path.
func (in *Injector) Rot(path string, off int64, bit uint) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.rots = append(in.rots, rot{path, off, bit})
}

// Heal takes back all faults and rot; the counts stay.
func (in *Injector) Heal() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.faults, in.rots = nil, nil
}

// Count is the number of operations of these kinds so far, failed ones included.
func (in *Injector) Count(ops Kind) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := 0
	for kind, count := range in.counts {
		if kind&ops != 0 {
			n += count
		}
	}
	return n
}

// Fired is the number of operations that were made to fail.
func (in *Injector) Fired() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.fired
}

// check counts an operation and returns the fault that it meets, or nil. Every fault sees
// every match, even one that an earlier fault fails.
func (in *Injector) check(kind Kind, names ...string) *Fault {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.counts == nil {
		in.counts = map[Kind]int{}
	}
	in.counts[kind]++
	var hit *Fault
	for _, f := range in.faults {
		if f.meets(kind, names) && hit == nil {
			hit = &f.Fault
		}
	}
	if hit != nil {
		in.fired++
	}
	return hit
}

func (f *armed) meets(kind Kind, names []string) bool {
	matches := func(name string) bool { return matchPath(f.Path, name) }
	if f.Ops&kind == 0 || !slices.ContainsFunc(names, matches) {
		return false
	}
	f.matches++
	nth := max(f.Nth, 1)
	return f.matches == nth || f.Sticky && f.matches > nth
}

func matchPath(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	whole, _ := filepath.Match(pattern, name)
	last, _ := filepath.Match(pattern, filepath.Base(name))
	return whole || last
}

func (in *Injector) fail(kind Kind, names ...string) error {
	if f := in.check(kind, names...); f != nil {
		return f.error(kind, names[0])
	}
	return nil
}

func (f *Fault) error(kind Kind, name string) error {
	err := f.Err
	if err == nil {
		err = syscall.EIO
	}
	return &fs.PathError{Op: kind.String(), Path: name, Err: err}
}

// spoil applies the rot to what was read from name at off.
func (in *Injector) spoil(name string, p []byte, off int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, r := range in.rots {
		if at := r.off - off; at >= 0 && at < int64(len(p)) && matchPath(r.path, name) {
			p[at] ^= 1 << r.bit
		}
	}
}

// Inject returns fsys with the faults of in.
func Inject(fsys FS, in *Injector) FS { return injectFS{fsys, in} }

type injectFS struct {
	fs FS
	in *Injector
}

func (i injectFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	if err := i.in.fail(openKind(flag), name); err != nil {
		return nil, err
	}
	f, err := i.fs.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return injectFile{f, i.in}, nil
}

func (i injectFS) Mkdir(name string, perm fs.FileMode) error {
	if err := i.in.fail(OpMkdir, name); err != nil {
		return err
	}
	return i.fs.Mkdir(name, perm)
}

func (i injectFS) Rename(oldname, newname string) error {
	if err := i.in.fail(OpRename, oldname, newname); err != nil {
		return err
	}
	return i.fs.Rename(oldname, newname)
}

func (i injectFS) Remove(name string) error {
	if err := i.in.fail(OpRemove, name); err != nil {
		return err
	}
	return i.fs.Remove(name)
}

func (i injectFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := i.in.fail(OpReadDir, name); err != nil {
		return nil, err
	}
	return i.fs.ReadDir(name)
}

func (i injectFS) Stat(name string) (fs.FileInfo, error) {
	if err := i.in.fail(OpStat, name); err != nil {
		return nil, err
	}
	return i.fs.Stat(name)
}

func (i injectFS) SyncDir(name string) error {
	if err := i.in.fail(OpSyncDir, name); err != nil {
		return err
	}
	return i.fs.SyncDir(name)
}

func (i injectFS) Lock(name string) (io.Closer, error) {
	if err := i.in.fail(OpLock, name); err != nil {
		return nil, err
	}
	return i.fs.Lock(name)
}

func (i injectFS) Space(name string) (Space, error) {
	if err := i.in.fail(OpStat, name); err != nil {
		return Space{}, err
	}
	return i.fs.Space(name)
}

// injectFile passes Close and Name through.
type injectFile struct {
	File
	in *Injector
}

func (f injectFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.in.fail(OpRead, f.Name()); err != nil {
		return 0, err
	}
	n, err := f.File.ReadAt(p, off)
	f.in.spoil(f.Name(), p[:n], off)
	return n, err
}

func (f injectFile) WriteAt(p []byte, off int64) (int, error) {
	fault := f.in.check(OpWrite, f.Name())
	if fault == nil {
		return f.File.WriteAt(p, off)
	}
	n := 0
	if part := min(fault.Partial, len(p)); part > 0 {
		var err error
		if n, err = f.File.WriteAt(p[:part], off); err != nil {
			return n, err
		}
	}
	return n, fault.error(OpWrite, f.Name())
}

func (f injectFile) Truncate(size int64) error {
	if err := f.in.fail(OpTruncate, f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Allocate counts as a write.
func (f injectFile) Allocate(size int64) error {
	if err := f.in.fail(OpWrite, f.Name()); err != nil {
		return err
	}
	return f.File.Allocate(size)
}

func (f injectFile) Sync() error {
	err := f.in.fail(OpSync, f.Name())
	if err == nil {
		return f.File.Sync()
	}
	if mem, ok := f.File.(*memFile); ok {
		mem.dropUnsynced()
	}
	return err
}

func (f injectFile) Size() (int64, error) {
	if err := f.in.fail(OpStat, f.Name()); err != nil {
		return 0, err
	}
	return f.File.Size()
}

// OS is nil, so that no read goes past the injector.
func (f injectFile) OS() *os.File { return nil }
