package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func dispatchOf(t *testing.T, l Layers) Dispatch {
	t.Helper()
	b, err := NewBroker(l)
	if err != nil {
		t.Fatal(err)
	}
	return b.Dispatch
}

// A source that sets one of a level's settings supplies all of them: what it leaves unset is no limit, or the broker's period.
func TestPoliciesCountAsAWhole(t *testing.T) {
	const s = time.Second
	none := Policy{}
	for _, c := range []struct {
		topic, static string
		want          Policies
	}{
		{"", "", Policies{}},
		{"", "dispatch.throttling.rate.per.topic.in.msg=5", Policies{}},
		{"dispatch.throttling.rate.in.msg=10", "", Policies{Policy{10, -1, s, true}, none}},
		{"dispatch.throttling.rate.in.msg=10", "ratePeriodInSecond=60 dispatch.throttling.rate.per.topic.in.byte=7", Policies{Policy{10, -1, 60 * s, true}, none}},
		{"dispatch.throttling.rate.in.byte=10 dispatch.throttling.rate.period.seconds=86400", "", Policies{Policy{-1, 10, 86400 * s, true}, none}},
		{"dispatch.throttling.rate.period.seconds=2", "", Policies{Policy{-1, -1, 2 * s, true}, none}},
		{"dispatch.throttling.rate.in.msg=-1", "dispatch.throttling.rate.per.topic.in.msg=5", Policies{Policy{-1, -1, s, true}, none}},
		{"dispatch.throttling.rate.in.msg=0", "", Policies{Policy{-1, -1, s, true}, none}},
		{"dispatch.throttling.rate.in.msg=-9223372036854775808", "", Policies{Policy{-1, -1, s, true}, none}},
		{"dispatch.throttling.rate.in.msg=9223372036854775807", "", Policies{Policy{9223372036854775807, -1, s, true}, none}},
		{"subscription.dispatch.throttling.rate.in.msg=3 subscription.dispatch.throttling.rate.in.byte=4", "", Policies{none, Policy{3, 4, s, true}}},
		{"dispatchThrottlingRateInMsg=1 subscription.ratePeriodInSecond=9", "", Policies{Policy{1, -1, s, true}, Policy{-1, -1, 9 * s, true}}},
	} {
		got, err := NewTopic(Layers{Topic: pairs(c.topic), Static: pairs(c.static)})
		if err != nil || got.Dispatch != c.want {
			t.Errorf("%q over %q: %+v, %v; want %+v", c.topic, c.static, got, err, c.want)
		}
	}
	g, err := NewGroup(Layers{Group: pairs("dispatch.throttling.rate.in.byte=5"), Static: pairs("ratePeriodInSecond=3")})
	if want := (Policy{-1, 5, 3 * s, true}); err != nil || g.Dispatch != want {
		t.Errorf("%+v, %v; want %+v", g, err, want)
	}
	if g, err := NewGroup(Layers{Group: pairs("consumer.session.timeout.ms=50000")}); err != nil || g.Dispatch.Set {
		t.Errorf("%+v, %v", g, err)
	}
}

// The broker's own settings, of all layers, by their names and aliases.
func TestDispatch(t *testing.T) {
	d := dispatchOf(t, Layers{
		Static:         pairs("dispatchThrottlingRateInMsg=1 dispatchThrottlingRateInByte=2 dispatchThrottlingRatePerTopicInMsg=3 ratePeriodInSecond=60"),
		DynamicDefault: pairs("dispatch.throttling.rate.per.topic.in.byte=4 dispatch.throttling.rate.per.subscription.in.msg=5"),
		Dynamic:        pairs("dispatch.throttling.rate.in.msg=0 dispatch.throttling.rate.per.subscription.in.byte=6 dispatch.throttling.exempt.client.ids=a,b"),
	})
	want := dispatchOf(t, Layers{})
	minute := 60 * time.Second
	want.Broker, want.PerTopic, want.PerSubscription = Policy{-1, 2, minute, true}, Policy{3, 4, minute, true}, Policy{5, 6, minute, true}
	want.ExemptClientIDs = []string{"a", "b"}
	if got, want := fmt.Sprintf("%+v", d), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for _, c := range []struct{ static, want string }{
		{"dispatch.throttling.rate.in.msg=9223372036854775808", "setting dispatch.throttling.rate.in.msg cannot be \"9223372036854775808\": it must be a whole number that fits in 64 bits"},
		{"dispatchThrottlingRateInByte=fast", "setting dispatch.throttling.rate.in.byte cannot be \"fast\": it must be a whole number"},
		{"dispatch.throttling.rate.in.msg=1.5", "a whole number"},
		{"dispatch.throttling.rate.in.msg=", "a whole number"},
		{"ratePeriodInSecond=0", "a whole number from 1 to 86400"},
		{"ratePeriodInSecond=86401", "a whole number from 1 to 86400"},
		{"dispatcherMaxReadBatchSize=0", "of at least 1"},
		{"dispatch.throttling.max.debt.periods=0", "of at least 1, or -1"},
		{"dispatch.throttling.unresolved.subscription=all", "one of client-id, connection, shared, none"},
		{"dispatch.throttling.exempt.client.ids=a,", "a list of client ids"},
		{"dispatch.throttling.exempt.principals=alice", "a list of User:name"},
		{"namespace.delimiter=", "ASCII letters"},
		{"namespace.delimiter=/", "ASCII letters"},
	} {
		if _, err := NewBroker(Layers{Static: pairs(c.static)}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.static, err, c.want)
		}
	}
}

// Messages of each batch or batches: the two exclude each other over all layers, whichever of their names is used.
func TestCountingModesExcludeEachOther(t *testing.T) {
	const precise, batches = "dispatch.throttling.precise.flow.control", "dispatch.throttling.on.batch.message.enabled"
	for _, c := range []struct {
		static, dynamicDefault, dynamic string
		ok                              bool
	}{
		{precise + "=true", "", "", true},
		{"", batches + "=true", "", true},
		{precise + "=true " + batches + "=true", "", "", false},
		{"preciseDispatcherFlowControl=true dispatchThrottlingOnBatchMessageEnabled=TRUE", "", "", false},
		{precise + "=true " + batches + "=false", "", "", true},
		{precise + "=true", batches + "=true", "", false},
		{precise + "=true", "", batches + "=true", false},
		{"", precise + "=true", batches + "=true", false},
		{precise + "=true", precise + "=false " + batches + "=true", "", true},
		{precise + "=true", batches + "=true", precise + "=false", true},
		{precise + "=true", precise + "=false " + batches + "=true", precise + "=true", false},
		{"", precise + "=true " + batches + "=true", batches + "=false", true},
	} {
		l := Layers{Static: pairs(c.static), DynamicDefault: pairs(c.dynamicDefault), Dynamic: pairs(c.dynamic)}
		b, err := NewBroker(l)
		switch {
		case c.ok && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.ok && b.Dispatch.Precise == b.Dispatch.OnBatches:
			t.Errorf("%+v: %+v", c, b.Dispatch)
		case !c.ok && err == nil:
			t.Errorf("%+v: accepted", c)
		}
		for _, part := range []string{precise, batches, "preciseDispatcherFlowControl", "dispatchThrottlingOnBatchMessageEnabled"} {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%+v: %v does not name %s", c, err, part)
			}
		}
	}
	_, err := NewBroker(Layers{Static: pairs(precise + "=true"), DynamicDefault: pairs(batches + "=true")})
	if want := "true by the dynamic default of all brokers"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say %q", err, want)
	}
}

func TestNamespaceKeys(t *testing.T) {
	long := strings.Repeat("n", maxNamespaceBytes)
	for _, c := range []struct {
		scope      Scope
		key, value string
		want       string // the canonical name, or part of the error
	}{
		{ScopeDefault, "namespace.a.dispatch.throttling.rate.in.msg", "5", "namespace.a.dispatch.throttling.rate.in.msg"},
		{ScopeDefault, "namespace.a.b-c_d.dispatchThrottlingRateInByte", "0", "namespace.a.b-c_d.dispatch.throttling.rate.in.byte"},
		{ScopeDefault, "namespace.orders.eu.subscription.dispatch.throttling.rate.in.msg", "50", "namespace.orders.eu.subscription.dispatch.throttling.rate.in.msg"},
		{ScopeDefault, "namespace.orders.subscription.ratePeriodInSecond", "50", "namespace.orders.subscription.dispatch.throttling.rate.period.seconds"},
		{ScopeDefault, "namespace.subscription.dispatch.throttling.rate.in.msg", "50", "namespace.subscription.dispatch.throttling.rate.in.msg"},
		{ScopeDefault, "namespace.namespace.dispatch.throttling.rate.in.msg", "50", "namespace.namespace.dispatch.throttling.rate.in.msg"},
		{ScopeDefault, "namespace." + long + ".dispatch.throttling.rate.in.msg", "1", "namespace." + long + ".dispatch.throttling.rate.in.msg"},
		{ScopeDefault, "dispatchThrottlingRateInMsg", "5", "dispatch.throttling.rate.in.msg"},
		{ScopeDefault, "namespace.delimiter", "-", "namespace.delimiter"},
		{ScopeDefault, "log.retention.ms", "5", "log.retention.ms"},

		{ScopeDefault, "namespace.a.dispatch.throttling.rate.in.msg", "x", "setting namespace.a.dispatch.throttling.rate.in.msg cannot be \"x\""},
		{ScopeDefault, "namespace.a.dispatch.throttling.rate.period.seconds", "0", "from 1 to 86400"},
		{ScopeDefault, "namespace." + long + "n.dispatch.throttling.rate.in.msg", "1", "is no namespace"},
		{ScopeDefault, "namespace.a/b.dispatch.throttling.rate.in.msg", "1", "\"a/b\" is no namespace"},
		{ScopeDefault, "namespace..dispatch.throttling.rate.in.msg", "1", "\"\" is no namespace"},
		{ScopeDefault, "namespace.dispatch.throttling.rate.in.msg", "1", "unknown setting \"namespace.dispatch.throttling.rate.in.msg\" of a namespace"},
		{ScopeDefault, "namespace.a.retention.ms", "1", "unknown setting \"namespace.a.retention.ms\" of a namespace"},
		{ScopeDefault, "namespace.a.dispatch.throttling.rate.per.topic.in.msg", "1", "unknown setting"},
		{ScopeDefault, "retention.ms", "1", "for all of them use log.retention.ms"},
		{ScopeBroker, "namespace.a.dispatch.throttling.rate.in.msg", "5", "it is set on the BROKER resource with the empty name"},
		{ScopeTopic, "namespace.a.dispatch.throttling.rate.in.msg", "5", "here use dispatch.throttling.rate.in.msg"},
		{ScopeGroup, "namespace.a.dispatch.throttling.rate.in.msg", "5", "unknown group setting"},
		{ScopeTopic, "dispatch.throttling.rate.per.subscription.in.msg", "5", "use subscription.dispatch.throttling.rate.in.msg"},
		{ScopeBroker, "subscription.dispatch.throttling.rate.in.msg", "5", "for all of them use dispatch.throttling.rate.per.subscription.in.msg"},
		{ScopeTopic, "dispatch.throttling.rate.in.msgs", "5", "nearest known one is dispatch.throttling.rate.in.msg;"},
	} {
		name, ok := Canonical(c.scope, c.key)
		err := Validate(c.scope, c.key, c.value)
		if err == nil && (!ok || name != c.want) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %s=%s: %q, %v; want %q", c.scope, c.key, c.value, name, err, c.want)
		}
		if ok && !Live(c.scope, c.key) && err == nil {
			t.Errorf("%s is not live", c.key)
		}
	}
}

// The snapshot has all namespaces, the longest prefix first.
func TestNamespaces(t *testing.T) {
	d := dispatchOf(t, Layers{
		Static: pairs("ratePeriodInSecond=7"),
		DynamicDefault: pairs("namespace.a.dispatch.throttling.rate.in.msg=1 namespace.b.subscription.dispatch.throttling.rate.in.byte=2 " +
			"namespace.a.b.dispatch.throttling.rate.in.msg=-5 namespace.a.b.subscription.dispatch.throttling.rate.period.seconds=9"),
		Dynamic: pairs("namespace.c.dispatch.throttling.rate.in.msg=1"), // not from here
	})
	const s = time.Second
	want := []Namespace{
		{"a.b", Policies{Policy{-1, -1, 7 * s, true}, Policy{-1, -1, 9 * s, true}}},
		{"a", Policies{Policy{1, -1, 7 * s, true}, Policy{}}},
		{"b", Policies{Policy{}, Policy{-1, 2, 7 * s, true}}},
	}
	if got := fmt.Sprint(d.Namespaces); got != fmt.Sprint(want) {
		t.Errorf("%s\nwant %v", got, want)
	}
	many := map[string]string{}
	for i := range maxNamespaces {
		many[fmt.Sprintf("namespace.n%d.dispatch.throttling.rate.in.msg", i)] = "1"
	}
	if d := dispatchOf(t, Layers{DynamicDefault: many}); len(d.Namespaces) != maxNamespaces {
		t.Errorf("%d namespaces", len(d.Namespaces))
	}
	many["namespace.more.dispatch.throttling.rate.in.msg"] = "1"
	if _, err := NewBroker(Layers{DynamicDefault: many}); err == nil || !strings.Contains(err.Error(), "at most 1000 may have some") {
		t.Errorf("too many: %v", err)
	}
}

func TestInNamespace(t *testing.T) {
	for _, c := range []struct {
		topic, prefix, delimiter string
		want                     bool
	}{
		{"a", "a", ".", true}, {"a.b", "a", ".", true}, {"a.b.t", "a.b", ".", true}, {"ab", "a", ".", false}, {"a_b", "a", ".", false},
		{"a_b", "a", "_", true}, {"a", "a.b", ".", false}, {"a..b", "a.", ".", true}, {"a.", "a", ".", true}, {"a--b", "a", "--", true}, {"a-b", "a", "--", false},
	} {
		if got := InNamespace(c.topic, c.prefix, c.delimiter); got != c.want {
			t.Errorf("%s in %s with %q: %v", c.topic, c.prefix, c.delimiter, got)
		}
	}
}

// What a topic's settings are described as is what is in force, with its source; the next synonym is what would be in force without it.
func TestDescribePolicies(t *testing.T) {
	const msg, byt, period = "dispatch.throttling.rate.in.msg", "dispatch.throttling.rate.in.byte", "dispatch.throttling.rate.period.seconds"
	l := Layers{TopicName: "a.b.t", Static: pairs("ratePeriodInSecond=7 dispatchThrottlingRatePerTopicInMsg=1")}
	expect := func(when string, want map[string]string) {
		t.Helper()
		for key, line0 := range want {
			if got := line(entryOf(t, DescribeTopic(l), key)); got != line0 {
				t.Errorf("%s: %s is %s, want %s", when, key, got, line0)
			}
		}
	}
	expect("broker", map[string]string{
		msg:    "1 4 dispatch.throttling.rate.per.topic.in.msg=1(4) dispatch.throttling.rate.per.topic.in.msg=-1(5)",
		byt:    "-1 5 dispatch.throttling.rate.per.topic.in.byte=-1(5)",
		period: "7 4 dispatch.throttling.rate.period.seconds=7(4) dispatch.throttling.rate.period.seconds=1(5)",
	})
	l.DynamicDefault = pairs("namespace.a.dispatch.throttling.rate.in.msg=20 namespace.a.b.dispatch.throttling.rate.in.byte=300 namespace.a.b.dispatch.throttling.rate.period.seconds=5 " +
		"namespace.c.dispatch.throttling.rate.in.msg=9 namespace.a.b.subscription.dispatch.throttling.rate.in.msg=4")
	expect("namespaces", map[string]string{
		msg:    "-1 5 dispatch.throttling.rate.in.msg=-1(5)",
		byt:    "300 3 namespace.a.b.dispatch.throttling.rate.in.byte=300(3) dispatch.throttling.rate.in.byte=-1(5)",
		period: "5 3 namespace.a.b.dispatch.throttling.rate.period.seconds=5(3) dispatch.throttling.rate.period.seconds=7(4) dispatch.throttling.rate.period.seconds=1(5)",
		"subscription." + msg: "4 3 namespace.a.b.subscription.dispatch.throttling.rate.in.msg=4(3) " +
			"dispatch.throttling.rate.per.subscription.in.msg=-1(5)",
	})
	l.Topic = pairs(msg + "=0")
	expect("topic", map[string]string{
		msg:    "-1 1 dispatch.throttling.rate.in.msg=-1(1) dispatch.throttling.rate.in.msg=-1(5)",
		byt:    "-1 5 dispatch.throttling.rate.in.byte=-1(5)",
		period: "7 4 dispatch.throttling.rate.period.seconds=7(4) dispatch.throttling.rate.period.seconds=1(5)",
	})
	if got := line(entryOf(t, DescribeGroup(Layers{Group: pairs(byt + "=8")}), byt)); got != "8 8 dispatch.throttling.rate.in.byte=8(8)" {
		t.Error(got)
	}
	if got := line(entryOf(t, DescribeGroup(Layers{}), msg)); got != "-1 5" {
		t.Error(got)
	}
	for _, entries := range [][]Entry{DescribeBrokerDefault(l), DescribeBroker(l)} {
		e := entryOf(t, entries, "namespace.a.b.dispatch.throttling.rate.in.byte")
		if line(e) != "300 3 namespace.a.b.dispatch.throttling.rate.in.byte=300(3)" || e.ReadOnly || e.Type != int8(kindLong) || !strings.HasPrefix(e.Doc, "For the topics of the namespace: the most bytes") {
			t.Errorf("%+v", e)
		}
	}
}

// A namespace's key is taken apart as it was put together, and a topic finds the namespaces that it is in.
func TestNamespaceProperties(t *testing.T) {
	var names []string
	for _, p := range []*policy{topicPolicy, subscriptionPolicy} {
		for _, r := range p.rows() {
			for name := range r.names() {
				names = append(names, name)
			}
		}
	}
	prefixes := rapid.StringMatching(`[ab.]{1,4}|(a\.)?(b|subscription|namespace|dispatch\.throttling\.rate)(\.a)?`)
	rapid.Check(t, func(t *rapid.T) {
		prefix := prefixes.Draw(t, "prefix")
		name := rapid.SampledFrom(names).Draw(t, "name")
		got, r := cutNamespaceKey(namespaceKey(prefix, name))
		if ends := strings.HasSuffix("."+prefix, ".subscription") && !strings.HasPrefix(name, "subscription."); r == nil {
			t.Fatalf("%q %q is no key", prefix, name)
		} else if (got != prefix || find(ScopeTopic, name) != r) && !(ends && prefix != "subscription") {
			t.Fatalf("%q %q is read as %q %q", prefix, name, got, r.name)
		}
		topic := rapid.StringMatching(`[ab.]{1,6}`).Draw(t, "topic")
		delimiter := rapid.SampledFrom([]string{".", "a", "a.", ".."}).Draw(t, "delimiter")
		l := Layers{DynamicDefault: map[string]string{keyDelimiter: delimiter}}
		for _, p := range rapid.SliceOfN(rapid.StringMatching(`[ab.]{1,4}`), 0, 6).Draw(t, "prefixes") {
			l.DynamicDefault[namespaceKey(p, topicPolicy.bytes.name)] = "1"
		}
		var want []string
		for _, p := range l.namespaces() {
			if InNamespace(topic, p, delimiter) {
				want = append(want, p)
			}
		}
		if got := l.namespacesOf(topic); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q is in %q, want %q", topic, got, want)
		}
	})
}

// A setting may be given by any of its names, and once.
func TestByName(t *testing.T) {
	got, err := ByName(map[string]string{"ratePeriodInSecond": "5", "num.partitions": "2", "no.such": "x"})
	if err != nil || fmt.Sprint(got) != "map[dispatch.throttling.rate.period.seconds:5 no.such:x num.partitions:2]" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ByName(map[string]string{"ratePeriodInSecond": "5", "dispatch.throttling.rate.period.seconds": "5"}); err == nil ||
		err.Error() != "dispatch.throttling.rate.period.seconds and ratePeriodInSecond are one setting; give it once" {
		t.Error(err)
	}
}
