package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// at is a moment by records' clock, ms.
func at(ms int64) time.Time { return time.UnixMilli(ms) }

// rolled makes a log of n segments, one batch of one record each, with times 100, 200 and so on.
func rolled(t *testing.T, d *Dir, c *Config, n int) *Log {
	t.Helper()
	l := d.Log("a", testTopic, 0, c)
	for i := range n {
		mustWait(t, mustAppend(t, l, batchSpec{size: 500, time: int64(100 * (i + 1))}))
	}
	l.finishSync() // the last but one is sealed
	return l
}

// each is a config under which every batch of rolled gets a segment of its own: of 570 bytes.
func each() *Config {
	c := keeping(-1, -1, 0)
	c.SegmentBytes = 600
	return c
}

func names(t *testing.T, fs vfs.FS, suffix string) (found []string) {
	t.Helper()
	entries, err := fs.ReadDir("data/a-0")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			found = append(found, e.Name())
		}
	}
	return found
}

func TestRetain(t *testing.T) {
	size := int64(len(makeBatch(batchSpec{size: 500})))
	for _, c := range []struct {
		name     string
		set      func(c *Config)
		now      int64
		start    int64 // of 5 records
		segments int
		why      Cause
	}{
		{"no limits", func(c *Config) {}, 1e15, 0, 5, 0},
		{"no delete policy", func(c *Config) { c.Delete, c.RetentionMs, c.RetentionBytes = false, 1, 0 }, 1e15, 0, 5, 0},
		{"time, nothing too old", func(c *Config) { c.RetentionMs = 100 }, 200, 0, 5, 0},
		{"time, the first by a millisecond", func(c *Config) { c.RetentionMs = 100 }, 201, 1, 4, ByTime},
		{"time, some", func(c *Config) { c.RetentionMs = 100 }, 450, 3, 2, ByTime},
		{"time, all but the last", func(c *Config) { c.RetentionMs = 100 }, 600, 4, 1, ByTime},
		{"time, all: the last one rolls", func(c *Config) { c.RetentionMs = 100 }, 601, 5, 1, ByTime},
		{"time, at once", func(c *Config) { c.RetentionMs = 0 }, 301, 3, 2, ByTime},
		{"time, a clock before the records", func(c *Config) { c.RetentionMs = 0 }, -1e15, 0, 5, 0},
		{"time, the longest there is", func(c *Config) { c.RetentionMs = 1<<63 - 1 }, 1e15, 0, 5, 0},
		{"size, room for all", func(c *Config) { c.RetentionBytes = 5 * size }, 0, 0, 5, 0},
		{"size, less than a segment too much", func(c *Config) { c.RetentionBytes = 4*size + 1 }, 0, 0, 5, 0},
		{"size, a segment too much", func(c *Config) { c.RetentionBytes = 4 * size }, 0, 1, 4, BySize},
		{"size, most", func(c *Config) { c.RetentionBytes = size + size/2 }, 0, 3, 2, BySize},
		{"size, nothing is kept", func(c *Config) { c.RetentionBytes = 0 }, 0, 5, 1, BySize},
		{"size, then time", func(c *Config) { c.RetentionBytes, c.RetentionMs = 4*size, 100 }, 350, 2, 3, ByTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMem()
			d := openDir(t, fs)
			l := rolled(t, d, each(), 5)
			settings := *l.cfg.Load()
			c.set(&settings)
			l.SetConfig(&settings)
			d.Retain(t.Context(), at(c.now))
			o := mustOffsets(t, l)
			if o.Start != c.start || o.High != 5 || o.End != 5 || len(l.segs) != c.segments {
				t.Errorf("%+v in %d segments, want start %d in %d", o, len(l.segs), c.start, c.segments)
			}
			if n := d.Deleted(c.why); c.start > 0 && (n.Segments == 0 || n.Bytes != n.Segments*size) {
				t.Errorf("counted %+v", n)
			}
			if got := names(t, fs, logSuffix); len(got) != c.segments {
				t.Errorf("files %v", got)
			}
			if left := names(t, fs, deletedSuffix); left != nil {
				t.Errorf("%v are left", left)
			}
			mustWait(t, mustAppend(t, l, batchSpec{}))
			if err := d.Close(t.Context()); err != nil {
				t.Error(err)
			}
			after := openDir(t, fs).Log("a", testTopic, 0, DefaultConfig())
			if again := mustOffsets(t, after); again != (Offsets{c.start, 6, 6, 6}) {
				t.Errorf("after a restart %+v", again)
			}
		})
	}
}

// Records without timestamps are as old as the last append to their file.
func TestRetainWithoutTimestamps(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	c := each()
	c.RetentionMs = 60_000
	l := d.Log("a", testTopic, 0, c)
	for range 3 {
		mustWait(t, mustAppend(t, l, batchSpec{size: 500, time: -1}))
	}
	d.Retain(t.Context(), time.Now())
	if o := mustOffsets(t, l); o.Start != 0 {
		t.Errorf("just appended, and %+v", o)
	}
	d.Retain(t.Context(), time.Now().Add(61*time.Second))
	if o := mustOffsets(t, l); o.Start != 3 {
		t.Errorf("a minute later %+v", o)
	}
}

// What is not visible yet is not deleted, however old. What is too old goes even while the disk takes no appends.
func TestRetainStopsAtTheHighWatermark(t *testing.T) {
	fs, in := vfs.NewMem(), &vfs.Injector{}
	d := openDir(t, vfs.Inject(fs, in))
	c := each()
	c.RetentionMs = 0
	l := rolled(t, d, c, 3)
	in.Add(vfs.Fault{Ops: vfs.OpSync | vfs.OpTruncate, Path: "*.log", Sticky: true, Err: syscall.ENOSPC})
	if mustAppend(t, l, batchSpec{size: 500, time: 300}).Ticket.Wait(t.Context()) == nil {
		t.Fatal("acknowledged")
	}
	d.Retain(t.Context(), at(1e9))
	if o := mustOffsets(t, l); l.state != stateCut || o.Start != 2 {
		t.Errorf("state %d, %+v", l.state, o)
	}
	if start, err := l.AdvanceStart(t.Context(), 3); start != 3 || err != nil {
		t.Errorf("DeleteRecords: %d, %v", start, err)
	}
	in.Heal()
}

// In modes that show records before they are synced, they are synced before their segments go.
func TestRetainSyncsFirst(t *testing.T) {
	for _, mode := range []Durability{Interval, OS} {
		fs := vfs.NewMem()
		d := openDir(t, fs)
		c := each()
		c.Durability, c.SyncInterval, c.RetentionMs = mode, never, 0
		l := rolled(t, d, c, 3)
		d.Retain(t.Context(), at(1e9))
		if o := mustOffsets(t, l); o != (Offsets{3, 3, 3, 3}) {
			t.Errorf("%v: %+v", mode, o)
		}
		after := openDir(t, fs.Crash(vfs.KeepNothing)).Log("a", testTopic, 0, c)
		if o := mustOffsets(t, after); o != (Offsets{3, 3, 3, 3}) {
			t.Errorf("%v: after a power cut %+v", mode, o)
		}
	}
}

// A reader that holds a range reads it to its end, whatever becomes of the segment.
func TestRetainLeavesReadersAlone(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	c := each()
	c.RetentionMs = 0
	l := rolled(t, d, c, 3)
	want := readAll(t, l)[0]
	r, err := l.Read(0, 3, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	d.Retain(t.Context(), at(1e9))
	got := make([]byte, r.Len)
	if _, err := r.File.ReadAt(got, r.Pos); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d (%v)", len(got), len(want), err)
	}
	r.Release()
}

// Deleted files keep their bytes under another name until their time has come; the next start removes what was left of them.
func TestDeletedFilesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		d := openDir(t, fs)
		c := each()
		c.FileDeleteDelay = time.Minute
		l := rolled(t, d, c, 5)
		if _, err := l.AdvanceStart(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if _, err := l.AdvanceStart(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if got := names(t, fs, logSuffix+deletedSuffix); len(got) != 3 || d.WaitingFiles() != 9 {
			t.Errorf("%v, %d wait", got, d.WaitingFiles())
		}
		killed := fs.Crash(vfs.KeepEverything)
		time.Sleep(31 * time.Second)
		if got := names(t, fs, logSuffix+deletedSuffix); len(got) != 2 {
			t.Errorf("after the first minute %v", got)
		}
		time.Sleep(30 * time.Second)
		if got := names(t, fs, deletedSuffix); got != nil || d.WaitingFiles() != 0 {
			t.Errorf("after the last minute %v", got)
		}
		if o := mustOffsets(t, openDir(t, killed).Log("a", testTopic, 0, c)); o.Start != 3 {
			t.Errorf("%+v", o)
		}
		if got := names(t, killed, deletedSuffix); got != nil {
			t.Errorf("after a kill and a start %v", got)
		}
	})
}

func TestDeletedFilesAreRemovedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, in := vfs.NewMem(), &vfs.Injector{}
		d := openDir(t, vfs.Inject(fs, in))
		l := rolled(t, d, each(), 3)
		in.Add(vfs.Fault{Ops: vfs.OpRemove, Sticky: true, Err: syscall.EROFS})
		if start, err := l.AdvanceStart(t.Context(), 2); start != 2 || err != nil {
			t.Fatal(start, err)
		}
		if got := names(t, fs, deletedSuffix); len(got) == 0 {
			t.Fatal("nothing was to be removed")
		}
		in.Heal()
		time.Sleep(reapRetry + time.Second)
		if got := names(t, fs, deletedSuffix); got != nil {
			t.Errorf("%v remain", got)
		}
	})
}

// A rename that fails leaves the segment for the next pass.
func TestRetainTriesAgain(t *testing.T) {
	for _, suffix := range []string{indexSuffix, timeSuffix, logSuffix} {
		fs, in := vfs.NewMem(), &vfs.Injector{}
		d := openDir(t, vfs.Inject(fs, in))
		c := each()
		c.RetentionMs = 0
		l := rolled(t, d, c, 3)
		in.Add(vfs.Fault{Ops: vfs.OpRename, Path: "*" + suffix})
		d.Retain(t.Context(), at(301))
		d.Retain(t.Context(), at(301))
		if got := names(t, fs, ""); slices.ContainsFunc(got, func(n string) bool {
			return strings.HasPrefix(n, segmentName(0, "")) && n != segmentName(3, producerSuffix)
		}) {
			t.Errorf("rename of %s failed: %v", suffix, got)
		}
		if o := mustOffsets(t, l); o.Start != 3 {
			t.Errorf("%+v", o)
		}
	}
}

// Retention finds what is due in a log that nobody has used since the start, and leaves the others closed.
func TestRetainIdle(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(c *Config)
		now  int64
		open bool
	}{
		{"nothing is due", func(c *Config) { c.RetentionMs, c.RetentionBytes = 1000, 1<<20 }, 1100, false},
		{"no delete policy", func(c *Config) { c.Delete, c.RetentionMs = false, 0 }, 1e9, false},
		{"time", func(c *Config) { c.RetentionMs = 1000 }, 1101, true},
		{"size", func(c *Config) { c.RetentionBytes = 1000 }, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMem()
			d := openDir(t, fs)
			rolled(t, d, each(), 4)
			if err := d.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			d = openDir(t, fs)
			settings := each()
			c.set(settings)
			l := d.Log("a", testTopic, 0, settings)
			for range 2 {
				d.Retain(t.Context(), at(c.now))
			}
			if open := l.state == stateOpen; open != c.open {
				t.Errorf("opened: %v", open)
			}
			if o := mustOffsets(t, l); (o.Start > 0) != c.open {
				t.Errorf("%+v", o)
			}
		})
	}
}

// A damaged partition is left to whoever repairs it.
func TestRetainLeavesDamageAlone(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	c := each()
	rolled(t, d, c, 4)
	abandon(d)
	img := fs.Crash(vfs.KeepEverything)
	f, err := img.OpenFile("data/a-0/"+segmentName(3, logSuffix), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff}, 100); err != nil {
		t.Fatal(err)
	}
	d = openDir(t, img)
	c.RetentionMs = 0
	l := d.Log("a", testTopic, 0, c)
	if o := mustOffsets(t, l); l.damage == nil {
		t.Fatalf("no damage seen: %+v", o)
	}
	d.Retain(t.Context(), at(1e9))
	if o := mustOffsets(t, l); o.Start != 0 {
		t.Errorf("%+v", o)
	}
}

// A copy of a log's segments, its topic id and its leader epochs, made while the broker runs, is the log: docs/operations.md has the commands.
func TestLiveBackup(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	c := each()
	c.RetentionBytes = 2000
	l := rolled(t, d, c, 8)
	d.Retain(t.Context(), at(0))
	before := mustOffsets(t, l)
	backup := vfs.NewMem()
	_, err := vfs.MkdirAll(backup, "data/a-0", 0o700)
	must(t, err)
	for _, name := range append(names(t, fs, logSuffix), metadataFile, epochFile) {
		data, err := vfs.ReadFile(fs, "data/a-0/"+name, 1<<20)
		must(t, err, vfs.WriteFileAtomic(backup, "data/a-0/"+name, data, 0o600))
	}
	restored := openDir(t, backup).Log("a", testTopic, 0, c)
	if o := mustOffsets(t, restored); before.Start == 0 || o != before {
		t.Errorf("%+v, want %+v", o, before)
	}
	if got := readAll(t, restored); len(got) != int(before.End-before.Start) {
		t.Errorf("%d batches", len(got))
	}
}

// Readers at random offsets, while segments roll and go, get whole right batches or are told that the offset is gone.
func TestReadersWhileSegmentsGo(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	c := each()
	c.RetentionBytes, c.Durability = 4000, OS
	l := d.Log("a", testTopic, 0, c)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	reads := atomic.Int64{}
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 5))
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := readSomewhere(l, rng); err != nil {
					t.Error(err)
					return
				}
				reads.Add(1)
			}
		})
	}
	n := 400
	if testing.Short() {
		n = 150
	}
	for i := range n {
		mustWait(t, mustAppend(t, l, batchSpec{size: 500, time: int64(i)}))
		if i%7 == 0 {
			d.Retain(t.Context(), at(0))
		}
	}
	close(stop)
	wg.Wait()
	if o := mustOffsets(t, l); o.Start < int64(n)-20 {
		t.Errorf("%+v", o)
	}
	t.Logf("%d reads", reads.Load())
}

func readSomewhere(l *Log, rng *rand.Rand) error {
	o, err := l.Offsets()
	if err != nil || o.High == o.Start {
		return err
	}
	from := o.Start + rng.Int64N(o.High-o.Start)
	b, _, err := l.ReadBytes(nil, from, o.High, rng.IntN(3000))
	if errors.Is(err, ErrOffsetOutOfRange) {
		return nil // gone meanwhile
	}
	if err != nil {
		return err
	}
	for next := from; len(b) > 0; {
		first, rest, err := kproto.SplitBatch(b)
		if err != nil || !first.ValidCRC() || first.BaseOffset() > next || first.LastOffset() < next {
			return fmt.Errorf("read at %d: batch %d to %d, CRC %v (%w)", from, first.BaseOffset(), first.LastOffset(), first.ValidCRC(), err)
		}
		next, b = first.NextOffset(), rest
	}
	return nil
}
