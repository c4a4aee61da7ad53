package kproto

import (
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
)

// Snappy comes in two forms: one raw block, and the xerial framing of Java's snappy library: a
// header, then chunks of a 4-byte length and a raw block each.

const (
	xerialMagic = "\x82SNAPPY\x00"
	// xerialHeaderSize is the magic, a version and the least version that may read it.
	xerialHeaderSize = len(xerialMagic) + 4 + 4
	// xerialVersion is the only version there is.
	xerialVersion = 1
	// xerialChunk is how many bytes go into a chunk that is written, as in Java.
	xerialChunk = 32 << 10
	// maxXerialChunk is the most bytes of a chunk, before and behind compression; writers use 32 KiB.
	maxXerialChunk = 32 << 20
	// maxSnappyRatio is above what a snappy block can reach (64 bytes from a copy of 3), so that a
	// block that claims more is refused before its claim is allocated.
	maxSnappyRatio = 64
	// maxKeptBlock is the largest buffer, in bytes, that a pooled snappy reader keeps.
	maxKeptBlock = 1 << 20
)

func appendXerial(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = binary.BigEndian.AppendUint32(dst, xerialVersion)
	dst = binary.BigEndian.AppendUint32(dst, xerialVersion)
	for len(src) > 0 {
		n := min(len(src), xerialChunk)
		mark := len(dst)
		dst = append(dst, make([]byte, 4+s2.MaxEncodedLen(n))...)
		block := s2.EncodeSnappy(dst[mark+4:], src[:n])
		binary.BigEndian.PutUint32(dst[mark:], uint32(len(block)))
		dst, src = dst[:mark+4+len(block)], src[n:]
	}
	return dst
}

// snappyReader gives the decompressed bytes of either form, one block in memory at a time.
type snappyReader struct {
	src    []byte // what is still compressed
	xerial bool
	limit  int    // the most bytes that a block may decompress to
	block  []byte // the decompressed block
	taken  int    // how much of it Read has given
}

func (r *snappyReader) open(src []byte, limit int) error {
	*r = snappyReader{src: src, limit: limit, block: r.block[:0]}
	if len(src) < xerialHeaderSize || string(src[:len(xerialMagic)]) != xerialMagic {
		return nil
	}
	if v := int32(binary.BigEndian.Uint32(src[len(xerialMagic):])); v < xerialVersion {
		return invalid("the snappy framing has version %d", v)
	}
	r.xerial, r.src = true, src[xerialHeaderSize:]
	return nil
}

func (r *snappyReader) close() {
	if cap(r.block) > maxKeptBlock {
		r.block = nil
	}
	r.src = nil
}

func (r *snappyReader) Read(p []byte) (int, error) {
	for r.taken == len(r.block) {
		if len(r.src) == 0 {
			return 0, io.EOF
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.block[r.taken:])
	r.taken += n
	return n, nil
}

// next decompresses one block, after checking what it claims.
func (r *snappyReader) next() error {
	block := r.src
	r.src = nil
	if r.xerial {
		var err error
		if block, r.src, err = xerialBlock(block); err != nil {
			return err
		}
	}
	claim, err := snappy.DecodedLen(block)
	if err != nil {
		return err
	}
	if claim > maxSnappyRatio*len(block) || r.xerial && claim > maxXerialChunk {
		return invalid("a snappy block of %d bytes claims to hold %d", len(block), claim)
	}
	if claim > r.limit {
		return tooLarge(r.limit)
	}
	// The plain decoder would also take S2's extensions, which no other Kafka client can read.
	r.taken = 0
	r.block, err = snappy.DecodeStrict(r.block[:cap(r.block)], block)
	return err
}

// xerialBlock cuts the first chunk off.
func xerialBlock(b []byte) (block, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, invalid("the snappy framing ends within a chunk's length")
	}
	n, b := int64(int32(binary.BigEndian.Uint32(b))), b[4:]
	if n < 0 || n > int64(len(b)) || n > maxXerialChunk {
		return nil, nil, invalid("a snappy chunk's length is %d with %d bytes left", n, len(b))
	}
	return b[:n], b[n:], nil
}
