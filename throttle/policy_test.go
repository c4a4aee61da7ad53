package throttle

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

// msgs is a policy of messages alone.
func msgs(n int64) Policy { return Policy{Messages: PerPeriod(n)} }

// What holds for the subscription level as its sources come and go: the group's policy, the topic's, the namespace's, the broker's.
func TestPrecedence(t *testing.T) {
	all := func() (Settings, Policies) {
		return Settings{
			Subscription: msgs(10),
			Namespaces:   map[string]Policies{"orders": {Subscription: msgs(20)}},
			Groups:       map[string]Policy{"g": msgs(40)},
		}, Policies{Subscription: msgs(30)}
	}
	for _, c := range []struct {
		name   string
		change func(*Settings, *Policies)
		source Source
		limit  int64
	}{
		{"all set", func(*Settings, *Policies) {}, FromGroup, 40},
		{"no group", func(s *Settings, _ *Policies) { s.Groups = nil }, FromTopic, 30},
		{"no group, no topic", func(s *Settings, p *Policies) { s.Groups = nil; *p = Policies{} }, FromNamespace, 20},
		{"only the broker", func(s *Settings, p *Policies) { s.Groups, s.Namespaces, *p = nil, nil, Policies{} }, FromBroker, 10},
		{"nothing", func(s *Settings, p *Policies) { *s, *p = Settings{}, Policies{} }, NoSource, Unlimited},
		{"the group says unlimited", func(s *Settings, _ *Policies) { s.Groups["g"] = msgs(-1) }, FromGroup, Unlimited},
		{"the topic says unlimited", func(s *Settings, p *Policies) { s.Groups, *p = nil, Policies{Subscription: msgs(-1)} }, FromTopic, Unlimited},
		{"the topic says zero", func(s *Settings, p *Policies) { s.Groups, *p = nil, Policies{Subscription: msgs(0)} }, FromTopic, Unlimited},
		{"the topic speaks of its own level only", func(s *Settings, p *Policies) { s.Groups, *p = nil, Policies{Topic: msgs(500)} }, FromNamespace, 20},
		{"the group's policy says nothing", func(s *Settings, _ *Policies) { s.Groups["g"] = Policy{} }, FromTopic, 30},
	} {
		settings, own := all()
		c.change(&settings, &own)
		th := New(func(Instant) {})
		topic := th.Topic("orders.eu")
		// The limits were others before: what is set now must take the place of what is in force.
		before, beforeOwn := all()
		th.Configure(before, 0)
		topic.Configure(beforeOwn, 0)
		topic.Path(0, "g", 0)
		th.Configure(settings, 0)
		topic.Configure(own, 0)

		got := topic.Explain(0, "g", 0).Levels[SubscriptionLevel]
		if got.Source != c.source || got.Counters[messages].Limit != c.limit {
			t.Errorf("%s: %d from %v, want %d from %v", c.name, got.Counters[messages].Limit, got.Source, c.limit, c.source)
		}
		path := topic.Path(0, "g", 0)
		plan, _, _ := path.Plan(Cost{}, 0)
		if want := cmpLimit(c.limit); plan.left[messages] != want {
			t.Errorf("%s: a fetch is allowed %d, want %d", c.name, plan.left[messages], want)
		}
	}
}

// The sources are taken away one by one while a consumer reads: each time the next one holds from the next fetch on.
func TestSourcesGoOneByOne(t *testing.T) {
	s := Settings{Subscription: msgs(10), Namespaces: map[string]Policies{"orders": {Subscription: msgs(20)}}, Mode: Precise}
	w := newWorld(s)
	topic := w.th.Topic("orders.eu")
	topic.Configure(Policies{Subscription: msgs(30)}, 0)
	x := w.client(client{topic: topic, group: "g"})
	const ms = time.Millisecond
	w.at(after(1999*ms), func() { topic.Configure(Policies{}, w.now) })
	w.at(after(3999*ms), func() { s.Namespaces = nil; w.th.Configure(s, w.now) })
	w.at(after(5500*ms), func() { topic.Configure(Policies{Subscription: msgs(-1)}, w.now) })
	w.at(after(5990*ms), func() { topic.Configure(Policies{}, w.now) })
	w.run(7 * time.Second)
	got := x.windows(7, time.Second)
	if unlimited := got[5] - 10; !slices.Equal(append(got[:5:5], got[6]), []int64{30, 30, 20, 20, 10, 10}) || unlimited < 400*int64(x.most) {
		t.Errorf("got %v", got)
	}
}

// cmpLimit is what a plan may hold in a window with a limit that nothing was taken from.
func cmpLimit(limit int64) int64 {
	if limit == Unlimited {
		return noLimit
	}
	return limit
}

func TestTheRecordWinsWhole(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{
		Topic:      Policy{Messages: PerPeriod(1), Bytes: PerPeriod(1), Period: time.Hour},
		Namespaces: map[string]Policies{"a": {Topic: Policy{Bytes: PerPeriod(500)}}},
		Period:     3 * time.Second,
	}, 0)
	topic := th.Topic("a.b")
	topic.Configure(Policies{Topic: msgs(7)}, 0)
	l := topic.Explain(0, "g", 0).Levels[TopicLevel]
	path := topic.Path(0, "g", 0)
	if plan, _, ok := path.Plan(Cost{}, 0); !ok || plan.left != (Cost{7, noLimit}) {
		t.Errorf("a fetch is allowed %v, %v", plan.left, ok)
	}
	if l.Counters[messages].Limit != 7 || l.Counters[bytes].Limit != Unlimited || l.Period != 3*time.Second {
		t.Errorf("%+v: want 7 messages, bytes without limit, and the broker's period", l)
	}
}

func TestLongestNamespaceWins(t *testing.T) {
	s := Settings{Namespaces: map[string]Policies{
		"a":     {Topic: msgs(1), Subscription: msgs(10)},
		"a.b":   {Topic: msgs(2)},
		"a.b.c": {},
	}}
	for _, c := range []struct {
		topic     string
		prefix    string // that the topic level comes from
		subPrefix string
	}{
		{"a.b.t", "a.b", "a"}, {"a.b", "a.b", "a"}, {"a.b.c.d", "a.b", "a"}, {"a.c", "a", "a"}, {"a", "a", "a"},
		{"ab", "", ""}, {"a.bc", "a", "a"}, {"b.a", "", ""}, {"a-b", "", ""}, {".a", "", ""},
	} {
		th := New(func(Instant) {})
		th.Configure(s, 0)
		l := th.Topic(c.topic).Explain(0, "g", 0).Levels
		if l[TopicLevel].Namespace != c.prefix || l[SubscriptionLevel].Namespace != c.subPrefix {
			t.Errorf("%s: %q and %q, want %q and %q", c.topic, l[TopicLevel].Namespace, l[SubscriptionLevel].Namespace, c.prefix, c.subPrefix)
		}
	}
	th := New(func(Instant) {})
	s.Delimiter = "-"
	th.Configure(s, 0)
	if got := th.Topic("a-b").Explain(0, "g", 0).Levels[TopicLevel].Namespace; got != "a" {
		t.Errorf("with another delimiter a-b is in %q", got)
	}
}

func TestModeOf(t *testing.T) {
	on, off := true, false
	for _, c := range []struct {
		name   string
		layers []Flags // the most specific first
		want   Mode
		err    error
	}{
		{"nothing", nil, Approximate, nil},
		{"precise", []Flags{{Precise: &on}}, Precise, nil},
		{"batches", []Flags{{Batches: &on}}, Batches, nil},
		{"both in one layer", []Flags{{Precise: &on, Batches: &on}}, Approximate, ErrBothModes},
		{"both over two layers", []Flags{{Batches: &on}, {Precise: &on}}, Approximate, ErrBothModes},
		{"and over three", []Flags{{}, {Batches: &on}, {Precise: &on}}, Approximate, ErrBothModes},
		{"one off, the other on", []Flags{{Precise: &off, Batches: &on}, {Precise: &on}}, Batches, nil},
		{"an override removed", []Flags{{Batches: &on}, {}, {Precise: &on}}, Approximate, ErrBothModes},
		{"hidden by the most specific", []Flags{{Precise: &off}, {Precise: &on, Batches: &on}}, Batches, nil},
	} {
		if got, err := ModeOf(c.layers...); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, got, err, c.want, c.err)
		}
	}
}

func TestExempt(t *testing.T) {
	th := New(func(Instant) {})
	if th.Exempt("User:ann", "app") {
		t.Error("exempt without settings")
	}
	th.Configure(Settings{ExemptPrincipals: []string{"User:ann"}, ExemptClients: []string{"mirror"}}, 0)
	for _, c := range []struct {
		principal, client string
		want              bool
	}{{"User:ann", "app", true}, {"User:bob", "mirror", true}, {"User:bob", "app", false}, {"mirror", "User:ann", false}, {"", "", false}} {
		if got := th.Exempt(c.principal, c.client); got != c.want {
			t.Errorf("%+v is %v", c, got)
		}
	}
}

func TestStrictest(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Subscription: Policy{Bytes: PerPeriod(10)}, Groups: map[string]Policy{
		"minute": {Messages: PerPeriod(120), Period: time.Minute}, "second": msgs(3), "free": msgs(-1), "bytes": {Bytes: PerPeriod(5)},
	}}, 0)
	topic := th.Topic("t")
	for _, c := range []struct {
		of   []string
		want string
	}{
		{[]string{"free", "other"}, "other"}, {[]string{"second", "minute"}, "minute"}, {[]string{"other", "bytes"}, "bytes"},
		{[]string{"bytes", "second"}, "second"}, {[]string{"x", "y"}, "x"}, {nil, ""},
	} {
		if got := topic.Strictest(c.of...); got != c.want {
			t.Errorf("of %v it is %q", c.of, got)
		}
	}
}

// Without a limit nothing is kept.
func TestNoLimitsNoBuckets(t *testing.T) {
	th := New(func(Instant) {})
	topic := th.Topic("t")
	for _, s := range []Settings{{}, {Topic: msgs(-1), Groups: map[string]Policy{"g": msgs(0)}}, {Groups: map[string]Policy{"other": msgs(5)}}} {
		th.Configure(s, 0)
		path := topic.Path(3, "g", 0)
		if path.Limited() || topic.find(3) != nil {
			t.Errorf("%+v made a bucket", s)
		}
		plan, _, ok := path.Plan(Cost{}, 0)
		if !ok || !plan.Add(math.MaxInt32, math.MaxInt32) {
			t.Error("something limits")
		}
	}
}
