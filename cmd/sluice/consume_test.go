package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestConsumePositions(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t")
	must(t, "a\nb\nc\nd\ne\n", "produce", "t")
	tests := map[string]struct {
		args []string
		want string
	}{
		"from the beginning by default": {nil, "abcde"},
		"beginning":                     {[]string{"--from", "beginning"}, "abcde"},
		"end":                           {[]string{"--from", "end"}, ""},
		"offset":                        {[]string{"--from", "2"}, "cde"},
		"the end as an offset":          {[]string{"--from", "5"}, ""},
		"last two":                      {[]string{"--from", "-2"}, "de"},
		"last two, other spelling":      {[]string{"--from=-2"}, "de"},
		"last of more than there is":    {[]string{"--from", "-99"}, "abcde"},
		"count":                         {[]string{"--count", "3"}, "abc"},
		"until an offset":               {[]string{"--from", "1", "--until", "3"}, "bc"},
		"until before the start":        {[]string{"--from", "3", "--until", "1"}, ""},
		"since 1970":                    {[]string{"--from-time", "0"}, "abcde"},
		"from the future":               {[]string{"--from-time", "2999-01-01T00:00:00Z"}, ""},
		"one partition":                 {[]string{"--partition", "0"}, "abcde"},
		"committed only":                {[]string{"--isolation", "read_committed"}, "abcde"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			args := []string{"consume", "t", "--format", "%s", "--until", "end"}
			if got := must(t, "", append(args, tc.args...)...); got != tc.want {
				t.Errorf("read %q, want %q", got, tc.want)
			}
		})
	}
}

func TestConsumeErrors(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t")
	tests := map[string]struct {
		args []string
		want string
	}{
		"missing topic":     {[]string{"consume", "nothing"}, "sluice topic create"},
		"missing partition": {[]string{"consume", "t", "-p", "4"}, "no partition 4"},
		"beyond the end":    {[]string{"consume", "t", "-p", "0", "--from", "7"}, "offset 7 is not in the log"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := sluice(t, "", tc.args...)
			if r.code != exitFailed || !strings.Contains(r.err, tc.want) {
				t.Errorf("code %d, err %q, want %q", r.code, r.err, tc.want)
			}
		})
	}
}

// TestConsumeManyPartitions: the end comes when every partition has ended, empty ones too.
func TestConsumeManyPartitions(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t", "-p", "4")
	for p, text := range map[string]string{"0": "x\ny\n", "2": "z\n"} {
		must(t, text, "produce", "t", "-p", p)
	}
	got := must(t, "", "consume", "t", "-e", "-f", "%p%o%s ")
	for _, record := range []string{"00x ", "01y ", "20z "} {
		if !strings.Contains(got, record) {
			t.Errorf("%q is missing from %q", record, got)
		}
	}
	if len(got) != 12 {
		t.Errorf("read %q", got)
	}
}

// TestConsumeEndsBehindTransactionMarker: the last offset is a marker, which is not printed and still is the end; the
// records of the aborted transaction are hidden from read_committed.
func TestConsumeEndsBehindTransactionMarker(t *testing.T) {
	cluster := startBroker(t)
	must(t, "", "topic", "create", "t")
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		produceTransaction(t, cluster.ListenAddrs()[0], end)
	}
	if got := readAll(t, "t", "%o ", "--isolation", "read_committed"); got != "0 " {
		t.Errorf("committed: %q", got)
	}
	if got := readAll(t, "t", "%o "); got != "0 2 " {
		t.Errorf("all: %q", got)
	}
}

func produceTransaction(t *testing.T, address string, end kgo.TransactionEndTry) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := client.EndTransaction(t.Context(), end); err != nil {
		t.Fatal(err)
	}
}

// TestConsumeFollowsUntilInterrupted: without a stop the command waits for more, and an interrupt is success.
func TestConsumeFollowsUntilInterrupted(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t")
	ctx, interrupt := context.WithCancel(t.Context())
	out := &notifyingBuffer{lines: make(chan string, 10)}
	done := make(chan int)
	go func() {
		var errs bytes.Buffer
		done <- run(ctx, []string{"consume", "t"}, &streams{in: strings.NewReader(""), out: out, err: &errs})
	}()
	must(t, "first\n", "produce", "t")
	if line := <-out.lines; line != "first\n" {
		t.Errorf("read %q", line)
	}
	must(t, "second\n", "produce", "t")
	if line := <-out.lines; line != "second\n" {
		t.Errorf("read %q", line)
	}
	interrupt()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// notifyingBuffer sends on what is written to it.
type notifyingBuffer struct{ lines chan string }

func (b *notifyingBuffer) Write(p []byte) (int, error) {
	b.lines <- string(p)
	return len(p), nil
}

func TestConsumeJSON(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t")
	must(t, "k:é<&>\n\xff\xfe\nk:~\n", "produce", "t", "-K", ":", "--null-value", "~", "-H", "h=v")
	lines := strings.Split(strings.TrimSpace(must(t, "", "consume", "t", "-e", "-o", "json")), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	var r [3]jsonRecord
	for i, line := range lines {
		decode(t, line, &r[i])
		if r[i].Topic != "t" || r[i].Offset != int64(i) || r[i].TimestampMillis == 0 {
			t.Errorf("record %d: %s", i, line)
		}
		if h := r[i].Headers; len(h) != 1 || h[0].Key != "h" || *h[0].Value != "v" {
			t.Errorf("headers of record %d: %s", i, line)
		}
	}
	if !strings.Contains(lines[0], `"é<&>"`) {
		t.Errorf("escaped without need: %s", lines[0])
	}
	if *r[0].Key != "k" || *r[0].Value != "é<&>" || r[0].ValueEncoding != "" {
		t.Errorf("text: %s", lines[0])
	}
	if r[1].Key != nil || *r[1].Value != "//4=" || r[1].ValueEncoding != "base64" {
		t.Errorf("bytes: %s", lines[1])
	}
	if r[2].Value != nil {
		t.Errorf("null: %s", lines[2])
	}
}

func TestJSONOfHeaders(t *testing.T) {
	line, err := appendJSON([]byte("before "), &kgo.Record{Headers: []kgo.RecordHeader{{Key: "null"}, {Key: "bytes", Value: []byte{0xff}}}})
	want := `"headers":[{"key":"null","value":null},{"key":"bytes","value":"/w==","value_encoding":"base64"}]}` + "\n"
	if err != nil || !strings.HasPrefix(string(line), "before {") || !strings.HasSuffix(string(line), want) {
		t.Errorf("got %s, %v", line, err)
	}
}

func TestSpanOf(t *testing.T) {
	log := bounds{start: 10, end: 20, atTime: 15}
	tests := map[string]struct {
		from  position
		until limit
		want  span
	}{
		"beginning":           {position{kind: fromBeginning}, limit{}, span{10, noStop}},
		"end":                 {position{kind: fromEnd}, limit{}, span{20, noStop}},
		"time":                {position{kind: fromTime}, limit{kind: untilEnd}, span{15, 20}},
		"first offset":        {position{fromOffset, 10}, limit{kind: untilEnd}, span{10, 20}},
		"next offset":         {position{fromOffset, 20}, limit{kind: untilEnd}, span{20, 20}},
		"last three":          {position{fromLast, 3}, limit{untilOffset, 19}, span{17, 19}},
		"more than there are": {position{fromLast, 1 << 62}, limit{untilOffset, 19}, span{10, 19}},
	}
	for name, tc := range tests {
		if got, err := spanOf(log, tc.from, tc.until); err != nil || got != tc.want {
			t.Errorf("%s: got %v, %v; want %v", name, got, err, tc.want)
		}
	}
	for _, n := range []int64{0, 9, 21} {
		if _, err := spanOf(log, position{fromOffset, n}, limit{}); err == nil {
			t.Errorf("offset %d was accepted", n)
		}
	}
}

func TestInstant(t *testing.T) {
	tests := map[string]int64{
		"0":                         0,
		"1767366245123":             1767366245123,
		"2026-01-02T15:04:05Z":      1767366245000,
		"2026-01-02T16:04:05+01:00": 1767366245000,
		"2026-01-02T15:04:05.25Z":   1767366245250,
		"2026-01-02":                1767312000000,
	}
	for text, want := range tests {
		var i instant
		if err := i.UnmarshalText([]byte(text)); err != nil || i.millis != want {
			t.Errorf("%s: got %d, %v; want %d", text, i.millis, err, want)
		}
	}
	for _, text := range []string{"", "-1", "noon", "2026-13-01"} {
		if err := new(instant).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestFormat(t *testing.T) {
	r := &kgo.Record{
		Topic: "top", Partition: 3, Offset: 42, Timestamp: time.UnixMilli(1234),
		Key: []byte("key"), Value: []byte("value"),
		Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}},
	}
	tests := map[string]string{
		"":                        "",
		"%t %p %o %k %s %T":       "top 3 42 key value 1234",
		"%K %S|%h":                "3 5|a=1,b=NIL",
		`100%%\n\t\r\0\\\x41\xff`: "100%\n\t\r\x00\\A\xff",
		"plain text":              "plain text",
	}
	for format, want := range tests {
		var f recordFormat
		if err := f.UnmarshalText([]byte(format)); err != nil {
			t.Errorf("%q: %v", format, err)
		}
		if got := string(f.append(nil, r, "NIL")); got != want {
			t.Errorf("%q: got %q, want %q", format, got, want)
		}
	}
	for _, format := range []string{"%", "%q", `\`, `\q`, `\x`, `\x4`, `\xgg`, "ok %s then %"} {
		if err := new(recordFormat).UnmarshalText([]byte(format)); err == nil {
			t.Errorf("%q was accepted", format)
		}
	}
}

func TestFormatOfNulls(t *testing.T) {
	var f recordFormat
	if err := f.UnmarshalText([]byte("[%k][%s] %K %S %h")); err != nil {
		t.Fatal(err)
	}
	if got, want := string(f.append(nil, &kgo.Record{Value: []byte{}}, "")), "[][] -1 0 "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
