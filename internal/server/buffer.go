package server

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Pooled buffers come in powers of two, from 512 bytes to 4 MiB: the largest is twice a producer's default
// max.request.size plus what stands around it. Larger ones are left to the garbage collector.
const (
	minClass = 9
	maxClass = 22
)

// classes hold the buffers as pointers to their first byte, since a pointer goes into a pool without an allocation.
var classes [maxClass - minClass + 1]sync.Pool

// GetBuffer gives an empty pooled slice with at least this capacity; it returns to the pool through Part.Pool, or PutBuffer.
// Its bytes beyond the length are those of an earlier use: never send what was not written.
func GetBuffer(capacity int) []byte {
	class := classFor(capacity)
	if class > maxClass {
		return make([]byte, 0, capacity)
	}
	size := 1 << class
	if poisoning {
		liveBuffers.Add(1)
	}
	if p, ok := classes[class-minClass].Get().(*byte); ok {
		return unsafe.Slice(p, size)[:0]
	}
	return make([]byte, 0, size)
}

// GrowBuffer gives a pooled slice with the bytes of b and room for n more. b may be nil; it must not be used again.
func GrowBuffer(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	grown := append(GetBuffer(max(len(b)+n, 2*cap(b))), b...)
	if b != nil {
		PutBuffer(b)
	}
	return grown
}

// PutBuffer gives a buffer back. The caller must be its only owner and must not use it again. A slice whose
// capacity is no pool's, such as one that append moved, is left to the garbage collector.
func PutBuffer(b []byte) {
	size := cap(b)
	if size < 1<<minClass || size > 1<<maxClass || size&(size-1) != 0 {
		return
	}
	b = b[:size]
	if poisoning {
		liveBuffers.Add(-1)
		poison(b)
	}
	classes[bits.TrailingZeros(uint(size))-minClass].Put(unsafe.SliceData(b))
}

// classFor is the exponent of the smallest class that holds n bytes.
func classFor(n int) int {
	if n <= 1<<minClass {
		return minClass
	}
	return bits.Len(uint(n - 1))
}

// classSize is what GetBuffer(n) takes.
func classSize(n int) int {
	if class := classFor(n); class <= maxClass {
		return 1 << class
	}
	return n
}

// poisoning fills buffers as they are freed; see PoisonFreedBuffers.
var poisoning bool

// PoisonFreedBuffers makes every buffer unreadable the moment it is given back, and a request's body when Handle
// returns, so that a use after that shows. It is for tests and must be called before any connection exists.
func PoisonFreedBuffers() { poisoning = true }

// liveBuffers is the number of pooled buffers in use, counted while poisoning.
var liveBuffers atomic.Int64

const poisonByte = 0xDB

func poison(b []byte) {
	if poisoning {
		for i := range b {
			b[i] = poisonByte
		}
	}
}
