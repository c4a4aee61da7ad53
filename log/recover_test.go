package log

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
	"sluice/kproto"
)

// heldSync opens a log whose next syncs wait for the gate, with one batch durable already.
func heldSync(t *testing.T, c *Config) (*Log, *vfs.Mem, *vfs.Injector, *gatedFS) {
	t.Helper()
	fs, in := vfs.NewMem(), &vfs.Injector{}
	gate := &gatedFS{FS: vfs.Inject(fs, in), open: make(chan struct{}), entered: make(chan struct{}, 100)}
	d, err := Open("data", Options{FS: gate})
	must(t, err)
	d.SetEpoch(1)
	return d.Log("a", testTopic, 0, c), fs, in, gate
}

// TestSnapshotAfterCut: a segment rolled, and the sync of its end failed. The snapshot of the producers at its roll knows batches that were taken back.
func TestSnapshotAfterCut(t *testing.T) {
	l, fs, in, gate := heldSync(t, tiny())
	first := mustAppend(t, l, batchSpec{size: 200, pid: 1}) // its sync waits at the gate
	<-gate.entered
	second := mustAppend(t, l, batchSpec{size: 200, pid: 1, seq: 1})
	third := mustAppend(t, l, batchSpec{size: 400, pid: 1, seq: 2}) // rolls
	in.Add(vfs.Fault{Ops: vfs.OpSync, Path: "*.log", Nth: 2})
	close(gate.open)
	mustWait(t, first)
	for _, a := range []Appended{second, third} {
		if err := a.Ticket.Wait(context.Background()); !errors.Is(err, ErrNotDurable) {
			t.Fatal(err)
		}
	}
	again := mustAppend(t, l, batchSpec{size: 200, pid: 2})
	mustWait(t, again)
	finishAll(l.dir) // the side files too
	must(t, l.dir.slots.settle())
	abandon(l.dir)
	after := openDir(t, fs.Crash(vfs.KeepNothing)).Log("a", testTopic, 0, tiny())
	batches := readAll(t, after)
	must(t, verifyProducers(0, windows(after), batches))
	if a := mustAppend(t, after, batchSpec{size: 200, pid: 1, seq: 1}); a.Duplicate {
		t.Fatalf("a batch that was taken back is taken for a duplicate: %+v", a)
	}
}

// TestKillAfterFailedSync: the sync failed, and before the tail could be taken back the process ended. What the next one reads was never written
// to the disk, and no sync will say so.
func TestKillAfterFailedSync(t *testing.T) {
	fs, in := vfs.NewMem(), &vfs.Injector{}
	proc := crashtest.NewProcess(vfs.Inject(fs, in))
	d, err := Open("data", Options{FS: proc})
	must(t, err)
	l := d.Log("a", testTopic, 0, withMode(Interval))
	mustAppend(t, l, batchSpec{size: 200})
	in.Add(vfs.Fault{Ops: vfs.OpSync, Path: "*.log"})
	l.SetConfig(withMode(Interval)) // syncs
	abandon(d)
	if l.state != stateFrozen {
		t.Fatal(l.describe())
	}
	proc.Kill()
	next := openDir(t, fs)
	must(t, next.Recover(context.Background()))
	l = next.Log("a", testTopic, 0, tiny())
	seen := len(readAll(t, l))
	after := openDir(t, fs.Crash(vfs.KeepNothing)).Log("a", testTopic, 0, tiny())
	if got := len(readAll(t, after)); seen != 1 || got != seen {
		t.Fatalf("%d batches were shown, %d are left after a power cut", seen, got)
	}
}

// TestDamageOutlivesAStop: a damaged partition is damaged after a stop and a start too.
func TestDamageOutlivesAStop(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	l := d.Log("a", testTopic, 0, DefaultConfig())
	for i := range 5 {
		mustWait(t, mustAppend(t, l, batchSpec{size: 100, time: int64(i)}))
	}
	must(t, d.Close(context.Background()))
	must(t, fs.Remove("data/"+cleanFile))
	flip(t, fs, "data/a-0/00000000000000000000.log", 200)
	for range 3 {
		d := openDir(t, fs)
		must(t, d.Recover(context.Background()))
		l := d.Log("a", testTopic, 0, DefaultConfig())
		if _, err := l.Append(makeBatch(batchSpec{}), AppendOptions{}); !errors.Is(err, ErrDamaged) {
			t.Fatalf("append to a damaged log: %v", err)
		}
		if _, _, err := l.ReadBytes(nil, 0, 5, 1); err != nil {
			t.Fatalf("what lies before the damage: %v", err)
		}
		if _, _, err := l.ReadBytes(nil, 1, 5, 1); !errors.Is(err, ErrDamaged) {
			t.Fatalf("the damage: %v", err)
		}
		must(t, d.Close(context.Background()))
	}
}

func flip(t testing.TB, fs vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	must(t, err)
	b[0] ^= 1
	_, err = f.WriteAt(b, at)
	must(t, err, f.Sync())
}

// TestUnrecoveredIsNotClean: a partition that nobody opened after an unclean stop is not clean at the next one.
func TestUnrecoveredIsNotClean(t *testing.T) {
	fs := vfs.NewMem()
	mustWait(t, mustAppend(t, openDir(t, fs).Log("a", testTopic, 0, tiny()), batchSpec{}))
	fs = fs.Crash(vfs.KeepEverything)
	d := openDir(t, fs)
	d.Log("a", testTopic, 0, tiny())
	must(t, d.Close(context.Background()))
	if openDir(t, fs).Clean() {
		t.Fatal("clean, and nobody looked at the partition")
	}
}

// TestModeChangeAnswers: who waits since mode fsync is answered in the next mode too.
func TestModeChangeAnswers(t *testing.T) {
	for _, mode := range []Durability{Interval, OS} {
		l, _, _, gate := heldSync(t, tiny())
		first := mustAppend(t, l, batchSpec{})
		<-gate.entered
		second := mustAppend(t, l, batchSpec{}) // not in the sync that waits at the gate
		l.SetConfig(withMode(mode))
		close(gate.open)
		mustWait(t, first)
		mustWait(t, second)
	}
}

// TestDeleteLongName: the directory's name on its way out is a legal one.
func TestDeleteLongName(t *testing.T) {
	fs := vfs.FS(vfs.Disk{})
	d, err := Open(t.TempDir(), Options{FS: fs})
	must(t, err)
	defer d.Close(context.Background())
	topic := strings.Repeat("x", 249)
	l := d.Log(topic, testTopic, 0, tiny())
	mustWait(t, mustAppend(t, l, batchSpec{}))
	must(t, d.Delete(l))
	if found, err := d.Partitions(); err != nil || len(found) != 0 {
		t.Fatalf("%+v, %v", found, err)
	}
}

// TestSuccessorWaitsForDeletion: a topic of the same name is not taken offline by the directory of its predecessor, which is on its way out.
func TestSuccessorWaitsForDeletion(t *testing.T) {
	l, _, _, gate := heldSync(t, tiny())
	mustAppend(t, l, batchSpec{})
	<-gate.entered
	deleted := make(chan error, 1)
	go func() { deleted <- l.dir.Delete(l) }()
	for {
		if _, err := l.Offsets(); errors.Is(err, ErrDeleted) {
			break
		}
	}
	next := l.dir.Log("a", kproto.TopicID{7}, 0, tiny())
	if _, err := next.Append(makeBatch(batchSpec{}), AppendOptions{}); !errors.Is(err, ErrStorage) {
		t.Fatalf("append while the predecessor is being deleted: %v", err)
	}
	close(gate.open)
	must(t, <-deleted)
	if a := mustAppend(t, next, batchSpec{}); a.Base != 0 {
		t.Fatalf("%+v", a)
	}
}

// TestLogStartUnknown: with the durable offsets gone, a log whose first segments were deleted goes on from what is there.
func TestLogStartUnknown(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	l := d.Log("a", testTopic, 0, tiny())
	for range 9 {
		mustWait(t, mustAppend(t, l, batchSpec{size: 250}))
	}
	l.finishSync() // files of segments that are not sealed yet stay
	_, err := l.AdvanceStart(context.Background(), 7)
	must(t, err)
	must(t, d.Close(context.Background()))
	must(t, fs.Remove("data/"+durableFile))
	l = openDir(t, fs).Log("a", testTopic, 0, tiny())
	if o := mustOffsets(t, l); o.Start == 0 || o.Start > 7 || o.End != 9 {
		t.Fatalf("%+v", o)
	}
	readAll(t, l)
}

// TestProducersOutliveSegments: a producer's window survives kills, clean stops and the deletion of the segments that its batches were in.
func TestProducersOutliveSegments(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	mustWait(t, mustAppend(t, d.Log("a", testTopic, 0, tiny()), batchSpec{size: 300, pid: 1}))
	for i := range 4 {
		for range 3 {
			mustWait(t, mustAppend(t, d.Log("a", testTopic, 0, tiny()), batchSpec{size: 100}))
		}
		if i == 3 {
			_, err := d.Log("a", testTopic, 0, tiny()).AdvanceStart(context.Background(), mustOffsets(t, d.Log("a", testTopic, 0, tiny())).High)
			must(t, err)
		}
		must(t, d.Close(context.Background()))
		if i%2 == 1 {
			must(t, fs.Remove("data/"+cleanFile))
		}
		d = openDir(t, fs)
		must(t, d.Recover(context.Background()))
		if a := mustAppend(t, d.Log("a", testTopic, 0, tiny()), batchSpec{size: 300, pid: 1}); !a.Duplicate || a.Base != 0 {
			t.Fatalf("run %d: %+v", i, a)
		}
	}
}
