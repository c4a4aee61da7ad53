package throttle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// key names a limit: that of the broker, of a partition, or of a subscription on a partition.
type key struct {
	at        At
	partition int32
	group     string
}

// observer stands beside a world, sees all settings and all that is delivered, and keeps account of every limit there is.
type observer struct {
	w        *world
	topic    *Topic
	settings Settings
	own      Policies
	accounts map[key]*account
	over     []error // what was found of limits that are gone
}

// policy is what holds for a limit by the rules of precedence.
func (o *observer) policy(k key) Policy {
	switch p, ok := o.settings.Groups[k.group]; {
	case k.at.Level == BrokerLevel:
		return o.settings.Broker
	case k.at.Level == TopicLevel && o.own.Topic.set():
		return o.own.Topic
	case k.at.Level == TopicLevel:
		return o.settings.Topic
	case ok && p.set():
		return p
	case o.own.Subscription.set():
		return o.own.Subscription
	}
	return o.settings.Subscription
}

// limit is the units and the period of a limit; no units: there is none.
func (o *observer) limit(k key) (units int64, period Instant) {
	p := o.policy(k)
	rate := [2]Rate{p.Messages, p.Bytes}[k.at.Unit]
	if rate.Set {
		units = max(0, rate.Units)
	}
	for _, d := range []time.Duration{p.Period, o.settings.Period, DefaultPeriod} {
		if d > 0 {
			return units, Instant(d)
		}
	}
	return units, 0
}

// keys are the limits that may stand between a partition and a group.
func keys(partition int32, group string) (list []key) {
	for _, u := range []Unit{Messages, Bytes} {
		list = append(list, key{at: At{BrokerLevel, u}}, key{At{TopicLevel, u}, partition, ""}, key{At{SubscriptionLevel, u}, partition, group})
	}
	return list
}

// open begins the account of a limit that there is.
func (o *observer) open(k key, now Instant) {
	if units, period := o.limit(k); units > 0 && o.accounts[k] == nil {
		o.accounts[k] = newAccount(units, period, now)
	}
}

func (o *observer) close(k key) {
	if err := o.accounts[k].check(); err != nil {
		o.over = append(o.over, fmt.Errorf("%+v: %w", k, err))
	}
	delete(o.accounts, k)
}

// change puts other settings in force.
func (o *observer) change(s Settings, own Policies) {
	o.settings = s
	o.w.th.Configure(s, o.w.now)
	o.changed()
	o.own = own
	o.topic.Configure(own, o.w.now)
	o.changed()
}

func (o *observer) changed() {
	for k, a := range o.accounts {
		if units, period := o.limit(k); units > 0 {
			a.alter(units, period, o.w.now)
		} else {
			o.close(k)
		}
	}
	o.open(key{at: At{BrokerLevel, Messages}}, o.w.now) // the broker's windows begin with the setting, the others' with the first fetch
	o.open(key{at: At{BrokerLevel, Bytes}}, o.w.now)
}

// delivered books what a grant brought.
func (o *observer) delivered(partition int32, group string, charge, atOnce Cost, g *Grant) {
	for _, k := range keys(partition, group) {
		a := o.accounts[k]
		if a == nil {
			continue
		}
		// A grant is one of the window that its look was in, unless somebody else was in the next by then.
		now := g.at
		if next := a.begins + a.period; now < next && next <= o.w.now {
			now = max(now, g.counters[2*k.at.Level+Level(k.at.Unit)].look(now).begins())
		}
		a.add(charge[k.at.Unit], atOnce[k.at.Unit], min(now, o.w.now))
	}
}

// sweep drops what is not used. What is dropped must have had nothing to remember.
func (o *observer) sweep() {
	o.w.th.Sweep(o.w.now)
	for k, a := range o.accounts {
		if k.at.Level == BrokerLevel || o.kept(k) {
			continue
		}
		if !a.spare(o.w.now) {
			o.over = append(o.over, fmt.Errorf("%+v was dropped at %v: %+v", k, time.Duration(o.w.now), a.windows))
		}
		o.close(k)
	}
}

func (o *observer) kept(k key) bool {
	q := o.topic.find(k.partition)
	if q == nil || k.at.Level == TopicLevel {
		return q != nil
	}
	_, ok := q.search(k.group)
	return ok
}

func (o *observer) check(t *rapid.T) {
	for k := range o.accounts {
		o.close(k)
	}
	for _, err := range o.over {
		t.Error(err)
	}
}

// drawPolicy draws a policy, that often one that says nothing.
func drawPolicy(t *rapid.T, name string) (p Policy) {
	if rapid.IntRange(0, 3).Draw(t, name) == 0 {
		return p
	}
	units := rapid.Int64Range(-3, 60)
	if kind := rapid.IntRange(0, 3).Draw(t, name+" units"); kind != 1 {
		p.Messages = PerPeriod(units.Draw(t, name+" messages"))
	} else if p.Bytes = PerPeriod(100 * units.Draw(t, name+" bytes")); kind == 2 {
		p.Messages = PerPeriod(units.Draw(t, name+" messages"))
	}
	p.Period = rapid.SampledFrom([]time.Duration{0, 0, time.Second, 400 * time.Millisecond, 5 * time.Second}).Draw(t, name+" period")
	return p
}

// drawSettings draws settings in which each limit may come from each source.
func drawSettings(t *rapid.T) (s Settings, own Policies) {
	s = Settings{
		Mode:   rapid.SampledFrom([]Mode{Precise, Batches, Approximate}).Draw(t, "mode"),
		Period: rapid.SampledFrom([]time.Duration{0, 0, 3 * time.Second}).Draw(t, "period"),
		Broker: drawPolicy(t, "broker"), Topic: drawPolicy(t, "topic"), Subscription: drawPolicy(t, "subscription"),
		MaxReadBatches: rapid.SampledFrom([]int64{0, 3}).Draw(t, "read batches"),
		FairHoldRatio:  rapid.SampledFrom([]float64{0, 0, 1}).Draw(t, "hold"),
		FairHoldMax:    time.Second,
	}
	if rapid.IntRange(0, 2).Draw(t, "groups") == 0 {
		s.Groups = map[string]Policy{"a": drawPolicy(t, "group")}
	}
	if rapid.IntRange(0, 2).Draw(t, "own") == 0 {
		own = Policies{Topic: drawPolicy(t, "own topic"), Subscription: drawPolicy(t, "own subscription")}
	}
	return s, own
}

// drawClient draws a client of an observed world. Some of what it is to get is lost, at once or later; it may go away for more than a minute.
func (o *observer) drawClient(t *rapid.T, until time.Duration) {
	c := client{
		topic:      o.topic,
		partitions: rapid.SampledFrom([][]int32{{0}, {1}, {0, 1}}).Draw(t, "partitions"),
		group:      rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group"),
		gap:        time.Duration(rapid.IntRange(1, 1500).Draw(t, "gap")) * time.Millisecond,
		wait:       time.Duration(rapid.IntRange(0, 1500).Draw(t, "wait")) * time.Millisecond,
		records:    rapid.Int64Range(0, 30).Draw(t, "records"),
		size:       rapid.Int64Range(1, 3000).Draw(t, "size"),
		most:       rapid.IntRange(1, 50).Draw(t, "most"),
		list:       rapid.Bool().Draw(t, "list"),
	}
	if lag := rapid.IntRange(-3, 9).Draw(t, "lag"); lag >= 0 {
		c.lag = func() time.Duration { return time.Duration(lag) * time.Millisecond }
	}
	if leaves := rapid.IntRange(0, 2*int(until/time.Second)).Draw(t, "leaves"); leaves < int(until/time.Second) {
		c.away = func() (next time.Duration) {
			if at := Instant(leaves) * Instant(time.Second); o.w.now >= at && o.w.now < at+Instant(61*time.Second) {
				return time.Duration(at) + 61*time.Second
			}
			return 0
		}
	}
	lost := rapid.IntRange(3, 30).Draw(t, "lost") // one of so many
	c.asks = func(partition int32, now Instant) {
		for _, k := range keys(partition, c.group) {
			o.open(k, now)
		}
	}
	c.sent = func(partition int32, p *Plan, g *Grant) bool {
		batches := p.cost[bytes] / c.size
		if (int(batches)+o.w.serial)%lost == 0 {
			grant := *g
			o.w.at(o.w.now+Instant(o.w.serial%3)*Instant(400*time.Millisecond), func() { grant.Refund(o.w.now) })
			return false
		}
		charge := Cost{c.records, c.size}
		if p.mode == Batches {
			charge[messages] = min(c.records, 1)
		}
		all := Cost{batches * charge[messages], batches * c.size}
		atOnce := charge
		if p.mode == Approximate { // which looks at the messages when it has read them
			atOnce[messages] = all[messages]
		}
		o.delivered(partition, c.group, all, atOnce, g)
		return true
	}
	o.w.client(c)
}

// Whatever clients do, with refunds, with settings of all kinds that change all the time, with groups that come and go, and with looks that take their
// time: no run of a limit's windows delivers more than they allow and one batch.
func TestNoRunOfWindowsExceedsItsAllowance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		windows := rapid.SampledFrom([]int{10, 30, 90}).Draw(t, "windows")
		until := time.Duration(windows) * time.Second
		w := newWorld(Settings{})
		o := &observer{w: w, topic: w.th.Topic("t"), accounts: map[key]*account{}}
		o.change(drawSettings(t))
		for range rapid.IntRange(1, 6).Draw(t, "clients") {
			o.drawClient(t, until)
		}
		for range rapid.IntRange(0, windows).Draw(t, "changes") {
			s, own := drawSettings(t)
			if rapid.Bool().Draw(t, "only rates") {
				// As they are for most, so that there are debts and windows with several changes.
				s.Mode, s.Period = o.settings.Mode, o.settings.Period
			}
			at := time.Duration(rapid.IntRange(0, 1000*windows).Draw(t, "at")) * time.Millisecond
			w.at(Instant(at), func() { o.change(s, own) })
		}
		for at := 10 * time.Second; at < until; at += 10 * time.Second {
			w.at(Instant(at), o.sweep)
		}
		w.run(until)
		o.check(t)
	})
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

// served is what a client got of what a counter counts.
func (c *client) served(u Unit, mode Mode) int64 {
	switch total := c.total(); {
	case u == Bytes:
		return total[bytes]
	case mode == Batches:
		return total[messages] / c.records
	default:
		return total[messages]
	}
}

// Claimants with endless backlogs share a counter evenly however they poll and whatever they read, as long as each polls more often than windows
// begin, and nothing of the allowance is lost; also if it changes meanwhile.
func TestClaimantsShareEvenlyAndUseAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const bytesEach = 10
		mode := rapid.SampledFrom([]Mode{Precise, Batches, Approximate}).Draw(t, "mode")
		level := rapid.SampledFrom([]Level{BrokerLevel, TopicLevel}).Draw(t, "level")
		unit := rapid.SampledFrom([]Unit{Messages, Bytes}).Draw(t, "unit")
		period := rapid.SampledFrom([]time.Duration{time.Second, 400 * time.Millisecond, 7 * time.Second}).Draw(t, "period")
		guesses, lowest := unit == Messages && mode == Approximate, int64(1)
		if guesses {
			lowest = 100 // else a plan may cost hundreds of windows
		}
		rates := []int64{rapid.Int64Range(lowest, 200).Draw(t, "rate")}
		for range rapid.IntRange(0, 2).Draw(t, "other rates") {
			rates = append(rates, max(lowest, rapid.Int64Range(1+rates[0]/3, 3*rates[0]).Draw(t, "other rate")))
		}
		settings := func(rate int64) (s Settings) {
			s.Mode, s.Period = mode, period
			p := msgs(rate)
			if unit == Bytes {
				p = Policy{Bytes: PerPeriod(bytesEach * rate)}
			}
			*map[Level]*Policy{BrokerLevel: &s.Broker, TopicLevel: &s.Topic}[level] = p
			return s
		}
		w := newWorld(Settings{})
		o := &observer{w: w, topic: w.th.Topic("t"), accounts: map[key]*account{}}
		o.change(settings(rates[0]), Policies{})
		k := key{at: At{level, unit}}
		largest, least := int64(1), slices.Min(rates)
		claimants := rapid.IntRange(2, 7).Draw(t, "claimants")
		for i := range claimants {
			gap := rapid.IntRange(10, 450).Draw(t, "gap")
			c := client{
				topic: o.topic, group: fmt.Sprint(i), records: rapid.Int64Range(1, 2*least).Draw(t, "records"),
				gap:  time.Duration(gap) * min(period, time.Second) / 1000,
				wait: time.Duration(rapid.IntRange(50, 1500).Draw(t, "wait")) * time.Millisecond,
				list: rapid.Bool().Draw(t, "list"),
				asks: func(_ int32, now Instant) { o.open(k, now) },
			}
			if guesses {
				c.records = 1 + c.records%2
			}
			c.size = bytesEach * c.records
			charge := c.records
			if unit == Messages && mode == Batches {
				charge = 1
			}
			c.most = int(1 + slices.Max(rates)/charge) // an answer can hold a window's allowance
			if guesses {
				charge *= min(slices.Max(rates), DefaultMaxReadBatches)
			}
			largest = max(largest, charge)
			w.client(c)
		}
		// Some fifty batches for each, and enough for what one gets less or more in the window of a change not to matter.
		windows := max(int64(claimants)*max(8, 50*largest/least), 40*slices.Max(rates)/least)
		until := time.Duration(windows) * period
		if len(rates) > 1 {
			for range rapid.Int64Range(1, windows).Draw(t, "changes") {
				rate := rapid.SampledFrom(rates).Draw(t, "rate")
				at := time.Duration(rapid.Float64Range(0, 1).Draw(t, "at") * float64(until))
				w.at(Instant(at), func() { o.change(settings(rate), Policies{}) })
			}
		}
		first := make([]int64, claimants)
		w.at(Instant(period), func() { // nobody has a share before the first refusal
			for i, c := range w.clients {
				first[i] = c.served(unit, mode)
			}
		})
		w.run(until)
		var shares []int64
		for i, c := range w.clients {
			shares = append(shares, c.served(unit, mode)-first[i])
		}
		if index := jain(shares); index < 0.99 {
			t.Errorf("shares %v: Jain's index is %.4f", shares, index)
		}
		due, most := int64(0), slices.Max(rates)
		for _, w := range o.accounts[k].windows[1:] {
			due += w.least
		}
		if unit == Bytes {
			largest, most = largest*bytesEach, most*bytesEach
		}
		if got := sum(shares); got < due*99/100-largest-most {
			t.Errorf("%d of %d were used", got, due)
		}
		if slices.Min(shares) == 0 {
			t.Errorf("shares %v", shares)
		}
	})
}

// Limits of several levels and of both units hold at once and do not get in each other's way: together the partitions get what the tightest
// allows.
func TestNothingIsLostBetweenLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const windows, bytesEach = 40, 10
		limit := func(units int64, name string) Policy {
			p := Policy{Messages: PerPeriod(units)}
			switch rapid.IntRange(0, 3).Draw(t, name+" unit") {
			case 0:
				p = Policy{Bytes: PerPeriod(bytesEach * units)}
			case 1:
				p.Bytes = PerPeriod(bytesEach * (units + rapid.Int64Range(0, 50).Draw(t, name+" more bytes")))
			case 2:
				p = Policy{PerPeriod(units + rapid.Int64Range(0, 50).Draw(t, name+" more messages")), PerPeriod(bytesEach * units), 0}
			}
			return p
		}
		units := rapid.Int64Range(1, 100)
		broker, partition, subscription := 3*units.Draw(t, "broker"), units.Draw(t, "partition"), units.Draw(t, "subscription")
		period := rapid.SampledFrom([]time.Duration{time.Second, 400 * time.Millisecond, 7 * time.Second}).Draw(t, "period")
		w := newWorld(Settings{
			Broker: limit(broker, "broker"), Topic: limit(partition, "partition"), Subscription: limit(subscription, "subscription"),
			Mode: rapid.SampledFrom([]Mode{Precise, Batches, Approximate}).Draw(t, "mode"), Period: period,
		})
		topic := w.th.Topic("t")
		want := int64(0)
		for p := range rapid.Int32Range(1, 6).Draw(t, "partitions") {
			groups := rapid.Int64Range(1, 3).Draw(t, "groups")
			want += min(partition, groups*subscription)
			for g := range groups {
				c := client{
					topic: topic, group: fmt.Sprint(g), partitions: []int32{p}, most: int(broker + partition), size: bytesEach,
					gap:  time.Duration(rapid.IntRange(10, 300).Draw(t, "gap")) * min(period, time.Second) / 1000,
					wait: time.Duration(rapid.IntRange(50, 1000).Draw(t, "wait")) * time.Millisecond,
					list: rapid.Bool().Draw(t, "list"),
				}
				if lag := rapid.IntRange(-3, 3).Draw(t, "lag"); lag >= 0 {
					c.lag = func() time.Duration { return time.Duration(lag) * time.Millisecond }
				}
				w.client(c)
			}
		}
		want = windows * min(want, broker)
		w.run(windows * period)
		got := int64(0)
		for _, c := range w.clients {
			got += c.total()[messages]
		}
		if got > want || got < want*99/100-want/windows {
			t.Errorf("%d of %d were used", got, want)
		}
	})
}
