package throttle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// ledger is what was delivered through one counter in each window, and the most that the counter was allowed in it.
type ledger struct {
	delivered, allowed []int64
	biggest            int64 // batch
}

func (l *ledger) add(window int, n, batch int64) {
	l.grow(window)
	l.delivered[window] += n
	l.biggest = max(l.biggest, batch)
}

// allow notes a limit that was in force in some part of a window.
func (l *ledger) allow(window int, units int64) {
	l.grow(window)
	l.allowed[window] = max(l.allowed[window], units)
}

func (l *ledger) grow(window int) {
	for len(l.allowed) <= window {
		l.allowed = append(l.allowed, 0)
		l.delivered = append(l.delivered, 0)
	}
}

// check holds every run of windows against its allowance and one batch.
func (l *ledger) check(t *rapid.T, name string) {
	for i := range l.allowed {
		delivered, allowed := int64(0), int64(0)
		for j := i; j < len(l.allowed); j++ {
			delivered += l.delivered[j]
			allowed += l.allowed[j]
			if delivered >= allowed+max(1, l.biggest) {
				t.Fatalf("%s: windows %d to %d delivered %d where %d are allowed and a batch is %d", name, i, j, delivered, allowed, l.biggest)
			}
		}
	}
}

// Whatever the clients do, with refunds and with limits that change all the time: no run of windows of any counter delivers more
// than its windows' allowances and one batch.
func TestNoRunOfWindowsExceedsItsAllowance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const windows = 30
		units := rapid.Int64Range(1, 60)
		mode := rapid.SampledFrom([]Mode{Precise, Batches}).Draw(t, "mode")
		settings := func() Settings {
			return Settings{Broker: msgs(units.Draw(t, "broker")), Topic: msgs(units.Draw(t, "topic")), Subscription: msgs(units.Draw(t, "subscription")), Mode: mode}
		}
		s := settings()
		w := newWorld(s)
		ledgers := map[string]*ledger{"broker": {}}
		for _, partition := range []int{0, 1} {
			ledgers[fmt.Sprint("partition ", partition)] = &ledger{}
			for _, group := range []string{"a", "b", "c"} {
				ledgers[fmt.Sprint("subscription ", partition, group)] = &ledger{}
			}
		}
		topic := w.th.Topic("t")
		for i := range rapid.IntRange(1, 6).Draw(t, "clients") {
			c := client{
				topic:      topic,
				partitions: rapid.SampledFrom([][]int32{{0}, {1}, {0, 1}}).Draw(t, "partitions"),
				group:      rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group"),
				gap:        time.Duration(rapid.IntRange(0, 1500).Draw(t, "gap")) * time.Millisecond,
				wait:       time.Duration(rapid.IntRange(1, 1500).Draw(t, "wait")) * time.Millisecond,
				records:    rapid.Int64Range(1, 30).Draw(t, "records"),
				most:       rapid.IntRange(1, 50).Draw(t, "most"),
			}
			c.sent = func(partition int32, batches int64, g *Grant) bool {
				if (int(batches)+i+w.serial)%5 == 0 {
					at := w.now + Instant(w.serial%3)*Instant(400*time.Millisecond)
					lost := *g
					w.at(at, func() { lost.Refund(w.now) })
					return false
				}
				charge := int64(1)
				if mode == Precise {
					charge = c.records
				}
				window := int(w.now / Instant(time.Second))
				for _, name := range []string{"broker", fmt.Sprint("partition ", partition), fmt.Sprint("subscription ", partition, c.group)} {
					ledgers[name].add(window, batches*charge, charge)
				}
				return true
			}
			w.client(c)
		}
		for k := range windows {
			for _, d := range rapid.SliceOfN(rapid.IntRange(0, 999), 0, 2).Draw(t, "changes") {
				w.at(Instant(time.Duration(k)*time.Second+time.Duration(d)*time.Millisecond), func() {
					allow(ledgers, k, s)
					s = settings()
					w.th.Configure(s, w.now)
					allow(ledgers, k, s)
				})
			}
			w.at(Instant(time.Duration(k+1)*time.Second-1), func() { allow(ledgers, k, s) })
		}
		w.run(windows * time.Second)
		for name, l := range ledgers {
			l.check(t, name)
		}
	})
}

// allow notes what is in force now.
func allow(ledgers map[string]*ledger, window int, s Settings) {
	for name, l := range ledgers {
		switch name[0] {
		case 'b':
			l.allow(window, s.Broker.Messages.Units)
		case 'p':
			l.allow(window, s.Topic.Messages.Units)
		case 's':
			l.allow(window, s.Subscription.Messages.Units)
		}
	}
}

// jain is Jain's fairness index: 1 when all have the same.
func jain(shares []int64) float64 {
	total, squares := 0.0, 0.0
	for _, x := range shares {
		total += float64(x)
		squares += float64(x) * float64(x)
	}
	return total * total / (float64(len(shares)) * squares)
}

// Claimants with endless backlogs share a counter evenly however they poll, as long as each polls more often than windows begin,
// and nothing of the allowance is lost.
func TestClaimantsShareEvenlyAndUseAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.Int64Range(1, 200).Draw(t, "units")
		records := rapid.Int64Range(1, 2*units).Draw(t, "records")
		claimants := rapid.IntRange(2, 7).Draw(t, "claimants")
		s := Settings{Mode: Precise}
		policy := rapid.SampledFrom([]*Policy{&s.Broker, &s.Topic}).Draw(t, "level")
		*policy = msgs(units)
		w := newWorld(s)
		topic := w.th.Topic("t")
		for i := range claimants {
			w.client(client{
				topic: topic, group: fmt.Sprint(i), records: records,
				gap:  time.Duration(rapid.IntRange(10, 450).Draw(t, "gap")) * time.Millisecond,
				wait: time.Duration(rapid.IntRange(50, 1500).Draw(t, "wait")) * time.Millisecond,
				most: int(1 + units/records), // an answer can hold a window's allowance
			})
		}
		windows := int64(claimants) * max(8, 50*records/units) // some fifty batches for each
		w.run(time.Duration(windows) * time.Second)
		var shares []int64
		for _, c := range w.clients {
			shares = append(shares, c.total()[messages]-sum(c.windows(1, time.Second))) // nobody has a share before the first refusal
		}
		if index := jain(shares); index < 0.99 {
			t.Errorf("shares %v: Jain's index is %.4f", shares, index)
		}
		if got := sum(shares); got < (windows-1)*units*99/100-records-units {
			t.Errorf("%d of %d were used", got, (windows-1)*units)
		}
		if slices.Min(shares) == 0 {
			t.Errorf("shares %v", shares)
		}
	})
}

// Limits of several levels hold at once and do not get in each other's way: together the partitions get what the tighter level
// allows.
func TestNothingIsLostBetweenLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const windows = 40
		units := rapid.Int64Range(1, 100)
		broker, partition, subscription := 3*units.Draw(t, "broker"), units.Draw(t, "partition"), units.Draw(t, "subscription")
		w := newWorld(Settings{Broker: msgs(broker), Topic: msgs(partition), Subscription: msgs(subscription), Mode: Precise})
		topic := w.th.Topic("t")
		want := int64(0)
		for p := range rapid.Int32Range(1, 6).Draw(t, "partitions") {
			groups := rapid.Int64Range(1, 3).Draw(t, "groups")
			want += min(partition, groups*subscription)
			for g := range groups {
				w.client(client{
					topic: topic, group: fmt.Sprint(g), partitions: []int32{p}, most: int(broker + partition),
					gap:  time.Duration(rapid.IntRange(10, 300).Draw(t, "gap")) * time.Millisecond,
					wait: time.Duration(rapid.IntRange(50, 1000).Draw(t, "wait")) * time.Millisecond,
				})
			}
		}
		want = windows * min(want, broker)
		w.run(windows * time.Second)
		got := int64(0)
		for _, c := range w.clients {
			got += c.total()[messages]
		}
		if got > want || got < want*99/100-want/windows {
			t.Errorf("%d of %d were used", got, want)
		}
	})
}
