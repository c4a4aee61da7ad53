package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	broker "sluice"
)

// TestThrottleExplain asks through the admin socket what a group that has read too much is up to.
func TestThrottleExplain(t *testing.T) {
	dir := t.TempDir()
	b, err := broker.Start(broker.Options{DataDir: dir, Settings: map[string]string{"dispatch.throttling.precise.flow.control": "true", "sluice.durability": "os"}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close() //nolint:errcheck // the directory goes with the test
	t.Setenv("SLUICE_BOOTSTRAP_SERVER", b.Addr())
	t.Setenv("SLUICE_DATA_DIR", dir)
	must(t, "", "topic", "create", "t")
	must(t, "1\n2\n3\n4\n5\n", "produce", "t")
	must(t, "", "throttle", "set", "--topic", "t", "--level", "subscription", "-m", "5", "--period", "1h")
	if got := must(t, "", "consume", "t", "-g", "g", "-c", "5"); len(strings.Fields(got)) != 5 {
		t.Fatalf("read %q", got)
	}
	var e explained
	decode(t, must(t, "", "throttle", "explain", "t", "-g", "g", "-o", "json"), &e)
	if len(e.Levels) != 3 || e.Levels[2].Source != "topic" || e.Levels[2].Counters[0].Limit != 5 || e.Levels[2].Counters[0].Used < 5 || e.Levels[2].Counters[0].OpensIn < 3000 {
		t.Errorf("explained %+v", e)
	}
	table := must(t, "", "throttle", "explain", "t")
	for _, part := range []string{"partition 0; messages are counted: precise", "subscription  g", "5 messages/1h0m0s", "topic         -    -       none"} {
		if !strings.Contains(table, part) {
			t.Errorf("%q is not in\n%s", part, table)
		}
	}
	for args, want := range map[string]string{
		"t -p 7":                "no such topic or partition: t has 1, numbered from 0",
		"nowhere":               "no such topic or partition",
		"t -p -1":               "--partition must be at least 0",
		"t -d " + dir + "/no":   "--data-dir",
		"t --admin 127.0.0.1:1": "--admin-listen",
	} {
		if r := sluice(t, "", append([]string{"throttle", "explain"}, strings.Fields(args)...)...); r.code == exitOK || !strings.Contains(r.err, want) {
			t.Errorf("%s: code %d, err %q", args, r.code, r.err)
		}
	}
}

func TestThrottleExplainsWhoIsNotThrottled(t *testing.T) {
	e := explained{Topic: "t", Levels: []explainedLevel{{Level: "topic"}, {Level: "subscription", Subscription: "g\n", CaughtUp: true}, {Level: "subscription", Subscription: "h"}}}
	var out bytes.Buffer
	e.table(&out)
	if got := out.String(); !strings.Contains(got, "\n\"g\\n\" has no backlog, and such are not throttled\n") || strings.Count(got, "backlog") != 1 {
		t.Errorf("table\n%s", got)
	}
}

// Before anybody has read, the limit that every group has on a topic is shown without a group's name.
func TestThrottleExplainsWhatEachGroupHas(t *testing.T) {
	dir := t.TempDir()
	b, err := broker.Start(broker.Options{DataDir: dir, Settings: map[string]string{"dispatch.throttling.rate.per.subscription.in.msg": "7"}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close() //nolint:errcheck // the directory goes with the test
	t.Setenv("SLUICE_BOOTSTRAP_SERVER", b.Addr())
	t.Setenv("SLUICE_DATA_DIR", dir)
	must(t, "", "topic", "create", "t")
	if table := must(t, "", "throttle", "explain", "t"); !strings.Contains(table, "subscription  -    broker  7 messages/1s  0     7     0") {
		t.Errorf("explained\n%s", table)
	}
	if r := sluice(t, "", "throttle", "explain", ""); r.code != exitUsage || !strings.Contains(r.err, "the topic's name is empty") {
		t.Errorf("no topic: code %d, err %q", r.code, r.err)
	}
}

// The explanations in the pages for users are what the command prints of the situations in broker/testdata/explain.
func TestExplanationsInThePages(t *testing.T) {
	for situation, page := range map[string]string{"ticks": "README.md", "orders": "docs/throttling.md"} {
		answer, err := os.ReadFile(filepath.Join("..", "..", "broker", "testdata", "explain", situation+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var e explained
		decode(t, string(answer), &e)
		var out bytes.Buffer
		if err := (&outputFlag{Output: "table"}).print(&out, e, e.table); err != nil {
			t.Fatal(err)
		}
		shown := regexp.MustCompile("(?m)^(.)").ReplaceAllString(out.String(), "    $1") // as Markdown has it
		text, err := os.ReadFile(filepath.Join("..", "..", page))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), shown) {
			t.Errorf("%s should have\n%s", page, shown)
		}
	}
}
