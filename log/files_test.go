package log

import (
	"errors"
	iofs "io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/vfs"
)

// fileWatch counts open segment files, and fails the test where one is closed that holds what was not synced, or is used after it was closed.
type fileWatch struct {
	vfs.FS
	t    *testing.T
	open atomic.Int64
	most atomic.Int64
}

type watchedFile struct {
	vfs.File
	w      *fileWatch
	dirty  atomic.Bool
	closed atomic.Bool
}

func (w *fileWatch) OpenFile(name string, flag int, perm iofs.FileMode) (vfs.File, error) {
	f, err := w.FS.OpenFile(name, flag, perm)
	if err != nil || !hasSuffix(name, logSuffix, cleanedSuffix, indexSuffix, timeSuffix) || flag&os.O_CREATE != 0 && !hasSuffix(name, logSuffix, cleanedSuffix) {
		return f, err // index files are written through descriptors that do not last
	}
	n := w.open.Add(1)
	for most := w.most.Load(); n > most && !w.most.CompareAndSwap(most, n); most = w.most.Load() {
	}
	return &watchedFile{File: f, w: w}, nil
}

func hasSuffix(name string, suffixes ...string) bool {
	for _, s := range suffixes {
		if len(name) > len(s) && name[len(name)-len(s):] == s {
			return true
		}
	}
	return false
}

func (f *watchedFile) use() {
	if f.closed.Load() {
		f.w.t.Errorf("%s is used after it was closed", f.Name())
	}
}

func (f *watchedFile) ReadAt(b []byte, off int64) (int, error) { f.use(); return f.File.ReadAt(b, off) }
func (f *watchedFile) WriteAt(b []byte, off int64) (int, error) {
	f.use()
	f.dirty.Store(true)
	return f.File.WriteAt(b, off)
}

// Sync: what is written meanwhile is not covered for sure.
func (f *watchedFile) Sync() error {
	f.use()
	f.dirty.Store(false)
	err := f.File.Sync()
	if err != nil {
		f.dirty.Store(true)
	}
	return err
}

func (f *watchedFile) Close() error {
	if f.closed.Swap(true) {
		f.w.t.Errorf("%s is closed twice", f.Name())
	}
	if f.dirty.Load() {
		f.w.t.Errorf("%s is closed, and what was written to it is not synced", f.Name())
	}
	f.w.open.Add(-1)
	return f.File.Close()
}

// TestOpenFilesAreBounded: many partitions, in all modes, are written and read in random order by several at a time with few files. Nothing is lost or refused,
// the bound holds but for what the others open meanwhile, and no file is closed before it is synced or used after it was closed.
func TestOpenFilesAreBounded(t *testing.T) {
	const partitions, bound, workers, rounds = 60, 16, 4, 600
	w := &fileWatch{FS: vfs.NewMem(), t: t}
	d, err := Open("data", Options{FS: w, OpenFiles: bound})
	must(t, err)
	var logs []*Log
	var ends [partitions]int64
	var locks [partitions]sync.Mutex // one appends to a partition at a time, so that what is to be found is known
	for i := range partitions {
		c := small()
		c.Durability = Durability(i % 3)
		logs = append(logs, d.Log("t", testTopic, int32(i), c))
	}
	var wg sync.WaitGroup
	for n := range workers {
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		wg.Go(func() {
			for range rounds / workers {
				i := rng.IntN(partitions)
				locks[i].Lock()
				a, err := logs[i].Append(makeBatch(batchSpec{records: 1, size: 500, time: ends[i]}), AppendOptions{})
				if err == nil {
					err = a.Ticket.Wait(t.Context())
				}
				if err != nil || a.Base != ends[i] {
					t.Errorf("partition %d: base %d, not %d: %v", i, a.Base, ends[i], err)
				}
				ends[i]++
				j := rng.Int64N(ends[i])
				if _, _, err := logs[i].ReadBytes(nil, j, j+1, 1); err != nil && !errors.Is(err, ErrTooManyFiles) {
					t.Errorf("partition %d, offset %d: %v", i, j, err)
				}
				if p, err := logs[i].FindTime(j, ends[i]); err != nil || p.Offset != j {
					t.Errorf("partition %d, time %d: %+v, %v", i, j, p, err)
				}
				locks[i].Unlock()
			}
		})
	}
	wg.Wait()
	if open, _, _ := d.OpenFiles(); open != w.open.Load() {
		t.Errorf("%d files are open, and %d counted", w.open.Load(), open)
	}
	if most := w.most.Load(); most > bound {
		t.Errorf("%d files were open", most)
	}
	for open := int64(bound); open > 0; open, _, _ = d.OpenFiles() { // what is not synced yet cannot be closed for a read
		d.CloseIdle()
		time.Sleep(time.Millisecond)
	}
	for i, l := range logs {
		if n := len(readAll(t, l)); int64(n) != ends[i] {
			t.Errorf("partition %d has %d of %d batches", i, n, ends[i])
		}
	}
	must(t, d.Close(t.Context()))
	if open, _, opened := d.OpenFiles(); open != 0 || opened < partitions || w.open.Load() != 0 {
		t.Errorf("%d and %d files are open after Close, %d were opened", open, w.open.Load(), opened)
	}
}

// TestIdlePartitionsHoldNothing: a partition that is not used has neither an open file nor a goroutine nor a timer after a while, and goes on where it was.
func TestIdlePartitionsHoldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fileWatch{FS: vfs.NewMem(), t: t}
		d := openDir(t, w)
		for mode := range Durability(3) {
			c := small()
			c.Durability = mode
			l := d.Log("t", testTopic, int32(mode), c)
			for range 5 { // a sealed segment and its indexes too
				mustAppend(t, l, batchSpec{size: 700})
			}
			synctest.Wait()
			_, err := l.FindTime(0, mustOffsets(t, l).High)
			must(t, err)
		}
		for range 3 { // take the mark away, sync, close
			d.CloseIdle()
			time.Sleep(time.Minute)
		}
		if n := w.open.Load(); n != 0 {
			t.Errorf("%d files are open", n)
		}
		for mode := range Durability(3) {
			l := d.Log("t", testTopic, int32(mode), nil)
			if l.syncTimer != nil || l.queued || l.enlisted {
				t.Errorf("%v: timer %v, queued %v, enlisted %v", mode, l.syncTimer, l.queued, l.enlisted)
			}
			mustAppend(t, l, batchSpec{size: 700})
			synctest.Wait()
			if n := len(readAll(t, l)); n != 6 {
				t.Errorf("%v: %d batches", mode, n)
			}
		}
		must(t, d.Close(t.Context()))
	})
}

// TestFailedSyncIsSeenBeforeClosing: to close the file of a partition in mode os its data are synced first. If that fails, the log is frozen as after any failed
// sync; the file that has failed is not closed and taken for good when it is opened again.
func TestFailedSyncIsSeenBeforeClosing(t *testing.T) {
	in := &vfs.Injector{}
	d := openDir(t, vfs.Inject(vfs.NewMem(), in))
	c := small()
	c.Durability = OS
	l := d.Log("t", testTopic, 0, c)
	mustAppend(t, l, batchSpec{})
	l.finishSync()
	in.Add(vfs.Fault{Ops: vfs.OpSync, Path: "*.log"})
	for range 3 {
		d.CloseIdle()
		l.finishSync()
	}
	if l.state != stateFrozen {
		t.Fatalf("state %d after a failed sync", l.state)
	}
	if n := len(readAll(t, l)); n != 1 || d.Troubled(Frozen) != 1 {
		t.Errorf("%d batches while frozen, %d logs counted", n, d.Troubled(Frozen))
	}
	l.retry = time.Time{}
	mustAppend(t, l, batchSpec{})
	if n := len(readAll(t, l)); n != 2 || d.Troubled(Frozen)+d.Troubled(Cut)+d.Troubled(Offline) != 0 {
		t.Errorf("%d batches, %d logs counted as frozen", n, d.Troubled(Frozen))
	}
}

// TestAllFilesInUse: while readers hold as many files as may be open, reads and appends elsewhere are refused with an error of their own and nothing is lost;
// when the readers let go, all goes on.
func TestAllFilesInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := Open("data", Options{FS: vfs.NewMem(), OpenFiles: minShare + 1})
		must(t, err)
		var logs []*Log
		for i := range minShare + 2 {
			l := d.Log("t", testTopic, int32(i), small())
			mustWait(t, mustAppend(t, l, batchSpec{}))
			logs = append(logs, l)
		}
		var held []Range
		for _, l := range logs[1:] {
			r, err := l.Read(0, 1, 1, true)
			must(t, err)
			held = append(held, r)
		}
		l := logs[0]
		if _, err := l.Read(0, 1, 1, true); !errors.Is(err, ErrTooManyFiles) {
			t.Errorf("read: %v", err)
		}
		if _, err := l.Append(makeBatch(batchSpec{}), AppendOptions{}); !errors.Is(err, ErrTooManyFiles) || !errors.Is(err, ErrStorage) {
			t.Errorf("append: %v", err)
		}
		if _, err := l.Append(makeBatch(batchSpec{}), AppendOptions{Internal: true}); err != nil {
			t.Errorf("append of the broker's own: %v", err)
		}
		for _, r := range held {
			r.Release()
		}
		mustWait(t, mustAppend(t, l, batchSpec{}))
		if n := len(readAll(t, l)); n != 3 {
			t.Errorf("%d batches", n)
		}
		must(t, d.Close(t.Context()))
	})
}

// watchedLog has so many segments of one batch each, all but the last sealed, and no more than so many files open. Whoever seals a segment holds it, so that
// no sweep closes its files.
func watchedLog(t *testing.T, bound int64, segments int) (*fileWatch, *Dir, *Log) {
	t.Helper()
	w := &fileWatch{FS: vfs.NewMem(), t: t}
	d, err := Open("data", Options{FS: w, OpenFiles: int(bound)})
	must(t, err)
	c := small()
	c.SegmentBytes = 600
	l := d.Log("t", testTopic, 0, c)
	for range segments {
		mustWait(t, mustAppend(t, l, batchSpec{records: 1, size: 500}))
	}
	l.finishSync()
	return w, d, l
}

// TestManyReadersAtOnce: readers of one partition that all found room before any of them has opened a file do not open more than may be open.
func TestManyReadersAtOnce(t *testing.T) {
	const readers, bound = 30, 12
	w, d, l := watchedLog(t, bound, readers+1)
	for open := int64(bound); open > 0; open, _, _ = d.OpenFiles() {
		d.CloseIdle()
	}
	for i := range int64(readers) {
		must(t, l.admitRead(i))
	}
	w.most.Store(w.open.Load())
	var held []view
	for i := range int64(readers) {
		if v, err := l.view(i, i+1); err == nil {
			held = append(held, v)
		} else if !errors.Is(err, errRoomTaken) {
			t.Fatal(err)
		}
	}
	if most := w.most.Load(); most > bound || len(held) < bound/3 {
		t.Errorf("%d readers have opened %d files, %d may be open", len(held), most, bound)
	}
	if _, err := l.Read(readers-1, readers, 1, true); !errors.Is(err, ErrTooManyFiles) {
		t.Errorf("a read: %v", err)
	}
	for _, v := range held {
		v.seg.release()
	}
	if n := len(readAll(t, l)); n != readers+1 {
		t.Errorf("%d batches", n)
	}
	must(t, d.Close(t.Context()))
}

// TestIndexesNeedRoom: a segment whose data file is still open from its appends has its indexes opened by a read, for which there must be room as well.
func TestIndexesNeedRoom(t *testing.T) {
	const bound, segments = 10, 6
	w, d, l := watchedLog(t, bound, segments)
	if n := len(readAll(t, l)); n != segments {
		t.Errorf("%d batches", n)
	}
	if most := w.most.Load(); most > bound {
		t.Errorf("%d files were open, %d may be", most, bound)
	}
	must(t, d.Close(t.Context()))
}

// TestManySegmentsFewFiles: whoever goes over all segments of a log, of which there may be more than files that may be open, has few of them open at a time.
func TestManySegmentsFewFiles(t *testing.T) {
	const bound, segments = 10, 40
	for name, goOver := range map[string]func(d *Dir, l *Log) error{
		"compaction": func(_ *Dir, l *Log) error {
			done, err := l.Clean(t.Context(), CleanOptions{Now: time.Now(), MapBytes: 1 << 16})
			if done.Read == 0 {
				t.Errorf("compaction: nothing was read")
			}
			return err
		},
		"retention by time": func(d *Dir, _ *Log) error { d.Retain(t.Context(), time.Now()); return nil },
		"largest time":      func(_ *Dir, l *Log) error { _, err := l.MaxTime(segments); return err },
		"list made anew": func(_ *Dir, l *Log) error {
			l.mu.Lock()
			for _, s := range l.segs {
				s.listed, s.summed = nil, false
			}
			l.mu.Unlock()
			return l.writeManifest(nil)
		},
	} {
		w, d, _ := watchedLog(t, bound, segments)
		must(t, d.Close(t.Context()))
		d, err := Open("data", Options{FS: w, OpenFiles: bound}) // nothing is known of sealed segments now
		must(t, err)
		l := d.Log("t", testTopic, 0, small())
		mustOffsets(t, l)
		w.most.Store(w.open.Load())
		if err := goOver(d, l); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if most := w.most.Load(); most > bound {
			t.Errorf("%s: %d files were open, %d may be", name, most, bound)
		}
		if open, _, _ := d.OpenFiles(); open != w.open.Load() {
			t.Errorf("%s: %d files are open, and %d counted", name, w.open.Load(), open)
		}
		must(t, d.Close(t.Context()))
	}
}
