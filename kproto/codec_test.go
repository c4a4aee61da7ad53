package kproto

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

func compress(t testing.TB, c Codec, src []byte, level int) []byte {
	t.Helper()
	out, err := c.Compress(nil, src, level)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCodecRoundTrip(t *testing.T) {
	noise := make([]byte, 100_000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	texts := [][]byte{{}, {1}, []byte(strings.Repeat("the quick brown fox ", 20_000)), noise}
	for c := None; c <= Zstd; c++ {
		for _, level := range []int{0, -5, 1, 3, 9, 17, 22, 100} {
			for _, text := range texts {
				prefix := []byte("prefix")
				packed, err := c.Compress(bytes.Clone(prefix), text, level)
				if err != nil || !bytes.HasPrefix(packed, prefix) {
					t.Fatalf("%s level %d: compress %d bytes: %v", c, level, len(text), err)
				}
				got, err := c.Decompress(bytes.Clone(prefix), packed[len(prefix):], len(text))
				if err != nil || !bytes.Equal(got, append(prefix, text...)) {
					t.Fatalf("%s level %d: %d bytes became %d: %v", c, level, len(text), len(got)-len(prefix), err)
				}
			}
		}
	}
}

func TestCodecNames(t *testing.T) {
	for c := None; c <= Zstd; c++ {
		if got, err := ParseCodec(c.String()); err != nil || got != c {
			t.Errorf("%s: %v, %v", c, got, err)
		}
	}
	if _, err := ParseCodec(Codec(5).String()); err == nil || Codec(5).String() != "codec 5" {
		t.Error("a codec that does not exist was parsed")
	}
	for _, c := range []Codec{-1, 5, 7} {
		_, cerr := c.Compress(nil, nil, 0)
		_, derr := c.Decompress(nil, nil, 10)
		for _, err := range []error{cerr, derr} {
			if code, _ := CodeOf(err); code != UnsupportedCompressionType {
				t.Errorf("%s: %v", c, err)
			}
		}
	}
}

func TestDecompressStopsAtLimit(t *testing.T) {
	text := make([]byte, 1000)
	for c := None; c <= Zstd; c++ {
		packed := compress(t, c, text, 0)
		if got, err := c.Decompress(nil, packed, len(text)); err != nil || len(got) != len(text) {
			t.Errorf("%s: at the limit: %d bytes, %v", c, len(got), err)
		}
		for _, limit := range []int{len(text) - 1, 1, 0} {
			if _, err := c.Decompress(nil, packed, limit); errCode(err) != MessageTooLarge {
				t.Errorf("%s: limit %d: %v", c, limit, err)
			}
		}
	}
}

func errCode(err error) int16 {
	code, _ := CodeOf(err)
	return code
}

func TestRawSnappy(t *testing.T) {
	text := []byte(strings.Repeat("snappy ", 1000))
	got, err := Snappy.Decompress(nil, s2.EncodeSnappy(nil, text), 1<<20)
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes became %d: %v", len(text), len(got), err)
	}
}

// bombs give about a GiB for a few KiB, or one for a few bytes.
func bombs(t testing.TB) map[string]struct {
	codec Codec
	bytes []byte
} {
	zeros := make([]byte, 16<<20)
	frame := compress(t, Zstd, zeros, 0)
	chunk := s2.EncodeSnappy(nil, zeros)
	xerial := []byte(xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01")
	for range 8 {
		xerial = binary.BigEndian.AppendUint32(xerial, uint32(len(chunk)))
		xerial = append(xerial, chunk...)
	}
	type bomb = struct {
		codec Codec
		bytes []byte
	}
	return map[string]bomb{
		"gzip members":   {Gzip, bytes.Repeat(compress(t, Gzip, zeros, 9), 10)},
		"zstd frames":    {Zstd, bytes.Repeat(frame, 60)},
		"lz4":            {LZ4, compress(t, LZ4, make([]byte, 80<<20), 1)},
		"snappy chunks":  {Snappy, xerial},
		"snappy claim":   {Snappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}},
		"xerial claim":   {Snappy, append([]byte(xerialMagic+"\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x05"), 0xff, 0xff, 0xff, 0xff, 0x0f)},
		"xerial length":  {Snappy, append([]byte(xerialMagic+"\x00\x00\x00\x01\x00\x00\x00\x01\x7f\xff\xff\xff"), 0)},
		"zstd content":   {Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0, 0}},
		"zstd window":    {Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 1, 0, 0}},
		"zstd skippable": {Zstd, []byte{0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff}},
	}
}

// TestBombsStayBounded checks bombs while it counts what is allocated.
func TestBombsStayBounded(t *testing.T) {
	for name, bomb := range bombs(t) {
		batch := withPayload(bomb.codec, 1<<20, bomb.bytes)
		o := lenient()
		o.MaxBytes = 10 << 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := CheckProduced(batch, o)
		runtime.ReadMemStats(&after)
		if code := errCode(err); code != MessageTooLarge && code != InvalidRecord {
			t.Errorf("%s: %v", name, err)
		}
		// A zstd window, or a snappy chunk of 16 MiB; lz4 blocks and tables are smaller.
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 20<<20 {
			t.Errorf("%s: %d bytes were allocated for a batch of %d", name, spent, len(batch))
		}
	}
}

func TestDecompressRefuses(t *testing.T) {
	text := []byte(strings.Repeat("text ", 100))
	gz, lz, zs, xe := compress(t, Gzip, text, 0), compress(t, LZ4, text, 0), compress(t, Zstd, text, 0), compress(t, Snappy, text, 0)
	changed := func(b []byte, pos int, mask byte) []byte { b = bytes.Clone(b); b[pos] ^= mask; return b }
	framed := func(options ...lz4.Option) []byte {
		var out bytes.Buffer
		w := lz4.NewWriter(&out)
		if err := w.Apply(options...); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	checked := framed(lz4.BlockChecksumOption(true), lz4.ChecksumOption(true), lz4.SizeOption(uint64(len(text))))
	if got, err := LZ4.Decompress(nil, checked, 1000); err != nil || !bytes.Equal(got, text) {
		t.Fatalf("an lz4 frame with all options: %v", err)
	}
	skippable := append([]byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}, zs...)
	if got, err := Zstd.Decompress(nil, append(skippable, zs...), 2000); err != nil || len(got) != 2*len(text) {
		t.Fatalf("zstd frames, one skippable: %v", err)
	}

	for _, tt := range []struct {
		name  string
		codec Codec
		src   []byte
	}{
		{"gzip CRC", Gzip, changed(gz, len(gz)-8, 1)},
		{"gzip size", Gzip, changed(gz, len(gz)-1, 1)},
		{"gzip trailing bytes", Gzip, append(bytes.Clone(gz), 0)},
		{"gzip members", Gzip, bytes.Repeat(gz, maxGzipMembers+1)},
		{"lz4 header checksum", LZ4, changed(lz, 6, 1)},
		{"lz4 legacy", LZ4, framed(lz4.LegacyOption(true))},
		{"lz4 version", LZ4, changed(lz, 4, 0xc0)},
		{"lz4 dependent blocks", LZ4, changed(lz, 4, lz4FlagIndependent)},
		{"lz4 dictionary", LZ4, changed(lz, 4, lz4FlagDictionary)},
		{"lz4 reserved flag", LZ4, changed(lz, 4, lz4FlagReserved)},
		{"lz4 descriptor", LZ4, changed(lz, 5, 0x80)},
		{"lz4 block size index 3", LZ4, changed(lz, 5, 0x70)},
		{"lz4 block over the maximum", LZ4, changed(lz, 9, 0x10)},
		{"lz4 two frames", LZ4, append(bytes.Clone(lz), lz...)},
		{"lz4 skippable frame", LZ4, append([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, lz...)},
		{"lz4 trailing byte", LZ4, append(bytes.Clone(lz), 0)},
		{"lz4 no end mark", LZ4, lz[:len(lz)-4]},
		{"lz4 header only", LZ4, lz[:7]},
		{"lz4 block checksum", LZ4, changed(checked, len(checked)-12, 1)},
		{"lz4 content checksum", LZ4, changed(checked, len(checked)-1, 1)},
		{"lz4 content size", LZ4, func() []byte { return lz4Resized(checked) }()},
		{"zstd checksum", Zstd, changed(zs, len(zs)-1, 1)},
		{"zstd cut", Zstd, zs[:len(zs)-1]},
		{"zstd trailing bytes", Zstd, append(bytes.Clone(zs), 0x28, 0xb5)},
		{"zstd frames", Zstd, bytes.Repeat(zs, maxZstdFrames+1)},
		{"zstd dictionary", Zstd, withDictionary(t, text)},
		{"snappy trailing chunk", Snappy, append(bytes.Clone(xe), 0, 0, 0)},
		{"snappy chunk negative", Snappy, changed(xe, xerialHeaderSize, 0x80)},
		{"snappy chunk long", Snappy, changed(xe, xerialHeaderSize+1, 1)},
		{"snappy version 0", Snappy, changed(xe, 11, 1)},
		{"snappy block of S2", Snappy, s2.EncodeBetter(nil, bytes.Repeat([]byte("0123456789abcdefghi"), 30_000))},
	} {
		if _, err := tt.codec.Decompress(nil, tt.src, 1<<20); errCode(err) != InvalidRecord {
			t.Errorf("%s: got %v, want code %d", tt.name, err, InvalidRecord)
		}
	}
}

// lz4Resized changes the content size of a frame and makes its header checksum right by trying.
func lz4Resized(b []byte) []byte {
	b = bytes.Clone(b)
	b[6]++
	for sum := range 256 {
		b[14] = byte(sum)
		if _, err := lz4.NewReader(bytes.NewReader(b)).Read(make([]byte, 1)); err == nil {
			break
		}
	}
	return b
}

func withDictionary(t *testing.T, text []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithEncoderDictRaw(7, []byte(strings.Repeat("text text", 10))))
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(text, nil)
}

// TestZstdWindow reads frames that claim a large window within a small one, as long as they need no more.
func TestZstdWindow(t *testing.T) {
	noise := make([]byte, 5<<20)
	r := rand.New(rand.NewPCG(5, 5))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	near := append(bytes.Clone(noise), noise...)
	far := slices.Concat(noise, make([]byte, 10<<20), noise)
	for _, tt := range []struct {
		name   string
		window int
		text   []byte
		want   int16
	}{
		{"large window, short reach", 32 << 20, near, NoError},
		{"largest window, short reach", maxZstdClaim, near, NoError},
		{"large window, far reach", 32 << 20, far, InvalidRecord},
		{"window that no client reads", 2 * maxZstdClaim, near, InvalidRecord},
	} {
		w, err := zstd.NewWriter(nil, zstd.WithWindowSize(tt.window), zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w.Reset(&out)
		if _, err := w.Write(tt.text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		// Twice, so that the second frame's window is bounded too.
		got, err := Zstd.Decompress(nil, bytes.Repeat(out.Bytes(), 2), 64<<20)
		if errCode(err) != tt.want || err == nil && !bytes.Equal(got, bytes.Repeat(tt.text, 2)) {
			t.Errorf("%s: %d bytes, %v", tt.name, len(got), err)
		}
	}
}

func TestRecompress(t *testing.T) {
	nb := NewBuilder(None)
	nb.ProducerID, nb.ProducerEpoch, nb.BaseSequence, nb.Transactional = 9, 1, 100, true
	nb.SetOffsets(50, 80)
	for _, r := range sample(20) {
		r.Offset += 55
		nb.Add(r)
	}
	b := nb.Batch()
	b.SetLeaderEpoch(3)
	b.SetAppendTime(now)
	want := walk(t, b)
	for from := None; from <= Zstd; from++ {
		source, err := Recompress(b, from, 0)
		if err != nil {
			t.Fatal(err)
		}
		for to := None; to <= Zstd; to++ {
			got, err := Recompress(source, to, 0)
			if err != nil || got.Codec() != to || !got.ValidCRC() || int(got.Length())+prefixSize != len(got) {
				t.Fatalf("%s to %s: %v", from, to, err)
			}
			if !reflect.DeepEqual(walk(t, got), want) {
				t.Errorf("%s to %s changed the records", from, to)
			}
			plain, err := Recompress(got, None, 0)
			if err != nil || !bytes.Equal(plain, b) {
				t.Errorf("%s to %s and back changed the header: %v", from, to, err)
			}
		}
	}
	if _, err := Recompress(b, 5, 0); errCode(err) != UnsupportedCompressionType {
		t.Errorf("codec 5: %v", err)
	}
	if _, err := Recompress(withPayload(LZ4, 1, []byte("garbage")), None, 0); errCode(err) != InvalidRecord {
		t.Errorf("garbage: %v", err)
	}
}

func TestEmptyBatchKeepsHeader(t *testing.T) {
	nb := NewBuilder(Zstd)
	nb.SetOffsets(10, 19)
	b := nb.Batch()
	if b.Count() != 0 || b.LastOffset() != 19 || b.Codec() != None || len(walk(t, b)) != 0 || !b.ValidCRC() {
		t.Errorf("count %d, last offset %d, codec %s", b.Count(), b.LastOffset(), b.Codec())
	}
}
