package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/vfs"
	"sluice/kproto"
	"sluice/log"
)

// logDir makes a data directory with one record and leaves the broker's part of it open.
func logDir(t *testing.T) (string, *log.Dir) {
	t.Helper()
	dir := t.TempDir()
	d, err := log.Open(dir, log.Options{FS: vfs.Disk{}})
	if err != nil {
		t.Fatal(err)
	}
	l := d.Log("t", kproto.TopicID{1}, 0, log.DefaultConfig())
	b := kproto.NewBuilder(kproto.None)
	b.Add(kproto.Record{Timestamp: 5, Key: []byte("k"), Value: []byte("hello"), Headers: []kproto.Header{{Key: "h", Value: []byte("v")}}})
	a, err := l.Append(b.Batch(), log.AppendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Ticket.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir, d
}

func TestLogVerify(t *testing.T) {
	dir, d := logDir(t)
	r := sluice(t, "", "log", "verify", dir)
	if r.code != exitUnchecked || !strings.Contains(r.err, "in use") {
		t.Errorf("running broker: code %d, %s", r.code, r.err)
	}
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "", "log", "verify", dir); !strings.Contains(out, "sound") {
		t.Error(out)
	}
	var report log.Report
	if err := json.Unmarshal([]byte(must(t, "", "log", "verify", filepath.Join(dir, "t-0"), "-o", "json")), &report); err != nil || report.Partitions[0].End != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	segment := filepath.Join(dir, "t-0", "00000000000000000000.log")
	data, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(segment, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r = sluice(t, "", "log", "verify", dir)
	if r.code != exitFailed || !strings.Contains(r.out, "DAMAGE: "+segment+" at byte 0, offset 0: CRC") {
		t.Errorf("damage: code %d, %s%s", r.code, r.out, r.err)
	}
	if r := sluice(t, "", "log", "verify", t.TempDir()); r.code != exitUnchecked {
		t.Errorf("no data directory: code %d", r.code)
	}
}

func TestLogDump(t *testing.T) {
	dir, d := logDir(t)
	partition := filepath.Join(dir, "t-0")
	out := must(t, "", "log", "dump", partition, "--records")
	for _, want := range []string{"offsets 0-0", `key "k" value "hello"`, `header "h" "v"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	var b log.DumpedBatch
	if err := json.Unmarshal([]byte(must(t, "", "log", "dump", partition, "-r", "-o", "json")), &b); err != nil || string(b.Records[0].Value) != "hello" {
		t.Errorf("%+v, %v", b, err)
	}
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(partition, "00000000000000000000.timeindex")
	if err := os.WriteFile(index, []byte{0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0}, 0o600); err != nil { // as when a segment ends
		t.Fatal(err)
	}
	if out := must(t, "", "log", "dump", index); out != "timestamp 5 offset 0\n" {
		t.Errorf("time index: %q", out)
	}
}

// TestLogDumpDamage: what is damaged is told by the exit code too, and everything that can be read is printed.
func TestLogDumpDamage(t *testing.T) {
	dir, d := logDir(t)
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	segment := filepath.Join(dir, "t-0", "00000000000000000000.log")
	whole, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)-1] ^= 1
	for name, x := range map[string]struct {
		data []byte
		want string
	}{
		"a flipped bit":   {flipped, "[DAMAGED]"},
		"a torn tail":     {append(append([]byte(nil), whole...), 1, 2, 3), "offsets 0-0"},
		"an empty header": {append(append([]byte(nil), whole...), make([]byte, 100)...), "offsets 0-0"},
	} {
		if err := os.WriteFile(segment, x.data, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := sluice(t, "", "log", "dump", segment); r.code != exitFailed || !strings.Contains(r.out, x.want) || r.err == "" {
			t.Errorf("%s: code %d, %s%s", name, r.code, r.out, r.err)
		}
	}
	if r := sluice(t, "", "log", "dump", filepath.Join(dir, "no-such-file")); r.code != exitUnchecked {
		t.Errorf("no file: code %d, %s", r.code, r.err)
	}
}
