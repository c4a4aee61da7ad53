package log

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// batchesAgree holds the number of a range's batches, if it is known, against its headers.
func batchesAgree(r *Range) (known bool, err error) {
	want := int64(0)
	w := newWalker(r.File, r.Pos, r.Pos+r.Len)
	defer w.close()
	err = eachHeader(&w, func(h kproto.Batch) {
		if !h.Control() && h.Count() > 0 {
			want++
		}
	})
	if !errors.Is(err, io.EOF) {
		return false, err
	}
	n, known := r.Batches()
	if known && n != want {
		return true, fmt.Errorf("%d batches in %d bytes from %d, their headers say %d", n, r.Len, r.Pos, want)
	}
	return known, nil
}

// batchesKnown reads a range, holds the number of its batches against its headers and tells whether it was known.
func batchesKnown(l *Log, from, limit int64, most int) (known bool, err error) {
	r, err := l.Read(from, limit, most, true)
	if err != nil || r.Len == 0 {
		return false, err
	}
	defer r.Release()
	return batchesAgree(&r)
}

// severalBlocks tells whether a range ends in a later block than it begins in: then its batches can be known.
func (r *Range) severalBlocks() bool { return r.Pos/tallyBlock < (r.Pos+r.Len)/tallyBlock }

// tallied is a batch of a segment that a tally is told of.
type tallied struct {
	pos, size int64
	counted   bool
}

func drawTallied(rnd *rand.Rand) (all []tallied, end int64) {
	most := 1 + rnd.Int64N(3*tallyBlock)
	for range 1 + rnd.IntN(60) {
		x := tallied{end, kproto.HeaderSize, rnd.IntN(3) > 0}
		switch rnd.IntN(8) {
		case 0: // to the end of a block, exactly
			x.size = max(x.size, tallyBlock-end%tallyBlock)
		case 1, 2:
			x.size += rnd.Int64N(most)
		case 3:
			x.size += rnd.Int64N(300)
		}
		all = append(all, x)
		end += x.size
	}
	return all, end
}

// Whatever a tally is told, in whatever order, what it knows is right; and when it has been told of the batches of a range one after the other, it knows how many
// these are.
func TestTally(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	knew, unknown := 0, 0
	for range 3000 {
		all, end := drawTallied(rnd)
		var k tally
		for range rnd.IntN(8) {
			from := rnd.IntN(len(all))
			to := from + rnd.IntN(len(all)-from) + 1
			for _, x := range all[from:to] {
				k.add(x.pos, x.size, x.counted)
			}
			if rnd.IntN(8) == 0 {
				k.forget()
				continue
			}
			next := end
			if to < len(all) {
				next = all[to].pos
			}
			if _, _, _, known := k.between(all[from].pos, next); known != (all[from].pos/tallyBlock < next/tallyBlock) {
				t.Fatalf("told of %d to %d: known %v", all[from].pos, next, known)
			}
			if knowsRightly(t, &k, all, end, rnd) {
				knew++
			} else {
				unknown++
			}
		}
	}
	if knew < 1000 || unknown < 1000 {
		t.Errorf("%d ranges known, %d not", knew, unknown)
	}
}

// knowsRightly asks about any range.
func knowsRightly(t *testing.T, k *tally, all []tallied, end int64, rnd *rand.Rand) bool {
	t.Helper()
	i := rnd.IntN(len(all))
	j := i + rnd.IntN(len(all)-i)
	from, to := all[i].pos, all[j].pos+all[j].size
	n, first, last, known := k.between(from, to)
	if !known {
		return false
	}
	begins := func(pos int64) bool {
		return pos == end || slices.ContainsFunc(all, func(x tallied) bool { return x.pos == pos })
	}
	if first < from || last < first || to < last || !begins(first) || !begins(last) || first-from > 4*tallyBlock || to-last > 4*tallyBlock {
		t.Fatalf("of %d to %d, %d to %d is counted", from, to, first, last)
	}
	want := int64(0)
	for _, x := range all[i : j+1] {
		if x.counted && first <= x.pos && x.pos < last {
			want++
		}
	}
	if n != want {
		t.Fatalf("%d batches in %d to %d, want %d", n, first, last, want)
	}
	return true
}

// threeSegments makes a log of three sealed segments, of 100 and more batches each, some of them for no application.
func threeSegments(t *testing.T) (*vfs.Mem, *Config, *Dir) {
	t.Helper()
	mem := vfs.NewMem()
	must(t, mem.Mkdir("data", 0o700))
	c := DefaultConfig()
	c.SegmentBytes = 8 * tallyBlock
	d := openDir(t, mem)
	l := d.Log("t", testTopic, 0, c)
	for len(l.segs) < 4 {
		b := makeBatch(batchSpec{size: 1000, records: 1 + int(mustOffsets(t, l).End%3)})
		if b.Count() == 2 {
			b = kproto.EndMarker{Commit: true}.Batch(7, 0, 0)
		}
		a, err := l.Append(b, AppendOptions{Internal: true})
		must(t, err)
		mustWait(t, a)
	}
	l.finishSync() // they are sealed, and nobody else holds them
	return mem, c, d
}

// knownOf reads a log from its beginning to its end, and tells of how many of the ranges of several blocks the batches were known, and how many there were.
func knownOf(t *testing.T, l *Log, trim bool) (known, ranges int) {
	t.Helper()
	for o := mustOffsets(t, l); o.Start < o.High; {
		r, err := l.Read(o.Start, o.High, 3*tallyBlock, true)
		must(t, err)
		if r.severalBlocks() {
			is, err := batchesAgree(&r)
			must(t, err)
			if ranges++; is {
				known++
			}
		}
		if trim {
			must(t, l.Trim(&r, admitAll{}))
		}
		o.Start = r.Next
		r.Release()
	}
	return known, ranges
}

// The batches of a range are known when it was appended, recovered or checked by this process, until its file is closed; then its headers must be read once.
func TestWhereBatchesAreKnown(t *testing.T) {
	mem, c, d := threeSegments(t)
	l := d.Log("t", testTopic, 0, c)
	want := func(what string, all, trim bool) {
		t.Helper()
		known, ranges := knownOf(t, l, trim)
		if ranges < 9 || known != ranges && all || known > 0 && !all {
			t.Errorf("%s: the batches of %d of %d ranges are known", what, known, ranges)
		}
	}
	want("appended", true, false)
	d.CloseIdle()
	d.CloseIdle()
	want("closed", false, false)
	want("closed and open again", false, true)
	want("their headers were read", true, false)
	must(t, d.Close(context.Background()))
	d = openDir(t, mem)
	l = d.Log("t", testTopic, 0, c)
	want("first read after a clean stop", true, false)
	abandon(d)
	mem = mem.Crash(vfs.KeepEverything)
	must(t, mem.Remove("data/durable-offsets"))
	d = openDir(t, mem)
	l = d.Log("t", testTopic, 0, c)
	must(t, d.Recover(context.Background()))
	want("recovered", true, false)
	second := l.segs[1].path(logSuffix)
	must(t, d.Close(context.Background()))
	flipBit(t, mem, second, 8*4*tallyBlock)
	mem = mem.Crash(vfs.KeepEverything)
	done, err := Repair(mem, "data", true)
	must(t, err)
	if len(done.Losses) != 1 {
		t.Fatalf("repaired: %+v", done)
	}
	d = openDir(t, mem)
	l = d.Log("t", testTopic, 0, c)
	want("repaired", true, false)
	must(t, d.Close(context.Background()))
}

// What is counted takes 6 bytes a block at most, and a small segment next to nothing.
func TestTallyMemory(t *testing.T) {
	var k tally
	k.add(0, 100, true)
	if c := cap(k.blocks); c > 4 {
		t.Errorf("room for %d blocks after a batch of 100 bytes", c)
	}
	k.add(maxSegmentBytes-100, 100, true)
	if n := len(k.blocks); n > maxSegmentBytes/tallyBlock+1 {
		t.Errorf("%d blocks in the largest segment", n)
	}
	if k.forget(); k.blocks != nil {
		t.Error("something is remembered of a segment whose files are closed")
	}
}
