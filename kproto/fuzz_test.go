package kproto

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fuzz targets for everything that a stranger's bytes reach. Beyond "no panic" each holds the
// decoder to what it promises about memory and about what it accepts.

// pooledBuffers is what a decoder's own buffers may take, in bytes: a zstd window of 8 MiB is the
// largest, and a garbage collection may have emptied the pools.
const pooledBuffers = 24 << 20

func FuzzCheckProduced(f *testing.F) {
	for c := None; c <= Zstd; c++ {
		f.Add([]byte(build(c, sample(5)...)), byte(0xff))
		f.Add([]byte(build(c, sample(1)...)), byte(0))
	}
	f.Fuzz(func(t *testing.T, data []byte, rules byte) {
		o := lenient()
		o.Strict = rules&1 != 0
		o.Compacted = rules&2 != 0
		o.LogAppendTime = rules&4 != 0
		if rules&8 != 0 {
			o.BeforeMaxMs = 1000
		}
		if len(data) >= HeaderSize && rules&16 != 0 { // let the fuzzer past the checksum
			b := Batch(data)
			put32(b, posLength, int32(len(b)-prefixSize))
			b.setCRC()
		}
		checkProducedHolds(t, data, o)
	})
}

// checkProducedHolds checks a batch and what a check promises: a code with every refusal, bounded
// memory, and that what it accepts it accepts again and has as many sound records as it counts.
func checkProducedHolds(t *testing.T, data []byte, o CheckOptions) {
	t.Helper()
	var b Batch
	var err error
	spent := spentBytes(func() { b, _, err = CheckProduced(data, o) })
	if spent > pooledBuffers+maxSnappyRatio*len(data) {
		t.Fatalf("%d bytes allocated for %d", spent, len(data))
	}
	if err != nil {
		if _, ok := CodeOf(err); !ok || b != nil {
			t.Fatalf("an error without a code, or a batch with it: %v", err)
		}
		return
	}
	if _, _, err := CheckProduced(b, o); err != nil {
		t.Fatalf("accepted once, then: %v", err)
	}
	if b.Codec() != None && !o.Strict {
		return
	}
	var next int64
	err = b.EachRecord(func(r Record) bool {
		if r.Offset != next {
			t.Fatalf("offset %d, want %d", r.Offset, next)
		}
		next++
		return true
	})
	if err != nil || next != int64(b.Count()) || next != b.NextOffset() {
		t.Fatalf("%d records of %d: %v", next, b.Count(), err)
	}
}

func FuzzEachRecord(f *testing.F) {
	for c := None; c <= Zstd; c++ {
		b := build(c, sample(5)...)
		f.Add([]byte(b[HeaderSize:]), int32(5), int32(4), byte(c))
	}
	f.Fuzz(func(t *testing.T, payload []byte, count, last int32, codec byte) {
		b := withPayload(Codec(codec&attrCodec), count, payload)
		put32(b, posLastOffsetDelta, last)
		n, before := int32(0), int64(-1)
		spent := spentBytes(func() {
			_ = b.EachRecord(func(r Record) bool {
				if r.Offset <= before || r.Offset > b.LastOffset() {
					t.Fatalf("offset %d behind %d in a batch that ends at %d", r.Offset, before, b.LastOffset())
				}
				before = r.Offset
				n++
				return true
			})
		})
		if n > max(count, 0) {
			t.Fatalf("%d records of %d", n, count)
		}
		if b.Codec() == None && spent > 64<<10+32*len(payload) {
			t.Fatalf("%d bytes allocated for %d", spent, len(payload))
		}
	})
}

func fuzzDecompress(f *testing.F, c Codec) {
	text := bytes.Repeat([]byte("some text "), 100)
	for _, n := range []int{0, 1, len(text)} {
		f.Add(compress(f, c, text[:n], 0), uint16(n))
	}
	f.Fuzz(func(t *testing.T, src []byte, limit uint16) {
		var got []byte
		var err error
		spent := spentBytes(func() { got, err = c.Decompress(nil, src, int(limit)) })
		if len(got) > int(limit) {
			t.Fatalf("%d bytes came out, over the limit of %d", len(got), limit)
		}
		if spent > pooledBuffers+maxSnappyRatio*len(src) {
			t.Fatalf("%d bytes allocated for %d", spent, len(src))
		}
		if err != nil {
			if code := errCode(err); code != InvalidRecord && code != MessageTooLarge {
				t.Fatal(err)
			}
			return
		}
		again, err := c.Decompress(nil, compress(t, c, got, 0), len(got))
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%d bytes do not survive the codec: %v", len(got), err)
		}
	})
}

func FuzzDecompressGzip(f *testing.F)   { fuzzDecompress(f, Gzip) }
func FuzzDecompressSnappy(f *testing.F) { fuzzDecompress(f, Snappy) }
func FuzzDecompressLZ4(f *testing.F)    { fuzzDecompress(f, LZ4) }
func FuzzDecompressZstd(f *testing.F)   { fuzzDecompress(f, Zstd) }

func FuzzDecodeRequest(f *testing.F) {
	random := filler{rand.New(rand.NewPCG(3, 3)), 2, true}
	eachRequest(func(key, version int16) {
		_, body := random.request(key, version)
		f.Add(key, version, body)
	})
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		var request kmsg.Request
		var err error
		spent := spentBytes(func() { request, err = DecodeRequest(key, version, body) })
		if spent > allowance(body) {
			t.Fatalf("%d bytes allocated for %d", spent, len(body))
		}
		if err != nil {
			if _, ok := CodeOf(err); !ok || request != nil {
				t.Fatalf("an error without a code, or a request with it: %v", err)
			}
			return
		}
		written := request.AppendTo(nil)
		again, err := DecodeRequest(key, version, written)
		if err != nil || !bytes.Equal(again.AppendTo(nil), written) {
			t.Fatalf("what was decoded does not survive encoding: %v", err)
		}
	})
}

func FuzzRequestHeader(f *testing.F) {
	eachRequest(func(key, version int16) {
		f.Add(frame(kmsg.RequestForKey(key), "client"))
		f.Add(header(key, version, 0xff, 0xff, 1, 5, 1, 'x'))
	})
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, body, err := ParseRequestHeader(frame)
		if err != nil {
			if _, ok := CodeOf(err); !ok || body != nil {
				t.Fatalf("an error without a code, or a body with it: %v", err)
			}
			return
		}
		if !bytes.HasSuffix(frame, body) || int16(binary.BigEndian.Uint16(frame)) != h.Key || len(h.ClientID) > len(frame) {
			t.Fatalf("%x gave %+v and %x", frame, h, body)
		}
	})
}

func FuzzControl(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 7})
	f.Add([]byte{0, 0, 0, 0}, []byte{0, 0, 0, 0, 0, 7})
	f.Add([]byte{0, 0, 0, 5}, []byte(nil))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		want, ok, err := ParseEndMarker(Record{Key: key, Value: value})
		if err != nil || !ok {
			return
		}
		got, ok, err := want.Batch(1, 2, 3).EndMarker()
		if err != nil || !ok || got != want {
			t.Fatalf("%+v became %+v, %v, %v", want, got, ok, err)
		}
	})
}
