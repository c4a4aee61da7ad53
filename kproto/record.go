package kproto

import "encoding/binary"

// Record is one record of a batch. Key and Value alias the decompressed bytes; nil means null.
type Record struct {
	Offset    int64
	Timestamp int64 // ms; the batch's max timestamp under LogAppendTime
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Header is one header of a record. A nil Value means null.
type Header struct {
	Key   string
	Value []byte
}

// minRecordSize is the smallest record in bytes: length, attributes, two deltas, two lengths and
// a header count, one byte each. It bounds the record count that a payload can hold.
const minRecordSize = 7

// minHeaderSize is the smallest record header in bytes: two lengths.
const minHeaderSize = 2

// EachRecord decompresses (within the caps of codec.go) and walks the records; fn returns false to
// stop. The offsets of the records ascend within the batch. A record that breaks its own rules
// ends the walk with an *Error of code 87.
func (b Batch) EachRecord(fn func(Record) bool) error {
	payload, err := b.records()
	if err != nil {
		return err
	}
	count, last := b.Count(), int32(-1)
	if count < 0 || int64(count)*minRecordSize > int64(len(payload)) {
		return invalid("the batch counts %d records in %d bytes", count, len(payload))
	}
	r := recordReader{rest: payload}
	for range count {
		rec, delta, err := r.next(b)
		if err != nil {
			return err
		}
		if delta <= last || delta > b.LastOffsetDelta() {
			return invalid("a record's offset delta is %d, behind %d in a batch that ends at %d", delta, last, b.LastOffsetDelta())
		}
		last = delta
		if !fn(rec) {
			return nil
		}
	}
	if len(r.rest) != 0 {
		return invalid("%d bytes are left behind the last record", len(r.rest))
	}
	return nil
}

// recordReader takes records off the front of decompressed bytes. Its methods give zero values
// after the first failure, which bad tells.
type recordReader struct {
	rest []byte
	bad  bool
}

// next reads one record and its offset delta.
func (r *recordReader) next(b Batch) (Record, int32, error) {
	size := r.varint()
	if r.bad || size < 0 || size > int64(len(r.rest)) {
		return Record{}, 0, invalid("a record's length is %d with %d bytes left", size, len(r.rest))
	}
	body := recordReader{rest: r.rest[:size]}
	r.rest = r.rest[size:]

	body.take(1) // attributes: none is defined
	rec := Record{Timestamp: b.BaseTimestamp() + body.varlong()}
	delta := body.varint()
	rec.Offset = b.BaseOffset() + delta
	rec.Key = body.bytes()
	rec.Value = body.bytes()
	rec.Headers = body.headers()
	if body.bad || len(body.rest) != 0 {
		return Record{}, 0, invalid("the record at offset delta %d does not fill its %d bytes", delta, size)
	}
	if b.LogAppendTime() {
		rec.Timestamp = b.MaxTimestamp()
	}
	return rec, int32(delta), nil
}

func (r *recordReader) headers() []Header {
	n := r.varint()
	if n < 0 || n*minHeaderSize > int64(len(r.rest)) {
		r.bad = true
	}
	if r.bad || n == 0 {
		return nil
	}
	headers := make([]Header, n)
	for i := range headers {
		key := r.bytes()
		r.bad = r.bad || key == nil
		headers[i] = Header{Key: string(key), Value: r.bytes()}
	}
	return headers
}

// bytes reads a length and so many bytes; -1 is null.
func (r *recordReader) bytes() []byte {
	n := r.varint()
	if n == -1 {
		return nil
	}
	return r.take(n)
}

// take gives the next n bytes, never nil when it succeeds.
func (r *recordReader) take(n int64) []byte {
	if r.bad || n < 0 || n > int64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

// varint reads a zigzag number of at most 5 bytes and 32 bits.
func (r *recordReader) varint() int64 {
	v, n := varint32(r.rest)
	return r.advance(v, n)
}

// varlong reads a zigzag number of at most 10 bytes.
func (r *recordReader) varlong() int64 {
	v, n := binary.Varint(r.rest)
	return r.advance(v, n)
}

func (r *recordReader) advance(v int64, n int) int64 {
	if r.bad || n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// maxVarint32 is the most bytes of a 32-bit varint.
const maxVarint32 = 5

// varint32 reads a zigzag number; n <= 0 when there is none of at most 5 bytes and 32 bits.
func varint32(b []byte) (v int64, n int) {
	u, n := uvarint32(b)
	return int64(int32(u>>1) ^ -int32(u&1)), n
}

// uvarint32 reads an unsigned number; n <= 0 when there is none of at most 5 bytes and 32 bits.
func uvarint32(b []byte) (u uint32, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint32(b[0]), 1
	}
	if len(b) > maxVarint32 {
		b = b[:maxVarint32]
	}
	wide, n := binary.Uvarint(b)
	if wide > 1<<32-1 {
		return 0, -n
	}
	return uint32(wide), n
}
