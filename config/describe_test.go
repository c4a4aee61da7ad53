package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// line writes an entry as "value source ro synonym=value(source) ...".
func line(e Entry) string {
	s := fmt.Sprintf("%s %d", str(e.Value), e.Source)
	if e.ReadOnly {
		s += " ro"
	}
	for _, y := range e.Synonyms {
		s += fmt.Sprintf(" %s=%s(%d)", y.Name, str(y.Value), y.Source)
	}
	return s
}

func str(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func entryOf(t *testing.T, entries []Entry, name string) Entry {
	t.Helper()
	for _, e := range entries {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("%s is not described", name)
	return Entry{}
}

// The expectations are what Apache Kafka 4.4.0 answers, save that it lists no synonyms of retention.ms while
// log.retention.ms is not set.
func TestDescribe(t *testing.T) {
	l := Layers{
		Static:         pairs("log.retention.hours=24 log.segment.bytes=2097152 num.partitions=3 message.max.bytes=1000"),
		DynamicDefault: pairs("message.max.bytes=3000000"),
		Dynamic:        pairs("log.flush.interval.ms=7"),
		Topic:          pairs("max.message.bytes=2000000 preallocate=TRUE cleanup.policy=compact,compact,delete"),
		Group:          pairs("consumer.session.timeout.ms=46000"),
		Stated:         pairs("listeners=PLAINTEXT://127.0.0.1:9092"),
	}
	withMs := l
	withMs.Dynamic = pairs("log.retention.ms=1000000000")
	for _, c := range []struct {
		entries []Entry
		name    string
		want    string
	}{
		{DescribeTopic(l), "cleanup.policy", "compact,delete 1 cleanup.policy=compact,delete(1) log.cleanup.policy=delete(5)"},
		{DescribeTopic(l), "max.message.bytes", "2000000 1 max.message.bytes=2000000(1) message.max.bytes=3000000(3) message.max.bytes=1000(4) message.max.bytes=1048588(5)"},
		{DescribeTopic(l), "preallocate", "true 1 preallocate=true(1) log.preallocate=false(5)"},
		{DescribeTopic(l), "segment.bytes", "2097152 4 log.segment.bytes=2097152(4) log.segment.bytes=1073741824(5)"},
		{DescribeTopic(l), "retention.ms", "86400000 4 log.retention.hours=24(4) log.retention.hours=168(5)"},
		{DescribeTopic(withMs), "retention.ms", "1000000000 2 log.retention.ms=1000000000(2) log.retention.hours=24(4) log.retention.hours=168(5)"},
		{DescribeTopic(l), "flush.ms", "7 2 log.flush.interval.ms=7(2) log.flush.scheduler.interval.ms=9223372036854775807(5)"},
		{DescribeTopic(l), "remote.storage.enable", "false 5"},
		{DescribeTopic(l), "follower.replication.throttled.replicas", " 5"},
		{DescribeTopic(l), "min.cleanable.dirty.ratio", "0.5 5 log.cleaner.min.cleanable.ratio=0.5(5)"},
		{DescribeBroker(l), "log.retention.ms", "null 5"},
		{DescribeBroker(withMs), "log.retention.ms", "1000000000 2 log.retention.ms=1000000000(2) log.retention.hours=24(4) log.retention.hours=168(5)"},
		{DescribeBroker(withMs), "log.retention.hours", "24 4 ro log.retention.hours=24(4) log.retention.hours=168(5)"},
		{DescribeBroker(l), "log.retention.minutes", "null 5 ro"},
		{DescribeBroker(l), "num.partitions", "3 4 ro num.partitions=3(4) num.partitions=1(5)"},
		{DescribeBroker(l), "listeners", "PLAINTEXT://127.0.0.1:9092 4 ro listeners=PLAINTEXT://127.0.0.1:9092(4)"},
		{DescribeBroker(Layers{Static: pairs("node.id=7 listeners=x")}), "node.id", "1 5 ro node.id=1(5)"},
		{DescribeBroker(Layers{Static: pairs("node.id=7 listeners=x")}), "listeners", "null 5 ro"},
		{DescribeGroup(l), "consumer.session.timeout.ms", "46000 8 consumer.session.timeout.ms=46000(8) group.consumer.session.timeout.ms=45000(5)"},
	} {
		if got := line(entryOf(t, c.entries, c.name)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestDescribeBrokerDefault(t *testing.T) {
	l := Layers{Static: pairs("num.partitions=3"), DynamicDefault: pairs("message.max.bytes=3000000 log.retention.ms=5 no.such.key=1")}
	var got []string
	for _, e := range DescribeBrokerDefault(l) {
		got = append(got, e.Name+" "+line(e))
	}
	want := []string{"log.retention.ms 5 3 log.retention.ms=5(3)", "message.max.bytes 3000000 3 message.max.bytes=3000000(3)"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestDescribeIsWhole(t *testing.T) {
	for scope, entries := range map[Scope][]Entry{
		ScopeTopic: DescribeTopic(Layers{}), ScopeBroker: DescribeBroker(Layers{}), ScopeGroup: DescribeGroup(Layers{}),
	} {
		if !slices.IsSortedFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s settings are not in order", scope)
		}
		for _, e := range entries {
			if e.Type == 0 || e.Doc == "" || e.Source != SourceDefault || strings.HasPrefix(e.Name, "internal.") || e.ReadOnly == Live(scope, e.Name) {
				t.Errorf("%+v", e)
			}
		}
	}
	internal := Layers{Topic: pairs("internal.segment.bytes=4096")}
	if got := line(entryOf(t, DescribeTopic(internal), "internal.segment.bytes")); got != "4096 1 internal.segment.bytes=4096(1)" {
		t.Error(got)
	}
}

// What is described may be set again, and is then described as a setting of the topic with the same value.
func TestDescribeSetDescribe(t *testing.T) {
	for _, first := range []Layers{{}, {Topic: everything(t)}} {
		again := map[string]string{}
		for _, e := range DescribeTopic(first) {
			if err := Validate(ScopeTopic, e.Name, *e.Value); err != nil {
				t.Errorf("what was described is refused: %v", err)
			}
			again[e.Name] = *e.Value
		}
		for _, e := range DescribeTopic(Layers{Topic: again}) {
			if e.Source != SourceTopic || *e.Value != again[e.Name] {
				t.Errorf("%s was set to %q and is %s", e.Name, again[e.Name], line(e))
			}
		}
	}
}

// everything sets all topic settings to values that are not the default.
func everything(t *testing.T) map[string]string {
	values := map[string]string{}
	for _, r := range settings.declared(ScopeTopic) {
		if !r.internal && r.name != "remote.storage.enable" {
			values[r.name] = *other(t, r, func(v string) (*string, error) { return &v, nil })
		}
	}
	return values
}

func TestDescribeHidesPasswords(t *testing.T) {
	secret := newRegistry(nil, nil, []*row{{name: "s", kind: kindPassword, def: "hidden"}}).find(ScopeBroker, "s")
	l := Layers{Static: map[string]string{"s": "hunter2"}}
	e := l.entry(secret)
	if !e.Sensitive || e.Value != nil || len(e.Synonyms) != 2 || e.Synonyms[0].Value != nil || e.Synonyms[1].Value != nil || e.Source != SourceStatic {
		t.Errorf("%+v", e)
	}
	secret.allow = oneOf("x")
	if _, err := secret.check("hunter2"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the message shows the password: %v", err)
	}
}

// A value that was valid once and is not any more is still shown.
func TestDescribeInvalidValue(t *testing.T) {
	if got := line(entryOf(t, DescribeTopic(Layers{Topic: pairs("segment.bytes=7")}), "segment.bytes")); !strings.HasPrefix(got, "7 1 ") {
		t.Error(got)
	}
}
