package kproto

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Bounds on what one batch may decompress to, against bombs: zstd makes 32,000 bytes of one.
const (
	// minDecompressCap is allowed to every batch, in bytes: 64 times the default of max.message.bytes.
	minDecompressCap = 64 << 20
	// maxDecompressRatio allows more to a batch that is large itself: real data does not reach it.
	maxDecompressRatio = 100
	// maxGzipMembers bounds the gzip streams in one batch; a client writes one.
	maxGzipMembers = 16
	// maxEmptyReads ends a decoder that gives neither bytes nor an error.
	maxEmptyReads = 100
)

// decompressCap is the most bytes that so many compressed bytes may become.
func decompressCap(wire int) int { return max(minDecompressCap, maxDecompressRatio*wire) }

func tooLarge(limit int) *Error {
	return Errorf(MessageTooLarge, "the records decompress to more than %d bytes", limit)
}

// decoder gives the decompressed bytes of one payload after another. limit is for decoders that
// allocate by a claimed size; decompression enforces it on what comes out.
type decoder interface {
	io.Reader
	open(src []byte, limit int) error
	close() // drops src, keeps buffers
}

// decoders pools the decoders with their buffers, for each codec but None.
var decoders = [...]sync.Pool{
	Gzip:   {New: func() any { return new(gzipReader) }},
	Snappy: {New: func() any { return new(snappyReader) }},
	LZ4:    {New: func() any { return newLZ4Reader() }},
	Zstd:   {New: func() any { return newZstdReader() }},
}

// decompression is a payload being decompressed under a limit. Its errors are *Error: what is not
// sound is refused for good (87), whatever the decoder says.
type decompression struct {
	codec   Codec
	decoder decoder
	limit   int // bytes
	left    int // bytes that may still come
}

// decompress begins; the caller closes it.
func decompress(c Codec, src []byte, limit int) (*decompression, error) {
	if c <= None || !c.valid() {
		return nil, c.unsupported()
	}
	d := &decompression{codec: c, decoder: decoders[c].Get().(decoder), limit: limit, left: limit}
	if err := d.decoder.open(src, limit); err != nil {
		d.close()
		return nil, d.refuse(err)
	}
	return d, nil
}

func (d *decompression) close() {
	d.decoder.close()
	decoders[d.codec].Put(d.decoder)
}

// Read gives io.EOF behind the last byte. p must not be empty.
func (d *decompression) Read(p []byte) (int, error) {
	p = p[:min(len(p), d.left+1)] // one more than allowed, to see whether it comes
	for range maxEmptyReads {
		n, err := d.decoder.Read(p)
		if n > d.left {
			return 0, tooLarge(d.limit)
		}
		d.left -= n
		if n > 0 && err == io.EOF {
			err = nil // it comes again
		}
		if n > 0 || err != nil {
			return n, d.refuse(err)
		}
	}
	return 0, d.refuse(io.ErrNoProgress)
}

func (d *decompression) refuse(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	return invalid("the records do not decompress as %s: %v", d.codec, err)
}

// Decompress appends to dst at most limit bytes. More is an *Error with code 10, unsound bytes one
// with 87, an id without a codec one with 76. It never allocates much more than comes out.
func (c Codec) Decompress(dst, src []byte, limit int) ([]byte, error) {
	if c == None {
		if len(src) > limit {
			return dst, tooLarge(limit)
		}
		return append(dst, src...), nil
	}
	d, err := decompress(c, src, limit)
	if err != nil {
		return dst, err
	}
	defer d.close()
	dst = slices.Grow(dst, min(usualRatio*len(src), limit)+1)
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, 1)
		}
		n, err := d.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// usualRatio is how much room Decompress makes at first, in times of the compressed bytes.
const usualRatio = 4

// records gives the batch's decompressed records; uncompressed ones alias the batch.
func (b Batch) records() ([]byte, error) {
	payload := []byte(b[HeaderSize:])
	if b.Codec() == None {
		return payload, nil
	}
	return b.Codec().Decompress(nil, payload, decompressCap(len(payload)))
}

// gzipReader reads members one by one to count them.
type gzipReader struct {
	src     bytes.Reader
	member  gzip.Reader
	members int
}

func (r *gzipReader) open(src []byte, _ int) error {
	r.src.Reset(src)
	r.members = 0
	return r.next()
}

func (r *gzipReader) next() error {
	if r.members++; r.members > maxGzipMembers {
		return invalid("the batch has more than %d gzip members", maxGzipMembers)
	}
	err := r.member.Reset(&r.src)
	if err == io.EOF {
		return io.ErrUnexpectedEOF // no bytes are no member
	}
	r.member.Multistream(false)
	return err
}

func (r *gzipReader) Read(p []byte) (int, error) {
	n, err := r.member.Read(p)
	if err == io.EOF && r.src.Len() > 0 {
		err = r.next()
	}
	return n, err
}

func (r *gzipReader) close() { r.src.Reset(nil) }

type lz4Reader struct {
	src   bytes.Reader
	frame *lz4.Reader
}

func newLZ4Reader() *lz4Reader {
	r := new(lz4Reader)
	r.frame = lz4.NewReader(&r.src) // works on the caller's goroutine by default
	return r
}

func (r *lz4Reader) open(src []byte, _ int) error {
	if err := checkLZ4Frame(src); err != nil {
		return err
	}
	r.src.Reset(src)
	r.frame.Reset(&r.src)
	return nil
}

func (r *lz4Reader) Read(p []byte) (int, error) { return r.frame.Read(p) }

func (r *lz4Reader) close() {
	r.src.Reset(nil)
	r.frame.Reset(&r.src)
}

type zstdReader struct {
	src    bytes.Reader
	stream *zstd.Decoder
}

func newZstdReader() *zstdReader {
	stream, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1), // on the caller's goroutine
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxZstdWindow),
		zstd.WithDecoderMaxMemory(maxZstdWindow)) // of a stream, this bounds the window too
	if err != nil {
		panic("kproto: zstd decoder: " + err.Error()) // the options are constants
	}
	return &zstdReader{stream: stream}
}

func (r *zstdReader) open(src []byte, _ int) error {
	bounded, err := boundZstdFrames(src)
	if err != nil {
		return err
	}
	r.src.Reset(bounded)
	return r.stream.Reset(&r.src)
}

func (r *zstdReader) Read(p []byte) (int, error) { return r.stream.Read(p) }

func (r *zstdReader) close() {
	r.src.Reset(nil)
	_ = r.stream.Reset(nil) // fails only on a closed decoder
}
