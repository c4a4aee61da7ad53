package sluice

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/internal/vfs"
	"sluice/log"
)

// A golden data directory is one that a version of sluice has written, and that every later version must open: golden/N is of format N. A new format gets a directory
// of its own, written with `go test -run TestGolden -write-golden .`; the old ones stay.
const (
	goldenRoot   = "testdata/golden"
	goldenFormat = "1"
)

var writeGolden = flag.Bool("write-golden", false, "write the golden data directory of the present format")

// goldenTimeout ends a test that would hang; nothing is measured by it.
const goldenTimeout = 60 * time.Second

// goldenSettings keep time from changing what is in the directory: nothing expires.
func goldenSettings() map[string]string {
	return map[string]string{
		"sluice.ballast.bytes": "0", "offsets.retention.minutes": strconv.Itoa(math.MaxInt32), "log.retention.ms": "-1",
		"log.cleaner.backoff.ms": "50", "log.cleaner.min.cleanable.ratio": "0",
	}
}

// goldenCodecs are what the records of topic "plain" are compressed with, a batch each.
var goldenCodecs = []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}

const (
	goldenPerBatch = 3
	goldenStart    = 4 // log start offset of plain-1, in the middle of a batch
	goldenKeys     = 4 // of the compacted topic, each written goldenRounds times
	goldenRounds   = 3
)

func goldenRecord(topic string, partition int32, n int) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Partition: partition, Timestamp: time.UnixMilli(1_700_000_000_000 + int64(n)*1000),
		Key: fmt.Append(nil, "key ", n%goldenKeys), Value: fmt.Append(nil, topic, " ", partition, " ", n),
		Headers: []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, n)}},
	}
}

// goldenPlace is a record's text by its place.
type goldenPlace struct {
	topic     string
	partition int32
	offset    int64
}

// goldenWant is what can be read of the topics.
func goldenWant() map[goldenPlace]string {
	want := map[goldenPlace]string{}
	put := func(topic string, p int32, offset int) {
		want[goldenPlace{topic, p, int64(offset)}] = goldenText(goldenRecord(topic, p, offset))
	}
	n := len(goldenCodecs) * goldenPerBatch
	for i := range n {
		put("plain", 0, i)
		if i >= goldenStart {
			put("plain", 1, i)
		}
	}
	for i := goldenKeys * (goldenRounds - 1); i < goldenKeys*goldenRounds; i++ {
		put("compacted", 0, i)
	}
	put("compacted", 0, goldenKeys*goldenRounds) // in the last segment, which is not compacted
	return want
}

func goldenText(r *kgo.Record) string {
	return fmt.Sprintf("%d %s=%s %v", r.Timestamp.UnixMilli(), r.Key, r.Value, r.Headers)
}

// TestGolden opens the data directories of all formats, as a clean stop left them and as a kill does, twice, and finds everything in them.
func TestGolden(t *testing.T) {
	if *writeGolden {
		makeGolden(t, filepath.Join(goldenRoot, goldenFormat))
	}
	formats, err := os.ReadDir(goldenRoot)
	if err != nil || len(formats) == 0 {
		t.Fatalf("no golden directories: %v", err)
	}
	for _, f := range formats {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("format %s, clean %v", f.Name(), clean), func(t *testing.T) {
				dir := copyGolden(t, f.Name())
				if !clean {
					if err := os.Remove(filepath.Join(dir, "clean-shutdown")); err != nil {
						t.Fatal(err)
					}
				}
				verifyGolden(t, dir)
				for range 2 {
					b := startGolden(t, dir)
					checkGolden(t, b)
					if err := b.Close(); err != nil {
						t.Fatal(err)
					}
				}
				verifyGolden(t, dir)
			})
		}
	}
}

func copyGolden(t *testing.T, format string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(goldenRoot, format))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func verifyGolden(t *testing.T, dir string) {
	t.Helper()
	r, err := log.Verify(vfs.Disk{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	findings := r.Findings
	for _, p := range r.Partitions {
		findings = append(findings, p.Findings...)
	}
	if len(findings) > 0 || len(r.Partitions) < 4 {
		t.Errorf("log verify of %d partitions: %+v", len(r.Partitions), findings)
	}
}

func startGolden(t *testing.T, dir string) *Broker {
	t.Helper()
	b, err := Start(Options{DataDir: dir, Settings: goldenSettings()})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func checkGolden(t *testing.T, b *Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), goldenTimeout)
	defer cancel()
	want := goldenWant()
	c := client(t, b, kgo.ConsumeTopics("plain", "compacted"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := map[goldenPlace]string{}
	for len(got) < len(want) {
		f := c.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("%d of %d records: %v", len(got), len(want), err)
		}
		f.EachRecord(func(r *kgo.Record) { got[goldenPlace{r.Topic, r.Partition, r.Offset}] = goldenText(r) })
	}
	for at := range got {
		if got[at] != want[at] {
			t.Errorf("%+v is %q, want %q", at, got[at], want[at])
		}
	}
	admin := kadm.NewClient(c)
	committed, err := admin.FetchOffsets(ctx, "group")
	if o, ok := committed.Lookup("plain", 0); err != nil || !ok || o.At != 7 || o.Metadata != "so far" {
		t.Errorf("committed %+v, %v", o, err)
	}
	configs, err := admin.DescribeTopicConfigs(ctx, "plain", "compacted")
	if err != nil {
		t.Fatal(err)
	}
	for topic, key := range map[string]string{"plain": "max.message.bytes", "compacted": "cleanup.policy"} {
		rc, err := configs.On(topic, nil)
		if v := goldenConfig(rc, key); err != nil || v != goldenConfigs[topic][key] {
			t.Errorf("%s of %s is %q, %v", key, topic, v, err)
		}
	}
}

var goldenConfigs = map[string]map[string]string{
	"plain":     {"max.message.bytes": "654321", "segment.ms": "2500"},
	"compacted": {"cleanup.policy": "compact", "segment.ms": "2500"},
}

func goldenConfig(rc kadm.ResourceConfig, key string) string {
	for _, c := range rc.Configs {
		if c.Key == key {
			return c.MaybeValue()
		}
	}
	return ""
}

// makeGolden writes the directory: two epochs, segments that rolled, all codecs, a moved log start, compaction, committed offsets, a deleted topic.
func makeGolden(t *testing.T, dir string) {
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), goldenTimeout)
	defer cancel()
	b := startGolden(t, dir)
	admin := kadm.NewClient(client(t, b))
	for topic, configs := range goldenConfigs {
		values := map[string]*string{}
		for k, v := range configs {
			values[k] = &v
		}
		if r, err := admin.CreateTopic(ctx, map[string]int32{"plain": 2, "compacted": 1}[topic], 1, values, topic); err != nil || r.Err != nil {
			t.Fatal(err, r.Err)
		}
	}
	produceGolden(t, b, 0, 2)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = startGolden(t, dir)
	defer b.Close()
	produceGolden(t, b, 2, len(goldenCodecs))
	admin = kadm.NewClient(client(t, b))
	if _, err := admin.DeleteRecords(ctx, kadm.Offsets{"plain": {1: {Topic: "plain", Partition: 1, At: goldenStart}}}); err != nil {
		t.Fatal(err)
	}
	if err := admin.CommitAllOffsets(ctx, "group", kadm.Offsets{"plain": {0: {Topic: "plain", At: 7, LeaderEpoch: -1, Metadata: "so far"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, "deleted"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.DeleteTopics(ctx, "deleted"); err != nil {
		t.Fatal(err)
	}
	awaitCompaction(t, b, dir)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// produceGolden writes the batches from..to-1 of topic plain, a codec each, and with the last of them what is to be compacted.
func produceGolden(t *testing.T, b *Broker, from, to int) {
	for i := from; i < to; i++ {
		c := client(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(goldenCodecs[i]), kgo.ProducerLinger(50*time.Millisecond))
		var rs []*kgo.Record
		for n := i * goldenPerBatch; n < (i+1)*goldenPerBatch; n++ {
			rs = append(rs, goldenRecord("plain", 0, n), goldenRecord("plain", 1, n))
		}
		if err := c.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if to == len(goldenCodecs) {
		c := client(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for n := range goldenKeys*goldenRounds + 1 { // one by one, so that segments roll between them
			if err := c.ProduceSync(t.Context(), goldenRecord("compacted", 0, n)).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// awaitCompaction waits until only the newest record of each key is left below the last segment.
func awaitCompaction(t *testing.T, b *Broker, dir string) {
	t.Helper()
	for end := time.Now().Add(goldenTimeout); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		c := client(t, b, kgo.ConsumeTopics("compacted"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		f := c.PollFetches(t.Context())
		if rs := f.Records(); len(rs) > 0 && rs[0].Offset == goldenKeys*(goldenRounds-1) {
			return
		}
	}
	t.Fatalf("%s is not compacted", dir)
}

// TestNewerFormatIsRefused: a directory that a later version has written to is not opened, and nothing in it is changed.
func TestNewerFormatIsRefused(t *testing.T) {
	for name, raise := range map[string]func(t *testing.T, dir string){
		"meta.properties": func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "meta.properties"), func(b []byte) []byte { return []byte(strings.Replace(string(b), "version=1", "version=2", 1)) })
		},
		"a slot of durable-offsets": func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "durable-offsets"), func(b []byte) []byte {
				slot := b[64:128]
				binary.BigEndian.PutUint32(slot[4:], 2)
				binary.BigEndian.PutUint32(slot, crc32.Checksum(slot[4:], crc32.MakeTable(crc32.Castagnoli)))
				return b
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyGolden(t, goldenFormat)
			raise(t, dir)
			before := tree(t, dir)
			b, err := Start(Options{DataDir: dir})
			if !errors.Is(err, log.ErrNewer) || !strings.Contains(err.Error(), "version 2") {
				t.Errorf("started: %v, %v", b != nil, err)
			}
			if after := tree(t, dir); !maps.Equal(before, after) {
				t.Errorf("the directory was changed: %v, then %v", before, after)
			}
		})
	}
}

func edit(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, change(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// tree is each file's content, mode and time of change.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		files[path] = fmt.Sprint(info.Mode(), info.ModTime())
		if !e.IsDir() {
			b, err := os.ReadFile(path)
			files[path] += string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
