package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	broker "sluice"
	core "sluice/broker"
	"sluice/internal/vfs"
	"sluice/log"
)

// kafkaLogs is what a real broker of Apache Kafka wrote; testdata/README.md says what is in it.
const kafkaLogs = "testdata/kafka"

// kafkaCopy is a copy of it to be changed.
func kafkaCopy(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kafka")
	if err := os.CopyFS(dir, os.DirFS(kafkaLogs)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// dumped are the batches of a partition with their records, from an offset on and without places and side effects of compaction.
func dumped(t *testing.T, dir string, from int64) (all []log.DumpedBatch) {
	t.Helper()
	err := log.Dump(vfs.Disk{}, dir, log.Dumper{Records: true, Batch: func(b log.DumpedBatch) error {
		if b.File, b.Position = "", 0; b.LastOffset >= from {
			all = append(all, b)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLogImport(t *testing.T) {
	dir := t.TempDir()
	if out := must(t, "", "log", "import", kafkaLogs, "--data-dir", filepath.Join(dir, "dry"), "--lost", "keep", "--dry-run"); !strings.Contains(out, "can be imported") {
		t.Error(out)
	}
	if _, err := os.Stat(filepath.Join(dir, "dry")); err == nil {
		t.Error("a dry run has made a data directory")
	}
	var done core.Import
	if err := json.Unmarshal([]byte(must(t, "", "log", "import", kafkaLogs, "--data-dir", dir, "--lost", "keep", "-o", "json")), &done); err != nil {
		t.Fatal(err)
	}
	if !done.Executed || len(done.Topics) != 6 || done.Offsets != 1 || done.Groups != 1 {
		t.Errorf("%+v", done)
	}
	for _, topic := range done.Topics {
		p := topic.Partitions[0]
		if p.End == 0 {
			continue
		}
		name := topic.Topic + "-0"
		want, got := dumped(t, filepath.Join(kafkaLogs, name), p.Start), dumped(t, filepath.Join(dir, name), p.Start)
		if !reflect.DeepEqual(got, want) || len(want) == 0 {
			t.Errorf("%s: got %+v\nwant %+v", name, got, want)
		}
	}
	r := sluice(t, "", "log", "verify", dir)
	if r.code != exitOK || strings.Contains(r.out, "note:") {
		t.Error(r.out, r.err)
	}
	servesWhatKafkaHad(t, dir)
}

// servesWhatKafkaHad starts a broker on the imported topics, and stops it.
func servesWhatKafkaHad(t *testing.T, dir string) {
	b, err := broker.Start(broker.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLUICE_BOOTSTRAP_SERVER", b.Addr())
	if out := must(t, "", "consume", "trimmed", "-e", "--from", "beginning", "--format", "%o\n"); !strings.HasPrefix(out, "15\n16\n") || !strings.HasSuffix(out, "39\n") {
		t.Errorf("consumed offsets %q", out)
	}
	if out := must(t, "", "group", "describe", "readers"); !strings.Contains(out, "plain") {
		t.Error(out)
	}
	if out := must(t, "", "topic", "describe", "compacted"); !strings.Contains(out, "cleanup.policy") {
		t.Error(out)
	}
	must(t, "new\n", "produce", "plain")
	if out := must(t, "", "consume", "plain", "-e", "--from", "40", "--format", "%o %s\n"); out != "40 new\n" {
		t.Errorf("appended %q", out)
	}
	if r := sluice(t, "", "log", "import", kafkaLogs, "--data-dir", dir); r.code != exitUnchecked || !strings.Contains(r.err, "in use") {
		t.Errorf("running broker: code %d, %s", r.code, r.err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if r := sluice(t, "", "log", "import", kafkaLogs, "--data-dir", dir, "-t", "plain"); r.code != exitFailed || !strings.Contains(r.out, "exists already") {
		t.Errorf("imported twice: code %d, %s%s", r.code, r.out, r.err)
	}
}

// TestLogImportLost: by default a topic with an aborted transaction is refused; with --lost=empty its records go, and nothing else.
func TestLogImportLost(t *testing.T) {
	dir := t.TempDir()
	r := sluice(t, "", "log", "import", kafkaLogs, "--data-dir", dir)
	if r.code != exitFailed || !strings.Contains(r.out, "REFUSED: transactions.aborted: 15 records") {
		t.Errorf("code %d, %s%s", r.code, r.out, r.err)
	}
	must(t, "", "log", "import", kafkaLogs, "--data-dir", dir, "--lost", "empty", "-t", "transactions.aborted")
	var offsets []int64
	for _, b := range dumped(t, filepath.Join(dir, "transactions.aborted-0"), 0) {
		for _, x := range b.Records {
			if !b.Control {
				offsets = append(offsets, x.Offset)
			}
		}
	}
	if want := []int64{0, 1, 2, 3, 4, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 30, 31, 32, 33, 34}; !reflect.DeepEqual(offsets, want) {
		t.Errorf("kept %v, want %v", offsets, want)
	}
	if r := sluice(t, "", "log", "verify", dir); r.code != exitOK {
		t.Error(r.out)
	}
}

// TestLogImportSettings: a setting that is given comes before Kafka's; of a topic whose settings are not known nothing is deleted.
func TestLogImportSettings(t *testing.T) {
	source := kafkaCopy(t)
	imported := func(flags ...string) map[string]string {
		var done core.Import
		args := append([]string{"log", "import", source, "--data-dir", t.TempDir(), "-o", "json", "-t", "compacted"}, flags...)
		if err := json.Unmarshal([]byte(must(t, "", args...)), &done); err != nil {
			t.Fatal(err)
		}
		return done.Topics[0].Configs
	}
	want := map[string]string{"cleanup.policy": "compact,delete", "segment.ms": "20000", "delete.retention.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
	if got := imported("--config", "cleanup.policy=compact,delete", "--config", "delete.retention.ms=1"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := os.RemoveAll(filepath.Join(source, "__cluster_metadata-0")); err != nil {
		t.Fatal(err)
	}
	if got, want := imported(), map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestLogImportRefuses spoils the source in many ways.
func TestLogImportRefuses(t *testing.T) {
	segment := filepath.Join("plain-0", "00000000000000000028.log")
	change := func(name string, fn func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), fn(data), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := map[string]struct {
		spoil func(t *testing.T, dir string)
		code  int
		want  string
		flags []string
	}{
		"a flipped bit": {change(segment, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), exitFailed, segment + " at position 321: CRC does not match (offset 36)", nil},
		"a torn batch":  {change(segment, func(b []byte) []byte { return b[:len(b)-1] }), exitFailed, "(offset 36)", nil},
		"a torn batch, not stopped cleanly": {func(t *testing.T, dir string) {
			change(segment, func(b []byte) []byte { return b[:len(b)-1] })(t, dir)
			remove(".kafka_cleanshutdown")(t, dir)
		}, exitFailed, "Kafka was not stopped cleanly", nil},
		"message format v1":        {change(segment, func(b []byte) []byte { b[16] = 1; return b }), exitFailed, "message format v1", nil},
		"offsets that go back":     {change(segment, func(b []byte) []byte { b[7] = 3; return b }), exitFailed, "offset 3 where 28 was expected", nil},
		"an epoch that goes back":  {change(filepath.Join("plain-0", "00000000000000000028.log"), func(b []byte) []byte { b[15] = 0; return b }), exitFailed, "leader epoch 0 after 2", nil},
		"no topic id":              {remove("plain-0/partition.metadata"), exitFailed, "names no topic id", nil},
		"a partition that is gone": {change("plain-0/partition.metadata", func(b []byte) []byte { return b }), exitUnchecked, "no topic nobody", []string{"-t", "nobody"}},
		"no Kafka":                 {remove("meta.properties"), exitUnchecked, "no log directory of Apache Kafka", nil},
		"metadata that is damaged": {change("__cluster_metadata-0/00000000000000000000.log", func(b []byte) []byte { b[70] ^= 1; return b }), exitUnchecked, "data is damaged", nil},
		"log starts malformed":     {change("log-start-offset-checkpoint", func([]byte) []byte { return []byte("0\n1\n") }), exitUnchecked, "malformed", nil},
		"no such setting":          {remove("none"), exitFailed, "retention.sm", []string{"--config", "retention.sm=1"}},
		"settings that contradict": {remove("none"), exitFailed, "REFUSED", []string{"--config", "min.compaction.lag.ms=5", "--config", "max.compaction.lag.ms=4"}},
	}
	for name, x := range tests {
		t.Run(name, func(t *testing.T) {
			source, data := kafkaCopy(t), filepath.Join(t.TempDir(), "data")
			x.spoil(t, source)
			r := sluice(t, "", append([]string{"log", "import", source, "--data-dir", data, "--lost", "keep"}, x.flags...)...)
			if r.code != x.code || !strings.Contains(r.out+r.err, x.want) {
				t.Errorf("code %d, %s%s", r.code, r.out, r.err)
			}
			left, _ := filepath.Glob(filepath.Join(data, "plain-*"))
			staged, _ := filepath.Glob(filepath.Join(data, "*.import"))
			if len(left)+len(staged) > 0 {
				t.Errorf("left behind: %v %v", left, staged)
			}
			if x.code == exitFailed && x.flags == nil {
				if _, err := os.Stat(filepath.Join(data, "trimmed-0")); err != nil {
					t.Error("the other topics were not imported")
				}
			}
		})
	}
}

// TestLogImportFromTwoDisks: a broker may have its partitions in several log directories, each with log starts of its own, and the settings in the first.
func TestLogImportFromTwoDisks(t *testing.T) {
	first, second, data := kafkaCopy(t), t.TempDir(), filepath.Join(t.TempDir(), "data")
	err := errors.Join(
		os.Rename(filepath.Join(first, "trimmed-0"), filepath.Join(second, "trimmed-0")),
		os.Rename(filepath.Join(first, "log-start-offset-checkpoint"), filepath.Join(second, "log-start-offset-checkpoint")),
		os.CopyFS(filepath.Join(second, "x"), os.DirFS(filepath.Join(first, "plain-0"))), // of no topic
		os.Link(filepath.Join(first, "meta.properties"), filepath.Join(second, "meta.properties")),
	)
	if err != nil {
		t.Fatal(err)
	}
	var done core.Import
	if err := json.Unmarshal([]byte(must(t, "", "log", "import", first, second, "--data-dir", data, "-o", "json", "-t", "plain", "-t", "trimmed")), &done); err != nil {
		t.Fatal(err)
	}
	if len(done.Topics) != 2 || done.Topics[1].Partitions[0].Start != 15 || done.Topics[1].Configs["segment.ms"] != "20000" || !slices.Contains(done.Passed, "x") {
		t.Errorf("%+v", done)
	}
}

// TestLogImportAfterAKill: the data directory may be as a killed broker has left it; the next start recovers it, the imported topics with it.
func TestLogImportAfterAKill(t *testing.T) {
	dir := t.TempDir()
	b, err := broker.Start(broker.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLUICE_BOOTSTRAP_SERVER", b.Addr())
	must(t, "", "topic", "create", "mine")
	must(t, "one\n", "produce", "mine")
	killed := filepath.Join(t.TempDir(), "data") // what a kill would leave
	if err := os.CopyFS(killed, regularFiles{os.DirFS(dir)}); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	must(t, "", "log", "import", kafkaLogs, "--data-dir", killed, "--lost", "empty")
	if b, err = broker.Start(broker.Options{DataDir: killed}); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	t.Setenv("SLUICE_BOOTSTRAP_SERVER", b.Addr())
	if out := must(t, "", "consume", "mine", "-e", "--from", "beginning"); out != "one\n" {
		t.Errorf("consumed %q", out)
	}
	if out := must(t, "", "consume", "trimmed", "-e", "--from", "beginning", "--format", "%o\n"); !strings.HasPrefix(out, "15\n16\n") || !strings.HasSuffix(out, "39\n") {
		t.Errorf("consumed offsets %q", out)
	}
}

// regularFiles hides sockets, which cannot be copied.
type regularFiles struct{ fs.FS }

func (r regularFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(r.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() && !e.Type().IsRegular() }), err
}

// TestLogImportIncomplete: partitions may be missing, or there twice, or be of a data directory of sluice.
func TestLogImportIncomplete(t *testing.T) {
	source := kafkaCopy(t)
	refused := func(code int, want string, sources ...string) {
		t.Helper()
		r := sluice(t, "", append([]string{"log", "import", "--data-dir", filepath.Join(t.TempDir(), "data"), "-t", "plain"}, sources...)...)
		if r.code != code || !strings.Contains(r.out+r.err, want) {
			t.Errorf("code %d, %s%s", r.code, r.out, r.err)
		}
	}
	refused(exitFailed, "partition 0 is there twice", source, kafkaLogs)
	if err := os.Rename(filepath.Join(source, "plain-0"), filepath.Join(source, "plain-1")); err != nil {
		t.Fatal(err)
	}
	refused(exitFailed, "partition 0 is in none of the log directories", source)
	must(t, "", "log", "import", kafkaLogs, "--data-dir", source+"-data", "-t", "plain")
	refused(exitUnchecked, "it is a data directory of sluice", source+"-data")
	if r := sluice(t, "", "log", "import", source, "--data-dir", source); r.code != exitUnchecked || !strings.Contains(r.err, "no place to import into") {
		t.Errorf("into itself: code %d, %s", r.code, r.err)
	}
}

// TestLogImportWhileKafkaRuns has the lock that Java takes.
func TestLogImportWhileKafkaRuns(t *testing.T) {
	source := kafkaCopy(t)
	f, err := os.Create(filepath.Join(source, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lock := func(kind int16) {
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind}); err != nil {
			t.Fatal(err)
		}
	}
	lock(unix.F_WRLCK)
	r := sluice(t, "", "log", "import", source, "--data-dir", t.TempDir())
	if r.code != exitUnchecked || !strings.Contains(r.err, "in use by a running Kafka") {
		t.Errorf("code %d, %s", r.code, r.err)
	}
	lock(unix.F_UNLCK)
	must(t, "", "log", "import", source, "--data-dir", t.TempDir(), "-t", "plain")
}

// TestLogImportLeavesTheSource: nothing there changes.
func TestLogImportLeavesTheSource(t *testing.T) {
	source := kafkaCopy(t)
	state := func() (all []string) {
		err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				var b []byte
				b, err = os.ReadFile(path)
				all = append(all, fmt.Sprintf("%s %x", path, b))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := state()
	must(t, "", "log", "import", source, "--data-dir", t.TempDir(), "--lost", "empty")
	if !reflect.DeepEqual(state(), before) {
		t.Error("files of the source have changed")
	}
}
