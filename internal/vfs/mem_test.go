package vfs

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestPowerOff(t *testing.T) {
	m := NewMem()
	f := create(t, m, "f")
	check(t, m.SyncDir("/"))
	var ops []Op
	m.OnOp(func(op Op) {
		ops = append(ops, op)
		if op.N == 4 {
			m.PowerOff()
		}
	})
	write(t, f, 0, "x")
	_, err := f.WriteAt([]byte("y"), 1)
	wantErr(t, err, ErrPowerOff)
	want := []Op{{OpWrite, "f", 3}, {OpWrite, "f", 4}}
	if !slices.Equal(ops, want) {
		t.Errorf("operations %v, want %v", ops, want)
	}
	for _, err := range everyOperation(m, f) {
		wantErr(t, err, ErrPowerOff)
	}
	if got := show(m.Crash(KeepEverything)); got != "f=x1" {
		t.Errorf("after the crash: %s", got)
	}
}

// everyOperation tries each kind of operation once on name "f", which is open as f.
func everyOperation(fsys FS, f File) map[Kind]error {
	errs := map[Kind]error{}
	_, errs[OpOpen] = fsys.OpenFile("f", os.O_RDWR, 0)
	_, errs[OpCreate] = fsys.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o600)
	_, errs[OpRead] = f.ReadAt(nil, 0)
	_, errs[OpWrite] = f.WriteAt([]byte("x"), 0)
	errs[OpTruncate] = f.Truncate(1)
	errs[OpSync] = f.Sync()
	errs[OpSyncDir] = fsys.SyncDir("/")
	errs[OpRename] = fsys.Rename("f", "f")
	errs[OpMkdir] = fsys.Mkdir("f.d", 0o700)
	errs[OpRemove] = fsys.Remove("f.d")
	_, errs[OpReadDir] = fsys.ReadDir("/")
	_, errs[OpStat] = fsys.Stat("f")
	lock, err := fsys.Lock("f.lock")
	if errs[OpLock] = err; err == nil {
		lock.Close()
	}
	return errs
}

func TestMemBounds(t *testing.T) {
	f := create(t, NewMem(), "f")
	_, err := f.WriteAt([]byte("x"), maxMemFile)
	wantErr(t, err, syscall.EFBIG)
	wantErr(t, f.Truncate(maxMemFile+1), syscall.EFBIG)
	_, err = f.WriteAt([]byte("x"), -1)
	wantErr(t, err, syscall.EINVAL)
	_, err = f.ReadAt(make([]byte, 1), -1)
	wantErr(t, err, syscall.EINVAL)
	check(t, f.Truncate(maxMemFile))
	if n, err := f.ReadAt(make([]byte, 9), maxMemFile-9); n != 9 || err != nil {
		t.Errorf("ReadAt = %d, %v", n, err)
	}
}

// TestMemConcurrent is for the race detector.
func TestMemConcurrent(t *testing.T) {
	m := NewMem()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			f := create(t, m, strconv.Itoa(i))
			for n := range int64(50) {
				write(t, f, n*100, strings.Repeat("x", 100))
				if n%10 == 0 {
					check(t, f.Sync())
					check(t, m.SyncDir("/"))
				}
				if _, err := f.ReadAt(make([]byte, 100), n*100); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for seed := range uint64(50) {
		show(m.Crash(Seeded(seed)))
	}
	wg.Wait()
	if got := show(m.Crash(KeepEverything)); got != show(m) {
		t.Errorf("after the crash: %s", got)
	}
}

// TestPauseHoldsChangesBack: neither an operation nor what a failing sync drops comes between two looks inside one Pause.
func TestPauseHoldsChangesBack(t *testing.T) {
	in := &Injector{}
	m := NewMem()
	f, err := Inject(m, in).OpenFile("f", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("lost by the sync"), 0); err != nil {
		t.Fatal(err)
	}
	in.Add(Fault{Ops: OpSync})
	for name, change := range map[string]func() error{
		"failing sync": f.Sync,
		"write":        func() error { _, err := f.WriteAt([]byte("late"), 0); return err },
	} {
		done := make(chan error, 1)
		m.Pause(func() {
			before := len(m.Unsynced())
			go func() { done <- change() }()
			select {
			case <-done:
				t.Errorf("%s: went on during a pause", name)
			case <-time.After(20 * time.Millisecond): // as long as it takes to see that nothing happens
			}
			if after := len(m.Unsynced()); after != before {
				t.Errorf("%s: %d unsynced changes, then %d", name, before, after)
			}
		})
		if err := <-done; (err != nil) != (name == "failing sync") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
