package log

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/vfs"
)

// Faults that TestLinearizable has found, each by itself.

// The record with the largest timestamp is one that may be seen, whatever waits behind it to become durable.
func TestMaxTimeOfWhatIsVisible(t *testing.T) {
	gate := &gatedFS{FS: vfs.NewMem(), open: make(chan struct{})}
	close(gate.open)
	l := openDir(t, gate).Log("t", testTopic, 0, DefaultConfig())
	mustWait(t, mustAppend(t, l, batchSpec{time: 1000}))
	l.finishSync()
	held := gate.hold()
	a := mustAppend(t, l, batchSpec{time: 2000})
	for _, want := range []Position{{0, 1000, 7}, {1, 2000, 7}} {
		if p, err := l.MaxTime(mustOffsets(t, l).High); err != nil || p != want {
			t.Errorf("largest time %+v, want %+v (%v)", p, want, err)
		}
		if want.Offset == 0 {
			close(held)
			mustWait(t, a)
		}
	}
}

// readHook calls a function at the first read of a file, and again until it says that it has done what it is for.
type readHook struct {
	vfs.FS
	name string
	call atomic.Pointer[func() (done bool)]
}

type hookedFile struct {
	vfs.File
	hook *readHook
}

func (h *readHook) OpenFile(name string, flag int, perm iofs.FileMode) (vfs.File, error) {
	f, err := h.FS.OpenFile(name, flag, perm)
	if err == nil && strings.HasSuffix(name, h.name) {
		f = hookedFile{f, h}
	}
	return f, err
}

func (f hookedFile) ReadAt(b []byte, off int64) (int, error) {
	if call := f.hook.call.Swap(nil); call != nil && !(*call)() {
		f.hook.call.Store(call)
	}
	return f.File.ReadAt(b, off)
}

// A search by time has looked at the first segment when the log start moves past it and the next one: what it found there was the answer at no moment.
// Seed 224207.
func TestSearchWhileTheStartMoves(t *testing.T) {
	searches := map[string]func(l *Log) (Position, error){
		"largest":     func(l *Log) (Position, error) { return l.MaxTime(3) },
		"first since": func(l *Log) (Position, error) { return l.FindTime(1, 3) },
	}
	for name, search := range searches {
		t.Run(name, func(t *testing.T) {
			fs := &readHook{FS: vfs.NewMem(), name: segmentName(0, logSuffix)}
			l := openDir(t, fs).Log("t", testTopic, 0, tiny())
			for _, ms := range []int64{1000, 7000, 500} { // a segment each
				mustWait(t, mustAppend(t, l, batchSpec{size: 300, time: ms}))
			}
			l.finishSync()
			move := func() bool {
				if !l.mu.TryLock() {
					return false // the file is being opened
				}
				l.mu.Unlock()
				if _, err := l.AdvanceStart(t.Context(), 2); err != nil {
					t.Error(err)
				}
				return true
			}
			fs.call.Store(&move)
			if p, err := search(l); err != nil || p.Offset != 2 || p.Timestamp != 500 {
				t.Errorf("found %+v (%v), want what is left", p, err)
			}
			if fs.call.Load() != nil {
				t.Error("the first segment was not read")
			}
		})
	}
}

// logGate holds the syncs of segments back.
type logGate struct {
	vfs.FS
	gate *gatedFS
}

func (g logGate) OpenFile(name string, flag int, perm iofs.FileMode) (vfs.File, error) {
	f, err := g.FS.OpenFile(name, flag, perm)
	if err == nil && strings.HasSuffix(name, logSuffix) {
		f = gatedFile{f, g.gate}
	}
	return f, err
}

// waiterFunc is told of the end of an append by the sync that has ended, before that leaves the queue.
type waiterFunc func(error)

func (f waiterFunc) Resolved(err error) { f(err) }

// When a sync has ended and is not out of the queue yet, an append waits for the next one, and another one cannot be taken back. The first is told
// at once; else it would be when other records have got its offsets, and that they are durable.
func TestWaiterOfASpoiltLog(t *testing.T) {
	in := &vfs.Injector{}
	gate := &gatedFS{open: make(chan struct{})}
	d := openDir(t, logGate{vfs.Inject(vfs.NewMem(), in), gate})
	d.retryGap = time.Millisecond
	l := d.Log("t", testTopic, 0, DefaultConfig())
	answer := make(chanWaiter, 1)
	spoil := waiterFunc(func(err error) {
		if err != nil {
			t.Errorf("the append that is synced: %v", err)
		}
		waits := mustAppend(t, l, batchSpec{size: 10})
		if done, err := waits.Ticket.Notify(answer); done {
			t.Errorf("answered already: %v", err)
		}
		in.Add(vfs.Fault{Ops: vfs.OpWrite | vfs.OpTruncate, Path: "*" + logSuffix, Sticky: true})
		if _, err := l.Append(makeBatch(batchSpec{size: 10}), AppendOptions{}); !errors.Is(err, ErrStorage) {
			t.Errorf("append to a failing disk: %v", err)
		}
		in.Heal()
	})
	if done, err := mustAppend(t, l, batchSpec{}).Ticket.Notify(spoil); done {
		t.Fatalf("answered before the sync: %v", err)
	}
	close(gate.open)
	select {
	case err := <-answer:
		if !errors.Is(err, ErrNotDurable) {
			t.Errorf("answered with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("no answer")
	}
	waitAppend(t, l, batchSpec{size: 10})
	if o := mustOffsets(t, l); o.High != 2 {
		t.Errorf("%+v, want the first and the last", o)
	}
}

// waitAppend appends as soon as the log takes it.
func waitAppend(t *testing.T, l *Log, s batchSpec) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		a, err := l.Append(makeBatch(s), AppendOptions{})
		if err == nil {
			mustWait(t, a)
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Segments below a moved log start whose side files were not written yet are all that is known of the producers that wrote there. A power cut must
// not end deduplication; and damage there is nobody's.
func TestProducersBelowAMovedStart(t *testing.T) {
	for damaged := range 3 {
		t.Run(fmt.Sprint("damaged ", damaged), func(t *testing.T) {
			disk, in := vfs.NewMem(), &vfs.Injector{}
			d := openDir(t, vfs.Inject(disk, in))
			l := d.Log("a", testTopic, 0, tiny())
			in.Add(vfs.Fault{Ops: vfs.OpCreate, Path: "*" + producerSuffix, Sticky: true})
			for i := range 4 {
				mustWait(t, mustAppend(t, l, batchSpec{size: 300, pid: int64(1 + i)}))
			}
			_, err := l.AdvanceStart(context.Background(), 3)
			must(t, err)
			abandon(d)
			disk = disk.Crash(vfs.KeepNothing)
			for i := range damaged {
				flip(t, disk, "data/a-0/"+segmentName(int64(i), logSuffix), 100)
			}
			d = openDir(t, disk)
			l = d.Log("a", testTopic, 0, tiny())
			must(t, d.Recover(context.Background()))
			if o := mustOffsets(t, l); o != (Offsets{3, 4, 4, 4}) {
				t.Fatalf("offsets %+v", o)
			}
			for i := damaged; i < 4; i++ {
				a, err := l.Append(makeBatch(batchSpec{size: 300, pid: int64(1 + i)}), AppendOptions{})
				if err != nil || !a.Duplicate || a.Base != int64(i) {
					t.Errorf("a retry of batch %d: %+v (%v)", i, a, err)
				}
			}
			d.Retain(context.Background(), time.Now())
			mustWait(t, mustAppend(t, l, batchSpec{size: 300, pid: 9}))
			l.finishSync()
			d.Retain(context.Background(), time.Now())
			if got := names(t, disk, logSuffix); len(got) != 2 {
				t.Errorf("segments %v, want those from the log start on", got)
			}
		})
	}
}

// A segment whose records compaction has all taken is as old as they were, not as its file: it must not keep those behind it for ever (life 11237 of
// TestMetamorphic).
func TestRetentionOfEmptiedSegments(t *testing.T) {
	for _, restart := range []bool{false, true} {
		disk, c := vfs.NewMem(), *tiny()
		c.Delete, c.RetentionMs, c.RetentionBytes, c.Compact = true, 5000, -1, true
		d := openDir(t, disk)
		l := d.Log("t", testTopic, 0, &c)
		for i := range int64(4) {
			mustWait(t, mustAppend(t, l, batchSpec{size: 300, time: 1000 + i})) // one key, one segment
		}
		l.finishSync()
		done, err := l.Clean(context.Background(), CleanOptions{Now: at(2000), MapBytes: 1 << 20})
		must(t, err)
		if done.Dropped != 2 {
			t.Fatalf("%+v", done)
		}
		if restart {
			must(t, d.Close(context.Background()))
			d = openDir(t, disk)
			l = d.Log("t", testTopic, 0, &c)
		}
		d.Retain(context.Background(), at(10_000))
		if o := mustOffsets(t, l); o.Start != 4 {
			t.Errorf("restarted: %v; all is too old, and the log is %+v", restart, o)
		}
	}
}

// Several segments were sealed at once, and a power cut comes before it is durable that recovery begins after them: the snapshot from which it begins
// instead is still there, and with it the producers whose segments are deleted (history 23594 of TestLinearizable).
func TestSnapshotOfADurableRecoveryPoint(t *testing.T) {
	disk, in := vfs.NewMem(), &vfs.Injector{}
	d := openDir(t, vfs.Inject(disk, in))
	l := d.Log("t", testTopic, 0, tiny())
	add := func(pid int64) {
		t.Helper()
		mustWait(t, mustAppend(t, l, batchSpec{size: 400, pid: pid}))
		l.finishSync()
	}
	add(1)
	add(2)
	_, err := l.AdvanceStart(context.Background(), 1)
	must(t, err)
	in.Add(vfs.Fault{Ops: vfs.OpCreate, Path: "*" + producerSuffix, Sticky: true})
	for pid := range int64(4) {
		add(3 + pid)
	}
	in.Heal()
	in.Add(vfs.Fault{Ops: vfs.OpSync, Path: durableFile, Sticky: true})
	add(7)
	abandon(d)
	must(t, disk.SyncDir("data/t-0")) // what was removed is gone
	d = openDir(t, disk.Crash(vfs.KeepNothing))
	l = d.Log("t", testTopic, 0, tiny())
	must(t, d.Recover(context.Background()))
	for i := range int64(7) {
		a, err := l.Append(makeBatch(batchSpec{size: 400, pid: 1 + i}), AppendOptions{})
		if err != nil || !a.Duplicate || a.Base != i {
			t.Errorf("a retry of batch %d: %+v (%v)", i, a, err)
		}
	}
}
