package throttle

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// within tells whether a number is at most off from what it should be.
func within(got, want, off int64) bool { return got >= want-off && got <= want+off }

// Two clients share 10 a second. One asks again at once; the other needs 590 ms between its polls, and each poll waits 500 ms, so that its
// poll ends just before a window begins, again and again. First come, first served would give it nothing.
func TestSlowPollerGetsHalf(t *testing.T) {
	w := newWorld(Settings{Topic: Policy{Messages: PerPeriod(10)}, Mode: Precise})
	topic := w.th.Topic("t")
	fast := w.client(client{topic: topic, group: "fast"})
	slow := w.client(client{topic: topic, group: "slow", gap: 590 * time.Millisecond})
	w.run(60 * time.Second)
	f, s := fast.total()[messages], slow.total()[messages]
	if f+s != 600 || !within(f, 300, 12) {
		t.Errorf("%d and %d of 600", f, s)
	}
}

// Two that are always there get half of each window, and not each the whole of every other.
func TestEveryWindowIsShared(t *testing.T) {
	w := newWorld(Settings{Topic: msgs(147), Mode: Precise})
	topic := w.th.Topic("t")
	a := w.client(client{topic: topic, group: "a", records: 12, gap: 10 * time.Millisecond})
	b := w.client(client{topic: topic, group: "b", records: 12, gap: 35 * time.Millisecond})
	w.run(60 * time.Second)
	got, other := a.windows(60, time.Second), b.windows(60, time.Second)
	for k := 3; k < 60; k++ {
		if !within(got[k], other[k], 36) {
			t.Errorf("in window %d they got %d and %d", k, got[k], other[k])
		}
	}
}

// Fewer units in a window than those who want them.
func TestFiveGroupsShareOneMessageASecond(t *testing.T) {
	w := newWorld(Settings{Topic: Policy{Messages: PerPeriod(1)}, Mode: Precise})
	topic := w.th.Topic("t")
	for _, gap := range []time.Duration{1, 100, 300, 590, 900} {
		w.client(client{topic: topic, group: fmt.Sprint(gap), gap: gap * time.Millisecond})
	}
	w.run(120 * time.Second)
	total := int64(0)
	for _, c := range w.clients {
		n := c.total()[messages]
		if total += n; !within(n, 24, 1) || c.longest(120*time.Second) > 10*time.Second {
			t.Errorf("gap %s ms: %d messages, longest wait %v", c.group, n, c.longest(120*time.Second))
		}
	}
	if total != 120 {
		t.Errorf("%d messages in 120 s", total)
	}
}

// All levels hold at once: broker 100, each partition 10, each subscription 4.
func TestLevelsHoldAtOnce(t *testing.T) {
	for groups, each := range map[int]int64{2: 4, 3: 3} { // in each window, of 4; three groups share 10
		w := newWorld(Settings{
			Broker:       Policy{Messages: PerPeriod(100)},
			Topic:        Policy{Messages: PerPeriod(10)},
			Subscription: Policy{Messages: PerPeriod(4)},
			Mode:         Precise,
		})
		topic := w.th.Topic("t")
		for i := range groups {
			w.client(client{topic: topic, group: fmt.Sprint(i)})
		}
		w.run(60 * time.Second)
		all := make([]int64, 60)
		for i, c := range w.clients {
			for k, n := range c.windows(60, time.Second) {
				all[k] += n
				if k >= 2 && (n < each || n > 4) {
					t.Errorf("%d groups: group %d got %d in window %d", groups, i, n, k)
				}
			}
			if n, want := c.total()[messages], 600/int64(groups); groups == 3 && !within(n, want, 2) {
				t.Errorf("%d groups: %d messages, want %d", groups, n, want)
			}
		}
		if want := repeat(60, min(4*int64(groups), 10)); !slices.Equal(all, want) {
			t.Errorf("%d groups got %v together", groups, all)
		}
	}
}

// What the levels mean: who shares an allowance and who has his own, over 60 s at 10 a second.
func TestWhoShares(t *testing.T) {
	ten := Policy{Messages: PerPeriod(10)}
	type reader struct {
		topic      string
		partitions []int32
		group      string
		want       int64
	}
	for _, c := range []struct {
		name     string
		settings Settings
		readers  []reader
	}{
		{"each partition has the topic's allowance", Settings{Topic: ten}, []reader{{"t", []int32{0, 1}, "a", 1200}}},
		{"groups share a partition's", Settings{Topic: ten}, []reader{{"t", []int32{0}, "a", 300}, {"t", []int32{0}, "b", 300}}},
		{"each group has the subscription's", Settings{Subscription: ten}, []reader{{"t", []int32{0}, "a", 600}, {"t", []int32{0}, "b", 600}}},
		{"on each partition", Settings{Subscription: ten}, []reader{{"t", []int32{0}, "a", 600}, {"t", []int32{1}, "a", 600}}},
		{"members share their group's", Settings{Subscription: ten}, []reader{{"t", []int32{0}, "a", -1}, {"t", []int32{0}, "a", -1}}},
		{"all share the broker's", Settings{Broker: ten}, []reader{
			{"t", []int32{0}, "a", 150}, {"t", []int32{0}, "b", 150}, {"u", []int32{0}, "a", 150}, {"u", []int32{0}, "b", 150}}},
		{"a consumer of many partitions shares with one of a single one", Settings{Broker: ten}, []reader{
			{"t", []int32{0, 1, 2}, "a", 450}, {"u", []int32{0}, "b", 150}}},
	} {
		c.settings.Mode = Precise
		w := newWorld(c.settings)
		topics := map[string]*Topic{"t": w.th.Topic("t"), "u": w.th.Topic("u")}
		for _, r := range c.readers {
			w.client(client{topic: topics[r.topic], partitions: r.partitions, group: r.group})
		}
		w.run(60 * time.Second)
		total := int64(0)
		for i, r := range c.readers {
			n := w.clients[i].total()[messages]
			if total += n; r.want >= 0 && !within(n, r.want, 10) {
				t.Errorf("%s: reader %d got %d, want %d", c.name, i, n, r.want)
			}
		}
		if total != 600 && total != 1200 {
			t.Errorf("%s: %d in all", c.name, total)
		}
	}
}

// A claimant that is gone costs the others nothing, and one that comes gets its share at once.
func TestClaimsComeAndGo(t *testing.T) {
	w := newWorld(Settings{Topic: Policy{Messages: PerPeriod(10)}, Mode: Precise})
	topic := w.th.Topic("t")
	there := true
	a := w.client(client{topic: topic, group: "a"})
	b := w.client(client{topic: topic, group: "b", backlog: func() int64 {
		if there {
			return 1000
		}
		return 0
	}})
	w.at(after(20*time.Second), func() { there = false })
	w.at(after(40*time.Second), func() { there = true })
	w.run(60 * time.Second)
	first, second := sum(b.windows(20, time.Second)), b.total()[messages]
	if n := a.total()[messages] + second; n != 600 {
		t.Errorf("%d of 600 were used", n)
	}
	if !within(first, 100, 10) || !within(second-first, 100, 10) {
		t.Errorf("b got %d in its first 20 s and %d in its last 20 s", first, second-first)
	}
	if n := sum(b.windows(45, time.Second)) - sum(b.windows(41, time.Second)); !within(n, 20, 2) {
		t.Errorf("b got %d in the 4 s after it came back", n)
	}
}

// A claimant that vanished is forgotten after two windows: from then on the other need not wait for half of each.
func TestVanishedClaimant(t *testing.T) {
	w := newWorld(Settings{Topic: msgs(10), Mode: Precise})
	topic := w.th.Topic("t")
	a := w.client(client{topic: topic, group: "a"})
	b := w.client(client{topic: topic, group: "b"})
	w.at(after(20*time.Second), func() { b.gap = time.Hour })
	w.run(30 * time.Second)
	for _, d := range a.got {
		if d.at == after(25*time.Second) && d.cost[messages] == 10 {
			return
		}
	}
	t.Errorf("at 25 s a did not get all: %v", a.got[len(a.got)-10:])
}

// Who waits for longer than claims are remembered does not lose by it what it is behind: others may read batches that take several windows to pay.
func TestLongWaitsKeepTheirTurn(t *testing.T) {
	for _, wait := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 10 * time.Second} {
		w := newWorld(Settings{Topic: msgs(1), Mode: Precise})
		topic := w.th.Topic("t")
		small := w.client(client{topic: topic, group: "small", wait: wait})
		large := w.client(client{topic: topic, group: "large", wait: 100 * time.Millisecond, records: 3})
		w.run(600 * time.Second)
		if a, b := small.total()[messages], large.total()[messages]; !within(a, 300, 5) || !within(b, 300, 5) {
			t.Errorf("one that waits for %v got %d, the other %d of 600", wait, a, b)
		}
	}
}

// One that could not take its share for a while may make up for two windows, and not for all that time.
func TestNobodyMakesUpForLong(t *testing.T) {
	w := newWorld(Settings{Topic: msgs(10), Mode: Precise})
	topic := w.th.Topic("t")
	a := w.client(client{topic: topic, group: "a"})
	b := w.client(client{topic: topic, group: "b", most: 1, gap: 400 * time.Millisecond})
	w.at(after(60*time.Second), func() { b.most, b.gap = 1000, time.Millisecond })
	w.run(70 * time.Second)
	if n := sum(b.windows(60, time.Second)); n > 200 {
		t.Fatalf("b got %d: it was not slow", n)
	}
	if n := a.total()[messages] - sum(a.windows(60, time.Second)); n < 35 || n > 55 {
		t.Errorf("a got %d in the 10 s after b became quick", n)
	}
}

// Claims are gone over once a window, also when two look at the same time of whom one has not noticed that the window has ended: with a hundred thousand
// claims each look of theirs would cost as much as all others together.
func TestClaimsAreSweptOnceAWindow(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Topic: msgs(1), Mode: Precise}, 0)
	topic := th.Topic("t")
	path := topic.Path(0, "g", 0)
	c := path.counters[2]
	cr := c.lockCrowd()
	defer cr.mu.Unlock()
	first, second := after(900*time.Millisecond), after(1100*time.Millisecond)
	leave := func() { cr.join(claimant{topic, 7, "gone"}, 0).until = -1 }
	leave()
	if cr.sweep(c.look(second), second); cr.claims.count != 0 {
		t.Error("a claim of nobody was kept over a window")
	}
	leave()
	cr.sweep(c.look(first), first)
	if cr.sweep(c.look(second), second); cr.claims.count != 1 {
		t.Error("claims were gone over again in the same window")
	}
}
