package kproto

import (
	"bytes"
	"encoding/binary"

	"github.com/klauspost/compress/zstd"
)

// The decoders of lz4 and zstd go on to the next frame by themselves, however many there are, and
// lz4 frames may lean on a dictionary. These walks look at frame and block headers only, before a
// decoder sees the bytes.

const (
	lz4Magic       = 0x184D2204
	lz4MinHeader   = 7 // magic, flags, block descriptor, header checksum
	lz4ContentSize = 8 // bytes of the optional field

	lz4FlagVersion         = 0xc0
	lz4FlagIndependent     = 0x20
	lz4FlagBlockChecksum   = 0x10
	lz4FlagContentSize     = 0x08
	lz4FlagContentChecksum = 0x04
	lz4FlagReserved        = 0x02
	lz4FlagDictionary      = 0x01

	lz4BlockSizeMask = 1<<31 - 1 // the top bit says that the block is stored as it is
	checksumSize     = 4
)

// checkLZ4Frame demands exactly one frame of independent blocks without a dictionary, which is all
// that Kafka's own reader takes (KIP-57).
func checkLZ4Frame(b []byte) error {
	if len(b) < lz4MinHeader || binary.LittleEndian.Uint32(b) != lz4Magic {
		return invalid("the bytes do not begin with an lz4 frame")
	}
	flags, descriptor := b[4], b[5]
	if flags&(lz4FlagVersion|lz4FlagReserved|lz4FlagDictionary|lz4FlagIndependent) != 1<<6|lz4FlagIndependent {
		return invalid("the lz4 frame's flags are %#x: it needs version 1, independent blocks and no dictionary", flags)
	}
	blockMax, ok := lz4BlockMax(descriptor)
	if !ok {
		return invalid("the lz4 frame's block descriptor is %#x", descriptor)
	}
	head, behindBlock, tail := lz4MinHeader, 0, 0
	if flags&lz4FlagContentSize != 0 {
		head += lz4ContentSize
	}
	if flags&lz4FlagBlockChecksum != 0 {
		behindBlock = checksumSize
	}
	if flags&lz4FlagContentChecksum != 0 {
		tail = checksumSize
	}
	rest, ok := walkLZ4Blocks(b[min(head, len(b)):], blockMax, behindBlock)
	if !ok {
		return invalid("an lz4 block is cut short or larger than the frame allows")
	}
	if len(rest) != tail {
		return invalid("%d bytes are left behind the lz4 frame's blocks, not %d", len(rest), tail)
	}
	return nil
}

// lz4BlockMax reads the largest block size in bytes: 64 KiB, 256 KiB, 1 MiB or 4 MiB.
func lz4BlockMax(descriptor byte) (int, bool) {
	size := int(descriptor >> 4)
	if descriptor&0x8f != 0 || size < 4 {
		return 0, false
	}
	return 64 << 10 << (2 * (size - 4)), true
}

// walkLZ4Blocks gives what is behind the end mark.
func walkLZ4Blocks(b []byte, blockMax, behindBlock int) (rest []byte, ok bool) {
	for len(b) >= 4 {
		size := int(binary.LittleEndian.Uint32(b) & lz4BlockSizeMask)
		mark := binary.LittleEndian.Uint32(b) == 0
		b = b[4:]
		if mark {
			return b, true
		}
		if size > blockMax || size+behindBlock > len(b) {
			return nil, false
		}
		b = b[size+behindBlock:]
	}
	return nil, false
}

// maxZstdFrames bounds the frames in one batch; a client writes one.
const maxZstdFrames = 64

const (
	zstdBlockHeader = 3
	zstdBlockRLE    = 1 // one byte, repeated
)

// Windows of zstd frames, in bytes.
const (
	// maxZstdWindow is what a decoder spends on a window; RFC 8878 asks no more of it.
	maxZstdWindow = 8 << 20
	// maxZstdClaim is the largest window that other clients read, and that zstd's levels 20 to 22 claim
	// for the smallest batch. Such a frame is read with maxZstdWindow, which only fails if it has
	// more content than that and refers back so far.
	maxZstdClaim = 128 << 20

	zstdWindowPos  = 5    // of the byte that tells the window, from the start of the frame
	zstdWindow8MiB = 0x68 // that byte for maxZstdWindow
)

// boundZstdFrames demands whole frames, skippable ones included, and not too many of them. It gives
// the bytes to decode: b, or a copy in which no frame has more than maxZstdWindow.
func boundZstdFrames(b []byte) ([]byte, error) {
	bounded, rest := b, b
	for range maxZstdFrames {
		if len(rest) == 0 {
			return bounded, nil
		}
		var h zstd.Header
		if err := h.Decode(rest); err != nil {
			return nil, err
		}
		if h.WindowSize > maxZstdClaim {
			return nil, invalid("a zstd frame has a window of %d bytes", h.WindowSize)
		}
		if h.WindowSize > maxZstdWindow {
			if &bounded[0] == &b[0] {
				bounded = bytes.Clone(b)
			}
			bounded[len(b)-len(rest)+zstdWindowPos] = zstdWindow8MiB
		}
		var ok bool
		if rest, ok = skipZstdFrame(rest[h.HeaderSize:], &h); !ok {
			return nil, invalid("a zstd frame is cut short")
		}
	}
	if len(rest) != 0 {
		return nil, invalid("the batch has more than %d zstd frames", maxZstdFrames)
	}
	return bounded, nil
}

// skipZstdFrame gives what is behind the frame whose header has been taken.
func skipZstdFrame(b []byte, h *zstd.Header) (rest []byte, ok bool) {
	if h.Skippable {
		return skip(b, int(h.SkippableSize))
	}
	for last := false; !last; {
		if len(b) < zstdBlockHeader {
			return nil, false
		}
		header := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		last = header&1 != 0
		size := int(header >> 3)
		if header>>1&3 == zstdBlockRLE {
			size = 1
		}
		if b, ok = skip(b, zstdBlockHeader+size); !ok {
			return nil, false
		}
	}
	if h.HasCheckSum {
		return skip(b, checksumSize)
	}
	return b, true
}

func skip(b []byte, n int) (rest []byte, ok bool) {
	if n > len(b) {
		return nil, false
	}
	return b[n:], true
}
