package config

import (
	"slices"
	"strings"
	"testing"
)

var allScopes = []Scope{ScopeBroker, ScopeTopic, ScopeGroup}

func eachRow(t *testing.T, f func(t *testing.T, r *row)) {
	for _, scope := range allScopes {
		for _, r := range settings.declared(scope) {
			t.Run(scope.String()+"/"+r.name, func(t *testing.T) { f(t, r) })
		}
	}
}

// Every row says what it means, and its default is a value that it accepts and that reads back as itself.
func TestRowsAreWhole(t *testing.T) {
	eachRow(t, func(t *testing.T, r *row) {
		if !strings.HasSuffix(r.doc, ".") || strings.ContainsAny(r.doc, "|\n") {
			t.Errorf("the documentation %q is no sentence that fits into a table", r.doc)
		}
		if r.kind.String() == "" {
			t.Error("no type")
		}
		if r.unset {
			return
		}
		if err := Validate(r.scope, r.name, r.def); err != nil {
			t.Error(err)
		}
		if got := r.parsedDef.String(); got != r.def {
			t.Errorf("default %q reads back as %q", r.def, got)
		}
	})
}

// A default that is not Kafka's has a reason, and only such a default.
func TestExceptionsHaveReasons(t *testing.T) {
	eachRow(t, func(t *testing.T, r *row) {
		if (r.kafka == "") != (r.why == "") || r.kafka == r.def && r.kafka != "" {
			t.Errorf("default %q, Kafka's %q, reason %q", r.def, r.kafka, r.why)
		}
	})
}

// The broker settings below a topic setting give it the default that it declares, in its own unit.
func TestFallbackDefaultsAgree(t *testing.T) {
	eachRow(t, func(t *testing.T, r *row) {
		v, set, err := Layers{}.effective(r)
		if err != nil || set == r.unset || set && v.String() != r.def {
			t.Errorf("with nothing set: %q, %v, %v; declared is %q", v.String(), set, err, r.def)
		}
	})
}

func TestForeignKeys(t *testing.T) {
	for _, f := range foreign {
		if !slices.IsSorted(f.keys) {
			t.Errorf("the keys of %q are not in order", f.why)
		}
		for _, key := range f.keys {
			if settings.find(ScopeBroker, key) != nil {
				t.Errorf("%s is a setting and foreign", key)
			}
			if why, ok := Ignored(key); !ok || why != f.why {
				t.Errorf("Ignored(%s) = %q, %v", key, why, ok)
			}
			if err := Validate(ScopeBroker, key, "x"); err != nil {
				t.Error(err)
			}
			if Live(ScopeBroker, key) || Validate(ScopeTopic, key, "x") == nil {
				t.Errorf("%s is live, or accepted for a topic", key)
			}
		}
	}
}

func TestIgnored(t *testing.T) {
	for key, want := range map[string]bool{
		"num.io.threads": true, "zookeeper.connect": true, "listeners": true, "node.id": true, "log.preallocate": true,
		"offsets.commit.timeout.ms": true, "group.max.size": false, "group.consumer.min.session.timeout.ms": false, "group.consumer.assignors": false, "listener.name.internal.ssl.keystore.location": true, "config.providers.file.class": true,
		"listener.name.": false, "log.segment.bytes": false, "log.retention.hours": false, "num.partitions": false,
		"sluice.durability": false, "no.such.key": false, "retention.ms": false,
	} {
		if got := Meaningless(key); got != want {
			t.Errorf("Meaningless(%s) = %v", key, got)
		}
	}
}

func TestRegistryRefusesContradictions(t *testing.T) {
	for name, rows := range map[string][]*row{
		"twice":   {{name: "a", kind: kindInt, def: "1"}, {name: "b", aliases: []string{"a"}, kind: kindInt, def: "1"}},
		"default": {{name: "a", kind: kindInt, def: "0", allow: atLeast(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			newRegistry(nil, nil, rows)
		})
	}
}

func TestCanonicalListLive(t *testing.T) {
	aliased := newRegistry(nil, nil, []*row{{name: "a.b", aliases: []string{"aB"}, kind: kindInt, def: "1"}})
	if r := aliased.find(ScopeBroker, "aB"); r == nil || r.name != "a.b" {
		t.Error("an alias does not find its row")
	}
	if raw, ok := lookup(map[string]string{"aB": "7"}, aliased.find(ScopeBroker, "a.b")); !ok || raw != "7" {
		t.Error("a value under an alias is not found")
	}
	if name, ok := Canonical(ScopeTopic, "segment.bytes"); !ok || name != "segment.bytes" {
		t.Errorf("segment.bytes is %q", name)
	}
	if _, ok := Canonical(ScopeTopic, "log.segment.bytes"); ok {
		t.Error("log.segment.bytes is a topic setting")
	}
	if !IsList(ScopeTopic, "cleanup.policy") || IsList(ScopeTopic, "segment.ms") || IsList(ScopeTopic, "none") {
		t.Error("IsList")
	}
	for key, want := range map[string]bool{
		"log.retention.ms": true, "log.retention.hours": false, "num.partitions": false, "sluice.durability": true,
		"message.max.bytes": true, "node.id": false, "no.such.key": false,
	} {
		if got := Live(ScopeBroker, key); got != want {
			t.Errorf("Live(%s) = %v", key, got)
		}
	}
	if !Live(ScopeTopic, "retention.ms") {
		t.Error("retention.ms is not live")
	}
}
