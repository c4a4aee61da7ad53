package main

import (
	"strings"
	"testing"

	broker "sluice"
)

// TestGroupsOfThisBroker walks through the life of a group on the broker of this repository; the other tests use franz-go's.
func TestGroupsOfThisBroker(t *testing.T) {
	b, err := broker.Start(broker.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("SLUICE_BOOTSTRAP_SERVER", b.Addr())
	must(t, "", "topic", "create", "t", "-p", "2")
	for _, p := range []string{"0", "1"} {
		must(t, "a\nb\nc\n", "produce", "t", "-p", p)
	}
	if got := must(t, "", "consume", "t", "-g", "g", "-e"); sortedWords(got) != "a a b b c c" {
		t.Errorf("read %q", got)
	}
	must(t, "", "group", "reset-offsets", "g", "--all-topics", "--shift-by", "-2", "--execute")
	startMember(t)
	g := describeGroup(t)
	if g.State != "Stable" || len(g.Members) != 1 || g.Members[0].assignment() != "t:0,1" || *g.Offsets[1].Lag != 2 || *g.Offsets[1].LagSeconds < 0 {
		t.Errorf("group %+v", g)
	}
	for _, args := range []string{"delete g", "reset-offsets g --all-topics --to-latest --execute", "delete-offsets g --topic t:0"} {
		if r := sluice(t, "", append([]string{"group"}, strings.Fields(args)...)...); r.code != exitFailed || !strings.Contains(r.err, "sluice group describe") {
			t.Errorf("%s with a member: code %d, err %q", args, r.code, r.err)
		}
	}
	if table := must(t, "", "group", "list", "--state", "Stable"); !strings.Contains(table, "g      Stable  classic  consumer  1\n") {
		t.Errorf("table:\n%s", table)
	}
	must(t, "", "group", "reset-offsets", "other", "--topic", "t", "--to-latest", "--execute")
	must(t, "", "group", "delete-offsets", "other", "--topic", "t:1")
	must(t, "", "group", "delete", "other")
	if r := sluice(t, "", "group", "describe", "other"); r.code != exitFailed || !strings.Contains(r.err, "sluice group list") {
		t.Errorf("code %d, err %q", r.code, r.err)
	}
}
