package kproto

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// gappy is a batch of offsets 100 to 199, of which some have a record.
func gappy(c Codec, rnd *rand.Rand) (b Batch, offsets []int64) {
	nb := NewBuilder(c)
	nb.SetOffsets(100, 199)
	for o := int64(100); o < 200; o++ {
		if rnd.IntN(3) == 0 {
			offsets = append(offsets, o)
			nb.Add(Record{Offset: o, Key: []byte("key"), Value: bytes.Repeat([]byte("v"), rnd.IntN(2000)), Headers: []Header{{Key: "h", Value: nil}}})
		}
	}
	return nb.Batch(), offsets
}

func TestRecordsFrom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for c := None; c <= Zstd; c++ {
		b, offsets := gappy(c, rnd)
		left := len(offsets)
		for from := int64(90); from < 210; from++ {
			if n, err := b.RecordsFrom(from); err != nil || int(n) != left {
				t.Fatalf("%v, from %d: %d records, %v; want %d", c, from, n, err, left)
			}
			if len(offsets) > 0 && left > 0 && offsets[len(offsets)-left] == from {
				left--
			}
		}
	}
}

// Whatever the bytes are, it tells an error or how many records there are at most.
func TestRecordsFromDamage(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	for range 400 {
		b, _ := gappy(Codec(rnd.IntN(int(Zstd)+1)), rnd)
		cut := bytes.Clone(b[:HeaderSize+rnd.IntN(len(b)-HeaderSize)])
		if n, err := Batch(cut).RecordsFrom(200); n != 0 || err == nil && b.Count() > 0 && b.Codec() == None {
			t.Fatalf("cut short: %d of %d records, %v", n, b.Count(), err)
		}
		for range 1 + rnd.IntN(3) {
			b[HeaderSize+rnd.IntN(len(b)-HeaderSize)] ^= byte(1 << rnd.IntN(8))
		}
		if n, err := b.RecordsFrom(200); n > b.Count() || n < 0 || err != nil && n != 0 {
			t.Fatalf("%d of %d records, %v", n, b.Count(), err)
		}
	}
}
