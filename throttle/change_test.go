package throttle

import (
	"slices"
	"testing"
	"time"
)

// What the pace changes to while a window is half over, and what is left then.
func TestChangeOfPace(t *testing.T) {
	type change struct {
		at     time.Duration
		units  int64
		period time.Duration
	}
	const s = time.Second
	for _, c := range []struct {
		name    string
		units   int64
		used    int64
		changes []change
		then    []int64 // taken at 0.9 s, 1.9 s, …
	}{
		{"lowered after half was used", 100, 50, []change{{s / 2, 10, s}}, []int64{0, 10, 10}},
		{"lowered after little was used", 100, 4, []change{{s / 2, 10, s}}, []int64{6, 10, 10}},
		{"raised when it was used up", 10, 10, []change{{s / 2, 100, s}}, []int64{90, 100}},
		{"over-delivery survives lowering", 100, 150, []change{{s / 2, 10, s}}, []int64{0, 0, 0, 0, 0, 0, 10}},
		{"over-delivery fits into the raised limit", 10, 30, []change{{s / 2, 100, s}}, []int64{70, 100}},
		{"over-delivery beyond the raised limit", 10, 130, []change{{s / 2, 100, s}}, []int64{0, 70, 100}},
		{"lowered and raised again", 100, 50, []change{{s / 3, 10, s}, {s / 2, 100, s}}, []int64{50, 100}},
		{"lowered and raised again and again", 100, 100, []change{{s / 5, 10, s}, {s / 4, 100, s}, {s / 3, 1, s}, {s / 2, 100, s}}, []int64{0, 100}},
		{"raised and lowered again", 10, 10, []change{{s / 3, 100, s}, {s / 2, 10, s}}, []int64{0, 10}},
		{"raised, lowered and raised a little", 10, 100, []change{{s / 5, 100, s}, {s / 4, 10, s}, {s / 3, 20, s}}, []int64{0, 20, 20}},
		{"unchanged", 10, 10, []change{{s / 3, 10, s}}, []int64{0, 10}},
		{"a longer period begins where the window began", 10, 10, []change{{s / 2, 10, 3 * s}}, []int64{0, 0, 0, 10, 0, 0, 10}},
		{"a shorter period opens at once if its first window is over", 10, 10, []change{{s / 2, 10, s / 4}}, []int64{10, 10}},
		{"a shorter period pays debts sooner", 10, 40, []change{{s / 5, 10, s / 10}}, []int64{10, 10}},
	} {
		tape := newTestTape(c.units, s)
		tape.take(c.used, 0, 0)
		for _, x := range c.changes {
			tape.set(newPace(x.units, x.period, -1), after(x.at))
		}
		var got []int64
		for i := range c.then {
			got = append(got, tape.drain(after(time.Duration(i)*s+9*s/10)))
		}
		if !slices.Equal(got, c.then) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.then)
		}
	}
}

// A request that waits for a day's window looks again when the limit is raised, or removed, or its period is shortened, and
// finds something.
func TestChangesWakeWhoWaits(t *testing.T) {
	for name, next := range map[string]Settings{
		"raised":    {Topic: Policy{Messages: PerPeriod(20), Period: time.Minute}},
		"deleted":   {},
		"unlimited": {Topic: Policy{Messages: PerPeriod(-1)}},
		"shortened": {Topic: Policy{Messages: PerPeriod(10), Period: time.Second}},
	} {
		next.Mode = Precise
		w := newWorld(Settings{Topic: Policy{Messages: PerPeriod(10), Period: time.Minute}, Mode: Precise})
		x := w.client(client{topic: w.th.Topic("t"), group: "g", wait: 30 * time.Second, most: 10})
		w.at(after(5*time.Second), func() { w.th.Configure(next, w.now) })
		w.run(5*time.Second + 1)
		if n := x.total()[messages]; n != 20 {
			t.Errorf("%s: %d messages, want 20", name, n)
		}
	}
	// The topic's own policy does the same.
	w := newWorld(Settings{Mode: Precise})
	topic := w.th.Topic("t")
	topic.Configure(Policies{Topic: Policy{Messages: PerPeriod(10), Period: time.Minute}}, 0)
	x := w.client(client{topic: topic, group: "g", wait: 30 * time.Second, most: 10})
	w.at(after(5*time.Second), func() { topic.Configure(Policies{}, w.now) })
	w.run(5*time.Second + 1)
	if n := x.total()[messages]; n != 20 {
		t.Errorf("topic: %d messages, want 20", n)
	}
}

// Limits that change between the look that was refused and the wait do not leave the request waiting for what holds no more.
func TestChangeBeforeTheWait(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Topic: msgs(1)}, 0)
	topic := th.Topic("t")
	path := topic.Path(0, "g", 0)
	plan, _, _ := path.Plan(Cost{}, 0)
	plan.Add(1, 1)
	path.Reserve(plan, 0)
	_, refusal, ok := path.Plan(Cost{}, 0)
	if ok {
		t.Fatal("not refused")
	}
	th.Configure(Settings{}, 0)
	var w Watch
	if w.On(refusal, new(bell), 0) {
		t.Error("waits for a limit that is gone")
	}
}

// A limit that is removed takes its debt with it, and comes back as a new one, whether a fetch saw it gone or not.
func TestRemovedLimitForgives(t *testing.T) {
	for _, seen := range []bool{false, true} {
		th := New(func(Instant) {})
		topic := th.Topic("t")
		th.Configure(Settings{Topic: msgs(5), Mode: Precise}, 0)
		for name, change := range map[string][2]func(){
			"settings": {
				func() { th.Configure(Settings{Mode: Precise}, 0) },
				func() { th.Configure(Settings{Topic: msgs(5), Mode: Precise}, 0) },
			},
			"topic": {
				func() { topic.Configure(Policies{Topic: msgs(-1)}, 0) },
				func() { topic.Configure(Policies{}, 0) },
			},
		} {
			reserve(t, topic, "g", 1, Cost{500, 1}, 0)
			change[0]()
			if seen && left(topic, "g", 0) != noLimit {
				t.Errorf("%s: there is still a limit", name)
			}
			change[1]()
			if n := left(topic, "g", 0); n != 5 {
				t.Errorf("%s, seen %v: %d left, want a new allowance", name, seen, n)
			}
		}
	}
}

// A fetch that found its limits just before they went does not bring their counters back.
func TestLateFetchBringsNothingBack(t *testing.T) {
	th := New(func(Instant) {})
	topic := th.Topic("t")
	th.Configure(Settings{Topic: msgs(5), Subscription: msgs(5)}, 0)
	topic.Path(0, "g", 0)
	stale := topic.limits()
	th.Configure(Settings{Subscription: msgs(5)}, 0)
	q := topic.lock(0)
	defer q.mu.Unlock()
	p := Path{who: claimant{topic, 0, "g"}}
	q.path(&p, th, stale, stale.subscription, 0)
	if p.counters[2] != nil || p.counters[4] == nil {
		t.Errorf("counters %v", p.counters)
	}
}

// A tape that has run for long, or whose units are close to no limit at all, is laid anew instead of passing the end of an int64.
func TestTapeDoesNotEnd(t *testing.T) {
	for _, units := range []int64{1, 10, 1 << 40, 1 << 59, maxUnits, 1<<63 - 1} {
		tape := newTestTape(units, time.Second)
		units = min(units, maxUnits)
		for _, d := range []time.Duration{0, time.Second, 3 * time.Second, time.Hour, 100 * 24 * time.Hour, 290 * 365 * 24 * time.Hour} {
			if _, ok := tape.take(units+1, 0, after(d)); !ok {
				t.Errorf("%d units: refused after %v", units, d)
			}
			v := tape.look(after(d))
			if v.balance() != -1 || v.readyAt(after(d)) <= after(d) || v.pos < 0 {
				t.Errorf("%d units: after %v balance %d, ready %d", units, d, v.balance(), v.readyAt(after(d)))
			}
			tape.refund(mark{v.pos, units + 1}, after(d), after(d))
		}
	}
}

func TestDebtBound(t *testing.T) {
	tape := &tape{}
	tape.init(newPace(10, time.Second, 3), 0)
	m, _ := tape.take(1000, 0, 0)
	var got []int64
	for i := range 6 {
		got = append(got, tape.drain(after(time.Duration(i)*time.Second)))
	}
	if want := []int64{0, 0, 0, 0, 10, 10}; !slices.Equal(got, want) || m.n != 40 {
		t.Errorf("charged %d, then %v; want 40, then %v", m.n, got, want)
	}
}

// A debt is paid at the pace that was in force, even if nobody asked while it was.
func TestDebtIsPaidAtThePaceThatWas(t *testing.T) {
	for _, level := range []func(int64) Settings{
		func(n int64) Settings { return Settings{Broker: msgs(n), Mode: Precise} },
		func(n int64) Settings { return Settings{Topic: msgs(n), Mode: Precise} },
		func(n int64) Settings { return Settings{Subscription: msgs(n), Mode: Precise} },
		func(n int64) Settings { return Settings{Groups: map[string]Policy{"g": msgs(n)}, Mode: Precise} },
	} {
		th := New(func(Instant) {})
		topic := th.Topic("t")
		th.Configure(level(100), 0)
		reserve(t, topic, "g", 1, Cost{350, 1}, 0)
		th.Configure(level(1), after(time.Second))
		th.Configure(level(100), after(3*time.Second))
		if n := left(topic, "g", after(3*time.Second)); n != 0 {
			t.Errorf("%d left: 350 messages were paid by 100, 100, 1 and 100", n)
		}
		if n := left(topic, "g", after(4*time.Second)); n == 0 {
			t.Error("still nothing a second after the limit was raised")
		}
	}
}
