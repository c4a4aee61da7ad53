package kproto

import (
	"encoding/binary"
	"math"
)

// KeyedRecord is what compaction looks at of a record. Key aliases the decompressed bytes.
type KeyedRecord struct {
	Offset    int64
	Key       []byte // nil: null
	Tombstone bool   // the value is null
}

// DeleteHorizon is the time, in ms, from which on the batch's tombstones, or its transaction marker, may be dropped
// (KIP-534); ok is false for a batch that no cleaner has given one. Such a batch has it in place of its base timestamp.
func (b Batch) DeleteHorizon() (ms int64, ok bool) {
	if b[posAttributes+1]&attrDeleteHorizon == 0 {
		return 0, false
	}
	return b.BaseTimestamp(), true
}

// Empty is the batch without its records: its offsets, producer and sequence numbers outlive them.
func (b Batch) Empty() Batch {
	out := append(make(Batch, 0, HeaderSize), b[:HeaderSize]...)
	out[posAttributes+1] &^= attrCodec | attrDeleteHorizon
	none := int64(noTimestamp)
	binary.BigEndian.PutUint64(out[posBaseTimestamp:], uint64(none))
	binary.BigEndian.PutUint32(out[posCount:], 0)
	binary.BigEndian.PutUint32(out[posLength:], HeaderSize-prefixSize)
	out.setCRC()
	return out
}

// Compactor takes records out of batches. It keeps its buffers from one batch to the next.
type Compactor struct {
	buf     []byte // for decompressed records
	payload []byte // the records, in buf or in the batch
	kept    []keptRecord
	records []byte
	out     Batch
}

// keptRecord is where a record stands in the payload: its length field, its body, the body without its timestamp.
type keptRecord struct {
	start, body, rest, end int
	timestamp              int64 // as the deltas say, ms
}

// Compaction says what becomes of a batch.
type Compaction struct {
	Keep func(KeyedRecord) bool
	// Horizon is the delete horizon (ms) that a batch gets in which tombstones stay, or with Mark any batch, unless it has one.
	Horizon int64
	Mark    bool
}

// Compacted is the result.
type Compacted struct {
	Batch         Batch // the same slice if nothing changed; nil if no record is left. Valid until the next call.
	Kept, Dropped int   // records
	Tombstones    bool  // some are kept
}

// Keys gives fn the records of a batch until it returns false. Errors are as of EachRecord.
func (c *Compactor) Keys(b Batch, fn func(KeyedRecord) bool) error {
	return c.each(b, func(r KeyedRecord, _ keptRecord) bool { return fn(r) })
}

// Compact keeps the records that are wanted, with their offsets, timestamps and bytes, in the batch's own codec. First and
// last offset of the batch and its sequence numbers stay. Errors are as of EachRecord.
func (c *Compactor) Compact(b Batch, o Compaction) (Compacted, error) {
	var out Compacted
	c.kept = c.kept[:0]
	err := c.each(b, func(r KeyedRecord, k keptRecord) bool {
		if !o.Keep(r) {
			out.Dropped++
			return true
		}
		out.Tombstones = out.Tombstones || r.Tombstone
		c.kept = append(c.kept, k)
		return true
	})
	if err != nil {
		return out, err
	}
	out.Kept = len(c.kept)
	_, has := b.DeleteHorizon()
	mark := !has && (out.Tombstones || o.Mark)
	switch {
	case out.Kept == 0:
	case out.Dropped == 0 && !mark:
		out.Batch = b
	default:
		out.Batch = c.rebuild(b, mark, o.Horizon)
	}
	return out, nil
}

func (c *Compactor) rebuild(b Batch, mark bool, horizon int64) Batch {
	header := append(c.out[:0], b[:HeaderSize]...)
	newest := int64(math.MinInt64)
	c.records = c.records[:0]
	for _, k := range c.kept {
		newest = max(newest, k.timestamp)
		if mark {
			c.retime(k, k.timestamp-horizon)
		} else {
			c.records = append(c.records, c.payload[k.start:k.end]...)
		}
	}
	if mark {
		header[posAttributes+1] |= attrDeleteHorizon
		binary.BigEndian.PutUint64(header[posBaseTimestamp:], uint64(horizon))
	}
	if !b.LogAppendTime() {
		binary.BigEndian.PutUint64(header[posMaxTimestamp:], uint64(newest))
	}
	binary.BigEndian.PutUint32(header[posCount:], uint32(len(c.kept)))
	c.out = header.seal(c.records, 0)
	return c.out
}

// retime copies a record with another timestamp delta.
func (c *Compactor) retime(k keptRecord, delta int64) {
	var field [binary.MaxVarintLen64]byte
	n := binary.PutVarint(field[:], delta)
	c.records = binary.AppendVarint(c.records, int64(1+n+k.end-k.rest))
	c.records = append(c.records, c.payload[k.body]) // attributes
	c.records = append(c.records, field[:n]...)
	c.records = append(c.records, c.payload[k.rest:k.end]...)
}

// each walks the records with the same demands as EachRecord makes on what it looks at.
func (c *Compactor) each(b Batch, fn func(KeyedRecord, keptRecord) bool) error {
	if err := c.decompress(b); err != nil {
		return err
	}
	count, last := b.Count(), int32(-1)
	if count < 0 || int64(count)*minRecordSize > int64(len(c.payload)) {
		return invalid("the batch counts %d records in %d bytes", count, len(c.payload))
	}
	r := memoryReader(c.payload)
	for range count {
		rec, k, delta, ok := r.keyed(b)
		if !ok {
			return invalid("a record does not fill its bytes")
		}
		if delta <= int64(last) || delta > int64(b.LastOffsetDelta()) {
			return invalid("a record's offset delta is %d, behind %d in a batch that ends at %d", delta, last, b.LastOffsetDelta())
		}
		last = int32(delta)
		if !fn(rec, k) {
			return nil
		}
	}
	if r.more() {
		return invalid("bytes are left behind the last record")
	}
	return nil
}

func (c *Compactor) decompress(b Batch) (err error) {
	wire := b[HeaderSize:]
	if b.Codec() == None {
		c.payload = wire
		return nil
	}
	c.buf, err = b.Codec().Decompress(c.buf[:0], wire, decompressCap(len(wire)))
	c.payload = c.buf
	return err
}

// keyed reads one record up to its value, and passes over the rest.
func (r *recordReader) keyed(b Batch) (rec KeyedRecord, k keptRecord, delta int64, ok bool) {
	k.start = int(r.pos)
	size := r.varint()
	k.body = int(r.pos)
	k.end = k.body + int(size)
	body := memoryReader(r.take(size))
	body.take(1) // attributes: none is defined
	k.timestamp = b.BaseTimestamp() + body.varlong()
	k.rest = k.body + int(body.pos)
	delta = body.varint()
	rec.Offset = b.BaseOffset() + delta
	rec.Key = body.bytes()
	rec.Tombstone = body.bytes() == nil
	return rec, k, delta, !r.bad && !body.bad
}
