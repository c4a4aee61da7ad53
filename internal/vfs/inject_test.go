package vfs

import (
	"bytes"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestInjectKinds fails each kind in turn and checks that only that one fails.
func TestInjectKinds(t *testing.T) {
	for kind := OpOpen; kind < opEnd; kind <<= 1 {
		t.Run(kind.String(), func(t *testing.T) {
			in := &Injector{}
			fsys := Inject(NewMem(), in)
			f := create(t, fsys, "f")
			check(t, fsys.Mkdir("f.d", 0o700)) // for the removal in case the Mkdir fails
			check(t, fsys.Remove("f.d"))
			in.Add(Fault{Ops: kind, Sticky: true, Err: syscall.ENOSPC})
			if kind == OpMkdir {
				in.Add(Fault{Ops: OpRemove, Sticky: true, Err: syscall.ENOSPC})
			}
			for other, err := range everyOperation(fsys, f) {
				switch {
				case other == kind, kind == OpMkdir && other == OpRemove:
					wantErr(t, err, syscall.ENOSPC)
				case err != nil:
					t.Errorf("%v fails too: %v", other, err)
				}
			}
		})
	}
}

func TestInjectMatch(t *testing.T) {
	const ok, bad = true, false
	for _, c := range []struct {
		name  string
		fault Fault
		want  []bool // of a Stat of d/a.log, d/b.idx, d/a.log, a rename of d/c to d/a.log, a Stat of d/a.log
	}{
		{"other kind", Fault{Ops: OpSync | OpWrite}, []bool{ok, ok, ok, ok, ok}},
		{"first", Fault{Ops: OpStat}, []bool{bad, ok, ok, ok, ok}},
		{"third", Fault{Ops: OpStat, Nth: 3}, []bool{ok, ok, bad, ok, ok}},
		{"from the second on", Fault{Ops: OpStat, Nth: 2, Sticky: true}, []bool{ok, bad, bad, ok, bad}},
		{"last element", Fault{Ops: OpStat, Path: "*.log", Nth: 2}, []bool{ok, ok, bad, ok, ok}},
		{"whole name", Fault{Ops: OpStat, Path: "d/b.*"}, []bool{ok, bad, ok, ok, ok}},
		{"no such name", Fault{Ops: OpAny, Path: "x/*"}, []bool{ok, ok, ok, ok, ok}},
		{"rename, old name", Fault{Ops: OpRename, Path: "c"}, []bool{ok, ok, ok, bad, ok}},
		{"rename, new name", Fault{Ops: OpRename, Path: "*.log"}, []bool{ok, ok, ok, bad, ok}},
		{"several kinds", Fault{Ops: OpAny, Nth: 4}, []bool{ok, ok, ok, bad, ok}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, in := NewMem(), &Injector{}
			play(t, m, "mkdir d; create d/a.log; create d/b.idx; create d/c")
			fsys := Inject(m, in)
			in.Add(c.fault)
			stat := func(name string) bool {
				_, err := fsys.Stat(name)
				return err == nil
			}
			got := []bool{stat("d/a.log"), stat("d/b.idx"), stat("d/a.log"),
				fsys.Rename("d/c", "d/a.log") == nil, stat("d/a.log")}
			if !slices.Equal(got, c.want) {
				t.Errorf("succeeded: %v, want %v", got, c.want)
			}
			failed := 0
			for _, ok := range got {
				if !ok {
					failed++
				}
			}
			if in.Fired() != failed || in.Count(OpStat) != 4 || in.Count(OpAny) != 5 {
				t.Errorf("Fired %d, Stats %d, all %d", in.Fired(), in.Count(OpStat), in.Count(OpAny))
			}
		})
	}
}

func TestInjectHeal(t *testing.T) {
	in := &Injector{}
	fsys := Inject(NewMem(), in)
	in.Add(Fault{Ops: OpSyncDir, Sticky: true})
	wantErr(t, fsys.SyncDir("/"), syscall.EIO)
	in.Heal()
	check(t, fsys.SyncDir("/"))
}

func TestInjectPartialWrite(t *testing.T) {
	for _, partial := range []int{0, 3, 99} {
		in := &Injector{}
		f := create(t, Inject(NewMem(), in), "f")
		in.Add(Fault{Ops: OpWrite, Err: syscall.ENOSPC, Partial: partial})
		n, err := f.WriteAt([]byte("abcdef"), 2)
		wantErr(t, err, syscall.ENOSPC)
		if n != min(partial, 6) {
			t.Errorf("wrote %d, want %d", n, partial)
		}
		p := make([]byte, 9)
		if got, _ := f.ReadAt(p, 2); string(p[:got]) != "abcdef"[:n] {
			t.Errorf("the file holds %q", p[:got])
		}
	}
}

// TestInjectLostSync is the trap behind a failed fsync: what it did not write reads well
// and counts as clean, so that the next fsync succeeds, and is gone after a power cut.
func TestInjectLostSync(t *testing.T) {
	m, in := NewMem(), &Injector{}
	fsys := Inject(m, in)
	f := create(t, fsys, "f")
	check(t, m.SyncDir("/"))
	write(t, f, 0, strings.Repeat("a", pageSize))
	in.Add(Fault{Ops: OpSync})
	wantErr(t, f.Sync(), syscall.EIO)
	check(t, f.Sync())
	if got := show(fsys); got != "f=a4096" {
		t.Errorf("before the crash: %s", got)
	}
	if got := show(m.Crash(KeepEverything)); got != "f=" {
		t.Errorf("after the crash: %s", got)
	}
	write(t, f, pageSize, "b")
	check(t, f.Sync())
	if got := show(m.Crash(KeepNothing)); got != "f=.4096b1" {
		t.Errorf("after a good sync of more: %s", got)
	}
	write(t, f, 0, "cc")
	check(t, f.Sync())
	if got := show(m.Crash(KeepNothing)); !strings.HasPrefix(got, "f=c2") || !strings.HasSuffix(got, "b1") {
		t.Errorf("after the lost data was written again: %s", got)
	}
}

// TestInjectLostSize: what was lost can be written again, and then it is there with its size.
func TestInjectLostSize(t *testing.T) {
	m, in := NewMem(), &Injector{}
	fsys := Inject(m, in)
	f := create(t, fsys, "f")
	check(t, m.SyncDir("/"))
	write(t, f, 0, "aaaa")
	in.Add(Fault{Ops: OpSync})
	wantErr(t, f.Sync(), syscall.EIO)
	write(t, f, 0, "aaa")
	check(t, f.Sync())
	if got := show(m.Crash(KeepNothing)); got != "f=a3" {
		t.Errorf("after a part was written again: %s", got)
	}
}

func TestInjectRot(t *testing.T) {
	in := &Injector{}
	fsys := Inject(NewMem(), in)
	for _, name := range []string{"f", "g"} {
		write(t, create(t, fsys, name), 0, "aaaa")
	}
	in.Rot("f", 2, 1)
	for name, want := range map[string]string{"f": "aaca", "g": "aaaa"} {
		if got := content(t, fsys, name); string(got) != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	p := make([]byte, 2)
	if _, err := create(t, fsys, "f").ReadAt(p, 2); err != nil || string(p) != "ca" {
		t.Errorf("a read that begins there = %q, %v", p, err)
	}
	if _, err := create(t, fsys, "f").ReadAt(p, 0); err != nil || string(p) != "aa" {
		t.Errorf("a read that ends before = %q, %v", p, err)
	}
}

// TestInjectEveryOperation fails each operation of WriteFileAtomic in turn: the file is the
// old one or the new one, in memory and after a power cut, and no error means the new one.
func TestInjectEveryOperation(t *testing.T) {
	old, new := []byte("old"), bytes.Repeat([]byte("n"), 1500)
	for n := 1; ; n++ {
		m, in := NewMem(), &Injector{}
		check(t, WriteFileAtomic(m, "f", old, 0o600))
		in.Add(Fault{Ops: OpAny, Nth: n, Partial: 600})
		err := WriteFileAtomic(Inject(m, in), "f", new, 0o600)
		if fired := in.Fired() > 0; fired != (err != nil) {
			t.Fatalf("operation %d failed: %v, but the result is %v", n, fired, err)
		}
		if ok, _ := Exists(m, "f.tmp"); ok {
			t.Errorf("operation %d leaves the temporary file", n)
		}
		for how, image := range m.Images(20) {
			got := content(t, image, "f")
			if !bytes.Equal(got, new) && (err == nil || !bytes.Equal(got, old)) {
				t.Errorf("operation %d, %s: %s, and the result was %v", n, how, runs(got), err)
			}
		}
		if err == nil {
			if n < 6 {
				t.Errorf("only %d operations", n-1)
			}
			return
		}
	}
}
