package kproto

import "fmt"

// Codec is the compression id in the batch attributes.
type Codec int8

const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// valid says that the id has a codec; three bits hold more ids than there are codecs.
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

// Compress appends to dst.
func (c Codec) Compress(dst, src []byte, level int) ([]byte, error) {
	if c == None {
		return append(dst, src...), nil
	}
	panic("seam")
}

// Decompress appends to dst at most limit bytes; more is an error (a *Error with code 10).
func (c Codec) Decompress(dst, src []byte, limit int) ([]byte, error) {
	if c == None {
		return append(dst, src...), nil
	}
	panic("seam")
}

// records gives the batch's decompressed records.
func (b Batch) records() ([]byte, error) {
	payload := []byte(b[HeaderSize:])
	if b.Codec() == None {
		return payload, nil
	}
	panic("seam")
}
