package log

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice/kproto"
)

// records are the offsets of a range's records from an offset on, and by batch how many.
func records(t *testing.T, r Range, from int64) (n int64, batches int64) {
	t.Helper()
	raw := make([]byte, r.Len)
	if _, err := r.File.ReadAt(raw, r.Pos); err != nil {
		t.Fatal(err)
	}
	for len(raw) > 0 {
		b, rest, err := kproto.SplitBatch(raw)
		must(t, err)
		before := n
		must(t, b.EachRecord(func(rec kproto.Record) bool {
			if rec.Offset >= from {
				n++
			}
			return true
		}))
		if n > before {
			batches++
		}
		raw = bytes.Clone(rest)
	}
	return n, batches
}

// compactedLog has batches of which compaction has taken some records, or all.
func compactedLog(t *testing.T, c kproto.Codec, size int) *cleanRig {
	cfg := compacting()
	cfg.SegmentBytes = 1 << 20
	r := newCleanRig(t, cfg)
	rnd := rand.New(rand.NewPCG(uint64(c), 1))
	for range 40 {
		var list []string
		for range 6 {
			list = append(list, fmt.Sprintf("%d=%s", rnd.IntN(100), strings.Repeat("x", rnd.IntN(size))))
		}
		r.append(keyed(c, 0, 0, false, list...))
	}
	cfg = compacting()
	r.log.SetConfig(cfg)
	r.put(0, false, "roll=")
	r.clean()
	return r
}

// Of a range that begins in the middle of a batch those records count that are at or beyond the offset that was asked for, and no batch that has none of them.
func TestAskedInTheMiddle(t *testing.T) {
	hidden, partly, counted := 0, 0, 0
	for c := kproto.None; c <= kproto.Zstd; c++ {
		for _, size := range []int{20, 4000} {
			r := compactedLog(t, c, size)
			o := mustOffsets(t, r.log)
			for from := o.Start; from < o.High; from++ {
				rng, err := r.log.Read(from, o.High, 1<<20, true)
				must(t, err)
				want, batches := records(t, rng, from)
				if n, known := rng.Batches(); known {
					counted++
					if n != batches {
						t.Errorf("%v, from %d: %d batches, want %d", c, from, n, batches)
					}
				}
				take := &upTo{left: 1000}
				must(t, r.log.Trim(&rng, take))
				first := take.asked[0]
				n := min(int64(first.Records), first.Last-from+1)
				if first.Base < from && n == 0 {
					hidden++
				} else if first.Base < from {
					partly++
				}
				for _, h := range take.asked[1:] {
					n += int64(h.Records)
				}
				if n != want {
					t.Errorf("%v, from %d: %d records, want %d", c, from, n, want)
				}
				rng.Release()
			}
			must(t, r.dir.Close(t.Context()))
		}
	}
	if hidden < 50 || partly < 50 || counted < 50 {
		t.Errorf("%d began behind a batch's records, %d among them, of %d the batches were known", hidden, partly, counted)
	}
}
