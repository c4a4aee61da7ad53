package kproto

import "encoding/binary"

// Builder makes a batch from records; internal logs, recompression, compaction and tests use it.
// Make one with NewBuilder, set the fields, Add the records, and take the Batch.
type Builder struct {
	Codec         Codec
	Level         int   // of the codec; 0 is the codec's default
	LeaderEpoch   int32 // -1 until the log stamps it
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Transactional bool
	Control       bool

	explicit      bool  // SetOffsets was called
	baseOffset    int64 // 0 until the log stamps it
	lastDelta     int32
	baseTimestamp int64 // ms, of the first record
	maxTimestamp  int64 // ms
	count         int32
	records       []byte // encoded, not compressed
	scratch       []byte // one record's body
}

// NewBuilder makes a Builder for a batch without a producer id.
func NewBuilder(c Codec) *Builder {
	return &Builder{
		Codec: c, LeaderEpoch: -1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
		lastDelta: -1, baseTimestamp: noTimestamp, maxTimestamp: noTimestamp,
	}
}

// noTimestamp stands in the header of a batch without records.
const noTimestamp = -1

// SetOffsets makes the batch cover base to last and Add take each record's own Offset, which must
// ascend within them: the gaps are what compaction leaves. Call it before the first Add.
func (b *Builder) SetOffsets(base, last int64) {
	b.explicit, b.baseOffset, b.lastDelta = true, base, int32(last-base)
}

// Add appends a record. Its Offset is ignored (the next delta) unless SetOffsets was called.
func (b *Builder) Add(r Record) {
	delta := int64(b.lastDelta) + 1
	if b.explicit {
		delta = r.Offset - b.baseOffset
	} else {
		b.lastDelta++
	}
	if b.count == 0 {
		b.baseTimestamp, b.maxTimestamp = r.Timestamp, r.Timestamp
	}
	b.maxTimestamp = max(b.maxTimestamp, r.Timestamp)
	b.count++

	b.scratch = appendRecordBody(b.scratch[:0], r, r.Timestamp-b.baseTimestamp, delta)
	b.records = binary.AppendVarint(b.records, int64(len(b.scratch)))
	b.records = append(b.records, b.scratch...)
}

// Size is the number of bytes of the batch before compression.
func (b *Builder) Size() int { return HeaderSize + len(b.records) }

// Batch gives the batch in a fresh slice, CRC set. A codec id that does not exist panics.
func (b *Builder) Batch() Batch {
	attributes := int16(b.Codec)
	if b.count == 0 {
		attributes = int16(None) // nothing to compress, as in Kafka's empty batches
	}
	if b.Transactional {
		attributes |= attrTransactional
	}
	if b.Control {
		attributes |= attrControl
	}
	out := make(Batch, HeaderSize, HeaderSize+len(b.records))
	be := binary.BigEndian
	be.PutUint64(out[posBaseOffset:], uint64(b.baseOffset))
	be.PutUint32(out[posLeaderEpoch:], uint32(b.LeaderEpoch))
	out[posMagic] = magicV2
	be.PutUint16(out[posAttributes:], uint16(attributes))
	be.PutUint32(out[posLastOffsetDelta:], uint32(b.lastDelta))
	be.PutUint64(out[posBaseTimestamp:], uint64(b.baseTimestamp))
	be.PutUint64(out[posMaxTimestamp:], uint64(b.maxTimestamp))
	be.PutUint64(out[posProducerID:], uint64(b.ProducerID))
	be.PutUint16(out[posProducerEpoch:], uint16(b.ProducerEpoch))
	be.PutUint32(out[posBaseSequence:], uint32(b.BaseSequence))
	be.PutUint32(out[posCount:], uint32(b.count))
	return out.seal(b.records, b.Level)
}

// seal appends the records to a header in the header's codec, and sets length and CRC.
func (b Batch) seal(records []byte, level int) Batch {
	out, err := b.Codec().Compress(b, records, level)
	if err != nil {
		panic("kproto: build a batch: " + err.Error()) // only an id that no codec has gets here
	}
	sealed := Batch(out)
	binary.BigEndian.PutUint32(sealed[posLength:], uint32(len(sealed)-prefixSize))
	sealed.setCRC()
	return sealed
}

func appendRecordBody(dst []byte, r Record, timestampDelta, offsetDelta int64) []byte {
	dst = append(dst, 0) // attributes: none is defined
	dst = binary.AppendVarint(dst, timestampDelta)
	dst = binary.AppendVarint(dst, offsetDelta)
	dst = appendNullable(dst, r.Key)
	dst = appendNullable(dst, r.Value)
	dst = binary.AppendVarint(dst, int64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = binary.AppendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendNullable(dst, h.Value)
	}
	return dst
}

func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}
