package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestThrottleLimits sets a limit of every kind, lists them, and takes them back.
func TestThrottleLimits(t *testing.T) {
	startThisBroker(t)
	for _, c := range []struct {
		target, limit, said string
		listed              limitPolicy
	}{
		{"--broker", "--bytes 100MB", "broker: the broker dispatches at most 100000000 bytes in each period of 1s",
			limitPolicy{Scope: "broker", Level: "broker", Messages: -1, Bytes: 1e8, PeriodSeconds: 1}},
		{"--broker --level topic", "--messages 500", "broker: each partition, to all groups together, dispatches at most 500 messages in each period of 1s",
			limitPolicy{Scope: "broker", Level: "topic", Messages: 500, Bytes: -1, PeriodSeconds: 1}},
		{"--broker --level subscription", "--messages 400", "broker: each partition, to each group, dispatches at most 400 messages in each period of 1s",
			limitPolicy{Scope: "broker", Level: "subscription", Messages: 400, Bytes: -1, PeriodSeconds: 1}},
		{"--namespace orders.eu", "-m 7 --period 1m", "namespace orders.eu: each partition, to all groups together, dispatches at most 7 messages in each period of 1m0s",
			limitPolicy{Scope: "namespace", Name: "orders.eu", Level: "topic", Messages: 7, Bytes: -1, PeriodSeconds: 60}},
		{"--namespace orders.eu --level subscription", "--bytes 2KiB", "namespace orders.eu: each partition, to each group, dispatches at most 2048 bytes in each period of 1s",
			limitPolicy{Scope: "namespace", Name: "orders.eu", Level: "subscription", Messages: -1, Bytes: 2048, PeriodSeconds: 1}},
		{"--topic t", "-m 10 --bytes 3MB", "topic t: each partition, to all groups together, dispatches at most 10 messages and 3000000 bytes in each period of 1s",
			limitPolicy{Scope: "topic", Name: "t", Level: "topic", Messages: 10, Bytes: 3e6, PeriodSeconds: 1}},
		{"--topic t --level subscription", "--unlimited", "topic t: each partition, to each group, dispatches without limit",
			limitPolicy{Scope: "topic", Name: "t", Level: "subscription", Messages: -1, Bytes: -1, PeriodSeconds: 1}},
		{"--group replay", "-m 20 --period 2s", "group replay: each partition, to this group, dispatches at most 20 messages in each period of 2s",
			limitPolicy{Scope: "group", Name: "replay", Level: "subscription", Messages: 20, Bytes: -1, PeriodSeconds: 2}},
	} {
		target := strings.Fields(c.target)
		said := must(t, "", slices.Concat([]string{"throttle", "set"}, target, strings.Fields(c.limit))...)
		if strings.TrimSpace(said) != c.said {
			t.Errorf("%s %s: said %q, want %q", c.target, c.limit, said, c.said)
		}
		if got := listLimits(t); !slices.Contains(got, c.listed) {
			t.Errorf("%s: listed %+v, want %+v among them", c.target, got, c.listed)
		}
	}
	if got := listLimits(t); len(got) != 8 || got[0].Scope != "broker" || got[7].Scope != "group" {
		t.Errorf("listed %+v", got)
	}
	for _, target := range []string{"--broker", "--broker --level topic", "--broker --level subscription", "--namespace orders.eu", "--namespace orders.eu --level subscription",
		"--topic t", "--topic t --level subscription", "--group replay"} {
		must(t, "", append([]string{"throttle", "unset"}, strings.Fields(target)...)...)
	}
	if got := listLimits(t); len(got) != 0 {
		t.Errorf("after the last unset %+v", got)
	}
}

func listLimits(t *testing.T) (limits []limitPolicy) {
	t.Helper()
	decode(t, must(t, "", "throttle", "list", "-o", "json"), &limits)
	return limits
}

func TestThrottleTable(t *testing.T) {
	startThisBroker(t)
	must(t, "", "throttle", "set", "--topic", "t", "-m", "10")
	if got := must(t, "", "throttle", "ls"); !strings.Contains(got, "topic  t     topic  10        -      1s\n") {
		t.Errorf("table:\n%s", got)
	}
}

// TestThrottleMistakes: what to do next is said, and nothing is set.
func TestThrottleMistakes(t *testing.T) {
	startThisBroker(t)
	for args, want := range map[string]string{
		"set -m 5":                            "whose limit? Give --broker, --topic TOPIC",
		"unset":                               "whose limit?",
		"set --topic t":                       "nothing to set",
		"set --topic t --group g -m 1":        "can't be used together",
		"set --topic t -m 0":                  "--unlimited sets none",
		"set --topic t -m 5 --unlimited":      "does not go with",
		"set --topic t -m 5 --period 1500ms":  "whole seconds",
		"set --topic t -m 5 --period 0s":      "from 1s to 24h",
		"set --topic t --period=-1s":          "from 1s to 24h",
		"set --topic t --bytes 5XB":           "is no size",
		"set --topic t --bytes 99999999999GB": "is no size",
		"set --group g -m 1 --level topic":    "can be subscription",
		"set --topic t -m 1 --level broker":   "can be topic or subscription",
		"set --topic nowhere -m 1":            "sluice topic list",
		"set --topic= -m 1":                   "the name is empty",
		"set --namespace= -m 1":               "the name is empty",
		"unset --group=":                      "the name is empty",
		"set --namespace a.subscription -m 1": "--namespace a --level subscription",
		"set --namespace a.b. -m 1":           "--namespace a.b is for a.b and every topic a.b.*",
	} {
		r := sluice(t, "", append([]string{"throttle"}, strings.Fields(args)...)...)
		if r.code == exitOK || !strings.Contains(r.err, want) {
			t.Errorf("%s: code %d, err %q; want %q", args, r.code, r.err, want)
		}
	}
	if got := listLimits(t); len(got) != 0 {
		t.Errorf("set by mistake: %+v", got)
	}
}

// The broker has one period: a limit that is set with another one says what else that changes, and one that is taken back does not change the others.
func TestThrottleBrokerPeriod(t *testing.T) {
	startThisBroker(t)
	must(t, "", "throttle", "set", "--broker", "-m", "5")
	if said := must(t, "", "throttle", "set", "--broker", "--level", "topic", "-m", "7", "--period", "1m"); !strings.Contains(said, "all limits that have none of their own") {
		t.Errorf("set: said %q", said)
	}
	if said := must(t, "", "throttle", "unset", "--broker", "--level", "topic"); !strings.Contains(said, "period of 1m0s stays") {
		t.Errorf("unset: said %q", said)
	}
	want := []limitPolicy{{Scope: "broker", Level: "broker", Messages: 5, Bytes: -1, PeriodSeconds: 60}}
	if got := listLimits(t); !slices.Equal(got, want) {
		t.Errorf("listed %+v", got)
	}
}

// What is set for the broker alone counts before what `throttle set --broker` sets, and what it was started with stays when that is taken back: both are
// told, and not that there was no limit.
func TestThrottleBrokerSettingsFromElsewhere(t *testing.T) {
	startThisBroker(t, "dispatch.throttling.rate.in.msg=6")
	const started = "dispatch.throttling.rate.in.msg=6 is what the broker was started with"
	if said := must(t, "", "throttle", "unset", "--broker"); !strings.Contains(said, "at most 6 messages in each period") || !strings.Contains(said, started) {
		t.Errorf("unset: said %q", said)
	}
	if said := must(t, "", "throttle", "set", "--broker", "-m", "9"); strings.TrimSpace(said) != "broker: the broker dispatches at most 9 messages in each period of 1s" {
		t.Errorf("set: said %q", said)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("SLUICE_BOOTSTRAP_SERVER")))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	value := "1"
	responses, err := kadm.NewClient(client).AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Name: "dispatch.throttling.rate.in.msg", Value: &value}}, 1)
	if err != nil || responses[0].Err != nil {
		t.Fatal(err, responses)
	}
	for _, args := range []string{"set --broker -m 10", "unset --broker"} {
		said := must(t, "", append([]string{"throttle"}, strings.Fields(args)...)...)
		if !strings.Contains(said, "at most 1 message in each period") || !strings.Contains(said, "dispatch.throttling.rate.in.msg=1 is set for broker 1 alone") {
			t.Errorf("%s: said %q", args, said)
		}
	}
}

// A name that would break a table's line is quoted, and is itself in JSON.
func TestThrottleOddNames(t *testing.T) {
	startThisBroker(t)
	for _, name := range []string{"a\nb\x1b[2J", "gr=\u00fcp, \"x\" \u00e4.b", "='\\"} {
		must(t, "", "throttle", "set", "--group", name, "-m", "1")
		if got := listLimits(t); len(got) != 1 || got[0].Name != name {
			t.Errorf("%q: listed %+v", name, got)
		}
		table := must(t, "", "throttle", "list")
		if strings.Count(table, "\n") != 2 || strings.Contains(table, "\x1b") {
			t.Errorf("%q: table\n%q", name, table)
		}
		must(t, "", "throttle", "unset", "--group", name)
	}
}

func TestByteSize(t *testing.T) {
	for text, want := range map[string]byteSize{"0": 0, "17": 17, "5B": 5, "2kB": 2000, "2KB": 2000, "3MiB": 3 << 20, "1GB": 1e9, "2TB": 2e12, "1TiB": 1 << 40} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "B", "-1", "1.5MB", "1 PB", "MB1", "9223372036854775807kB"} {
		if got := new(byteSize); got.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q became %d", text, *got)
		}
	}
}
