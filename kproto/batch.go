package kproto

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// Batch is one record batch v2, header and records, exactly its own bytes. The accessors read the
// header in place and require len(b) >= HeaderSize; doc.go draws the header.
type Batch []byte

// HeaderSize is the number of bytes up to and including the record count.
const HeaderSize = 61

// ChecksumFrom is where the bytes begin that the CRC covers.
const ChecksumFrom = posAttributes

// Positions of the header's fields, in bytes from the start of the batch.
const (
	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12 // what the length field counts begins here
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21 // what the CRC covers begins here
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57
)

// Bits of the attributes field.
const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40 // the base timestamp is when the cleaner may drop tombstones
)

// prefixSize is what the length field does not count: the base offset and the field itself.
const prefixSize = posLeaderEpoch

// magicV2 is the only record format that is stored.
const magicV2 = 2

// castagnoli is the CRC-32C table; hash/crc32 uses the processor's instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (b Batch) uint16(pos int) uint16 { return binary.BigEndian.Uint16(b[pos:]) }
func (b Batch) uint32(pos int) uint32 { return binary.BigEndian.Uint32(b[pos:]) }
func (b Batch) uint64(pos int) uint64 { return binary.BigEndian.Uint64(b[pos:]) }

// BaseOffset is the offset that the records' deltas count from.
func (b Batch) BaseOffset() int64 { return int64(b.uint64(posBaseOffset)) }

// Length is the value of the length field; len(b) == Length()+12.
func (b Batch) Length() int32 { return int32(b.uint32(posLength)) }

// LeaderEpoch is the epoch of the leader that stamped the batch.
func (b Batch) LeaderEpoch() int32 { return int32(b.uint32(posLeaderEpoch)) }

// Magic is the version of the record format.
func (b Batch) Magic() int8 { return int8(b[posMagic]) }

// CRC is the stored checksum; ValidCRC compares it.
func (b Batch) CRC() uint32 { return b.uint32(posCRC) }

// Attributes is the bit field that Codec, LogAppendTime, Transactional and Control read.
func (b Batch) Attributes() int16 { return int16(b.uint16(posAttributes)) }

// LastOffsetDelta is the last offset minus the base offset. It outlives the last record in compaction.
func (b Batch) LastOffsetDelta() int32 { return int32(b.uint32(posLastOffsetDelta)) }

// BaseTimestamp is what the records' timestamp deltas count from, in ms.
func (b Batch) BaseTimestamp() int64 { return int64(b.uint64(posBaseTimestamp)) }

// MaxTimestamp is the largest timestamp of the records, or the append time, in ms.
func (b Batch) MaxTimestamp() int64 { return int64(b.uint64(posMaxTimestamp)) }

// ProducerID is -1 for a batch without an idempotent producer.
func (b Batch) ProducerID() int64 { return int64(b.uint64(posProducerID)) }

// ProducerEpoch is -1 for a batch without an idempotent producer.
func (b Batch) ProducerEpoch() int16 { return int16(b.uint16(posProducerEpoch)) }

// BaseSequence is the first record's sequence number, -1 when there is none.
func (b Batch) BaseSequence() int32 { return int32(b.uint32(posBaseSequence)) }

// Count is the number of records in the batch.
func (b Batch) Count() int32 { return int32(b.uint32(posCount)) }

// LastOffset is the offset of the last record that was written in the batch.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is the first offset behind the batch.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// Codec is how the bytes behind the header are compressed; it may be an id that does not exist.
func (b Batch) Codec() Codec { return Codec(b[posAttributes+1] & attrCodec) }

// LogAppendTime says that every record has the batch's max timestamp.
func (b Batch) LogAppendTime() bool { return b[posAttributes+1]&attrLogAppendTime != 0 }

// Transactional says that the records count only when their transaction commits.
func (b Batch) Transactional() bool { return b[posAttributes+1]&attrTransactional != 0 }

// Control says that the batch holds control records and no data.
func (b Batch) Control() bool { return b[posAttributes+1]&attrControl != 0 }

// LastSequence is the last record's sequence number; numbers wrap to 0 after 2147483647.
// It is -1 for a batch without sequence numbers.
func (b Batch) LastSequence() int32 {
	base := b.BaseSequence()
	if base < 0 {
		return base
	}
	return int32((int64(base) + int64(b.LastOffsetDelta())) & math.MaxInt32)
}

func (b Batch) checksum() uint32 { return crc32.Checksum(b[posAttributes:], castagnoli) }

// ValidCRC computes CRC-32C over the bytes from the attributes on.
func (b Batch) ValidCRC() bool { return b.checksum() == b.CRC() }

func (b Batch) setCRC() { binary.BigEndian.PutUint32(b[posCRC:], b.checksum()) }

// SetBaseOffset stamps in place; the field is outside the CRC.
func (b Batch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(offset))
}

// SetLeaderEpoch stamps in place; the field is outside the CRC.
func (b Batch) SetLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(epoch))
}

// SetAppendTime sets the LogAppendTime bit, the max timestamp (ms), and the CRC.
func (b Batch) SetAppendTime(ms int64) {
	b[posAttributes+1] |= attrLogAppendTime
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(ms))
	b.setCRC()
}

// SplitBatch cuts the first batch off b. It checks only the length field (a whole header) and that
// b holds so much; when b ends early the error is io.ErrUnexpectedEOF as well as CORRUPT_MESSAGE.
func SplitBatch(b []byte) (first Batch, rest []byte, err error) {
	if len(b) < prefixSize {
		return nil, nil, cutShort("%d bytes are too few for a batch's length field", len(b))
	}
	length := int(Batch(b).Length())
	if length < HeaderSize-prefixSize {
		return nil, nil, corrupt("the batch's length field is %d, less than a header", length)
	}
	size := length + prefixSize
	if len(b) < size {
		return nil, nil, cutShort("the batch has %d bytes, of which %d are there", size, len(b))
	}
	return Batch(b[:size:size]), b[size:], nil
}

func cutShort(format string, args ...any) error {
	return fmt.Errorf("%w (%w)", corrupt(format, args...), io.ErrUnexpectedEOF)
}
