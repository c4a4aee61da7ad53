package kproto

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
	r := memoryReader(payload)
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
	if r.more() {
		return invalid("bytes are left behind the last record")
	}
	return nil
}

// next reads one record and its offset delta. The reader holds all records in memory.
func (r *recordReader) next(b Batch) (Record, int32, error) {
	size := r.varint()
	body := memoryReader(r.take(size))
	body.take(1) // attributes: none is defined
	rec := Record{Timestamp: b.BaseTimestamp() + body.varlong()}
	delta := body.varint()
	rec.Offset = b.BaseOffset() + delta
	rec.Key = body.bytes()
	rec.Value = body.bytes()
	rec.Headers = body.headers()
	if r.bad || body.bad || body.more() {
		return Record{}, 0, invalid("a record does not fill its %d bytes", size)
	}
	if b.LogAppendTime() {
		rec.Timestamp = b.MaxTimestamp()
	}
	return rec, int32(delta), nil
}

func (r *recordReader) headers() []Header {
	n := r.varint()
	if n < 0 || n*minHeaderSize > int64(len(r.buf)) {
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
