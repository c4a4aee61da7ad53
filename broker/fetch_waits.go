package broker

import (
	"sync"
	"sync/atomic"
	"time"

	"sluice/throttle"
)

// cause is what a held fetch waits for: at each moment one thing.
type cause uint8

const (
	noData       cause = iota
	minBytes           // there is data, but less than the client asks for
	forAllowance       // of the broker's messages; behind it bytes, and the same for topic and subscription
	causes       = forAllowance + 6
)

func causeOf(a throttle.At) cause { return forAllowance + cause(2*uint8(a.Level)+uint8(a.Unit)) }

func (c cause) String() string {
	switch c {
	case noData:
		return "no data"
	case minBytes:
		return "min bytes"
	}
	return c.allowance().String()
}

// allowance is whose, and of what, a wait for allowance is.
func (c cause) allowance() throttle.At {
	c -= forAllowance
	return throttle.At{Level: throttle.Level(c / 2), Unit: throttle.Unit(c % 2)}
}

// maxWaits bounds the topics and groups whose waits are told apart, at about 250 bytes each. Those beyond are booked to their topic alone,
// and in the end to none.
const maxWaits = 100_000

// fetchWaits is how long fetches were held, by topic, group and cause. The zero value is ready.
type fetchWaits struct {
	mu  sync.RWMutex
	all map[waitKey]*waited
}

// waitKey is whose wait it is. A fetch of several topics that waits for data waits for all of them; that is booked to no topic.
type waitKey struct {
	topic *topic // nil: several, or one that is deleted
	group groupKey
}

// waited is the time that fetches were held, in nanoseconds, by cause. held is how many there were.
type waited struct {
	nanos [causes]atomic.Int64
	held  atomic.Int64
}

// of gives the account of a topic and a group.
func (w *fetchWaits) of(k waitKey) *waited {
	w.mu.RLock()
	x := w.all[k]
	w.mu.RUnlock()
	if x != nil {
		return x
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.account(k)
}

// account gives the account of a topic and a group, made if there is none. w.mu is held.
func (w *fetchWaits) account(k waitKey) (x *waited) {
	if w.all == nil {
		w.all = map[waitKey]*waited{}
	}
	if k.topic != nil && k.topic.unbooked {
		k = waitKey{}
	}
	if len(w.all) >= maxWaits {
		if k.group = (groupKey{}); len(w.all) >= 2*maxWaits {
			k.topic = nil
		}
	}
	if x = w.all[k]; x == nil {
		x = &waited{}
		w.all[k] = x
	}
	return x
}

// forget books what a deleted topic's fetches have waited, and those will that are held just now, to none: the sums over all never go down.
func (w *fetchWaits) forget(t *topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.unbooked = true
	rest := w.account(waitKey{})
	for k, x := range w.all {
		if k.topic == t {
			delete(w.all, k)
			rest.add(x)
		}
	}
}

func (x *waited) add(y *waited) {
	for c := range x.nanos {
		x.nanos[c].Add(y.nanos[c].Load())
	}
	x.held.Add(y.held.Load())
}

// each gives all accounts, in no order. topic is "" for waits for data of several topics and for those of deleted ones, group's zero value
// stands for these and for those beyond maxWaits.
func (w *fetchWaits) each(fn func(topic string, group groupKey, held int64, by [causes]time.Duration)) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for k, x := range w.all {
		name := ""
		if k.topic != nil {
			name = k.topic.name
		}
		var by [causes]time.Duration
		for c := range by {
			by[c] = time.Duration(x.nanos[c].Load())
		}
		fn(name, k.group, x.held.Load(), by)
	}
}

// wait is what a parked fetch waits for since when.
type wait struct {
	since throttle.Instant // zero: it does not wait
	cause cause
	part  int // of allowance: whose
}

// waitsOn books the time up to now, and notes what is waited for from now on. As long as that is the same it costs no look at the clock.
func (f *fetchCall) waitsOn(part int) {
	next := wait{cause: noData}
	switch {
	case f.lines == nil:
		return
	case part >= 0:
		next.cause, next.part = causeOf(f.parts[part].limit.refusal.At), part
	case f.avail > 0:
		next.cause = minBytes
	}
	if f.waiting.since != 0 && f.waiting.cause == next.cause && f.waiting.part == next.part {
		return
	}
	next.since = instant()
	f.book(next.since)
	if f.waiting.since == 0 {
		f.broker.dispatch.holding.Add(1)
	}
	f.waiting = next
	if next.cause >= forAllowance {
		f.broker.dispatch.throttledBy[next.cause].Add(1)
	}
}

// waitEnds books what is left of the wait.
func (f *fetchCall) waitEnds() {
	if f.waiting.since != 0 {
		f.book(instant())
		f.account(f.waiting).held.Add(1)
		f.broker.dispatch.holding.Add(-1)
		f.waiting = wait{}
	}
}

// book books the time since the last look to what was found then.
func (f *fetchCall) book(now throttle.Instant) {
	if w := f.waiting; w.since != 0 {
		f.account(w).nanos[w.cause].Add(int64(now - w.since))
	}
}

func (f *fetchCall) account(w wait) *waited {
	k := waitKey{}
	p := &f.parts[w.part]
	if w.cause >= forAllowance || len(f.topics) == 1 {
		k.topic = f.topics[p.topic].topic
	}
	for i := w.part; p.sub == nil && i < len(f.parts); i++ { // those that were refused belong to nobody
		p = &f.parts[i]
	}
	if p.sub != nil {
		k.group, _, _ = p.sub.key()
	}
	return f.broker.dispatch.waits.of(k)
}

// opensFirst gives the refused partition whose counters open first, or -1 if none is refused.
func (f *fetchCall) opensFirst() int {
	first := -1
	for i := range f.parts {
		first = f.earlier(first, i)
	}
	return first
}

// earlier is the one of two partitions that is refused for a shorter time.
func (f *fetchCall) earlier(a, b int) int {
	r := f.parts[b].refusedBy()
	if r == nil || a >= 0 && f.parts[a].limit.refusal.ReadyAt <= r.ReadyAt {
		return a
	}
	return b
}
