package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Where the fields of a record batch v2 stand that are not part of its checksum.
const (
	batchHeader  = 61
	batchLength  = 8  // position of the length field
	batchCRC     = 17 // position of the checksum
	batchChecked = 21 // from here on the checksum counts
	lengthFrom   = 12 // from here on the length counts
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is one record batch that was, or is to be, sent.
type batch struct {
	id     int
	pid    int64 // -1: not idempotent
	epoch  int16
	seq    int32
	values [][]byte
	sent   bool
	acked  bool
	offset int64 // of the first record, once acked
}

func (b *batch) end() int64 { return b.offset + int64(len(b.values)) }

// fill makes the values: each names its batch and its place, and goes on with random bytes.
func (b *batch) fill(rng *rand.Rand, records, size int) {
	for i := range records {
		v := make([]byte, 8+rng.IntN(size))
		binary.BigEndian.PutUint32(v, uint32(b.id))
		binary.BigEndian.PutUint32(v[4:], uint32(i))
		for j := 8; j < len(v); j++ {
			v[j] = byte(rng.Uint32())
		}
		b.values = append(b.values, v)
	}
}

// encode gives the batch as it goes into a Produce request.
func (b *batch) encode(now int64) []byte {
	var records []byte
	for i, v := range b.values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: v}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // without the length itself, which is one byte while it is zero
		records = r.AppendTo(records)
	}
	rb := kmsg.RecordBatch{
		Length: int32(batchHeader - lengthFrom + len(records)), PartitionLeaderEpoch: -1, Magic: 2,
		LastOffsetDelta: int32(len(b.values) - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: b.pid, ProducerEpoch: b.epoch, FirstSequence: b.seq, NumRecords: int32(len(b.values)), Records: records,
	}
	out := rb.AppendTo(nil)
	binary.BigEndian.PutUint32(out[batchCRC:], crc32.Checksum(out[batchChecked:], castagnoli))
	return out
}

// stored is a batch as the broker gave it.
type stored struct {
	offset int64
	pid    int64
	seq    int32
	values [][]byte
}

// decodeBatches reads what a Fetch returned. A batch cut short by the size limit ends it.
func decodeBatches(b []byte) ([]stored, error) {
	var out []stored
	for len(b) >= batchHeader {
		size := lengthFrom + int(binary.BigEndian.Uint32(b[batchLength:]))
		if size < batchHeader || size > len(b) {
			break
		}
		s, err := decodeBatch(b[:size])
		if err != nil {
			return nil, err
		}
		out = append(out, s)
		b = b[size:]
	}
	return out, nil
}

func decodeBatch(b []byte) (stored, error) {
	if crc32.Checksum(b[batchChecked:], castagnoli) != binary.BigEndian.Uint32(b[batchCRC:]) {
		return stored{}, errors.New("checksum of a batch is wrong")
	}
	var rb kmsg.RecordBatch
	if err := rb.ReadFrom(b); err != nil {
		return stored{}, fmt.Errorf("record batch: %w", err)
	}
	s := stored{offset: rb.FirstOffset, pid: rb.ProducerID, seq: rb.FirstSequence}
	rest := rb.Records
	for i := range rb.NumRecords {
		var r kmsg.Record
		if err := r.ReadFrom(rest); err != nil {
			return stored{}, fmt.Errorf("record: %w", err)
		}
		if r.OffsetDelta != i {
			return stored{}, fmt.Errorf("record %d of a batch has offset delta %d", i, r.OffsetDelta)
		}
		n, width := binary.Varint(rest)
		rest = rest[width+int(n):]
		s.values = append(s.values, r.Value)
	}
	return s, nil
}
