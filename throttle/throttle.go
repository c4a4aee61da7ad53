package throttle

import (
	"sync"
	"sync/atomic"
)

// Throttle holds the limits of a broker. It is safe for use by any number of goroutines.
type Throttle struct {
	version atomic.Uint64 // raised by every change of limits
	rules   atomic.Pointer[rules]
	timers  timers

	mu     sync.Mutex // guards what follows
	broker bucket
	topics map[*Topic]struct{}
}

// New makes a throttle without limits. arm is told the earliest instant at which Wake is to be called whenever that becomes earlier; it must not
// block.
func New(arm func(at Instant)) *Throttle {
	t := &Throttle{timers: newTimers(arm), topics: map[*Topic]struct{}{}}
	t.rules.Store(compile(Settings{}))
	return t
}

// Configure puts all settings but the topics' own in force. When it returns the counters there are have their new pace, and every
// waiting request has been told to look again.
func (t *Throttle) Configure(s Settings, now Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := compile(s)
	t.broker.follow(t, r.broker, 0, now)
	r.brokerCounters = t.broker.counters
	t.rules.Store(r)
	t.version.Add(1)
	for x := range t.topics {
		x.retune(now)
	}
	t.fireAll()
}

// fireAll comes after a change. A request that resolved its path before the version was raised, and begins to wait after this, sees the
// new version.
func (t *Throttle) fireAll() {
	for _, c := range t.timers.all() {
		c.fireAll()
	}
}

// Wake invites those whose counters have opened, and tells when it is to be called next.
func (t *Throttle) Wake(now Instant) (next Instant) {
	for {
		c, next := t.timers.due(now)
		if c == nil {
			return next
		}
		c.due(now)
	}
}

// Limited tells whether the broker's own allowance has a limit, which all partitions share then.
func (t *Throttle) Limited() bool { return t.rules.Load().broker.limits() }

func (t *Throttle) fairness() fairness { return t.rules.Load().fairness }

// bucket is the two counters of a level.
type bucket struct {
	version  uint64
	limit    *limit
	counters [2]*Counter
}

// follow brings a bucket to a limit. A limit that goes takes its counters with it, and what they were owed is forgiven. Who
// comes late with an older version finds the newer one kept.
func (b *bucket) follow(t *Throttle, l *limit, version uint64, now Instant) {
	if b.limit == l || version < b.version {
		return
	}
	b.limit, b.version = l, version
	for u, p := range l.paces {
		switch {
		case p == nil && b.counters[u] == nil:
		case p == nil:
			b.counters[u].fireAll()
			b.counters[u] = nil
		case b.counters[u] == nil:
			b.counters[u] = newCounter(t, p, now)
		default:
			b.counters[u].set(p, now)
		}
	}
}

// retune changes the pace of the counters there are, and has those who wait for them look again. Counters whose limit is gone go; those
// that come wait until they are asked for, so that their windows do not all begin at the moment of the change.
func (b *bucket) retune(l *limit, version uint64, now Instant) {
	b.version = max(b.version, version)
	for u, c := range b.counters {
		if c == nil {
			continue
		}
		if l.paces[u] != nil {
			c.set(l.paces[u], now)
		} else {
			b.counters[u], b.limit = nil, nil
		}
		c.fireAll()
	}
}
