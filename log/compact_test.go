package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// cleanRig is a log with one batch a segment but for the last, so that each can be cleaned as soon as the next is there.
type cleanRig struct {
	t    *testing.T
	disk *vfs.Mem
	dir  *Dir
	log  *Log
	loud *loudLogger
	now  int64
	onOp func(vfs.Op) // while the cleaner runs
}

// compacting has segments that hold one batch of this test.
func compacting() *Config {
	c := tiny()
	c.Compact, c.DeleteRetention = true, 100*time.Millisecond
	c.SegmentBytes = 128
	return c
}

func newCleanRig(t *testing.T, c *Config) *cleanRig {
	r := &cleanRig{t: t, disk: vfs.NewMem(), loud: &loudLogger{}, now: 1000}
	r.open(c)
	return r
}

func (r *cleanRig) open(c *Config) {
	r.t.Helper()
	d, err := Open("data", Options{FS: r.disk, Logger: slog.New(r.loud)})
	must(r.t, err)
	d.SetEpoch(7)
	r.dir, r.log = d, d.Log("t", testTopic, 0, c)
	must(r.t, d.Recover(context.Background()))
}

// killed starts again on what a power cut leaves, without the files whose names end so.
func (r *cleanRig) killed(without string) {
	r.t.Helper()
	abandon(r.dir)
	c := r.log.cfg.Load()
	r.disk = r.disk.Crash(vfs.KeepNothing)
	entries, err := r.disk.ReadDir("data/t-0")
	must(r.t, err)
	for _, e := range entries {
		if without != "" && strings.HasSuffix(e.Name(), without) {
			must(r.t, r.disk.Remove(filepath.Join("data/t-0", e.Name())))
		}
	}
	r.open(c)
}

func (r *cleanRig) append(b kproto.Batch) int64 {
	r.t.Helper()
	a, err := r.log.Append(b, AppendOptions{Internal: b.Control() || b.Transactional()})
	must(r.t, err)
	mustWait(r.t, a)
	return a.Base
}

// put appends records of the form key=value, key- for a tombstone and =value for one without a key, as one batch of a producer, or of none.
func (r *cleanRig) put(pid int64, transactional bool, records ...string) int64 {
	return r.append(keyed(kproto.None, pid, 0, transactional, records...))
}

func keyed(c kproto.Codec, pid int64, seq int32, transactional bool, records ...string) kproto.Batch {
	b := kproto.NewBuilder(c)
	b.Transactional = transactional
	if pid > 0 {
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = pid, 0, seq
	}
	for i, s := range records {
		rec := kproto.Record{Timestamp: int64(10 + i)}
		if key, value, ok := strings.Cut(s, "="); ok {
			rec.Value = []byte(value)
			s = key
		}
		if s = strings.TrimSuffix(s, "-"); s != "" {
			rec.Key = []byte(s)
		}
		b.Add(rec)
	}
	return b.Batch()
}

func (r *cleanRig) end(pid int64, commit bool) {
	r.append(kproto.EndMarker{Commit: commit}.Batch(pid, 0, 5))
}

// clean rolls the last segment out of the way and runs the cleaner, which may write all into one segment.
func (r *cleanRig) clean() Cleaned {
	r.t.Helper()
	done, err := r.tryClean()
	must(r.t, err)
	return done
}

func (r *cleanRig) tryClean() (Cleaned, error) {
	r.t.Helper()
	r.put(0, false, "end="+strings.Repeat("x", 40))
	small := r.log.cfg.Load()
	defer r.log.SetConfig(small)
	c := *small
	c.SegmentBytes = 1 << 20
	r.log.SetConfig(&c)
	r.log.finishSync() // the segments before are sealed
	r.disk.OnOp(r.onOp)
	defer r.disk.OnOp(nil)
	return r.log.Clean(context.Background(), CleanOptions{Now: time.UnixMilli(r.now), MapBytes: 1 << 16})
}

// expireProducers has the cleaner see no living producer.
func (r *cleanRig) expireProducers() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	clear(r.log.producers)
}

// show writes down what there is: "0 a=1 | 3 commit", a batch without records as "[4-5]", h behind a batch with a delete horizon. The record that clean
// has added last is left out.
func (r *cleanRig) show() string {
	r.t.Helper()
	var parts []string
	for _, b := range readAll(r.t, r.log) {
		if b.NextOffset() == mustOffsets(r.t, r.log).End {
			break
		}
		s := fmt.Sprintf("[%d-%d]", b.BaseOffset(), b.LastOffset())
		if m, ok, _ := b.EndMarker(); ok {
			s = fmt.Sprintf("%d %s", b.BaseOffset(), map[bool]string{true: "commit", false: "abort"}[m.Commit])
		} else if b.Count() > 0 {
			s = showRecords(b)
		}
		if _, ok := b.DeleteHorizon(); ok {
			s += " h"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " | ")
}

func showRecords(b kproto.Batch) string {
	var s []string
	_ = b.EachRecord(func(r kproto.Record) bool {
		switch {
		case string(r.Key) == "end":
			s = append(s, fmt.Sprintf("%d end", r.Offset))
		case r.Value == nil:
			s = append(s, fmt.Sprintf("%d %s-", r.Offset, r.Key))
		default:
			s = append(s, fmt.Sprintf("%d %s=%s", r.Offset, r.Key, r.Value))
		}
		return true
	})
	return strings.Join(s, " ")
}

func (r *cleanRig) want(text string) {
	r.t.Helper()
	if got := r.show(); got != text {
		r.t.Fatalf("\n got %s\nwant %s", got, text)
	}
}

// A tombstone outlives what it deletes by delete.retention.ms from the first run that saw it (KIP-534).
func TestTombstonesGoAfterTheirHorizon(t *testing.T) {
	r := newCleanRig(t, compacting())
	r.put(0, false, "a=1", "b=1")
	r.put(0, false, "a-", "c=1")
	r.now = 50_000 // the records' own times do not matter
	r.clean()
	r.want("1 b=1 | 2 a- 3 c=1 h")
	r.now += 99
	r.clean()
	r.want("1 b=1 | 2 a- 3 c=1 h | 4 end")
	r.now++
	r.clean()
	r.want("1 b=1 | 3 c=1 h | 5 end")
	if r.log.cleaner.due != 0 {
		t.Fatalf("a run is due at %d for a tombstone that is gone", r.log.cleaner.due)
	}
}

// What transactions leave (KIP-98): aborted records count for nothing, a marker stays as long as something of its transaction and then until its
// horizon, and nothing is touched from the first record of an open transaction on.
func TestCompactTransactions(t *testing.T) {
	r := newCleanRig(t, compacting())
	r.put(1, true, "a=1")  // 0
	r.put(2, true, "a=no") // 1
	r.put(0, false, "c=1") // 2
	r.end(2, false)        // 3
	r.end(1, true)         // 4
	r.put(3, true, "c=2")  // 5: open
	r.put(0, false, "c=3") // 6
	r.expireProducers()
	r.clean() // 7
	r.want("0 a=1 | 2 c=1 | 3 abort | 4 commit | 5 c=2 | 6 c=3")

	r.end(3, false) // 8
	r.expireProducers()
	r.clean() // 9
	r.want("0 a=1 | 3 abort h | 4 commit | 6 c=3 | 7 end | 8 abort")

	r.put(0, false, "a=2") // 10
	r.now += 100
	r.clean() // 11
	r.want("4 commit | 6 c=3 | 8 abort h | 9 end | 10 a=2")
	r.clean()
	r.now += 100
	r.clean()
	r.want("6 c=3 | 10 a=2 | 12 end")
	if got := r.log.cleaned; got != 13 {
		t.Fatalf("clean below %d", got)
	}
}

// The marker of a transaction may lie above what is cleaned, in the active segment.
func TestCompactAbortedByALaterMarker(t *testing.T) {
	r := newCleanRig(t, compacting())
	r.put(0, false, "a=1")
	r.put(2, true, "a=no")
	r.put(0, false, "b=1")
	c := *r.log.cfg.Load()
	c.SegmentBytes = 1 << 20 // no more rolls
	r.log.SetConfig(&c)
	r.end(2, false)
	r.expireProducers()
	r.clean()
	r.want("0 a=1 | [1-1] | 2 b=1 | 3 abort")
}

// The last batch of a living producer stays, without records if need be, so that its sequence outlives a loss of all snapshots.
func TestCompactionKeepsLivingProducers(t *testing.T) {
	r := newCleanRig(t, compacting())
	r.put(0, false, "c=1")
	last := keyed(kproto.None, 5, 0, false, "a=1", "b=1")
	base := r.append(bytes.Clone(last))
	r.put(0, false, "a=2", "b=2")
	r.clean()
	r.want("0 c=1 | [1-2] | 3 a=2 4 b=2")
	r.killed(producerSuffix)
	a, err := r.log.Append(last, AppendOptions{})
	if err != nil || !a.Duplicate || a.Base != base {
		t.Fatalf("retry: %+v (%v)", a, err)
	}
	r.expireProducers()
	r.clean()
	r.want("0 c=1 | 3 a=2 4 b=2 | 5 end")
}

// A batch keeps its codec and its own range of offsets; what has no key goes.
func TestCompactedBatches(t *testing.T) {
	r := newCleanRig(t, compacting())
	for i, c := range []kproto.Codec{kproto.None, kproto.Gzip, kproto.Snappy, kproto.LZ4, kproto.Zstd} {
		r.append(keyed(c, 0, 0, false, "=lost", fmt.Sprintf("k%d=%d", i, i), "x=", "=lost"))
	}
	done := r.clean()
	r.want("1 k0=0 | 5 k1=1 | 9 k2=2 | 13 k3=3 | 17 k4=4 18 x=")
	if done.Keyless != 10 || done.Dropped != 14 {
		t.Fatalf("%+v", done)
	}
	for i, b := range readAll(t, r.log)[:5] {
		if b.Codec() != kproto.Codec(i) || b.BaseOffset() != int64(4*i) || b.LastOffset() != int64(4*i+3) {
			t.Errorf("batch %d: codec %v, offsets %d to %d", i, b.Codec(), b.BaseOffset(), b.LastOffset())
		}
	}
}

// Where nothing changes, nothing is written.
func TestCompactionOfWhatIsClean(t *testing.T) {
	r := newCleanRig(t, compacting())
	r.log.SetConfig(small()) // 2000 bytes a segment
	for i := range 60 {
		r.put(0, false, fmt.Sprintf("k%d=%s", i, strings.Repeat("x", 300)))
	}
	r.log.finishSync()
	o := CleanOptions{Now: time.UnixMilli(r.now), MapBytes: 1 << 16}
	done, err := r.log.Clean(context.Background(), o)
	must(t, err)
	if done.Written != 0 || done.Dropped != 0 || r.log.cleaned.clean() != r.log.active().base {
		t.Fatalf("%+v, clean below %d", done, r.log.cleaned)
	}
}

// A damaged segment is left as it is, loudly, and all the rest of the log with it; everything can be read as before.
func TestDamagedSegmentIsNotCompacted(t *testing.T) {
	for _, name := range []string{"a record", "a header", "an offset", "the end"} {
		t.Run(name, func(t *testing.T) {
			r := newCleanRig(t, compacting())
			for i := range 4 {
				r.put(0, false, "a=1", fmt.Sprintf("b=%d", i))
			}
			r.log.finishSync() // files come and go until all is sealed
			file := "data/t-0/00000000000000000002.log"
			switch name {
			case "a record":
				flipBit(t, r.disk, file, 8*75)
			case "a header":
				flipBit(t, r.disk, file, 8*60)
			case "an offset":
				flipBit(t, r.disk, file, 8*7+3)
			case "the end":
				truncate(t, r.disk, file, 70)
			}
			before, err := contents(r.disk)
			must(t, err)
			_, err = r.tryClean()
			if !errors.Is(err, ErrUncleanable) || r.loud.n.Load() == 0 {
				t.Fatalf("%v, %d warnings", err, r.loud.n.Load())
			}
			if _, again := r.tryClean(); !errors.Is(again, ErrUncleanable) {
				t.Fatalf("next run: %v", again)
			}
			r.log.finishSync()
			after, err := contents(r.disk)
			must(t, err)
			for f := range before {
				if filepath.Ext(f) == logSuffix && f != file && !strings.HasPrefix(after[f], before[f]) {
					t.Errorf("%s changed", f)
				}
			}
			for _, at := range []int64{0, 4, 6} {
				if _, _, err := r.log.ReadBytes(nil, at, mustOffsets(t, r.log).High, 1); err != nil {
					t.Errorf("read at %d: %v", at, err)
				}
			}
		})
	}
}

// A reader that holds a range goes on with it, whatever takes its segment's place.
func TestReadersKeepWhatWasCompacted(t *testing.T) {
	r := newCleanRig(t, compacting())
	for i := range 5 {
		r.put(0, false, fmt.Sprintf("a=%d", i))
	}
	held, err := r.log.Read(1, mustOffsets(t, r.log).High, 1<<20, true)
	must(t, err)
	want := make([]byte, held.Len)
	_, err = held.File.ReadAt(want, held.Pos)
	must(t, err)
	r.clean()
	r.want("4 a=4")
	got := make([]byte, held.Len)
	if _, err := held.File.ReadAt(got, held.Pos); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("the range changed (%v)", err)
	}
	held.Release()
}

// A log that is deleted or closed does not wait for the end of a run, nor does the run touch its files afterwards.
func TestCleaningEndsWithTheLog(t *testing.T) {
	for _, name := range []string{"delete", "close"} {
		t.Run(name, func(t *testing.T) {
			r := newCleanRig(t, compacting())
			for range 4 {
				r.put(0, false, "a=1")
			}
			r.log.finishSync()
			running, done := make(chan struct{}, 100), make(chan error, 1)
			go func() {
				_, err := r.log.Clean(context.Background(), CleanOptions{Now: time.UnixMilli(r.now), MapBytes: 1 << 16, Spend: func(ctx context.Context, _ int) error {
					running <- struct{}{}
					<-ctx.Done()
					return ctx.Err()
				}})
				done <- err
			}()
			<-running
			if name == "delete" {
				must(t, r.dir.Delete(r.log))
			} else {
				must(t, r.dir.Close(context.Background()))
			}
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if entries, err := r.disk.ReadDir("data"); err != nil || name == "delete" && slices.ContainsFunc(entries, isDir) {
				t.Fatalf("%v left (%v)", entries, err)
			}
		})
	}
}

// The log start moves before any operation of a run: the run may find that its segments are gone, and what was removed does not come back.
func TestStartMovesWhileCompacting(t *testing.T) {
	ops := 0
	for again := true; again; ops++ {
		r := newCleanRig(t, compacting())
		for i := range 6 {
			r.put(0, false, fmt.Sprintf("a=%d", i), fmt.Sprintf("b%d=1", i))
		}
		var n, moved atomic.Int64
		r.onOp = func(op vfs.Op) {
			if !strings.HasPrefix(op.Name, r.log.path()) {
				return // of the slots, whose lock or whose sync the move waits for
			}
			if n.Add(1) == int64(ops)+1 {
				if _, err := r.log.AdvanceStart(context.Background(), 7); err != nil {
					t.Error(err)
				}
				moved.Add(1)
			}
		}
		r.clean()
		fired := moved.Load() > 0
		again = fired
		want := r.show()
		if first := r.log.segs[0]; fired && len(r.log.segs) > 1 && r.log.segs[1].base <= 7 {
			t.Fatalf("operation %d: the segment at %d is still there", ops, first.base)
		}
		r.killed("")
		if o := mustOffsets(t, r.log); fired && o.Start != 7 {
			t.Fatalf("operation %d: %+v", ops, o)
		}
		r.want(want)
	}
	if ops < 10 {
		t.Fatalf("%d operations", ops)
	}
}

func isDir(e iofs.DirEntry) bool { return e.IsDir() }

// The map knows the newest offset of each key, says when it is full, and then still knows what it knew.
func TestKeyMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		m, model := newKeyMap(keyEntrySize*(2+rng.Int64N(200)), 1000), map[string]int64{}
		for offset := range int64(400) {
			key := fmt.Sprint(rng.IntN(150))
			_, known := model[key]
			put := m.put([]byte(key), offset)
			if put != (known || len(model) < m.limit) {
				t.Fatalf("put %v, key known %v, %d of %d keys", put, known, len(model), m.limit)
			}
			if put {
				model[key] = offset
			}
		}
		for i := range 160 {
			key := fmt.Sprint(i)
			newest, known := model[key]
			if known && (m.superseded([]byte(key), newest) || !m.superseded([]byte(key), newest-1)) || !known && m.superseded([]byte(key), 0) {
				t.Fatalf("key %s: newest %d, known %v", key, newest, known)
			}
		}
	}
}

func TestCleanPoint(t *testing.T) {
	for _, c := range []struct {
		p           cleanPoint
		reach       int64
		clean, gaps int64
	}{
		{0, 0, 0, 0},
		{0, 10, 10, 10},
		{10, 5, 10, 10},
		{missingBelow(10), 5, 0, 10},
		{missingBelow(10), 10, 10, 10},
		{missingBelow(0), 0, 0, 0},
	} {
		if got := c.p.reach(c.reach); got.clean() != c.clean || got.gaps() != c.gaps {
			t.Errorf("%d, then clean below %d: clean below %d, gaps below %d", c.p, c.reach, got.clean(), got.gaps())
		}
	}
}
