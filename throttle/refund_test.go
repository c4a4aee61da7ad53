package throttle

import (
	"testing"
	"time"
)

// reserve plans and takes n batches of the given cost for a group on partition 0, and stops the test if it cannot.
func reserve(t *testing.T, topic *Topic, group string, n int, batch Cost, now Instant) Grant {
	t.Helper()
	path := topic.Path(0, group, now)
	plan, refusal, ok := path.Plan(Cost{}, now)
	if !ok {
		t.Fatalf("refused by %v", refusal.At)
	}
	for range n {
		plan.Add(batch[messages], batch[bytes])
	}
	plan.More = true
	g, refusal, ok := path.Reserve(plan, now)
	if !ok {
		t.Fatalf("refused by %v", refusal.At)
	}
	return g
}

// left is what a group can take of the messages on partition 0.
func left(topic *Topic, group string, now Instant) int64 {
	path := topic.Path(0, group, now)
	plan, _, ok := path.Plan(Cost{}, now)
	if !ok {
		return 0
	}
	return plan.left[messages]
}

// What becomes of a grant when the client's connection dies, early in the same window or later.
func TestRefund(t *testing.T) {
	for _, c := range []struct {
		name     string
		batch    int64
		at       time.Duration // of the refund
		between  int64         // that somebody else takes just before it, if he can
		sameLeft int64         // at once after the refund
		nextLeft int64         // in the window after that
	}{
		{"in the same window", 10, 500 * time.Millisecond, 0, 10, 10},
		{"a debt in the same window", 1000, 500 * time.Millisecond, 0, 10, 10},
		{"what has lapsed is not given back", 10, 1500 * time.Millisecond, 0, 10, 10},
		{"nor to those who took since", 10, 1500 * time.Millisecond, 7, 3, 10},
		{"a debt that still stands", 1000, 1500 * time.Millisecond, 0, 10, 10},
		{"part of a debt, and others took since", 15, 1500 * time.Millisecond, 5, 5, 10},
		{"others went into debt with it", 15, 1500 * time.Millisecond, 9, 1, 10},
	} {
		th := New(func(Instant) {})
		th.Configure(Settings{Topic: msgs(10), Subscription: msgs(10), Broker: msgs(10), Mode: Precise}, 0)
		topic := th.Topic("t")
		g := reserve(t, topic, "g", 1, Cost{c.batch, 1}, 0)
		now := Instant(c.at)
		if c.between > 0 {
			reserve(t, topic, "g", 1, Cost{c.between, 1}, now)
		}
		g.Refund(now)
		if got := left(topic, "g", now); got != c.sameLeft {
			t.Errorf("%s: %d left, want %d", c.name, got, c.sameLeft)
		}
		if got := left(topic, "g", now+Instant(time.Second)); got != c.nextLeft {
			t.Errorf("%s: %d left in the next window, want %d", c.name, got, c.nextLeft)
		}
	}
}

// What is refunded late was somebody else's debt by then, or is under what others took since: it has lapsed.
func TestLateRefundTakesFromNobody(t *testing.T) {
	at := func(n int) Instant { return after(time.Duration(n) * time.Second) }
	tape := newTestTape(10, time.Second)
	a, _ := tape.take(9, 0, at(0))
	b, _ := tape.take(5, 0, at(0))
	tape.refund(a, at(0), at(0))
	tape.take(5, 0, at(0)) // the window has given 10, and owes nothing
	tape.take(4, 0, at(1))
	tape.refund(b, at(0), at(1))
	if n := tape.look(at(1)).balance(); n != 6 {
		t.Errorf("%d left, want 6", n)
	}

	tape = newTestTape(10, time.Second)
	a, _ = tape.take(10, 0, at(0))
	tape.take(30, 0, at(1))
	tape.refund(a, at(0), at(2))
	if n := tape.look(at(2)).balance(); n != -10 {
		t.Errorf("%d left, want a debt of 10", n)
	}
}

// What was taken before the period became shorter was of the window in which that happened. It does not come back out of one of the short windows
// that have begun since, though the take may be younger than those; nor does it move along with a connection.
func TestRefundAfterShorterPeriod(t *testing.T) {
	const ms = time.Millisecond
	tape := newTestTape(10, 5*time.Second)
	m, _ := tape.take(10, 0, after(2100*ms))
	tape.set(newPace(10, time.Second, -1), after(2200*ms))
	tape.take(4, 0, after(2300*ms)) // in the third window of a second
	tape.refund(m, after(2100*ms), after(2400*ms))
	if n := tape.look(after(2400 * ms)).balance(); n != 6 {
		t.Errorf("%d left, want 6", n)
	}

	th := New(func(Instant) {})
	th.Configure(Settings{Subscription: Policy{Messages: PerPeriod(10), Period: 5 * time.Second}, Mode: Precise}, 0)
	topic := th.Topic("t")
	topic.Path(0, "client:kgo", 0) // the windows begin
	var use Use
	g := reserve(t, topic, "client:kgo", 1, Cost{6, 1}, after(2100*ms))
	use.Add(&g)
	th.Configure(Settings{Subscription: msgs(10), Mode: Precise}, after(2200*ms))
	g = reserve(t, topic, "client:kgo", 1, Cost{3, 1}, after(2300*ms))
	use.Add(&g)
	now := after(2400 * ms)
	reserve(t, topic, "client:kgo", 1, Cost{5, 1}, now) // by another connection
	path := topic.Path(0, "g", now)
	use.Move(&path, now)
	if o, n := left(topic, "client:kgo", now), left(topic, "g", now); o != 5 || n != 7 {
		t.Errorf("%d left to the old and %d to the new, want 5 and 7", o, n)
	}
}

// A claimant whose data did not arrive has not been served.
func TestRefundGivesTheTurnBack(t *testing.T) {
	_, topic, armed, _, _ := queueUp(t, Settings{Topic: msgs(10), Mode: Precise}, 2)
	now := *armed
	g := reserve(t, topic, "a", 9, Cost{1, 1}, now)
	if n := left(topic, "a", now); n != 0 {
		t.Fatalf("%d left to one that had its share of a young window", n)
	}
	g.Refund(now)
	if n := left(topic, "a", now); n != 5 {
		t.Errorf("%d left after the refund, want the share of 5", n)
	}
}

// What one level refuses is given back to the others, and who waits for those is woken.
func TestAllOrNothing(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Broker: msgs(10), Subscription: msgs(4), Mode: Precise}, 0)
	topic := th.Topic("t")
	path := topic.Path(0, "g", 0)
	plan, _, _ := path.Plan(Cost{}, 0)
	for plan.Add(1, 1) {
	}
	reserve(t, topic, "g", 3, Cost{1, 1}, 0) // somebody else of the group is quicker
	_, refusal, ok := path.Reserve(plan, 0)
	if ok || refusal.At != (At{SubscriptionLevel, Messages}) || refusal.ReadyAt > 0 {
		t.Errorf("refusal %+v, %v; want the subscription's messages, and to plan again at once", refusal, ok)
	}
	if n := left(topic, "other", 0); n != 4 {
		t.Errorf("another group may take %d, want its 4", n)
	}
	if l := topic.Explain(0, "g", 0).Levels; l[BrokerLevel].Counters[messages].Used != 3 || l[SubscriptionLevel].Counters[messages].Used != 3 {
		t.Errorf("%+v: want 3 used of both", l)
	}
}

func TestRefundWakesWhoWaits(t *testing.T) {
	for _, level := range []Settings{{Broker: msgs(5)}, {Topic: msgs(5)}, {Subscription: msgs(5)}} {
		level.Mode = Precise
		th := New(func(Instant) {})
		th.Configure(level, 0)
		topic := th.Topic("t")
		g := reserve(t, topic, "g", 5, Cost{1, 1}, 0)
		path := topic.Path(0, "g", 0)
		_, refusal, _ := path.Plan(Cost{}, 0)
		var w Watch
		var b bell
		if !w.On(refusal, &b, 0) {
			t.Fatal("does not wait")
		}
		g.Refund(1)
		if b != 1 {
			t.Errorf("%v: fired %d times", refusal.At, b)
		}
		if n := left(topic, "g", 1); n != 5 {
			t.Errorf("%v: %d left after the refund", refusal.At, n)
		}
		g.Refund(2) // a second refund of the same grant is nothing
		if n := left(topic, "g", 2); n != 5 {
			t.Errorf("%v: %d left after the second refund", refusal.At, n)
		}
	}
}

// Of several counters that have nothing the one that opens last is waited for: waking earlier would be in vain.
func TestTheLastToOpenIsWaitedFor(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Broker: msgs(5), Topic: Policy{Bytes: PerPeriod(10), Period: time.Minute}, Subscription: msgs(5), Mode: Precise}, 0)
	topic := th.Topic("t")
	reserve(t, topic, "g", 1, Cost{5, 35}, 0)
	path := topic.Path(0, "g", 0)
	_, refusal, ok := path.Plan(Cost{}, 0)
	if ok || refusal.At != (At{TopicLevel, Bytes}) || refusal.ReadyAt != after(3*time.Minute) {
		t.Errorf("refusal %+v, %v", refusal, ok)
	}
}

// The plans of one fetch share the broker's counters; each begins with what those before it cost.
func TestPlansOfOneFetchShareTheBroker(t *testing.T) {
	for unit, policy := range map[Unit]Policy{Messages: msgs(10), Bytes: {Bytes: PerPeriod(10)}} {
		th := New(func(Instant) {})
		th.Configure(Settings{Broker: policy, Mode: Precise}, 0)
		topic := th.Topic("t")
		var ahead Cost
		var got [4]int64
		for i := range got {
			path := topic.Path(int32(i), "g", 0)
			plan, _, ok := path.Plan(ahead, 0)
			if !ok {
				continue
			}
			for n := 0; n < 4 && plan.Add(1, 1); n++ {
			}
			got[i] = plan.Cost()[unit]
			ahead = ahead.Plus(plan.Cost())
		}
		if want := [4]int64{4, 4, 2, 0}; got != want {
			t.Errorf("%v: planned %v, want %v", unit, got, want)
		}
	}
}

// A share of the broker's allowance is each partition's own: what the fetch planned for others does not count against it.
func TestSharesOfOneFetch(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Broker: msgs(100), Mode: Precise}, 0)
	topic := th.Topic("t")
	reserve(t, topic, "other", 100, Cost{1, 1}, 0)
	second := after(time.Second)
	for i := range int32(10) { // all are refused, and share what comes next
		path := topic.Path(i, "g", second-1)
		if _, _, ok := path.Plan(Cost{}, second-1); ok {
			t.Fatal("not refused")
		}
	}
	var ahead Cost
	for i := range int32(10) {
		path := topic.Path(i, "g", second)
		plan, refusal, ok := path.Plan(ahead, second)
		if !ok {
			t.Fatalf("partition %d is refused by %v", i, refusal.At)
		}
		for plan.Add(1, 1) {
		}
		if plan.Cost()[messages] != 10 {
			t.Errorf("partition %d has %d, want a tenth", i, plan.Cost()[messages])
		}
		ahead = ahead.Plus(plan.Cost())
	}
	path := topic.Path(10, "g", second)
	if _, refusal, ok := path.Plan(ahead, second); ok || refusal.ReadyAt > second {
		t.Errorf("one more: %+v, %v; want a refusal until the plans are reserved", refusal, ok)
	}
}

// A connection that turns out to belong to another group takes its use along.
func TestUseMovesWithTheConnection(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Subscription: msgs(10), Mode: Precise}, 0)
	topic := th.Topic("t")
	var use Use
	for i, n := range []int64{6, 3} {
		g := reserve(t, topic, "client:kgo", 1, Cost{n, 1}, after(time.Duration(i)*time.Second))
		use.Add(&g)
	}
	path := topic.Path(0, "g", after(time.Second))
	use.Move(&path, after(time.Second))
	if n := left(topic, "g", after(time.Second)); n != 7 {
		t.Errorf("%d left, want 7: the first window's use has lapsed", n)
	}

	for _, c := range []struct {
		name             string
		batch            int64
		at               time.Duration // of the move
		oldLeft, newLeft int64
	}{
		{"in the same window", 6, time.Second / 2, 10, 4},
		{"what has lapsed stays", 6, 3 * time.Second / 2, 10, 10},
		{"a debt moves", 100, time.Second / 2, 10, 0},
		{"what is left of a debt moves", 26, 3 * time.Second / 2, 10, 0},
		{"a debt that was paid does not", 26, 7 * time.Second / 2, 10, 10},
	} {
		th := New(func(Instant) {})
		th.Configure(Settings{Subscription: msgs(10), Mode: Precise}, 0)
		topic := th.Topic("t")
		var use Use
		for _, n := range []int64{1, c.batch - 1} {
			g := reserve(t, topic, "client:kgo", 1, Cost{n, 1}, 0)
			use.Add(&g)
		}
		now := Instant(c.at)
		path := topic.Path(0, "g", now)
		use.Move(&path, now)
		use.Move(&path, now) // once
		if o, n := left(topic, "client:kgo", now), left(topic, "g", now); o != c.oldLeft || n != c.newLeft {
			t.Errorf("%s: %d left to the old and %d to the new, want %d and %d", c.name, o, n, c.oldLeft, c.newLeft)
		}
		// And back again.
		path = topic.Path(0, "client:kgo", now)
		use.Move(&path, now)
		if o, n := left(topic, "client:kgo", now), left(topic, "g", now); o != c.newLeft || n != c.oldLeft {
			t.Errorf("%s: after the way back %d are left to the old and %d to the new", c.name, o, n)
		}
	}
}
