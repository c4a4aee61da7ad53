package kproto

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

const now = 1_700_000_000_000 // ms

// lenient are the rules of a topic with Kafka's defaults.
func lenient() CheckOptions {
	return CheckOptions{
		ProduceVersion: 13, Strict: true, MaxBytes: 1 << 20, SegmentBytes: 1 << 30,
		Now: now, BeforeMaxMs: math.MaxInt64, AfterMaxMs: 3_600_000,
	}
}

func clone(b Batch) Batch { return append(Batch(nil), b...) }

// edited gives a copy of b with some bytes changed and the CRC right again.
func edited(b Batch, edit func(b Batch)) Batch {
	b = clone(b)
	edit(b)
	b.setCRC()
	return b
}

func put64(b Batch, pos int, v int64) { binary.BigEndian.PutUint64(b[pos:], uint64(v)) }
func put32(b Batch, pos int, v int32) { binary.BigEndian.PutUint32(b[pos:], uint32(v)) }
func put16(b Batch, pos int, v int16) { binary.BigEndian.PutUint16(b[pos:], uint16(v)) }

// withPayload gives a batch of count records whose records are these bytes.
func withPayload(c Codec, count int32, payload []byte) Batch {
	b := make(Batch, HeaderSize, HeaderSize+len(payload))
	b[posMagic] = magicV2
	put16(b, posAttributes, int16(c))
	put32(b, posLastOffsetDelta, count-1)
	put64(b, posProducerID, -1)
	put16(b, posProducerEpoch, -1)
	put32(b, posBaseSequence, -1)
	put32(b, posCount, count)
	b = append(b, payload...)
	put32(b, posLength, int32(len(b)-prefixSize))
	b.setCRC()
	return b
}

// plain gives one encoded record.
func plain(body ...byte) []byte {
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

func TestCheckProducedAccepts(t *testing.T) {
	idempotent := func(c Codec) Batch {
		nb := NewBuilder(c)
		nb.ProducerID, nb.ProducerEpoch, nb.BaseSequence, nb.Transactional = 5, 0, math.MaxInt32, true
		for _, r := range sample(10) {
			nb.Add(r)
		}
		return nb.Batch()
	}
	for c := None; c <= Zstd; c++ {
		for _, strict := range []bool{true, false} {
			for _, b := range []Batch{build(c, sample(1)...), build(c, sample(500)...), idempotent(c)} {
				o := lenient()
				o.Strict = strict
				before := clone(b)
				got, errs, err := CheckProduced(b, o)
				if err != nil || errs != nil || &got[0] != &b[0] || !bytes.Equal(b, before) {
					t.Errorf("%s, %d records, strict %v: %v %v", c, b.Count(), strict, err, errs)
				}
			}
		}
	}
}

// TestCheckProducedRefuses goes through the rows of "Produce record batches" in the list of bad input.
func TestCheckProducedRefuses(t *testing.T) {
	good := build(None, sample(3)...)
	compressed := build(Gzip, sample(3)...)
	record := good[HeaderSize:]
	with := func(change func(o *CheckOptions)) CheckOptions { o := lenient(); change(&o); return o }
	edit := func(f func(b Batch)) []byte { return edited(good, f) }
	length := func(n int32) []byte { b := clone(good); put32(b, posLength, n); return b }

	for _, tt := range []struct {
		name    string
		records []byte
		options CheckOptions
		want    int16
	}{
		{"null", nil, lenient(), InvalidRecord},
		{"empty", []byte{}, lenient(), InvalidRecord},
		{"under 12 bytes", good[:11], lenient(), InvalidRecord},
		{"up to the length only", good[:12], lenient(), InvalidRecord},
		{"cut short", good[:len(good)-1], lenient(), InvalidRecord},
		{"length negative", length(-1), lenient(), CorruptMessage},
		{"length below a message v0", length(13), lenient(), CorruptMessage},
		{"length below a message v0, nothing else", length(13)[:12], lenient(), CorruptMessage},
		{"length below a header", length(48), lenient(), CorruptMessage},
		{"magic 3", edit(func(b Batch) { b[posMagic] = 3 }), lenient(), CorruptMessage},
		{"magic -1", edit(func(b Batch) { b[posMagic] = 0xff }), lenient(), CorruptMessage},
		{"magic 0", edit(func(b Batch) { b[posMagic] = 0 }), lenient(), InvalidRecord},
		{"magic 1", edit(func(b Batch) { b[posMagic] = 1 }), lenient(), InvalidRecord},
		{"magic 1, short", func() []byte { b := length(20)[:32]; b[posMagic] = 1; return b }(), lenient(), InvalidRecord},
		{"two batches", append(clone(good), good...), lenient(), InvalidRecord},
		{"bytes behind", append(clone(good), 0), lenient(), InvalidRecord},
		{"base offset", edit(func(b Batch) { b.SetBaseOffset(1) }), lenient(), InvalidRecord},
		{"CRC", func() []byte { b := clone(good); b[posCRC] ^= 1; return b }(), lenient(), CorruptMessage},
		{"over max.message.bytes", good, with(func(o *CheckOptions) { o.MaxBytes = len(good) - 1 }), MessageTooLarge},
		{"over segment.bytes", good, with(func(o *CheckOptions) { o.SegmentBytes = int64(len(good) - 1) }), RecordListTooLarge},
		{"last delta too high", edit(func(b Batch) { put32(b, posLastOffsetDelta, 3) }), lenient(), InvalidRecord},
		{"last delta negative", edit(func(b Batch) { put32(b, posLastOffsetDelta, -1); put32(b, posCount, 0) }), lenient(), InvalidRecord},
		{"last delta and count wrap", edit(func(b Batch) { put32(b, posLastOffsetDelta, math.MaxInt32); put32(b, posCount, math.MinInt32) }), lenient(), InvalidRecord},
		{"count 0", edit(func(b Batch) { put32(b, posCount, 0) }), lenient(), InvalidRecord},
		{"count above records", withPayload(None, 4, record), lenient(), InvalidRecord},
		{"count below records", withPayload(None, 2, record), lenient(), InvalidRecord},
		{"count huge", withPayload(None, math.MaxInt32, record), lenient(), InvalidRecord},
		{"count above compressed records", withPayload(Gzip, 4, compressed[HeaderSize:]), lenient(), InvalidRecord},
		{"count below compressed records", withPayload(Gzip, 2, compressed[HeaderSize:]), lenient(), InvalidRecord},
		{"control", edit(func(b Batch) { b[posAttributes+1] |= attrControl }), lenient(), InvalidRecord},
		{"delete horizon", edit(func(b Batch) { b[posAttributes+1] |= attrDeleteHorizon }), lenient(), InvalidRecord},
		{"producer without sequence", edit(func(b Batch) { put64(b, posProducerID, 1); put16(b, posProducerEpoch, 1) }), lenient(), InvalidRecord},
		{"producer without epoch", edit(func(b Batch) { put64(b, posProducerID, 1); put32(b, posBaseSequence, 0) }), lenient(), InvalidRecord},
		{"LogAppendTime", edit(func(b Batch) { b[posAttributes+1] |= attrLogAppendTime }), lenient(), InvalidTimestamp},
		{"LogAppendTime on a topic that has it", edit(func(b Batch) { b[posAttributes+1] |= attrLogAppendTime }), with(func(o *CheckOptions) { o.LogAppendTime = true }), InvalidTimestamp},
		{"codec 5", edit(func(b Batch) { b[posAttributes+1] |= 5 }), lenient(), UnsupportedCompressionType},
		{"codec 7", edit(func(b Batch) { b[posAttributes+1] |= 7 }), lenient(), UnsupportedCompressionType},
		{"zstd before version 7", build(Zstd, sample(3)...), with(func(o *CheckOptions) { o.ProduceVersion = 6 }), UnsupportedCompressionType},
		{"garbage as gzip", withPayload(Gzip, 1, record), lenient(), InvalidRecord},
		{"garbage as snappy", withPayload(Snappy, 1, record), lenient(), InvalidRecord},
		{"garbage as lz4", withPayload(LZ4, 1, record), lenient(), InvalidRecord},
		{"garbage as zstd", withPayload(Zstd, 1, record), lenient(), InvalidRecord},
		{"gzip cut", withPayload(Gzip, 3, compressed[HeaderSize:len(compressed)-1]), lenient(), InvalidRecord},
		{"gzip of nothing", withPayload(Gzip, 3, nil), lenient(), InvalidRecord},
		{"zstd of nothing", withPayload(Zstd, 3, nil), lenient(), InvalidRecord},
		{"record length lies", withPayload(None, 1, append([]byte{16}, plain(0, 0, 0, 1, 1, 0)[1:]...)), lenient(), InvalidRecord},
		{"record length negative", withPayload(None, 1, append([]byte{1}, plain(0, 0, 0, 1, 1, 0)[1:]...)), lenient(), InvalidRecord},
		{"record without header count", withPayload(None, 1, plain(0, 0, 0, 1, 1)), lenient(), InvalidRecord},
		{"record with a byte over", withPayload(None, 1, plain(0, 0, 0, 1, 1, 0, 0)), lenient(), InvalidRecord},
		{"varint of six bytes", withPayload(None, 1, plain(0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 1, 1, 0)), lenient(), InvalidRecord},
		{"varint of 33 bits", withPayload(None, 1, plain(0, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 1, 1, 0)), lenient(), InvalidRecord},
		{"varlong of eleven bytes", withPayload(None, 1, plain(0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0, 1, 1, 0)), lenient(), InvalidRecord},
		{"key length -2", withPayload(None, 1, plain(0, 0, 0, 3, 1, 0)), lenient(), InvalidRecord},
		{"key longer than the record", withPayload(None, 1, plain(0, 0, 0, 8, 1, 0)), lenient(), InvalidRecord},
		{"value longer than the record", withPayload(None, 2, append(plain(0, 0, 0, 1, 10, 0), plain(0, 0, 2, 1, 1, 0)...)), lenient(), InvalidRecord},
		{"header count negative", withPayload(None, 1, plain(0, 0, 0, 1, 1, 1)), lenient(), InvalidRecord},
		{"header count above the record", withPayload(None, 1, plain(0, 0, 0, 1, 1, 4, 0, 1)), lenient(), InvalidRecord},
		{"header key null", withPayload(None, 1, plain(0, 0, 0, 1, 1, 2, 1, 1)), lenient(), InvalidRecord},
		{"offset delta is not the index", withPayload(None, 1, plain(0, 0, 2, 1, 1, 0)), lenient(), InvalidRecord},
		{"compressed, offset delta is not the index", recompressed(t, withPayload(None, 1, plain(0, 0, 2, 1, 1, 0))), lenient(), InvalidRecord},
		{"timestamp wraps", edited(withPayload(None, 1, plain(0, 2, 0, 1, 1, 0)), func(b Batch) { put64(b, posBaseTimestamp, math.MaxInt64) }), lenient(), InvalidRecord},
		{"relaxed, max timestamp", edited(compressed, func(b Batch) { put64(b, posMaxTimestamp, now*2) }), with(func(o *CheckOptions) { o.Strict = false }), InvalidTimestamp},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, _, err := CheckProduced(tt.records, tt.options)
			if code, _ := CodeOf(err); b != nil || code != tt.want {
				t.Errorf("got %v, want code %d", err, tt.want)
			}
		})
	}
}

func recompressed(t *testing.T, b Batch) Batch {
	t.Helper()
	b, err := Recompress(b, LZ4, 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCheckProducedRecordErrors(t *testing.T) {
	hour := int64(3_600_000)
	at := func(ms ...int64) Batch {
		records := make([]Record, len(ms))
		for i := range ms {
			records[i].Timestamp = ms[i]
		}
		return build(Zstd, records...)
	}
	compacted := func(o *CheckOptions) { o.Compacted = true }
	bounded := func(o *CheckOptions) { o.BeforeMaxMs = hour }
	for _, tt := range []struct {
		name   string
		batch  Batch
		change func(o *CheckOptions)
		want   int16
		index  []int32
	}{
		{"null keys", build(None, Record{Key: []byte("k")}, Record{}, Record{Key: []byte{}}, Record{}), compacted, InvalidRecord, []int32{1, 3}},
		{"null key, compressed, relaxed", build(LZ4, Record{Key: []byte("k")}, Record{}), func(o *CheckOptions) { compacted(o); o.Strict = false }, InvalidRecord, []int32{1}},
		{"at the bounds", at(now-hour, now, now+hour), bounded, NoError, nil},
		{"beyond the bounds", at(now-hour-1, now, now+hour+1), bounded, InvalidTimestamp, []int32{0, 2}},
		{"no timestamp", at(-1, now), bounded, NoError, nil},
		{"key and timestamp", at(0), func(o *CheckOptions) { compacted(o); bounded(o) }, InvalidRecord, []int32{0}},
		{"not checked", at(0, now*2), func(o *CheckOptions) { bounded(o); o.LogAppendTime = true }, NoError, nil},
		{"far past, no bound", at(math.MinInt64), func(*CheckOptions) {}, InvalidTimestamp, []int32{0}},
		{"all that may be", at(0, math.MaxInt64), func(o *CheckOptions) { o.AfterMaxMs = math.MaxInt64 }, NoError, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := lenient()
			tt.change(&o)
			_, errs, err := CheckProduced(tt.batch, o)
			if code, _ := CodeOf(err); code != tt.want {
				t.Errorf("got %v, want code %d", err, tt.want)
			}
			var index []int32
			for _, e := range errs {
				index = append(index, e.Index)
			}
			if len(index) != len(tt.index) {
				t.Fatalf("got errors for %v, want %v", index, tt.index)
			}
			for i := range index {
				if index[i] != tt.index[i] {
					t.Errorf("got errors for %v, want %v", index, tt.index)
				}
			}
		})
	}
}

func TestCheckProducedBoundsRecordErrors(t *testing.T) {
	o := lenient()
	o.Compacted = true
	_, errs, err := CheckProduced(build(None, make([]Record, 5000)...), o)
	if code, _ := CodeOf(err); code != InvalidRecord || len(errs) != maxRecordErrors {
		t.Errorf("%d record errors with %v", len(errs), err)
	}
}

func TestCheckProducedCorrectsMaxTimestamp(t *testing.T) {
	for c := None; c <= Zstd; c++ {
		good := build(c, sample(10)...)
		lying := edited(good, func(b Batch) { put64(b, posMaxTimestamp, 5) })
		got, _, err := CheckProduced(lying, lenient())
		if err != nil || !bytes.Equal(got, good) {
			t.Errorf("%s: max timestamp %d, error %v", c, got.MaxTimestamp(), err)
		}
	}
}

// TestCheckProducedSurvivesCorruption spoils batches behind the CRC, which it makes right again.
func TestCheckProducedSurvivesCorruption(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for c := None; c <= Zstd; c++ {
		good := build(c, sample(20)...)
		accepted := 0
		for range 500 {
			spoiled := edited(good, func(b Batch) {
				for range 1 + r.IntN(2) {
					b[posAttributes+r.IntN(len(b)-posAttributes)] = byte(r.Uint32())
				}
			})
			o := lenient()
			o.Strict = r.IntN(4) > 0
			if _, _, err := CheckProduced(clone(spoiled), o); err == nil {
				accepted++
			}
			checkProducedHolds(t, spoiled, o)
		}
		if accepted == 500 {
			t.Errorf("%s: every spoiled batch was accepted", c)
		}
	}
}

// TestCodecsServeManyAtOnce shares the pools between goroutines; the race detector watches.
func TestCodecsServeManyAtOnce(t *testing.T) {
	var group sync.WaitGroup
	for c := None; c <= Zstd; c++ {
		for range 4 {
			group.Go(func() {
				for n := range 20 {
					b := build(c, sample(n+1)...)
					if _, _, err := CheckProduced(b, lenient()); err != nil {
						t.Errorf("%s: %v", c, err)
					}
					if err := b.EachRecord(func(Record) bool { return true }); err != nil {
						t.Errorf("%s: %v", c, err)
					}
				}
			})
		}
	}
	group.Wait()
}

func TestCheckProducedAllocatesNothing(t *testing.T) {
	b := build(None, sample(100)...)
	o := lenient()
	if n := testing.AllocsPerRun(100, func() { _, _, _ = CheckProduced(b, o) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCheckProduced(b *testing.B) {
	records := make([]Record, 100)
	for i := range records {
		records[i] = Record{Timestamp: now, Key: []byte("some key"), Value: make([]byte, 1000)}
	}
	for c := None; c <= Zstd; c++ {
		batch := build(c, records...)
		o := lenient()
		b.Run(c.String(), func(b *testing.B) {
			b.SetBytes(100 << 10)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := CheckProduced(batch, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValidCRC(b *testing.B) {
	batch := withPayload(None, 1, make([]byte, 100<<10))
	b.SetBytes(100 << 10)
	for b.Loop() {
		batch.ValidCRC()
	}
}
