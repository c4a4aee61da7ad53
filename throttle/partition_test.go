package throttle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Counters that were not used for long are dropped, but no debt is forgotten, and nobody who waits.
func TestSweep(t *testing.T) {
	minute := after(time.Minute)
	for _, c := range []struct {
		name    string
		batch   int64
		sweep   Instant
		waits   bool
		dropped bool
	}{
		{"used lately", 10, minute - 1, false, false},
		{"idle", 10, minute, false, true},
		{"in debt", 1000, minute, false, false},
		{"in debt no longer", 1000, 2 * minute, false, true},
		{"waited for", 1000, 2 * minute, true, false},
	} {
		th := New(func(Instant) {})
		th.Configure(Settings{Topic: msgs(10), Subscription: msgs(10), Mode: Precise}, 0)
		topic := th.Topic("t")
		reserve(t, topic, "g", 1, Cost{c.batch, 1}, 0)
		if c.waits {
			path := topic.Path(0, "g", 0)
			_, refusal, _ := path.Plan(Cost{}, 0)
			new(Watch).On(refusal, new(bell), 0)
		}
		th.Sweep(c.sweep)
		if dropped := topic.find(0) == nil; dropped != c.dropped {
			t.Errorf("%s: dropped %v", c.name, dropped)
		}
		before := left(topic, "g", c.sweep)
		th.Configure(Settings{Topic: msgs(10), Subscription: msgs(10), Mode: Precise}, c.sweep)
		if after := left(topic, "g", c.sweep); after != before || before > 10 {
			t.Errorf("%s: %d left, then %d", c.name, before, after)
		}
	}
}

// A period longer than a minute keeps its counters longer: what was used of its window counts.
func TestSweepKeepsLongWindows(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Subscription: Policy{Messages: PerPeriod(10), Period: time.Hour}, Mode: Precise}, 0)
	topic := th.Topic("t")
	reserve(t, topic, "g", 1, Cost{10, 1}, 0)
	for _, now := range []time.Duration{time.Minute, 59 * time.Minute} {
		th.Sweep(after(now))
		if n := left(topic, "g", after(now)); n != 0 {
			t.Errorf("%d left after %v", n, now)
		}
	}
}

// Names are not without end: those beyond a thousand on one partition share one more bucket.
func TestSubscriptionsAreBounded(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Subscription: msgs(10), Mode: Precise}, 0)
	topic := th.Topic("t")
	for i := range maxSubscriptions {
		reserve(t, topic, fmt.Sprint("client-", i), 1, Cost{1, 1}, 0)
	}
	reserve(t, topic, "one more", 1, Cost{4, 1}, 0)
	reserve(t, topic, "and another", 1, Cost{6, 1}, 0)
	if n := left(topic, "a third", 0); n != 0 {
		t.Errorf("%d left of what those beyond the bound share", n)
	}
	if n := left(topic, "client-7", 0); n != 9 {
		t.Errorf("%d left to one that is known", n)
	}
	if names := topic.Subscriptions(0); len(names) != maxSubscriptions+1 || names[0] != others {
		t.Errorf("%d names, the first is %q", len(names), names[0])
	}
	th.Sweep(after(time.Hour))
	if names := topic.Subscriptions(0); names != nil {
		t.Errorf("%d are left after an hour", len(names))
	}
}

func TestClaimsAreBounded(t *testing.T) {
	c := newCounter(New(func(Instant) {}), newPace(10, time.Second, -1), 0)
	cr := c.lockCrowd()
	defer cr.mu.Unlock()
	for i := range maxClaims + 10 {
		cr.join(claimant{topic: &Topic{}, partition: int32(i)}, 0)
	}
	if cr.claims.count != maxClaims+1 {
		t.Errorf("%d claims", cr.claims.count)
	}
}

func TestClosedTopicIsForgotten(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Topic: msgs(10), Mode: Precise}, 0)
	topic := th.Topic("t")
	topic.Close()
	if len(th.topics) != 0 {
		t.Error("it is still there")
	}
	reserve(t, topic, "g", 1, Cost{1, 1}, 0) // a fetch that was under way
}

// The first fetch of many partitions does not copy what there is for each of them.
func TestManyPartitionsAreFoundTheFirstTime(t *testing.T) {
	const many = 10_000
	th := New(func(Instant) {})
	th.Configure(Settings{Topic: msgs(1)}, 0)
	topic := th.Topic("t")
	lists := map[*partitions]bool{}
	for i := range int32(many) {
		first, again := topic.Path(i, "g", 0), topic.Path(i, "g", 0)
		if c := first.counters[2]; c == nil || again.counters[2] != c {
			t.Fatalf("partition %d has other counters the second time", i)
		}
		lists[topic.partitions.Load()] = true
	}
	if len(lists) > 20 {
		t.Errorf("%d lists were made", len(lists))
	}
	if th.Sweep(after(2 * time.Minute)); topic.partitions.Load() != nil {
		t.Error("partitions that were not used are still there")
	}
}

// Those who wanted more of the broker's allowance are forgotten with their topics, also if nobody asks for it any more. Who waits is not.
func TestSweepEndsTheBrokersCrowd(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Broker: msgs(1), Mode: Precise}, 0)
	reserve(t, th.Topic("first"), "g", 1, Cost{1, 1}, 0)
	var refused Refusal
	for range 100 {
		topic := th.Topic("t")
		path := topic.Path(0, "g", 0)
		_, refused, _ = path.Plan(Cost{}, 0)
		topic.Close()
	}
	w := new(Watch)
	w.On(refused, new(bell), 0)
	c := th.rules.Load().brokerCounters[messages]
	th.Sweep(after(time.Minute))
	if cr := c.crowd.Load(); cr == nil || cr.claims.count != 1 {
		t.Error("more or less is left than the one that waits")
	}
	w.Cancel(after(time.Minute))
	th.Sweep(after(2 * time.Minute))
	if c.crowd.Load() != nil {
		t.Error("the crowd is still there")
	}
}

// Two who have shared a limit for weeks are joined by thousands that begin where they are: together they have had more than an int64 holds.
func TestThousandsJoinAfterWeeks(t *testing.T) {
	w := newWorld(Settings{Broker: msgs(1000), Mode: Precise})
	for i := range 2 {
		w.client(client{topic: w.th.Topic("old"), group: fmt.Sprint(i), wait: time.Minute})
	}
	w.run(10 * time.Second)
	cr := w.th.rules.Load().brokerCounters[messages].lockCrowd()
	for _, cl := range slices.Clone(cr.active.items) {
		cr.serve(cl, 1<<53) // at 10 GB/s
	}
	cr.largest = 1
	cr.mu.Unlock()
	for i := range 4000 {
		w.client(client{topic: w.th.Topic("new"), group: fmt.Sprint(i), wait: time.Minute})
	}
	w.run(30 * time.Second)
	got := int64(0)
	for _, c := range w.clients {
		got += c.total()[messages]
	}
	if got != 30_000 {
		t.Errorf("%d of 30000 messages in 30 s", got)
	}
}

// The queues of a crowd stay in order whatever happens to its claims.
func TestCrowdStaysInOrder(t *testing.T) {
	c := newCounter(New(func(Instant) {}), newPace(10, time.Second, -1), 0)
	cr := c.lockCrowd()
	defer cr.mu.Unlock()
	topic := &Topic{}
	r := rand.New(rand.NewPCG(1, 2))
	var all []*Watch
	for step := range 5000 {
		now := after(time.Duration(step) * 7 * time.Millisecond)
		cl := cr.join(claimant{topic: topic, partition: r.Int32N(20)}, now)
		switch r.IntN(7) {
		case 0:
			w := &Watch{claim: cl, waiter: new(bell), state: waiting}
			cl.append(w)
			cr.waiting.add(cl)
			cr.present.add(cl)
			all = append(all, w)
		case 1:
			cr.serve(cl, r.Int64N(30))
		case 2:
			cr.share(cl, c.look(now), now, fairness{0.5, time.Second})
		case 3:
			cr.leave(cl)
		case 4:
			if len(all) > 0 {
				w := all[r.IntN(len(all))]
				cr.answered(w)
				cr.drop(w)
			}
		case 5:
			if len(cr.waiting.items) > 0 {
				cr.fire(cr.waiting.items[0].first, now)
			}
		case 6:
			before := cr.most - cl.service
			for _, x := range slices.Clone(cr.active.items) {
				cr.raise(x, highService)
			}
			cr.most += highService
			if cr.rebase(); cr.most-cl.service != before || cr.active.items[0].service >= highService {
				t.Fatalf("step %d: a claim is %d behind, was %d; the least has %d", step, cr.most-cl.service, before, cr.active.items[0].service)
			}
		}
		for name, q := range map[string]ranking{"active": cr.active, "waiting": cr.waiting, "present": cr.present} {
			total := int64(0)
			for i, x := range q.items {
				if total += x.service; i > 0 && q.items[(i-1)/2].service > x.service || int(*q.place(x)) != i {
					t.Fatalf("step %d: %s is out of order at %d", step, name, i)
				}
			}
			if total != q.total {
				t.Fatalf("step %d: %s has a total of %d, want %d", step, name, q.total, total)
			}
		}
		for _, cl := range cr.waiting.items {
			if cl.first == nil || cr.claims.find(cl.who()) != cl {
				t.Fatalf("step %d: a claim waits without a watch, or is not known", step)
			}
		}
	}
}
