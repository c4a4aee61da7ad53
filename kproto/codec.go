package kproto

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is the compression id in the batch attributes.
type Codec int8

// The codecs of record batches. Ids 5 to 7 fit the attributes and name nothing.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

func (c Codec) valid() bool { return c >= None && c <= Zstd }

func (c Codec) String() string {
	if !c.valid() {
		return fmt.Sprintf("codec %d", int8(c))
	}
	return codecNames[c]
}

// ParseCodec reads a codec's name as compression.type spells it.
func ParseCodec(s string) (Codec, error) {
	for c, name := range codecNames {
		if s == name {
			return Codec(c), nil
		}
	}
	return None, fmt.Errorf("parse codec %.40q: it is none of none, gzip, snappy, lz4, zstd", s)
}

// unsupported is the answer to an id that names no codec.
func (c Codec) unsupported() *Error {
	return Errorf(UnsupportedCompressionType, "there is no compression with the id %d", int8(c))
}

// Compress appends src in the codec to dst. Level has the codec's own scale as in Kafka's
// compression.*.level settings (KIP-390), 0 is its default, and a level out of range is moved into it.
// Snappy is written in xerial framing, which is what Java reads. Only an id without a codec fails.
func (c Codec) Compress(dst, src []byte, level int) ([]byte, error) {
	switch c {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return compressGzip(dst, src, level)
	case Snappy:
		return appendXerial(dst, src), nil
	case LZ4:
		return compressLZ4(dst, src, level)
	case Zstd:
		return zstdEncoder(level).EncodeAll(src, dst), nil
	}
	return dst, c.unsupported()
}

// appendWriter is an io.Writer at the end of a slice.
type appendWriter struct{ b []byte }

func (w *appendWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// gzipWriters keeps one pool for each level.
var gzipWriters [gzip.BestCompression + 1]sync.Pool

func compressGzip(dst, src []byte, level int) ([]byte, error) {
	if level <= 0 {
		level = 6 // zlib's default
	}
	level = min(level, gzip.BestCompression)
	out := &appendWriter{dst}
	w, _ := gzipWriters[level].Get().(*gzip.Writer)
	if w == nil {
		w, _ = gzip.NewWriterLevel(out, level) // the level is in range
	} else {
		w.Reset(out)
	}
	defer gzipWriters[level].Put(w)
	return out.finish(w, src)
}

var lz4Writers = sync.Pool{New: func() any { return lz4.NewWriter(nil) }}

// compressLZ4 writes what Java's clients write: independent blocks of 64 KiB without a content checksum.
func compressLZ4(dst, src []byte, level int) ([]byte, error) {
	out := &appendWriter{dst}
	w := lz4Writers.Get().(*lz4.Writer)
	defer lz4Writers.Put(w)
	w.Reset(out)
	err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1), lz4.CompressionLevelOption(lz4Level(level)))
	if err != nil {
		return dst, err
	}
	return out.finish(w, src)
}

// lz4Level maps Kafka's scale, 1 to 17, where the default of 9 is the fast compressor.
func lz4Level(level int) lz4.CompressionLevel {
	if level <= 0 || level == 9 {
		return lz4.Fast
	}
	return lz4.Level1 << (min(level, 9) - 1)
}

// zstdEncoders holds one encoder for each of the four speeds that the levels 1 to 22 fall into.
// An encoder serves any number of callers at once.
var zstdEncoders [zstd.SpeedBestCompression + 1]struct {
	once    sync.Once
	encoder *zstd.Encoder
}

func zstdEncoder(level int) *zstd.Encoder {
	speed := zstd.SpeedDefault
	if level != 0 {
		speed = zstd.EncoderLevelFromZstd(level)
	}
	e := &zstdEncoders[speed]
	e.once.Do(func() {
		e.encoder, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(speed), zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true)) // the options are valid
	})
	return e.encoder
}

// zstdWindow is the window of what is written, in bytes: Kafka's own at its default level.
const zstdWindow = 2 << 20

// finish writes src through w and gives all that came out.
func (out *appendWriter) finish(w interface {
	Write([]byte) (int, error)
	Close() error
}, src []byte) ([]byte, error) {
	if _, err := w.Write(src); err != nil {
		return out.b, err
	}
	err := w.Close()
	return out.b, err
}
