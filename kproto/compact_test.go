package kproto

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

func recordsOf(t *testing.T, b Batch) (all []Record) {
	t.Helper()
	if err := b.EachRecord(func(r Record) bool { all = append(all, r); return true }); err != nil {
		t.Fatal(err)
	}
	return all
}

// randomBatch has records with gaps, tombstones, null keys and headers.
func randomBatch(rng *rand.Rand, c Codec) Batch {
	b := NewBuilder(c)
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = 7, 1, 40
	n := rng.Int64N(20)
	b.SetOffsets(100, 100+2*n)
	for i := range n {
		r := Record{Offset: 100 + 2*i, Timestamp: 5000 + rng.Int64N(1000), Key: fmt.Appendf(nil, "k%d", rng.IntN(4)), Value: make([]byte, rng.IntN(300))}
		switch rng.IntN(5) {
		case 0:
			r.Value = nil
		case 1:
			r.Key = nil
		case 2:
			r.Headers = []Header{{"h", []byte("v")}, {"", nil}}
		}
		b.Add(r)
	}
	return b.Batch()
}

// Compact keeps what is wanted as it was, whatever the codec, and tells about it.
func TestCompact(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	var c Compactor
	for i := range 600 {
		b := randomBatch(rng, Codec(i%5))
		if i%3 == 0 {
			b.SetAppendTime(7777)
		}
		original := bytes.Clone(b)
		wanted := map[int64]bool{}
		for _, r := range recordsOf(t, b) {
			wanted[r.Offset] = rng.IntN(3) > 0 || i%7 == 0
		}
		mark := i%4 == 0
		got, err := c.Compact(b, Compaction{Keep: func(r KeyedRecord) bool { return wanted[r.Offset] }, Horizon: 123456, Mark: mark})
		if err != nil {
			t.Fatal(err)
		}
		checkCompacted(t, b, got, wanted, mark)
		if !bytes.Equal(b, original) {
			t.Fatal("the batch itself was changed")
		}
	}
}

func checkCompacted(t *testing.T, b Batch, got Compacted, wanted map[int64]bool, mark bool) {
	t.Helper()
	var want []Record
	tombstones, newest := false, int64(0)
	for _, r := range recordsOf(t, b) {
		if wanted[r.Offset] {
			want = append(want, r)
			tombstones = tombstones || r.Value == nil
			newest = max(newest, r.Timestamp)
		}
	}
	if got.Kept != len(want) || got.Dropped != int(b.Count())-len(want) || got.Tombstones != tombstones {
		t.Fatalf("told %+v of %d records, %d wanted", got, b.Count(), len(want))
	}
	if len(want) == 0 {
		if got.Batch != nil {
			t.Fatal("a batch without records")
		}
		return
	}
	out := got.Batch
	if !out.ValidCRC() || int(out.Length())+prefixSize != len(out) || out.MaxTimestamp() != newest && got.Dropped > 0 {
		t.Fatalf("CRC %v, length %d of %d, max timestamp %d, want %d", out.ValidCRC(), out.Length(), len(out), out.MaxTimestamp(), newest)
	}
	if !reflect.DeepEqual(recordsOf(t, out), want) {
		t.Fatalf("records %+v, want %+v", recordsOf(t, out), want)
	}
	horizon, has := out.DeleteHorizon()
	if has != (tombstones || mark) || has && horizon != 123456 {
		t.Fatalf("horizon %d %v, tombstones %v, mark %v", horizon, has, tombstones, mark)
	}
	if got.Dropped == 0 && !has && !bytes.Equal(out, b) {
		t.Fatal("nothing to do, and something was done")
	}
	same(t, out, b)
}

// same compares what no compaction changes.
func same(t *testing.T, got, want Batch) {
	t.Helper()
	type fields struct {
		base, last, pid  int64
		epoch            int16
		first, final     int32
		transactional, c bool
		appendTime       bool
	}
	of := func(b Batch) fields {
		return fields{b.BaseOffset(), b.LastOffset(), b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.LastSequence(), b.Transactional(), b.Control(), b.LogAppendTime()}
	}
	if of(got) != of(want) {
		t.Fatalf("header %+v, want %+v", of(got), of(want))
	}
}

// A horizon, once set, stays, and the timestamps behind it too.
func TestCompactKeepsHorizon(t *testing.T) {
	b := NewBuilder(None)
	for i := range 3 {
		b.Add(Record{Timestamp: int64(10 * i), Key: []byte{byte(i)}})
	}
	var c Compactor
	all := func(KeyedRecord) bool { return true }
	first, err := c.Compact(b.Batch(), Compaction{Keep: all, Horizon: 1000})
	if err != nil {
		t.Fatal(err)
	}
	marked := bytes.Clone(first.Batch)
	again, err := c.Compact(marked, Compaction{Keep: func(r KeyedRecord) bool { return r.Offset > 0 }, Horizon: 2000, Mark: true})
	if err != nil {
		t.Fatal(err)
	}
	if h, ok := again.Batch.DeleteHorizon(); h != 1000 || !ok {
		t.Fatalf("horizon %d, %v", h, ok)
	}
	if rs := recordsOf(t, again.Batch); len(rs) != 2 || rs[0].Timestamp != 10 || rs[1].Timestamp != 20 {
		t.Fatalf("%+v", rs)
	}
}

func TestEmptyBatch(t *testing.T) {
	b := randomBatch(rand.New(rand.NewPCG(1, 1)), Zstd)
	e := b.Empty()
	same(t, e, b)
	if !e.ValidCRC() || len(e) != HeaderSize || e.Count() != 0 || e.Codec() != None || e.MaxTimestamp() != b.MaxTimestamp() {
		t.Fatalf("%x", []byte(e))
	}
	if len(recordsOf(t, e)) != 0 {
		t.Fatal("records in an empty batch")
	}
	var c Compactor
	if got, err := c.Compact(e, Compaction{Keep: func(KeyedRecord) bool { return true }}); err != nil || got.Batch != nil || got.Kept+got.Dropped != 0 {
		t.Fatal(got, err)
	}
	if first, rest, err := SplitBatch(e); err != nil || len(rest) > 0 || len(first) != len(e) {
		t.Fatal(err)
	}
}

// Any bytes with a right header make an error or records, never a panic.
func FuzzCompact(f *testing.F) {
	rng := rand.New(rand.NewPCG(2, 2))
	for c := None; c <= Zstd; c++ {
		f.Add([]byte(randomBatch(rng, c)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < HeaderSize {
			return
		}
		var c Compactor
		got, err := c.Compact(data, Compaction{Keep: func(r KeyedRecord) bool { return r.Offset%2 == 0 }, Horizon: 1})
		if err == nil && got.Kept > 0 && int64(got.Kept)+int64(got.Dropped) != int64(Batch(data).Count()) {
			t.Fatalf("%+v of %d records", got, Batch(data).Count())
		}
	})
}
