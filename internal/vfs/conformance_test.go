package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// conformance is what every FS does alike. Each case runs in an empty directory.
var conformance = []struct {
	name string
	run  func(t *testing.T, fsys FS, dir string)
}{
	{"read and write", func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, dir+"/f")
		write(t, f, 5000, "world")
		wantSize(t, f, 5005)
		p := make([]byte, 10)
		if n, err := f.ReadAt(p, 4995); n != 10 || err != nil || string(p) != "\x00\x00\x00\x00\x00world" {
			t.Errorf("ReadAt across the hole = %d, %v, %q", n, err, p)
		}
		if n, err := f.ReadAt(p, 5003); n != 2 || err != io.EOF || string(p[:n]) != "ld" {
			t.Errorf("ReadAt across the end = %d, %v, %q", n, err, p[:n])
		}
		if n, err := f.ReadAt(p, 6000); n != 0 || err != io.EOF {
			t.Errorf("ReadAt past the end = %d, %v", n, err)
		}
		if n, err := f.ReadAt(nil, 6000); n != 0 || err != nil {
			t.Errorf("empty ReadAt = %d, %v", n, err)
		}
		if n, err := f.WriteAt(nil, 9000); n != 0 || err != nil {
			t.Errorf("empty WriteAt = %d, %v", n, err)
		}
		wantSize(t, f, 5005)
		if f.Name() != dir+"/f" {
			t.Errorf("Name = %q", f.Name())
		}
	}},
	{"truncate", func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, dir+"/f")
		write(t, f, 0, strings.Repeat("x", 9000))
		check(t, f.Truncate(4100))
		check(t, f.Truncate(9000))
		want := append(bytes.Repeat([]byte("x"), 4100), make([]byte, 4900)...)
		if got := content(t, fsys, dir+"/f"); !bytes.Equal(got, want) {
			t.Error("what was cut off came back")
		}
		wantErr(t, f.Truncate(-1), syscall.EINVAL)
	}},
	{"allocate", func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, dir+"/f")
		write(t, f, 0, "kept")
		if err := f.Allocate(8192); errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		check(t, f.Allocate(10))
		wantSize(t, f, 8192)
		if got := content(t, fsys, dir+"/f"); string(got[:5]) != "kept\x00" {
			t.Errorf("content %q", got[:5])
		}
		if s, err := fsys.Space(dir); err != nil || s.Usable > s.Total {
			t.Errorf("space %+v, %v", s, err)
		}
	}},
	{"open flags", func(t *testing.T, fsys FS, dir string) {
		_, err := fsys.OpenFile(dir+"/f", os.O_RDWR, 0)
		wantErr(t, err, fs.ErrNotExist)
		wantErr(t, err, syscall.ENOENT)
		f := create(t, fsys, dir+"/f")
		write(t, f, 0, "old")
		_, err = fsys.OpenFile(dir+"/f", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		wantErr(t, err, fs.ErrExist)
		create(t, fsys, dir+"/f")
		wantSize(t, f, 3)
		_, err = fsys.OpenFile(dir+"/f", os.O_RDWR|os.O_TRUNC, 0)
		check(t, err)
		wantSize(t, f, 0)
		_, err = fsys.OpenFile(dir+"/f/below", os.O_RDWR|os.O_CREATE, 0o600)
		wantErr(t, err, syscall.ENOTDIR)
		_, err = fsys.OpenFile(dir+"/none/f", os.O_RDWR|os.O_CREATE, 0o600)
		wantErr(t, err, fs.ErrNotExist)
		_, err = fsys.OpenFile(dir, os.O_RDWR, 0)
		wantErr(t, err, syscall.EISDIR)
	}},
	{"access modes", func(t *testing.T, fsys FS, dir string) {
		create(t, fsys, dir+"/f")
		r, err := fsys.OpenFile(dir+"/f", os.O_RDONLY, 0)
		check(t, err)
		_, err = r.WriteAt([]byte("x"), 0)
		wantErr(t, err, syscall.EBADF)
		w, err := fsys.OpenFile(dir+"/f", os.O_WRONLY, 0)
		check(t, err)
		_, err = w.ReadAt(make([]byte, 1), 0)
		wantErr(t, err, syscall.EBADF)
		check(t, w.Sync())
	}},
	{"closed file", func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, dir+"/f")
		check(t, f.Close())
		_, err := f.WriteAt([]byte("x"), 0)
		wantErr(t, err, fs.ErrClosed)
		_, err = f.ReadAt(make([]byte, 1), 0)
		wantErr(t, err, fs.ErrClosed)
		wantErr(t, f.Sync(), fs.ErrClosed)
		wantErr(t, f.Truncate(0), fs.ErrClosed)
		wantErr(t, f.Close(), fs.ErrClosed)
	}},
	{"unlinked file goes on", func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, dir+"/f")
		write(t, f, 0, "before")
		check(t, fsys.Remove(dir+"/f"))
		write(t, f, 6, " after")
		check(t, f.Sync())
		p := make([]byte, 12)
		if _, err := f.ReadAt(p, 0); err != nil || string(p) != "before after" {
			t.Errorf("ReadAt = %q, %v", p, err)
		}
		_, err := fsys.Stat(dir + "/f")
		wantErr(t, err, fs.ErrNotExist)
		wantErr(t, fsys.Remove(dir+"/f"), fs.ErrNotExist)
	}},
	{"directories", func(t *testing.T, fsys FS, dir string) {
		check(t, fsys.Mkdir(dir+"/d", 0o755))
		wantErr(t, fsys.Mkdir(dir+"/d", 0o755), fs.ErrExist)
		wantErr(t, fsys.Mkdir(dir+"/x/y", 0o755), fs.ErrNotExist)
		create(t, fsys, dir+"/d/b")
		write(t, create(t, fsys, dir+"/d/a"), 0, "abc")
		check(t, fsys.Mkdir(dir+"/d/c", 0o755))
		wantErr(t, fsys.Remove(dir+"/d"), syscall.ENOTEMPTY)
		entries, err := fsys.ReadDir(dir + "/d/.")
		check(t, err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
			if e.IsDir() != (e.Name() == "c") {
				t.Errorf("IsDir(%s) = %v", e.Name(), e.IsDir())
			}
		}
		if got := strings.Join(names, " "); got != "a b c" {
			t.Errorf("ReadDir = %s", got)
		}
		info, err := entries[0].Info()
		check(t, err)
		if info.Size() != 3 || info.Name() != "a" || !info.Mode().IsRegular() || info.ModTime().IsZero() {
			t.Errorf("Info = %v", info)
		}
		_, err = fsys.ReadDir(dir + "/d/a")
		wantErr(t, err, syscall.ENOTDIR)
		_, err = fsys.ReadDir(dir + "/none")
		wantErr(t, err, fs.ErrNotExist)
		check(t, fsys.SyncDir(dir+"/d"))
		wantErr(t, fsys.SyncDir(dir+"/none"), fs.ErrNotExist)
		check(t, fsys.Remove(dir+"/d/c"))
	}},
	{"stat", func(t *testing.T, fsys FS, dir string) {
		f, err := fsys.OpenFile(dir+"/f", os.O_RDWR|os.O_CREATE, 0o640)
		check(t, err)
		write(t, f, 0, "four")
		info, err := fsys.Stat(dir + "/f")
		check(t, err)
		if info.Name() != "f" || info.Size() != 4 || info.Mode() != 0o640 || info.IsDir() {
			t.Errorf("Stat = %v", info)
		}
		if info, err = fsys.Stat(dir); err != nil || !info.IsDir() || info.Name() != filepath.Base(dir) {
			t.Errorf("Stat of the directory = %v, %v", info, err)
		}
	}},
	{"rename", func(t *testing.T, fsys FS, dir string) {
		write(t, create(t, fsys, dir+"/a"), 0, "A")
		old := create(t, fsys, dir+"/b")
		write(t, old, 0, "B")
		check(t, fsys.Rename(dir+"/a", dir+"/b"))
		if got := content(t, fsys, dir+"/b"); string(got) != "A" {
			t.Errorf("b = %q", got)
		}
		p := make([]byte, 1)
		if _, err := old.ReadAt(p, 0); err != nil || string(p) != "B" {
			t.Errorf("the replaced file, still open = %q, %v", p, err)
		}
		wantErr(t, fsys.Rename(dir+"/a", dir+"/c"), fs.ErrNotExist)
		check(t, fsys.Rename(dir+"/b", dir+"/b"))
		check(t, fsys.Mkdir(dir+"/d", 0o755))
		check(t, fsys.Mkdir(dir+"/e", 0o755))
		wantErr(t, fsys.Rename(dir+"/d", dir+"/d/x"), syscall.EINVAL)
		wantErr(t, fsys.Rename(dir+"/d", dir+"/b"), syscall.ENOTDIR)
		check(t, fsys.Rename(dir+"/b", dir+"/d/b"))
		wantErr(t, fsys.Rename(dir+"/d", dir+"/e"), fs.ErrExist)
		wantErr(t, fsys.Rename(dir+"/e", dir+"/e"), fs.ErrExist)
		wantErr(t, fsys.Rename(dir+"/d/b", dir+"/e"), fs.ErrExist)
		check(t, fsys.Rename(dir+"/d", dir+"/e/d"))
		if got := content(t, fsys, dir+"/e/d/b"); string(got) != "A" {
			t.Errorf("e/d/b = %q", got)
		}
	}},
	{"lock", func(t *testing.T, fsys FS, dir string) {
		l, err := fsys.Lock(dir + "/lock")
		check(t, err)
		info, err := fsys.Stat(dir + "/lock")
		check(t, err)
		if info.Mode() != 0o600 {
			t.Errorf("mode = %v", info.Mode())
		}
		_, err = fsys.Lock(dir + "/lock")
		wantErr(t, err, ErrLocked)
		check(t, l.Close())
		l, err = fsys.Lock(dir + "/lock")
		check(t, err)
		check(t, l.Close())
		_, err = fsys.Lock(dir + "/none/lock")
		wantErr(t, err, fs.ErrNotExist)
	}},
	{"MkdirAll", func(t *testing.T, fsys FS, dir string) {
		created, err := MkdirAll(fsys, dir+"/a/b/", 0o755)
		if err != nil || strings.Join(created, " ") != dir+"/a "+dir+"/a/b" {
			t.Errorf("MkdirAll = %v, %v", created, err)
		}
		if created, err = MkdirAll(fsys, dir+"/a/b", 0o755); err != nil || created != nil {
			t.Errorf("second MkdirAll = %v, %v", created, err)
		}
		create(t, fsys, dir+"/f")
		_, err = MkdirAll(fsys, dir+"/f", 0o755)
		wantErr(t, err, syscall.ENOTDIR)
		_, err = MkdirAll(fsys, dir+"/f/g", 0o755)
		wantErr(t, err, syscall.ENOTDIR)
	}},
	{"RemoveAll", func(t *testing.T, fsys FS, dir string) {
		_, err := MkdirAll(fsys, dir+"/a/b", 0o755)
		check(t, err)
		create(t, fsys, dir+"/a/b/f")
		create(t, fsys, dir+"/a/f")
		check(t, RemoveAll(fsys, dir+"/a"))
		if ok, err := Exists(fsys, dir+"/a"); ok || err != nil {
			t.Errorf("Exists = %v, %v", ok, err)
		}
		check(t, RemoveAll(fsys, dir+"/a"))
	}},
	{"whole files", func(t *testing.T, fsys FS, dir string) {
		check(t, WriteFileAtomic(fsys, dir+"/f", []byte("one"), 0o600))
		check(t, WriteFileAtomic(fsys, dir+"/f", []byte("two!"), 0o600))
		if got, err := ReadFile(fsys, dir+"/f", 4); err != nil || string(got) != "two!" {
			t.Errorf("ReadFile = %q, %v", got, err)
		}
		_, err := ReadFile(fsys, dir+"/f", 3)
		wantErr(t, err, ErrTooLarge)
		entries, err := fsys.ReadDir(dir)
		if len(entries) != 1 || err != nil {
			t.Errorf("left over: %v, %v", entries, err)
		}
		if ok, err := Exists(fsys, dir+"/f"); !ok || err != nil {
			t.Errorf("Exists = %v, %v", ok, err)
		}
		check(t, WriteFileAtomic(fsys, dir+"/empty", nil, 0o600))
		if got, err := ReadFile(fsys, dir+"/empty", 0); err != nil || len(got) != 0 {
			t.Errorf("ReadFile = %q, %v", got, err)
		}
	}},
}

func TestConformance(t *testing.T) {
	for _, c := range conformance {
		t.Run("Disk/"+c.name, func(t *testing.T) { c.run(t, Disk{}, t.TempDir()) })
		t.Run("Mem/"+c.name, func(t *testing.T) {
			m := NewMem()
			_, err := MkdirAll(m, "/some/dir", 0o755)
			check(t, err)
			c.run(t, m, "/some/dir")
		})
		t.Run("Inject/"+c.name, func(t *testing.T) { c.run(t, Inject(Disk{}, &Injector{}), t.TempDir()) })
	}
}

// create opens name for reading and writing and closes it at the end of the test.
func create(t testing.TB, fsys FS, name string) File {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func write(t testing.TB, f File, off int64, data string) {
	t.Helper()
	if n, err := f.WriteAt([]byte(data), off); n != len(data) || err != nil {
		t.Fatalf("WriteAt = %d, %v", n, err)
	}
}

func content(t testing.TB, fsys FS, name string) []byte {
	t.Helper()
	data, err := ReadFile(fsys, name, 1<<30)
	check(t, err)
	return data
}

func wantSize(t testing.TB, f File, want int64) {
	t.Helper()
	if size, err := f.Size(); size != want || err != nil {
		t.Fatalf("Size = %d, %v; want %d", size, err, want)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error is %v, want %v", err, target)
	}
}
