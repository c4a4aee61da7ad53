package server

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// input is what a reader holds of the bytes that came: nothing, or a pooled buffer with frames and the beginning
// of one, or a frame that is too large for it.
type input struct {
	memory *budget

	buf   []byte // pooled; nil when nothing is held
	pos   int    // buf[pos:] is not yet handed out
	ahead int    // size of the next buf

	large    []byte // pooled; a large frame without its size field, as far as it came
	largeLen int    // its length when complete; 0: there is none
	reserved int64  // bytes of the memory budget it holds
	renewAt  int    // when this much of it came, the client has time for some more
}

var errFrameLength = errors.New("frame length out of bounds")

const sizeField = 4

// next cuts the next frame when it is complete; otherwise frame is nil, and length that of the frame begun, if known.
// The frame's capacity is its length, so that appending to it does not reach the next one.
func (in *input) next(maxFrame int) (frame []byte, length int, err error) {
	if in.largeLen > 0 {
		if len(in.large) < in.largeLen {
			return nil, in.largeLen, nil
		}
		return in.large[:in.largeLen:in.largeLen], in.largeLen, nil
	}
	rest := in.buf[in.pos:]
	if len(rest) < sizeField {
		return nil, 0, nil
	}
	n := int(int32(binary.BigEndian.Uint32(rest)))
	if n <= 0 || n > maxFrame {
		return nil, 0, fmt.Errorf("%w: %d%s", errFrameLength, n, hint(rest))
	}
	if len(rest)-sizeField < n {
		return nil, n, nil
	}
	return rest[sizeField : sizeField+n : sizeField+n], n, nil
}

// handled drops the frame that next gave.
func (in *input) handled(frame []byte) {
	if in.largeLen > 0 {
		in.dropLarge()
		return
	}
	poison(frame)
	in.pos += sizeField + len(frame)
	if in.pos == len(in.buf) {
		in.drop()
	}
}

// take gives a buffer to read into, as large as the memory budget allows; give takes it back.
func (in *input) take() []byte {
	size := in.ahead
	if size > readAheadMin && !in.memory.tryAhead(int64(size)) {
		size = readAheadMin
	}
	return GetBuffer(size)[:size]
}

func (in *input) give(buf []byte) {
	if cap(buf) > readAheadMin {
		in.memory.release(int64(cap(buf)))
	}
	PutBuffer(buf)
}

// drop gives the buffer back.
func (in *input) drop() {
	if in.buf != nil {
		in.give(in.buf)
	}
	in.buf, in.pos = nil, 0
}

func (in *input) dropLarge() {
	if in.large != nil {
		PutBuffer(in.large)
	}
	in.memory.release(in.reserved)
	in.large, in.largeLen, in.reserved = nil, 0, 0
}

// release gives everything back at the connection's end.
func (in *input) release() {
	in.drop()
	in.dropLarge()
}

// room moves the beginning of a frame to the front of the buffer and gives the space after it, when a frame of
// this length fits. A length of 0 is not known yet.
func (in *input) room(length int) []byte {
	if in.largeLen > 0 || sizeField+length > cap(in.buf) {
		return nil
	}
	n := copy(in.buf[:cap(in.buf)], in.buf[in.pos:])
	in.buf, in.pos = in.buf[:n], 0
	return in.buf[n:cap(in.buf)]
}

// begin moves the beginning of a large frame into a buffer of its own, which holds at least its first part.
func (in *input) begin(length, first int) {
	in.largeLen, in.renewAt = length, growStep
	in.large = append(GetBuffer(first), in.buf[in.pos+sizeField:]...)
	in.drop()
	if length > largeFrame {
		in.ahead = readAheadMin
	}
}

// grow gives the large frame a buffer of this capacity.
func (in *input) grow(capacity int) {
	b := append(GetBuffer(capacity), in.large...)
	PutBuffer(in.large)
	in.large = b
}

// adapt chooses the size of the next buffer by how far this one was filled. Reading ahead saves reads when small
// frames come many at a time, and costs a copy of what it read of a large one.
func (in *input) adapt() {
	switch n := len(in.buf); {
	case n == cap(in.buf):
		in.ahead = min(4*n, readAheadMax)
	case n <= readAheadMin:
		in.ahead = readAheadMin
	}
}

func (in *input) empty() bool { return in.buf == nil && in.largeLen == 0 }

// hint tells what usually stands behind a length that no Kafka client sends.
func hint(b []byte) string {
	switch {
	case b[0] == 0x16 && b[1] == 0x03:
		return " (a TLS client on a plaintext port?)"
	case string(b[:4]) == "SSH-":
		return " (an SSH client?)"
	case isMethod(string(b[:4])):
		return " (an HTTP client?)"
	}
	return ""
}

func isMethod(s string) bool {
	switch s {
	case "GET ", "POST", "PUT ", "HEAD", "DELE", "OPTI", "PATC", "CONN":
		return true
	}
	return false
}
