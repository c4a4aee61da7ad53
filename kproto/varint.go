package kproto

import (
	"encoding/binary"
	"io"
)

// Most bytes of a varint of 32 and of 64 bits.
const (
	maxVarint32 = 5
	maxVarint64 = binary.MaxVarintLen64
)

// recordReader takes the pieces of records off decompressed bytes, which are all in memory or come
// from a stream through a small window. After the first failure, which bad tells, it gives zero values.
type recordReader struct {
	buf []byte // in memory and not taken
	pos int64  // bytes taken so far
	bad bool   // the bytes ended, or a number was none
	err error  // why the stream failed, io.EOF at its end

	stream *decompression // nil when all is in memory
	window []byte         // the memory that buf slides over, of a stream
}

func memoryReader(b []byte) recordReader { return recordReader{buf: b} }

func streamReader(d *decompression, window []byte) recordReader {
	return recordReader{stream: d, window: window}
}

// fill tries to have n bytes in buf.
func (r *recordReader) fill(n int) {
	if r.stream == nil || r.err != nil || r.bad {
		return
	}
	have := copy(r.window, r.buf)
	for have < n && r.err == nil {
		var got int
		got, r.err = r.stream.Read(r.window[have:])
		have += got
	}
	r.buf = r.window[:have]
}

// more says that bytes are left.
func (r *recordReader) more() bool {
	if len(r.buf) == 0 {
		r.fill(1)
	}
	return len(r.buf) > 0
}

// varint reads a zigzag number of at most 5 bytes and 32 bits.
func (r *recordReader) varint() int64 {
	if len(r.buf) < maxVarint32 {
		r.fill(maxVarint32)
	}
	v, n := varint32(r.buf)
	return r.number(v, n)
}

// varlong reads a zigzag number of at most 10 bytes and 64 bits.
func (r *recordReader) varlong() int64 {
	if len(r.buf) < maxVarint64 {
		r.fill(maxVarint64)
	}
	v, n := binary.Varint(r.buf)
	return r.number(v, n)
}

func (r *recordReader) number(v int64, n int) int64 {
	if r.bad || n <= 0 {
		r.fail()
		return 0
	}
	r.advance(n)
	return v
}

// take gives the next n bytes, never nil when it succeeds; they must be in memory.
func (r *recordReader) take(n int64) []byte {
	if r.bad || n < 0 || n > int64(len(r.buf)) {
		r.fail()
		return nil
	}
	taken := r.buf[:n:n]
	r.advance(int(n))
	return taken
}

// skip passes over n bytes.
func (r *recordReader) skip(n int64) {
	for r.stream != nil && n > int64(len(r.buf)) && r.err == nil && !r.bad {
		n -= int64(len(r.buf))
		r.advance(len(r.buf))
		r.fill(1)
	}
	if r.bad || n < 0 || n > int64(len(r.buf)) {
		r.fail()
		return
	}
	r.advance(int(n))
}

func (r *recordReader) advance(n int) {
	r.buf = r.buf[n:]
	r.pos += int64(n)
}

func (r *recordReader) fail() { r.bad, r.buf = true, nil }

// failure is the stream's own error, nil when the bytes themselves are at fault.
func (r *recordReader) failure() error {
	if r.err == io.EOF {
		return nil
	}
	return r.err
}

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
	wide, n := binary.Uvarint(b[:min(len(b), maxVarint32)])
	if wide > 1<<32-1 {
		return 0, -n
	}
	return uint32(wide), n
}
