package throttle

import "time"

// Explanation says which policies hold between a partition and a subscription, and how its counters stand.
type Explanation struct {
	Topic        string
	Partition    int32
	Subscription string
	Mode         Mode
	CaughtUp     bool          // it has no backlog, and such are exempt: none of the levels holds for it
	Levels       [3]LevelState // broker, topic, subscription
}

// LevelState is the policy of one level. Source tells where it comes from; without one there is no limit.
type LevelState struct {
	Level     Level
	Source    Source
	Namespace string // the prefix, if that is the source
	Period    time.Duration
	Counters  [2]CounterState // messages, bytes
}

// CounterState is how a counter stands. A limit that nothing was taken from yet has a counter that is not used.
type CounterState struct {
	Unit  Unit
	Limit int64 // units in a period, or Unlimited; what follows is zero then
	Used  int64 // of the current window, debts included
	Left  int64 // of the current window
	Owed  int64 // by later windows

	NextWindow time.Duration // from now
	OpensIn    time.Duration // until something is left; zero: now

	Waiters int           // requests
	Waiting time.Duration // of the one that waits longest
	Claims  int           // those who share what there is; zero if nobody was refused lately
}

// Explain takes nothing and makes no state. Without a name the subscription is any whose group sets no limit. Counters that a change of limits has not reached yet are brought up to date, as the next fetch would.
func (x *Topic) Explain(i int32, sub string, now Instant) Explanation {
	r := x.limits()
	l := r.subscription
	if sub != "" {
		l = r.of(sub)
	}
	e := Explanation{Topic: x.name, Partition: i, Subscription: sub, Mode: r.rules.Mode}
	var topic, own bucket
	if q := x.find(i); q != nil {
		q.mu.Lock()
		q.topic.follow(x.home, r.topic, r.version, now)
		topic = q.topic
		if i, ok := q.search(sub); ok {
			q.subscriptions[i].bucket.follow(x.home, l, r.version, now)
			own = q.subscriptions[i].bucket
			tail := q.subscriptions[i].tail
			e.CaughtUp = r.rules.ExemptTail && tail != nil && tail.caughtUp
		}
		q.mu.Unlock()
	}
	e.Levels[BrokerLevel] = r.rules.broker.state(BrokerLevel, r.rules.brokerCounters, now)
	e.Levels[TopicLevel] = r.topic.state(TopicLevel, topic.counters, now)
	e.Levels[SubscriptionLevel] = l.state(SubscriptionLevel, own.counters, now)
	return e
}

// ExplainBroker is the broker's own level, which all partitions share.
func (t *Throttle) ExplainBroker(now Instant) LevelState {
	r := t.rules.Load()
	return r.broker.state(BrokerLevel, r.brokerCounters, now)
}

func (l *limit) state(level Level, counters [2]*Counter, now Instant) LevelState {
	s := LevelState{Level: level, Source: l.source, Namespace: l.namespace, Period: l.period}
	for u := range s.Counters {
		s.Counters[u] = CounterState{Unit: Unit(u), Limit: Unlimited}
		switch {
		case l.paces[u] == nil:
		case counters[u] == nil:
			s.Counters[u].Limit, s.Counters[u].Left = l.paces[u].units, l.paces[u].units
		default:
			s.Counters[u] = counters[u].state(Unit(u), now)
		}
	}
	return s
}

func (c *Counter) state(u Unit, now Instant) CounterState {
	v := c.look(now)
	p := v.span.pace
	s := CounterState{Unit: u, Limit: p.units, Used: v.used() - v.floor, Left: max(0, v.balance()), Owed: max(0, -v.balance())}
	s.NextWindow = time.Duration(v.begins() + Instant(p.period) - now)
	s.OpensIn = time.Duration(v.readyAt(now) - now)
	if c.crowd.Load() == nil {
		return s
	}
	cr := c.lockCrowd()
	defer cr.mu.Unlock()
	s.Claims = cr.claims.count
	for _, cl := range cr.waiting.items {
		for w := cl.first; w != nil; w = w.next {
			s.Waiters++
			s.Waiting = max(s.Waiting, time.Duration(now-w.since))
		}
	}
	return s
}

// Subscriptions are the subscriptions that have state on a partition, in order, by the names that Path knows them by. One of them,
// "\x00others", may stand for all that are beyond what a partition knows apart.
func (x *Topic) Subscriptions(i int32) (names []string) {
	q := x.find(i)
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.subscriptions {
		names = append(names, s.name)
	}
	return names
}

// Strictest is the subscription whose own limit is lowest, by messages and then by bytes in a second; the first of equals. It is
// what to charge as long as a fetch may belong to any of several.
func (x *Topic) Strictest(subs ...string) (strictest string) {
	r := x.limits()
	var least [2]float64
	for i, sub := range subs {
		rate := r.of(sub).perSecond()
		if i == 0 || rate[messages] < least[messages] || rate[messages] == least[messages] && rate[bytes] < least[bytes] {
			strictest, least = sub, rate
		}
	}
	return strictest
}

func (l *limit) perSecond() (rate [2]float64) {
	for u, p := range l.paces {
		rate[u] = noLimit
		if p != nil {
			rate[u] = float64(p.units) / time.Duration(p.period).Seconds()
		}
	}
	return rate
}
