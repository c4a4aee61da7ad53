package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"pgregory.net/rapid"
)

// readAll consumes a topic to its end with a format.
func readAll(t *testing.T, topic, format string, args ...string) string {
	t.Helper()
	return must(t, "", append([]string{"consume", topic, "-e", "--format", format}, args...)...)
}

func TestProduceEveryCodecAndAcks(t *testing.T) {
	startBroker(t)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		for _, acks := range []string{"0", "1", "all"} {
			topic := codec + "-" + acks
			must(t, "", "topic", "create", topic)
			out := must(t, "one\ntwo\nthree", "produce", topic, "-z", codec, "--acks", acks)
			if !strings.HasPrefix(out, "3 records, 11 bytes, ") {
				t.Errorf("%s: %q", topic, out)
			}
			// Three records are waited for, as with --acks 0 they may arrive after the command has ended.
			if got := must(t, "", "consume", topic, "--count", "3", "--format", `%o %s\n`); got != "0 one\n1 two\n2 three\n" {
				t.Errorf("%s: read %q", topic, got)
			}
		}
	}
}

func TestProduceKeysHeadersAndNulls(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t")
	must(t, "k1=v1\nplain\nk2=a=b\nk3=NIL\n\n", "produce", "t", "-K", "=", "--null-value", "NIL", "-H", "a=1", "-H", "b=x,y=z")
	want := "[k1][v1][2] a=1,b=x,y=z\n[~][plain][-1] a=1,b=x,y=z\n[k2][a=b][2] a=1,b=x,y=z\n[k3][~][2] a=1,b=x,y=z\n[~][][-1] a=1,b=x,y=z\n"
	if got := readAll(t, "t", `[%k][%s][%K] %h\n`, "--null", "~"); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestProduceFiles(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t")
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two, with a comma")
	writeFile(t, one, "a\nb")
	writeFile(t, two, "c\n")
	must(t, "", "produce", "t", "--file", one, "--file", two)
	if got := readAll(t, "t", "%s;"); got != "a;b;c;" {
		t.Errorf("read %q", got)
	}
}

func TestProduceFilePerRecord(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t")
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "b.txt"), "two\nlines\n")
	writeFile(t, filepath.Join(dir, "sub", "a.bin"), "\x00\xff")
	writeFile(t, filepath.Join(dir, "empty"), "")
	writeFile(t, filepath.Join(dir, "large"), strings.Repeat("x", 5000))
	if err := os.Symlink("b.txt", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}

	r := sluice(t, "", "produce", "t", "--file-per-record", dir, "--max-bytes", "4096")
	if r.code != exitFailed || !strings.Contains(r.err, "large") || !strings.Contains(r.err, "--skip-large") {
		t.Errorf("a file that is too large: code %d, err %q", r.code, r.err)
	}
	must(t, "", "topic", "create", "u")
	out := must(t, "", "produce", "u", "--file-per-record", dir, "--max-bytes", "4096", "--skip-large")
	if !strings.HasPrefix(out, "3 records") || !strings.Contains(out, "1 skipped as too large") {
		t.Errorf("summary %q", out)
	}
	if got, want := readAll(t, "u", "%k=%s;"), "b.txt=two\nlines\n;empty=;sub/a.bin=\x00\xff;"; got != want {
		t.Errorf("read %q, want %q", got, want)
	}
}

func TestProduceTooLargeLine(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t")
	input := "short\n" + strings.Repeat("x", 3000) + "\nend\n"
	r := sluice(t, input, "produce", "t", "--max-bytes", "2000")
	if r.code != exitFailed || !strings.Contains(r.err, "line 2 of standard input") || !strings.HasPrefix(r.out, "1 records") {
		t.Errorf("code %d, out %q, err %q", r.code, r.out, r.err)
	}
	out := must(t, input, "produce", "t", "--max-bytes", "2000", "--skip-large", "-o", "json")
	var sum produceSummary
	decode(t, out, &sum)
	if sum.Records != 2 || sum.Skipped != 1 || sum.Bytes != 8 || sum.Failed != 0 {
		t.Errorf("summary %+v", sum)
	}
}

// TestLargestRecordFits: what the size check lets through, the client and the topic take, headers included.
func TestLargestRecordFits(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t")
	c := produceCmd{MaxBytes: 1 << 20, Header: []keyValue{{"k", "v"}}}
	in, err := c.input(&streams{in: strings.NewReader("")})
	if err != nil || in.skipped() != 0 {
		t.Fatal(err)
	}
	largest := 1<<20 - recordOverhead - (2 + recordOverhead)
	must(t, strings.Repeat("x", largest), "produce", "t", "-H", "k=v")
	if r := sluice(t, strings.Repeat("x", largest+1), "produce", "t", "-H", "k=v"); r.code != exitFailed {
		t.Errorf("one byte more was accepted")
	}
}

// TestProduceReportsRefusedRecords: the broker refuses what the client lets through.
func TestProduceReportsRefusedRecords(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t", "--config", "max.message.bytes=1000")
	r := sluice(t, strings.Repeat("x", 2000)+"\n", "produce", "t", "-o", "json")
	if r.code != exitFailed || !strings.Contains(r.err, "1 records were not acknowledged") || !strings.Contains(r.err, "max.message.bytes") {
		t.Errorf("code %d, err %q", r.code, r.err)
	}
	if !strings.Contains(r.out, `"failed": 1`) {
		t.Errorf("summary %q", r.out)
	}
}

func TestProduceToMissingPartition(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t", "-p", "2")
	if r := sluice(t, "x\n", "produce", "t", "-p", "7"); r.code != exitFailed || r.err == "" {
		t.Errorf("code %d, err %q", r.code, r.err)
	}
}

func TestProduceToMissingTopic(t *testing.T) {
	startBroker(t)
	r := sluice(t, "x\n", "produce", "nothing")
	if r.code != exitFailed || !strings.Contains(r.err, "sluice topic create") {
		t.Errorf("code %d, err %q", r.code, r.err)
	}
}

func TestProduceCreatesTopicWhereTheBrokerDoes(t *testing.T) {
	startBroker(t, kfake.AllowAutoTopicCreation())
	must(t, "x\n", "produce", "fresh")
	if got := readAll(t, "fresh", "%s"); got != "x" {
		t.Errorf("read %q", got)
	}
}

// TestInterruptStopsReading: standard input never ends, and the command ends all the same with what it has sent.
func TestInterruptStopsReading(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t")
	ctx, interrupt := context.WithCancel(t.Context())
	stdin, feed := io.Pipe()
	defer feed.Close()
	var out, errs strings.Builder
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"produce", "t"}, &streams{in: stdin, out: &out, err: &errs})
	}()
	fmt.Fprintln(feed, "one")
	for readAll(t, "t", "%s") != "one" {
	}
	interrupt()
	if code := <-done; code != exitFailed || !strings.Contains(errs.String(), "interrupted") || !strings.HasPrefix(out.String(), "1 records") {
		t.Errorf("code %d, out %q, err %q", code, out.String(), errs.String())
	}
}

// TestReadLine compares with a split of the whole text, for lines around the limit and the buffer size.
func TestReadLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 40).Draw(t, "limit")
		lengths := rapid.SliceOf(rapid.IntRange(0, 60)).Draw(t, "lengths")
		lines := make([]string, len(lengths))
		for i, n := range lengths {
			lines[i] = strings.Repeat(string(rune('a'+i%26)), n)
		}
		text := strings.Join(lines, "\n")
		if rapid.Bool().Draw(t, "final newline") {
			text += "\n"
		}
		want := strings.Split(text, "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		for i, line := range want {
			if len(line) > limit {
				want[i] = "too long"
			}
		}
		if got := readLines(bufio.NewReaderSize(strings.NewReader(text), 16), limit); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func readLines(in *bufio.Reader, limit int) (lines []string) {
	for {
		line, err := readLine(in, limit)
		switch {
		case err == errLineTooLong:
			lines = append(lines, "too long")
		case err != nil:
			return lines
		default:
			lines = append(lines, string(line))
		}
	}
}

func TestReadLineReportsReadErrors(t *testing.T) {
	broken := errors.New("broken pipe")
	in := bufio.NewReader(io.MultiReader(strings.NewReader("half a li"), failingReader{broken}))
	if _, err := readLine(in, 100); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

func TestProgressLine(t *testing.T) {
	tests := []struct {
		records, bytes, size int64
		want                 string
	}{
		{5, 1536, 0, "5 records, 1.5 KiB"},
		{0, 0, 100, "[..............................]   0%  0 records, 0 B"},
		{1, 50, 100, "[###############...............]  50%  1 records, 50 B"},
		{9, 120, 100, "[##############################] 100%  9 records, 120 B"}, // a file that grew meanwhile
	}
	for _, tc := range tests {
		if got := progressLine(tc.records, tc.bytes, tc.size); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestByteCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 5 << 20: "5.0 MiB", 1<<63 - 1: "8.0 EiB"} {
		if got := byteCount(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
