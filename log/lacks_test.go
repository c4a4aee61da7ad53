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

	scale int   // of what is appended and read
	born  int64 // segments from here on are of this process, and their files were never closed
}

func (c *countedLog) open() {
	c.proc = crashtest.NewProcess(vfs.Inject(c.mem, &c.in))
	c.dir = openDir(c.t, c.proc)
	c.log = c.dir.Log("t", testTopic, 0, c.cfg)
	c.born = mustOffsets(c.t, c.log).End
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
		b.Add(kproto.Record{Value: make([]byte, c.rng.IntN(50)*c.scale)})
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
	case n < 36:
		for range 2 {
			c.dir.CloseIdle()
		}
		c.born = mustOffsets(c.t, c.log).End
	default:
		time.Sleep(20 * time.Millisecond)
	}
}

// look reads ranges of any size from anywhere. It tells of how many the number of records is known, and that of batches.
func (c *countedLog) look() (known, batches int) {
	for range 12 {
		o := mustOffsets(c.t, c.log)
		if o.Start == o.High {
			break
		}
		from := o.Start + c.rng.Int64N(o.High-o.Start)
		limit, most := from+1+c.rng.Int64N(o.High-from), c.rng.IntN(3000*c.scale)
		is, err := countsAgree(c.log, from, limit, most)
		must(c.t, err)
		if is {
			known++
		}
		if c.lookAgain(from, limit, most) {
			batches++
		}
	}
	return known, batches
}

// lookAgain tells whether the number of a range's batches is known. It must be if they were appended since the segment's file was last opened, or if their headers were read
// for any reason.
func (c *countedLog) lookAgain(from, limit int64, most int) bool {
	r, err := c.log.Read(from, limit, most, true)
	must(c.t, err)
	defer r.Release()
	if r.Len == 0 || !r.severalBlocks() {
		return false
	}
	known, err := batchesAgree(&r)
	must(c.t, err)
	if !known && r.seg.base >= c.born {
		c.t.Fatalf("batches from %d to %d are not known, all from %d on were appended since", from, r.Next, c.born)
	}
	if !known && c.rng.IntN(3) == 0 {
		var recent [tailLength]Header
		remembered := len(c.log.recent(&recent, &r)) > 0
		must(c.t, c.log.Trim(&r, admitAll{}))
		after, err := batchesAgree(&r)
		must(c.t, err)
		if !after && !remembered {
			c.t.Fatalf("batches from %d to %d are not known, though their headers were read", from, r.Next)
		}
	}
	return known
}

// TestRecordsOfRanges: whatever was appended, taken back after failures of the disk, recovered, checked at its first read and scrubbed, the records of a range
// are known without a look at its headers, and are as many as these say. So are its batches if it is long and they were met before.
func TestRecordsOfRanges(t *testing.T) {
	lives := uint64(40)
	if testing.Short() {
		lives = 8
	}
	for seed := range lives {
		synctest.Test(t, func(t *testing.T) {
			c := &countedLog{t: t, rng: rand.New(rand.NewPCG(seed, 3)), mem: vfs.NewMem(), scale: 1}
			if seed%2 == 1 {
				c.scale = 200
			}
			c.cfg = withMode(Durability(seed % 3))
			c.cfg.SegmentBytes = (600 + c.rng.Int64N(3000)) * int64(c.scale)
			must(t, c.mem.Mkdir("data", 0o700))
			c.open()
			known, batches := 0, 0
			for range 150 {
				c.step()
				n, b := c.look()
				known, batches = known+n, batches+b
			}
			if known < 500 || c.scale > 1 && batches < 100 {
				t.Errorf("seed %d: the records of %d and the batches of %d of 1800 ranges known", seed, known, batches)
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
