package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	broker "sluice"
	"sluice/log"
)

// TestLogRepair damages a record, gives it up, and consumes the rest.
func TestLogRepair(t *testing.T) {
	dir := t.TempDir()
	serve := func() *broker.Broker {
		b, err := broker.Start(broker.Options{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("SLUICE_BOOTSTRAP_SERVER", b.Addr())
		return b
	}
	b := serve()
	must(t, "", "topic", "create", "t", "-p", "1")
	for _, v := range []string{"one", "two", "three"} {
		must(t, v+"\n", "produce", "t")
	}
	if r := sluice(t, "", "log", "repair", dir); r.code != exitUnchecked || !strings.Contains(r.err, "in use") {
		t.Errorf("running broker: code %d, %s", r.code, r.err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "", "log", "repair", dir); out != "nothing to repair\n" {
		t.Errorf("sound: %q", out)
	}
	segment := filepath.Join(dir, "t-0", "00000000000000000000.log")
	data, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	data[strings.Index(string(data), "two")] ^= 1
	if err := os.WriteFile(segment, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r := sluice(t, "", "log", "repair", dir)
	if r.code != exitFailed || !strings.Contains(r.out, "1-1") || !strings.Contains(r.out, "CRC does not match") || !strings.Contains(r.err, "--execute") {
		t.Errorf("dry run: code %d, %s%s", r.code, r.out, r.err)
	}
	var done log.Repaired
	if err := json.Unmarshal([]byte(must(t, "", "log", "repair", dir, "--execute", "-o", "json")), &done); err != nil || !done.Executed || len(done.Losses) != 1 || len(done.Left) != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if kept, err := os.ReadFile(done.Losses[0].Kept); err != nil || !strings.Contains(string(data), string(kept)) || len(kept) == 0 {
		t.Errorf("%d bytes kept, %v", len(kept), err)
	}
	if out := must(t, "", "log", "verify", dir); !strings.Contains(out, ".damaged") {
		t.Error(out)
	}
	b = serve()
	must(t, "four\n", "produce", "t")
	if out := must(t, "", "consume", "t", "-e"); out != "one\nthree\nfour\n" {
		t.Errorf("consumed %q", out)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
