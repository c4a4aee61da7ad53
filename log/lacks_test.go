package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
	"sluice/kproto"
)

// headers counts a range's records by its batches' headers: those that an application that asked for an offset gets.
func headers(r Range, from int64) (first kproto.Batch, n int64, err error) {
	w := newWalker(r.File, r.Pos, r.Pos+r.Len)
	defer w.close()
	err = eachHeader(&w, func(h kproto.Batch) {
		if first == nil {
			first = bytes.Clone(h)
		}
		if !h.Control() {
			n += min(int64(h.Count()), h.LastOffset()-from+1)
		}
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return first, n, err
}

// countsAgree reads a range and holds the number of its records, if it is known, against its headers. It fails if it is not known where it should be: in a range
// that begins with a batch of as many records as offsets, above what compaction may have touched.
func countsAgree(l *Log, from, limit int64, most int) (known bool, err error) {
	r, err := l.Read(from, limit, most, true)
	if err != nil || r.Len == 0 {
		return false, err
	}
	defer r.Release()
	first, want, err := headers(r, from)
	if err != nil {
		return false, err
	}
	n, known := r.Records()
	switch {
	case known && n != want:
		return true, fmt.Errorf("%d records from %d to %d, its headers say %d", n, from, r.Next, want)
	case !known && from >= r.seg.gaps && lackOf(first) == 0:
		return false, fmt.Errorf("records from %d to %d are not known", from, r.Next)
	}
	return known, nil
}

// countedLog is a log to which anything may happen but compaction.
type countedLog struct {
	t    *testing.T
	rng  *rand.Rand
	mem  *vfs.Mem
	in   vfs.Injector
	proc *crashtest.Process
	cfg  *Config
	dir  *Dir
	log  *Log
}

func (c *countedLog) open() {
	c.proc = crashtest.NewProcess(vfs.Inject(c.mem, &c.in))
	c.dir = openDir(c.t, c.proc)
	c.log = c.dir.Log("t", testTopic, 0, c.cfg)
	mustOffsets(c.t, c.log)
}

func (c *countedLog) restart() {
	if c.rng.IntN(2) == 0 {
		must(c.t, c.dir.Close(context.Background()))
	} else {
		c.proc.Kill()
		abandon(c.dir)
		c.mem = c.mem.Crash(vfs.KeepEverything)
	}
	c.open()
}

func (c *countedLog) append() error {
	b := kproto.NewBuilder(kproto.Codec(c.rng.IntN(int(kproto.Zstd)))) // zstd keeps channels from one bubble to the next
	for range 1 + c.rng.IntN(4) {
		b.Add(kproto.Record{Value: make([]byte, c.rng.IntN(50))})
	}
	batch := b.Batch()
	if c.rng.IntN(8) == 0 {
		batch = kproto.EndMarker{Commit: true}.Batch(7, 0, 0)
	}
	a, err := c.log.Append(batch, AppendOptions{Internal: true})
	if err == nil && c.rng.IntN(4) == 0 {
		err = a.Ticket.Wait(context.Background())
	}
	return err
}

// fail has a sync or a write fail in the middle of appends, and the disk be well again.
func (c *countedLog) fail() {
	ops := vfs.OpSync
	if c.rng.IntN(2) == 0 {
		ops = vfs.OpWrite
	}
	c.in.Add(vfs.Fault{Ops: ops, Path: "*.log", Nth: 1 + c.rng.IntN(2), Partial: c.rng.IntN(60), Err: syscall.EIO})
	for range 4 {
		_ = c.append() // it may fail
		time.Sleep(10 * time.Millisecond)
	}
	c.in.Heal()
	for range 5 {
		time.Sleep(2 * retryGap)
		if c.append() == nil {
			return
		}
	}
	c.t.Fatal("the log does not come back")
}

func (c *countedLog) step() {
	switch n := c.rng.IntN(40); {
	case n < 30:
		must(c.t, c.append())
	case n < 32:
		c.fail()
	case n < 33:
		c.restart()
	case n < 34:
		o := mustOffsets(c.t, c.log)
		_, err := c.log.AdvanceStart(context.Background(), o.Start+c.rng.Int64N(o.High-o.Start+1)/3)
		must(c.t, err)
	case n < 35:
		must(c.t, c.dir.NewScrubber(fast).Pass(context.Background()))
	default:
		time.Sleep(20 * time.Millisecond)
	}
}

// look reads ranges of any size from anywhere.
func (c *countedLog) look() (known int) {
	for range 12 {
		o := mustOffsets(c.t, c.log)
		if o.Start == o.High {
			return known
		}
		from := o.Start + c.rng.Int64N(o.High-o.Start)
		is, err := countsAgree(c.log, from, from+1+c.rng.Int64N(o.High-from), c.rng.IntN(3000))
		must(c.t, err)
		if is {
			known++
		}
	}
	return known
}

// TestRecordsOfRanges: whatever was appended, taken back after failures of the disk, recovered, checked at its first read and scrubbed, the records of a range
// are known without a look at its headers, and are as many as these say.
func TestRecordsOfRanges(t *testing.T) {
	lives := uint64(40)
	if testing.Short() {
		lives = 8
	}
	for seed := range lives {
		synctest.Test(t, func(t *testing.T) {
			c := &countedLog{t: t, rng: rand.New(rand.NewPCG(seed, 3)), mem: vfs.NewMem()}
			c.cfg = withMode(Durability(seed % 3))
			c.cfg.SegmentBytes = 600 + c.rng.Int64N(3000)
			must(t, c.mem.Mkdir("data", 0o700))
			c.open()
			known := 0
			for range 150 {
				c.step()
				known += c.look()
			}
			if known < 500 {
				t.Errorf("seed %d: %d of 1800 ranges known", seed, known)
			}
			must(t, c.dir.Close(context.Background()))
		})
	}
}

// A segment with very many batches without records is not counted, and does not take more memory.
func TestTooManyLacks(t *testing.T) {
	var k lacks
	for i := range int64(2 * maxLacks) {
		k.add(100*i, 1)
		n, known := k.between(50, 100*i+1)
		if want := i < maxLacks; known != want || known && n != i || len(k.list) > maxLacks {
			t.Fatalf("after %d: %d, %v, %d remembered", i+1, n, known, len(k.list))
		}
	}
	var more lacks
	more.add(5, -1)
	if _, known := more.between(0, 10); known {
		t.Error("a batch of more records than offsets was counted")
	}
}
