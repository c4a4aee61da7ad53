package kproto

import (
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sample gives n records with every kind of key, value and header.
func sample(n int) []Record {
	records := make([]Record, n)
	for i := range records {
		records[i] = Record{
			Offset:    int64(i),
			Timestamp: 1_700_000_000_000 + int64(i%7)*10,
			Key:       fmt.Appendf(nil, "key-%d", i),
			Value:     []byte(strings.Repeat(fmt.Sprintf("value %d ", i), 10)),
		}
	}
	if n > 3 {
		records[1].Key, records[2].Value, records[3].Value = nil, nil, []byte{}
		records[0].Headers = []Header{{Key: "a", Value: []byte("1")}, {Key: "", Value: nil}, {Key: "b", Value: []byte{}}}
	}
	return records
}

func build(c Codec, records ...Record) Batch {
	b := NewBuilder(c)
	for _, r := range records {
		b.Add(r)
	}
	return b.Batch()
}

func walk(t testing.TB, b Batch) []Record {
	t.Helper()
	var got []Record
	if err := b.EachRecord(func(r Record) bool { got = append(got, r); return true }); err != nil {
		t.Fatalf("EachRecord: %v", err)
	}
	return got
}

func TestBuilderRoundTrip(t *testing.T) {
	records := sample(20)
	b := build(None, records...)
	if got := walk(t, b); !reflect.DeepEqual(got, records) {
		t.Errorf("got  %v\nwant %v", got, records)
	}
	if !b.ValidCRC() || int(b.Length())+12 != len(b) || b.Count() != 20 || b.LastOffsetDelta() != 19 {
		t.Errorf("header: crc %v length %d of %d count %d last delta %d", b.ValidCRC(), b.Length(), len(b), b.Count(), b.LastOffsetDelta())
	}
	if b.BaseTimestamp() != records[0].Timestamp || b.MaxTimestamp() != records[6].Timestamp {
		t.Errorf("timestamps %d and %d", b.BaseTimestamp(), b.MaxTimestamp())
	}
}

// TestAccessorsAgreeWithKmsg reads a batch with another implementation.
func TestAccessorsAgreeWithKmsg(t *testing.T) {
	nb := NewBuilder(None)
	nb.ProducerID, nb.ProducerEpoch, nb.BaseSequence = 1<<40+5, 7, math.MaxInt32
	nb.Transactional, nb.Control, nb.LeaderEpoch = true, true, 12
	for _, r := range sample(5) {
		nb.Add(r)
	}
	b := nb.Batch()
	b.SetBaseOffset(1 << 33)
	b.SetLeaderEpoch(99)
	b.SetAppendTime(1_800_000_000_000)

	var want kmsg.RecordBatch
	if err := want.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	got := kmsg.RecordBatch{
		FirstOffset: b.BaseOffset(), Length: b.Length(), PartitionLeaderEpoch: b.LeaderEpoch(), Magic: b.Magic(),
		CRC: int32(b.CRC()), Attributes: b.Attributes(), LastOffsetDelta: b.LastOffsetDelta(), FirstTimestamp: b.BaseTimestamp(),
		MaxTimestamp: b.MaxTimestamp(), ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), FirstSequence: b.BaseSequence(),
		NumRecords: b.Count(), Records: b[HeaderSize:],
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !b.Transactional() || !b.Control() || !b.LogAppendTime() || b.Codec() != None || !b.ValidCRC() {
		t.Errorf("attributes %#x, crc %v", b.Attributes(), b.ValidCRC())
	}
	if b.LastSequence() != 3 || b.LastOffset() != 1<<33+4 || b.NextOffset() != 1<<33+5 {
		t.Errorf("last sequence %d, last offset %d, next %d", b.LastSequence(), b.LastOffset(), b.NextOffset())
	}
	for _, r := range walk(t, b) {
		if r.Timestamp != 1_800_000_000_000 {
			t.Errorf("record %d has timestamp %d under log append time", r.Offset, r.Timestamp)
		}
	}
}

func TestLastSequenceWithoutSequences(t *testing.T) {
	if got := build(None, sample(5)...).LastSequence(); got != -1 {
		t.Errorf("got %d, want -1", got)
	}
}

func TestCRCCoversEveryByteBehindIt(t *testing.T) {
	b := build(None, sample(3)...)
	for i := range b {
		b[i] ^= 0x10
		if valid, covered := b.ValidCRC(), i >= posCRC; valid == covered {
			t.Fatalf("byte %d damaged: valid is %v", i, valid)
		}
		b[i] ^= 0x10
	}
}

func TestGapsKeepOffsets(t *testing.T) {
	nb := NewBuilder(None)
	nb.SetOffsets(100, 120)
	for _, o := range []int64{101, 105, 119} {
		nb.Add(Record{Offset: o})
	}
	b := nb.Batch()
	if nb.Size() != len(b) {
		t.Errorf("size %d before, %d after", nb.Size(), len(b))
	}
	var got []int64
	for _, r := range walk(t, b) {
		got = append(got, r.Offset)
	}
	if !reflect.DeepEqual(got, []int64{101, 105, 119}) || b.BaseOffset() != 100 || b.LastOffset() != 120 || b.Count() != 3 {
		t.Errorf("offsets %v, base %d, last %d, count %d", got, b.BaseOffset(), b.LastOffset(), b.Count())
	}
}

func TestEachRecordStops(t *testing.T) {
	n := 0
	if err := build(None, sample(5)...).EachRecord(func(Record) bool { n++; return n < 2 }); err != nil || n != 2 {
		t.Errorf("saw %d records, error %v", n, err)
	}
}

func TestEachRecordRefuses(t *testing.T) {
	good := build(None, Record{Key: []byte("k"), Value: []byte("v"), Headers: []Header{{Key: "h", Value: []byte("x")}}})
	// Positions in the record: length, attributes, timestamp, delta, key length, key, value length, value, header count, ...
	for _, tt := range []struct {
		name  string
		spoil func(b Batch) Batch
	}{
		{"count too high", func(b Batch) Batch { b[posCount+3] = 2; return b }},
		{"count negative", func(b Batch) Batch { b[posCount] = 0xff; return b }},
		{"count too low", func(b Batch) Batch { b[posCount+3] = 0; return b }},
		{"cut", func(b Batch) Batch { return b[:len(b)-1] }},
		{"left over", func(b Batch) Batch { return append(b, 0) }},
		{"record longer than batch", func(b Batch) Batch { b[HeaderSize] += 2; return b }},
		{"record length negative", func(b Batch) Batch { b[HeaderSize] = 1; return b }},
		{"record shorter than its fields", func(b Batch) Batch { b[HeaderSize] -= 2; return b }},
		{"delta outside", func(b Batch) Batch { b[HeaderSize+3] = 2; return b }},
		{"delta negative", func(b Batch) Batch { b[HeaderSize+3] = 1; return b }},
		{"key length -2", func(b Batch) Batch { b[HeaderSize+4] = 3; return b }},
		{"key length long", func(b Batch) Batch { b[HeaderSize+4] = 0x7e; return b }},
		{"header count negative", func(b Batch) Batch { b[HeaderSize+8] = 1; return b }},
		{"header count long", func(b Batch) Batch { b[HeaderSize+8] = 0x7e; return b }},
		{"header key null", func(b Batch) Batch { b[HeaderSize+9] = 1; return b }},
		{"endless varint", func(b Batch) Batch { return append(b[:HeaderSize], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.spoil(append(Batch(nil), good...))
			err := b.EachRecord(func(Record) bool { return true })
			if code, _ := CodeOf(err); code != InvalidRecord {
				t.Errorf("got %v, want code %d", err, InvalidRecord)
			}
		})
	}
}

func TestSplitBatch(t *testing.T) {
	one, two := build(None, sample(1)...), build(None, sample(2)...)
	first, rest, err := SplitBatch(append(append([]byte(nil), one...), two...))
	if err != nil || string(first) != string(one) || string(rest) != string(two) {
		t.Fatalf("first %d bytes, rest %d, error %v", len(first), len(rest), err)
	}
	for n := range one {
		if _, _, err := SplitBatch(one[:n]); !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, &Error{Code: CorruptMessage}) {
			t.Errorf("of %d bytes: %v", n, err)
		}
	}
	for _, length := range []byte{0, 48} {
		short := append([]byte(nil), one...)
		short[11] = length
		if _, _, err := SplitBatch(short); errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, &Error{Code: CorruptMessage}) {
			t.Errorf("length field %d: %v", length, err)
		}
	}
}
