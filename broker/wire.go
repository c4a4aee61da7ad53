package broker

import (
	"encoding/binary"

	"sluice/kproto"
)

// Bounds of what a lazily parsed body may hold; beyond them the connection is closed.
const (
	// maxTags is how many tagged fields stand at one place. Kafka has defined at most three.
	maxTags = 64
	// maxTagBytes is what the tagged fields of one place may weigh, in bytes.
	maxTagBytes = 4 << 10
)

// wireReader walks a request body. A length or count is compared with what is left before it is used. The first field
// that does not fit sets bad, and every later read gives zero, so that a parser checks bad once, at its end.
type wireReader struct {
	b    []byte
	flex bool // compact lengths and tagged fields (KIP-482)
	bad  bool
}

// span takes the next n bytes; they alias the body.
func (r *wireReader) span(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	s := r.b[:n:n]
	r.b = r.b[n:]
	return s
}

func (r *wireReader) int8() int8 {
	if s := r.span(1); s != nil {
		return int8(s[0])
	}
	return 0
}

func (r *wireReader) int16() int16 {
	if s := r.span(2); s != nil {
		return int16(binary.BigEndian.Uint16(s))
	}
	return 0
}

func (r *wireReader) int32() int32 {
	if s := r.span(4); s != nil {
		return int32(binary.BigEndian.Uint32(s))
	}
	return 0
}

func (r *wireReader) int64() int64 {
	if s := r.span(8); s != nil {
		return int64(binary.BigEndian.Uint64(s))
	}
	return 0
}

func (r *wireReader) topicID() (id kproto.TopicID) {
	copy(id[:], r.span(len(id)))
	return id
}

// uvarint reads an unsigned varint of at most 32 bits, which is at most five bytes long.
func (r *wireReader) uvarint() uint32 {
	v, n := binary.Uvarint(r.b[:min(len(r.b), binary.MaxVarintLen32)])
	if r.bad || n <= 0 || v > 1<<32-1 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return uint32(v)
}

// length reads a length or count that may be null, which is -1.
func (r *wireReader) length() int {
	var n int
	if r.flex {
		n = int(r.uvarint()) - 1
	} else {
		n = int(r.int32())
	}
	if n < -1 {
		r.bad = true
	}
	if r.bad {
		return 0
	}
	return n
}

// count reads the length of an array that may not be null and whose elements take at least size bytes each.
func (r *wireReader) count(size int) int {
	n := r.length()
	if n < 0 || n > len(r.b)/size {
		r.bad = true
		return 0
	}
	return n
}

// nullableBytes gives nil for null.
func (r *wireReader) nullableBytes() []byte {
	n := r.length()
	if n < 0 {
		return nil
	}
	return r.span(n)
}

// nullableString gives nil for null; the bytes alias the body.
func (r *wireReader) nullableString() []byte {
	if r.flex {
		return r.nullableBytes()
	}
	n := int(r.int16())
	if n == -1 {
		return nil
	}
	return r.span(n)
}

// string reads a string that may not be null.
func (r *wireReader) string() []byte {
	s := r.nullableString()
	if s == nil {
		r.bad = true
	}
	return s
}

// tags reads the tagged fields at this place and gives the body of the one wanted, nil when it is absent. Before
// flexible versions there are none.
func (r *wireReader) tags(want uint32) (found []byte) {
	if !r.flex {
		return nil
	}
	n := r.uvarint()
	if n > maxTags {
		r.bad = true
	}
	budget, next := maxTagBytes, uint32(0)
	for ; n > 0 && !r.bad; n-- {
		tag, size := r.uvarint(), int(r.uvarint())
		if budget -= size; tag < next || budget < 0 {
			r.bad = true
			return nil
		}
		body := r.span(size)
		if tag == want {
			found = body
		}
		next = tag + 1
	}
	return found
}

// noTag is for places where no tagged field means anything to us: they are checked and passed over.
const noTag = 1<<32 - 1

// wireWriter appends a response. The frame's size field is four bytes at the start, written by setSize.
type wireWriter struct {
	b    []byte
	flex bool
}

// header begins a frame: room for its size, the correlation id, and in flexible versions no tags (response header v1).
func (w *wireWriter) header(correlationID int32) {
	w.int32(0)
	w.int32(correlationID)
	w.noTags()
}

// setSize writes the frame's size: the bytes here and extra bytes that are elsewhere.
func (w *wireWriter) setSize(extra int64) {
	binary.BigEndian.PutUint32(w.b, uint32(int64(len(w.b)-4)+extra))
}

func (w *wireWriter) int16(v int16) { w.b = binary.BigEndian.AppendUint16(w.b, uint16(v)) }
func (w *wireWriter) int32(v int32) { w.b = binary.BigEndian.AppendUint32(w.b, uint32(v)) }
func (w *wireWriter) int64(v int64) { w.b = binary.BigEndian.AppendUint64(w.b, uint64(v)) }

// length writes a length or count; -1 is null.
func (w *wireWriter) length(n int) {
	if w.flex {
		w.b = binary.AppendUvarint(w.b, uint64(n+1))
	} else {
		w.int32(int32(n))
	}
}

func (w *wireWriter) string(s string) {
	w.stringLength(len(s))
	w.b = append(w.b, s...)
}

func (w *wireWriter) stringBytes(s []byte) {
	w.stringLength(len(s))
	w.b = append(w.b, s...)
}

// nullableString writes "" as null: our messages are either absent or say something.
func (w *wireWriter) nullableString(s string) {
	if s == "" {
		w.stringLength(-1)
		return
	}
	w.string(s)
}

func (w *wireWriter) stringLength(n int) {
	if w.flex {
		w.length(n)
	} else {
		w.int16(int16(n))
	}
}

// noTags ends a structure that has no tagged fields.
func (w *wireWriter) noTags() {
	if w.flex {
		w.b = append(w.b, 0)
	}
}
