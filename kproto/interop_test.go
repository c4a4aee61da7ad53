package kproto

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaRecords are the records in testdata/kafka-4.4, each file of which was written by
// MemoryRecordsBuilder of Apache Kafka 4.4.0 in the codec and level of its name.
func kafkaRecords() []Record {
	records := make([]Record, 40)
	for i := range records {
		r := Record{Offset: int64(i), Timestamp: now - 10*int64(i)}
		if i%2 == 0 {
			r.Timestamp = now + 10*int64(i)
		}
		if i%5 != 4 {
			r.Key = fmt.Appendf(nil, "key-%d", i)
		}
		if i%7 != 6 {
			r.Value = []byte(strings.Repeat(fmt.Sprintf("value %d ", i), i%9+1))
		}
		if i%3 == 0 {
			r.Headers = []Header{{fmt.Sprintf("h%d", i), fmt.Appendf(nil, "x%d", i)}, {"n", nil}}
		}
		records[i] = r
	}
	return records
}

func kafkaBatch(c Codec) Batch {
	b := NewBuilder(c)
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = 77, 3, 2147483640, true
	for _, r := range kafkaRecords() {
		b.Add(r)
	}
	return b.Batch()
}

func TestReadsWhatKafkaWrites(t *testing.T) {
	files, err := filepath.Glob("testdata/kafka-4.4/*.batch")
	if err != nil || len(files) != 12 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b, errs, err := CheckProduced(bytes.Clone(data), lenient())
		if err != nil || errs != nil || !bytes.Equal(b, data) {
			t.Errorf("%s: %v %v", file, err, errs)
			continue
		}
		if got := walk(t, b); !reflect.DeepEqual(got, kafkaRecords()) {
			t.Errorf("%s: the records differ", file)
		}
		plain, err := Recompress(b, None, 0)
		if want := kafkaBatch(None); err != nil || !bytes.Equal(plain, want) {
			t.Errorf("%s: uncompressed it is %x, want %x: %v", file, plain, want, err)
		}
	}
}

// TestCodecsAgreeWithFranz has a client's codecs read ours and the other way round.
func TestCodecsAgreeWithFranz(t *testing.T) {
	text := []byte(strings.Repeat("franz-go and sluice ", 10_000))
	codecs := map[Codec]kgo.CompressionCodec{
		Gzip: kgo.GzipCompression(), Snappy: kgo.SnappyCompression(), LZ4: kgo.Lz4Compression(), Zstd: kgo.ZstdCompression(),
	}
	for c, franz := range codecs {
		got, err := kgo.DefaultDecompressor().Decompress(compress(t, c, text, 0), kgo.CompressionCodecType(c))
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: franz-go read %d bytes: %v", c, len(got), err)
		}
		compressor, err := kgo.DefaultCompressor(franz)
		if err != nil {
			t.Fatal(err)
		}
		packed, _ := compressor.Compress(new(bytes.Buffer), text)
		got, err = c.Decompress(nil, packed, len(text))
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: of franz-go's, %d bytes: %v", c, len(got), err)
		}
	}
}
