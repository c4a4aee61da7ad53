package main

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	broker "sluice"
)

// startThisBroker starts the broker of this repository, with a topic t of two partitions; the other tests use franz-go's.
func startThisBroker(t *testing.T, settings ...string) {
	t.Helper()
	set := map[string]string{}
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		set[key] = value
	}
	b, err := broker.Start(broker.Options{InMemory: true, Settings: set})
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
}

// TestGroupsOfThisBroker walks through the life of a group of each protocol.
func TestGroupsOfThisBroker(t *testing.T) {
	for kind, opts := range map[string][]kgo.Opt{"classic": nil, "consumer": {kgo.ServerSideBalancer()}} {
		t.Run(kind, func(t *testing.T) {
			startThisBroker(t)
			if got := must(t, "", "consume", "t", "-g", "g", "--protocol", kind, "-e"); sortedWords(got) != "a a b b c c" {
				t.Errorf("read %q", got)
			}
			must(t, "", "group", "reset-offsets", "g", "--all-topics", "--shift-by", "-2", "--execute")
			startMember(t, opts...)
			checkMember(t, kind)
		})
	}
}

// checkMember looks at group g, which has a member and two records of each partition to read.
func checkMember(t *testing.T, kind string) {
	t.Helper()
	g := describeGroup(t)
	if g.State != "Stable" || g.Type != kind || len(g.Members) != 1 || g.Members[0].assignment() != "t:0,1" || *g.Offsets[1].Lag != 2 || *g.Offsets[1].LagSeconds < 0 {
		t.Errorf("group %+v", g)
	}
	for _, args := range []string{"delete g", "reset-offsets g --all-topics --to-latest --execute", "delete-offsets g --topic t:0"} {
		if r := sluice(t, "", append([]string{"group"}, strings.Fields(args)...)...); r.code != exitFailed || !strings.Contains(r.err, "sluice group describe") {
			t.Errorf("%s with a member: code %d, err %q", args, r.code, r.err)
		}
	}
	if table := must(t, "", "group", "list", "--state", "Stable", "--type", kind); !strings.Contains(table, "Stable  "+kind) || !strings.Contains(table, "consumer  1\n") {
		t.Errorf("table:\n%s", table)
	}
}

func TestDeletionsOnThisBroker(t *testing.T) {
	startThisBroker(t)
	must(t, "", "group", "reset-offsets", "g", "--topic", "t", "--to-latest", "--execute")
	must(t, "", "group", "delete-offsets", "g", "--topic", "t:1")
	if g := describeGroup(t); len(g.Offsets) != 1 {
		t.Errorf("group %+v", g)
	}
	must(t, "", "group", "delete", "g")
	if r := sluice(t, "", "group", "describe", "g"); r.code != exitFailed || !strings.Contains(r.err, "sluice group list") {
		t.Errorf("code %d, err %q", r.code, r.err)
	}
}

// A member that does not poll is shown with what it leaves unread, in a group of either protocol.
func TestStalledMembers(t *testing.T) {
	for kind, opts := range map[string][]kgo.Opt{"classic": nil, "consumer": {kgo.ServerSideBalancer()}} {
		t.Run(kind, func(t *testing.T) {
			startThisBroker(t, "group.stalled.check.interval.ms=20")
			startMember(t, append(opts, kgo.RebalanceTimeout(500*time.Millisecond), kgo.HeartbeatInterval(50*time.Millisecond))...)
			var m groupMember
			for end := time.Now().Add(time.Minute); len(m.Stalled) < 2; time.Sleep(20 * time.Millisecond) {
				if g := describeGroup(t); len(g.Members) > 0 {
					m = g.Members[0]
				}
				if time.Now().After(end) {
					t.Fatalf("stalled: %+v", m.Stalled)
				}
			}
			if p := m.Stalled[0]; p.Topic != "t" || p.Backlog != 3 || p.IdleSeconds < 0.5 {
				t.Errorf("%+v", p)
			}
			if table := must(t, "", "group", "describe", "g"); !strings.Contains(table, "STALLED: member "+m.ID) || !strings.Contains(table, "t:1 (3 to read)") {
				t.Errorf("table:\n%s", table)
			}
		})
	}
}
