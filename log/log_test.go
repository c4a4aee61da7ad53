package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

var testTopic = kproto.TopicID{1, 2, 3}

func openDir(t testing.TB, fs vfs.FS) *Dir {
	t.Helper()
	d, err := Open("data", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	d.SetEpoch(7)
	return d
}

// small has segments and indexes that fill soon.
func small() *Config {
	c := DefaultConfig()
	c.SegmentBytes, c.IndexInterval = 2000, 100
	return c
}

type batchSpec struct {
	records int
	size    int   // value bytes
	time    int64 // of the first record; the others follow 1 ms apart
	pid     int64 // 0: none
	epoch   int16
	seq     int32
}

func makeBatch(s batchSpec) kproto.Batch {
	b := kproto.NewBuilder(kproto.None)
	if s.pid > 0 {
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = s.pid, s.epoch, s.seq
	}
	for i := range max(1, s.records) {
		b.Add(kproto.Record{Timestamp: s.time + int64(i), Key: fmt.Appendf(nil, "k%d", i), Value: bytes.Repeat([]byte{byte('a' + i%26)}, s.size)})
	}
	return b.Batch()
}

func mustAppend(t testing.TB, l *Log, s batchSpec) Appended {
	t.Helper()
	a, err := l.Append(makeBatch(s), AppendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustWait(t testing.TB, a Appended) {
	t.Helper()
	if err := a.Ticket.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func mustOffsets(t testing.TB, l *Log) Offsets {
	t.Helper()
	o, err := l.Offsets()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// readAll gives the batches from the start to the high watermark, each with its CRC checked.
func readAll(t testing.TB, l *Log) []kproto.Batch {
	t.Helper()
	o := mustOffsets(t, l)
	var all []kproto.Batch
	for at := o.Start; at < o.High; {
		b, next, err := l.ReadBytes(nil, at, o.High, 1<<20)
		if err != nil {
			t.Fatalf("read at %d of %+v: %v", at, o, err)
		}
		if next <= at {
			t.Fatalf("read at %d of %+v got nothing", at, o)
		}
		for len(b) > 0 {
			first, rest, err := kproto.SplitBatch(b)
			if err != nil {
				t.Fatal(err)
			}
			if !first.ValidCRC() {
				t.Fatalf("batch at %d: CRC", first.BaseOffset())
			}
			all = append(all, first)
			b = rest
		}
		at = next
	}
	return all
}

func TestAppendIsVisibleWhenDurable(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	l := d.Log("t", testTopic, 0, DefaultConfig())
	a := mustAppend(t, l, batchSpec{records: 3, size: 10, time: 1000})
	mustWait(t, a)
	b := mustAppend(t, l, batchSpec{records: 2, size: 10, time: 2000})
	mustWait(t, b)
	if a.Base != 0 || b.Base != 3 {
		t.Fatalf("bases %d, %d", a.Base, b.Base)
	}
	if o := mustOffsets(t, l); o != (Offsets{0, 5, 5, 5}) {
		t.Fatalf("offsets %+v", o)
	}
	batches := readAll(t, l)
	if len(batches) != 2 || batches[1].BaseOffset() != 3 || batches[1].LeaderEpoch() != 7 {
		t.Fatalf("read %d batches", len(batches))
	}
	after := fs.Crash(vfs.KeepNothing)
	l2 := openDir(t, after).Log("t", testTopic, 0, DefaultConfig())
	if got := len(readAll(t, l2)); got != 2 {
		t.Fatalf("after a power cut: %d batches", got)
	}
}

func TestCleanRestart(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	l := d.Log("t", testTopic, 0, small())
	for i := range 50 {
		mustWait(t, mustAppend(t, l, batchSpec{records: 2, size: 100, time: int64(i) * 10, pid: 5, seq: int32(2 * i)}))
	}
	want := readAll(t, l)
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	d2 := openDir(t, fs)
	if !d2.Clean() {
		t.Fatal("not clean")
	}
	l2 := d2.Log("t", testTopic, 0, small())
	if o := mustOffsets(t, l2); o != (Offsets{0, 100, 100, 100}) {
		t.Fatalf("offsets %+v", o)
	}
	sameBatches(t, readAll(t, l2), want)
	dup := mustAppend(t, l2, batchSpec{records: 2, size: 100, time: 490, pid: 5, seq: 98})
	if !dup.Duplicate || dup.Base != 98 {
		t.Fatalf("retry over a restart: %+v", dup)
	}
	mustWait(t, mustAppend(t, l2, batchSpec{records: 2, size: 100, time: 500, pid: 5, seq: 100}))
	if e, end, err := l2.EpochEnd(7); e != 7 || end != 102 || err != nil {
		t.Fatalf("epoch end %d %d %v", e, end, err)
	}
}

func sameBatches(t testing.TB, got, want []kproto.Batch) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d batches, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("batch %d differs", i)
		}
	}
}

func TestIdempotence(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	l := d.Log("t", testTopic, 0, DefaultConfig())
	appendSeq := func(epoch int16, seq int32, n int) (Appended, error) {
		return l.Append(makeBatch(batchSpec{records: n, pid: 9, epoch: epoch, seq: seq}), AppendOptions{})
	}
	for i := range 7 {
		if a, err := appendSeq(0, int32(i), 1); err != nil || a.Base != int64(i) {
			t.Fatal(a, err)
		}
	}
	for i := 2; i < 7; i++ {
		if a, err := appendSeq(0, int32(i), 1); err != nil || !a.Duplicate || a.Base != int64(i) {
			t.Fatalf("retry of %d: %+v %v", i, a, err)
		}
	}
	for _, c := range []struct {
		name  string
		epoch int16
		seq   int32
		n     int
		want  error
	}{
		{"older than the window", 0, 1, 1, ErrOutOfOrderSequence},
		{"gap", 0, 8, 1, ErrOutOfOrderSequence},
		{"same first, other last", 0, 6, 2, ErrOutOfOrderSequence},
		{"new epoch not at 0", 1, 7, 1, ErrOutOfOrderSequence},
		{"next", 0, 7, 1, nil},
		{"new epoch", 2, 0, 1, nil},
		{"old epoch", 1, 0, 1, ErrInvalidProducerEpoch},
	} {
		if _, err := appendSeq(c.epoch, c.seq, c.n); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if o := mustOffsets(t, l); o.End != 9 {
		t.Fatalf("end %d", o.End)
	}
}

func TestSequenceWraps(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	l := d.Log("t", testTopic, 0, DefaultConfig())
	mustAppend(t, l, batchSpec{records: 3, pid: 1, seq: 1<<31 - 2}) // 2147483646, 2147483647, 0
	a := mustAppend(t, l, batchSpec{records: 1, pid: 1, seq: 1})
	if a.Base != 3 || a.Duplicate {
		t.Fatalf("%+v", a)
	}
	if dup := mustAppend(t, l, batchSpec{records: 3, pid: 1, seq: 1<<31 - 2}); !dup.Duplicate || dup.Base != 0 {
		t.Fatalf("%+v", dup)
	}
	mustAppend(t, l, batchSpec{records: 1, pid: 2, seq: 1<<31 - 1})
	if a := mustAppend(t, l, batchSpec{records: 1, pid: 2}); a.Duplicate {
		t.Fatalf("%+v", a)
	}
}

// TestDuplicateWaits: a retry is not acknowledged before the original is durable.
func TestDuplicateWaits(t *testing.T) {
	fs := vfs.NewMem()
	gate := &gatedFS{FS: fs, open: make(chan struct{})}
	d, err := Open("data", Options{FS: gate})
	if err != nil {
		t.Fatal(err)
	}
	l := d.Log("t", testTopic, 0, DefaultConfig())
	mustAppend(t, l, batchSpec{records: 1, pid: 3})
	dup := mustAppend(t, l, batchSpec{records: 1, pid: 3})
	if done, _ := dup.Ticket.Notify(make(chanWaiter, 1)); !dup.Duplicate || done {
		t.Fatalf("duplicate %v, resolved %v before the sync", dup.Duplicate, done)
	}
	if o := mustOffsets(t, l); o.High != 0 || o.End != 1 {
		t.Fatalf("visible before the sync: %+v", o)
	}
	close(gate.open)
	mustWait(t, dup)
}

// gatedFS holds every file sync back until open is closed.
type gatedFS struct {
	vfs.FS
	mu      sync.Mutex // guards open where it is replaced
	open    chan struct{}
	entered chan struct{} // when not nil, told of each sync that begins
}

type gatedFile struct {
	vfs.File
	gate *gatedFS
}

func (g *gatedFS) OpenFile(name string, flag int, perm iofs.FileMode) (vfs.File, error) {
	f, err := g.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return gatedFile{f, g}, nil
}

func (f gatedFile) Sync() error {
	if f.gate.entered != nil {
		f.gate.entered <- struct{}{}
	}
	f.gate.mu.Lock()
	open := f.gate.open
	f.gate.mu.Unlock()
	<-open
	return f.File.Sync()
}

// hold holds the syncs back that begin from now on, until the channel it returns is closed.
func (g *gatedFS) hold() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
	return g.open
}

func TestFailedSyncTakesBack(t *testing.T) {
	in := &vfs.Injector{}
	d := openDir(t, vfs.Inject(vfs.NewMem(), in))
	l := d.Log("t", testTopic, 0, DefaultConfig())
	mustWait(t, mustAppend(t, l, batchSpec{records: 2, pid: 4, size: 50}))
	in.Add(vfs.Fault{Ops: vfs.OpSync, Path: "*.log", Nth: 1, Err: syscall.EIO})
	a := mustAppend(t, l, batchSpec{records: 1, pid: 4, seq: 2})
	if err := a.Ticket.Wait(context.Background()); !errors.Is(err, ErrNotDurable) {
		t.Fatalf("ack %v", err)
	}
	o := mustOffsets(t, l)
	if o.End != 2 || o.High != 2 {
		t.Fatalf("after the failed sync %+v", o)
	}
	// The same sequence is accepted again: the failed append left no state.
	b := mustAppend(t, l, batchSpec{records: 1, pid: 4, seq: 2, size: 9})
	mustWait(t, b)
	if b.Base != 2 || b.Duplicate {
		t.Fatalf("%+v", b)
	}
	if got := readAll(t, l); len(got) != 2 || got[1].BaseOffset() != 2 {
		t.Fatalf("%d batches", len(got))
	}
}

// TestReadsGoOnWhileSyncsFail: a disk that takes nothing more does not take away what it has.
func TestReadsGoOnWhileSyncsFail(t *testing.T) {
	in := &vfs.Injector{}
	d := openDir(t, vfs.Inject(vfs.NewMem(), in))
	l := d.Log("t", testTopic, 0, DefaultConfig())
	mustWait(t, mustAppend(t, l, batchSpec{records: 2, pid: 4, size: 50}))
	in.Add(vfs.Fault{Ops: vfs.OpSync, Path: "*.log", Sticky: true, Err: syscall.ENOSPC})
	a := mustAppend(t, l, batchSpec{records: 1, pid: 4, seq: 2})
	if err := a.Ticket.Wait(context.Background()); !errors.Is(err, ErrNotDurable) {
		t.Fatalf("ack %v", err)
	}
	if _, err := l.Append(makeBatch(batchSpec{records: 1, pid: 4, seq: 2}), AppendOptions{}); !errors.Is(err, ErrStorage) {
		t.Fatalf("append while syncs fail: %v", err)
	}
	if o := mustOffsets(t, l); o.High != 2 {
		t.Fatalf("while syncs fail: %+v", o)
	}
	if got := readAll(t, l); len(got) != 1 || got[0].NextOffset() != 2 {
		t.Fatalf("while syncs fail: %d batches", len(got))
	}
	in.Heal()
	l.finishSync()
	l.mu.Lock()
	l.retry = time.Time{} // retryGap is over
	l.mu.Unlock()
	mustWait(t, mustAppend(t, l, batchSpec{records: 1, pid: 4, seq: 2}))
	if got := readAll(t, l); len(got) != 2 || got[1].BaseOffset() != 2 {
		t.Fatalf("after healing: %d batches", len(got))
	}
}

func TestDelete(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	l := d.Log("t", testTopic, 0, DefaultConfig())
	mustWait(t, mustAppend(t, l, batchSpec{records: 3, size: 100}))
	r, err := l.Read(0, 3, 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	w := &countWatcher{}
	l.Watch(&Watch{To: w})
	if err := d.Delete(l); err != nil {
		t.Fatal(err)
	}
	if w.n != 1 {
		t.Fatalf("watcher fired %d times", w.n)
	}
	b := make([]byte, r.Len)
	if _, err := r.File.ReadAt(b, r.Pos); err != nil {
		t.Fatalf("a reader that was there: %v", err)
	}
	r.Release()
	if _, err := l.Append(makeBatch(batchSpec{}), AppendOptions{}); !errors.Is(err, ErrDeleted) {
		t.Fatal(err)
	}
	again := d.Log("t", kproto.TopicID{9}, 0, DefaultConfig())
	if o := mustOffsets(t, again); o.End != 0 {
		t.Fatalf("the new topic shows %+v", o)
	}
	mustWait(t, mustAppend(t, again, batchSpec{records: 1}))
	if got := readAll(t, again); len(got) != 1 {
		t.Fatal(len(got))
	}
	if found, _ := d.Partitions(); len(found) != 1 || found[0].ID != (kproto.TopicID{9}) {
		t.Fatalf("on disk: %+v", found)
	}
}

// TestDeleteWaitsForTheSync: what a sync of the deleted partition still writes by name must not land in its successor's directory.
func TestDeleteWaitsForTheSync(t *testing.T) {
	fs := vfs.NewMem()
	gate := &gatedFS{FS: fs, open: make(chan struct{}), entered: make(chan struct{}, 10)}
	d, err := Open("data", Options{FS: gate})
	if err != nil {
		t.Fatal(err)
	}
	l := d.Log("t", testTopic, 0, DefaultConfig())
	a := mustAppend(t, l, batchSpec{records: 1})
	<-gate.entered
	deleted := make(chan error, 1)
	go func() { deleted <- d.Delete(l) }()
	if err := a.Ticket.Wait(context.Background()); !errors.Is(err, ErrDeleted) {
		t.Fatal(err)
	}
	select {
	case <-deleted:
		t.Fatal("deleted while a sync was under way")
	case <-time.After(10 * time.Millisecond):
	}
	close(gate.open)
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	if found, _ := d.Partitions(); len(found) != 0 {
		t.Fatalf("left on disk: %+v", found)
	}
}

type countWatcher struct{ n int }

func (w *countWatcher) Fire() { w.n++ }

func TestSecondBrokerIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	if _, err := Open("data", Options{FS: fs}); !errors.Is(err, ErrInUse) {
		t.Fatal(err)
	}
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	openDir(t, fs)
}

func TestAdvanceStart(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	l := d.Log("t", testTopic, 0, small())
	for range 40 {
		mustWait(t, mustAppend(t, l, batchSpec{records: 5, size: 30}))
	}
	if _, err := l.AdvanceStart(context.Background(), 201); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatal(err)
	}
	if start, err := l.AdvanceStart(context.Background(), 103); start != 103 || err != nil {
		t.Fatal(start, err)
	}
	if start, err := l.AdvanceStart(context.Background(), 50); start != 103 || err != nil {
		t.Fatal(start, err)
	}
	after := openDir(t, fs.Crash(vfs.KeepNothing)).Log("t", testTopic, 0, small())
	if o := mustOffsets(t, after); o.Start != 103 || o.High != 200 {
		t.Fatalf("%+v", o)
	}
	if _, err := after.Read(102, 200, 100, true); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatal(err)
	}
}

// TestReadAgainstModel: any offset, limit, size and mode give whole batches that a plain list of them would give.
func TestReadAgainstModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	fs := vfs.NewMem()
	d := openDir(t, fs)
	l := d.Log("t", testTopic, 0, small())
	for range 300 {
		mustAppend(t, l, batchSpec{records: 1 + rnd.IntN(5), size: rnd.IntN(200), time: rnd.Int64N(1000)})
	}
	mustWait(t, mustAppend(t, l, batchSpec{records: 1}))
	checkReads(t, l, rnd, 3000)
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	checkReads(t, openDir(t, fs).Log("t", testTopic, 0, small()), rnd, 3000)
}

func checkReads(t *testing.T, l *Log, rnd *rand.Rand, n int) {
	t.Helper()
	model := readAll(t, l)
	high := mustOffsets(t, l).High
	for range n {
		from := rnd.Int64N(high)
		limit := high
		if rnd.IntN(2) == 0 {
			limit = from + rnd.Int64N(high-from+1)
		}
		most, whole := rnd.IntN(3000), rnd.IntN(2) == 0
		got, next, err := readPlain(l, from, limit, most, whole)
		if err != nil {
			t.Fatal(err)
		}
		want := modelRead(model, from, limit, most, whole)
		if !bytes.HasPrefix(want, got) || len(got) == 0 && len(want) > 0 {
			t.Fatalf("read %d below %d, %d bytes, whole %v: %d bytes, want a prefix of %d", from, limit, most, whole, len(got), len(want))
		}
		if len(got) > 0 && next != lastBatch(got).NextOffset() {
			t.Fatalf("next %d", next)
		}
		// A range ends early only at a segment's end.
		if len(got) < len(want) {
			if l.segmentOf(next).base != next {
				t.Fatalf("read %d ended at %d inside a segment with %d of %d bytes", from, next, len(got), len(want))
			}
		}
	}
}

func readPlain(l *Log, from, limit int64, most int, whole bool) ([]byte, int64, error) {
	r, err := l.Read(from, limit, most, whole)
	if err != nil || r.Len == 0 {
		return nil, from, err
	}
	defer r.Release()
	b := make([]byte, r.Len)
	_, err = r.File.ReadAt(b, r.Pos)
	return b, r.Next, err
}

func modelRead(model []kproto.Batch, from, limit int64, most int, whole bool) []byte {
	var out []byte
	for _, b := range model {
		if b.LastOffset() < from {
			continue
		}
		if b.NextOffset() > limit || len(out)+len(b) > most && (len(out) > 0 || !whole) {
			break
		}
		out = append(out, b...)
	}
	return out
}

func lastBatch(b []byte) kproto.Batch {
	for {
		first, rest, err := kproto.SplitBatch(b)
		if err != nil || len(rest) == 0 {
			return first
		}
		b = rest
	}
}

func TestFindAgainstModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	fs := vfs.NewMem()
	d := openDir(t, fs)
	l := d.Log("t", testTopic, 0, small())
	for range 200 {
		mustAppend(t, l, batchSpec{records: 1 + rnd.IntN(5), size: rnd.IntN(100), time: 1000 + rnd.Int64N(500)})
	}
	mustWait(t, mustAppend(t, l, batchSpec{records: 1, time: 1000}))
	checkFinds(t, l, rnd)
	if _, err := l.AdvanceStart(context.Background(), 37); err != nil {
		t.Fatal(err)
	}
	checkFinds(t, l, rnd)
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	checkFinds(t, openDir(t, fs).Log("t", testTopic, 0, small()), rnd)
}

func checkFinds(t *testing.T, l *Log, rnd *rand.Rand) {
	t.Helper()
	o := mustOffsets(t, l)
	var records []kproto.Record
	for _, b := range readAll(t, l) {
		_ = b.EachRecord(func(r kproto.Record) bool {
			if r.Offset >= o.Start {
				records = append(records, r)
			}
			return true
		})
	}
	for range 500 {
		ms := 990 + rnd.Int64N(530)
		want := int64(-1)
		for _, r := range records {
			if r.Timestamp >= ms {
				want = r.Offset
				break
			}
		}
		got, err := l.FindTime(ms, o.High)
		if err != nil || got.Offset != want {
			t.Fatalf("time %d: offset %d, want %d (%v)", ms, got.Offset, want, err)
		}
	}
	best := kproto.Record{Offset: -1, Timestamp: -1}
	for _, r := range records {
		if r.Timestamp > best.Timestamp {
			best = r
		}
	}
	if got, err := l.MaxTime(o.High); err != nil || got.Offset != best.Offset || got.Timestamp != best.Timestamp {
		t.Fatalf("max time %+v, want %d at %d (%v)", got, best.Timestamp, best.Offset, err)
	}
}

func TestIntervalAndOS(t *testing.T) {
	for _, mode := range []Durability{Interval, OS} {
		d := openDir(t, vfs.NewMem())
		c := small()
		c.Durability, c.SyncInterval = mode, time.Millisecond
		l := d.Log("t", testTopic, 0, c)
		for i := range 30 {
			a := mustAppend(t, l, batchSpec{records: 1, size: 100})
			if done, err := a.Ticket.Notify(make(chanWaiter, 1)); !done || err != nil {
				t.Fatalf("%v: not acknowledged at once", mode)
			}
			if o := mustOffsets(t, l); o.High != int64(i+1) {
				t.Fatalf("%v: %+v", mode, o)
			}
		}
		if err := d.Close(context.Background()); err != nil {
			t.Fatal(mode, err)
		}
	}
}
