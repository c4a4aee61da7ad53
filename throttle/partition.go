package throttle

import (
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxSubscriptions bounds the subscriptions that a partition knows apart, at some 200 bytes each. More than a few groups seldom
	// read one partition, but without a group a subscription's name may come from a client id, of which there is no end. Those beyond
	// share one more.
	maxSubscriptions = 1000
	// others is the name that they share. No group or client id can have it.
	others = "\x00others"
	// keepIdle is the least time for which unused counters are kept.
	keepIdle = time.Minute
)

// partition is the state of a partition on which a limit applies, or whose subscriptions are watched for backlog.
type partition struct {
	mu            sync.Mutex // guards what follows
	gone          bool       // taken out of its topic; look again
	used          Instant
	topic         bucket
	subscriptions []*subscription // by name
}

// subscription is the state of a subscription on a partition.
type subscription struct {
	name   string
	used   Instant
	bucket bucket
	tail   *tail // nil as long as nobody asks for backlog
}

// path fills in the counters of the topic and of the subscription.
func (q *partition) path(p *Path, t *Throttle, r *resolved, l *limit, now Instant) {
	q.used = max(q.used, now)
	q.topic.follow(t, r.topic, r.version, now)
	p.counters[2], p.counters[3] = q.topic.counters[0], q.topic.counters[1]
	if l.limits() {
		s := q.subscription(p.who.subscription, now)
		p.who.subscription = s.name
		s.bucket.follow(t, l, r.version, now)
		p.counters[4], p.counters[5] = s.bucket.counters[0], s.bucket.counters[1]
	}
}

func (q *partition) retune(r *resolved, now Instant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.topic.retune(r.topic, r.version, now)
	for _, s := range q.subscriptions {
		s.bucket.retune(r.of(s.name), r.version, now)
	}
}

// subscription is the state of a subscription, made if it has none.
func (q *partition) subscription(name string, now Instant) *subscription {
	i, ok := q.search(name)
	if !ok && len(q.subscriptions) >= maxSubscriptions {
		name = others
		i, ok = q.search(name)
	}
	if !ok {
		q.subscriptions = slices.Insert(q.subscriptions, i, &subscription{name: name})
	}
	s := q.subscriptions[i]
	s.used = max(s.used, now)
	return s
}

func (q *partition) search(name string) (i int, ok bool) {
	return slices.BinarySearchFunc(q.subscriptions, name, func(s *subscription, name string) int { return strings.Compare(s.name, name) })
}

// sweep drops what was not used for long and owes nothing. Nobody can be about to take from it: a path is good for one look.
func (q *partition) sweep(now Instant) (empty bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.subscriptions = slices.DeleteFunc(q.subscriptions, func(s *subscription) bool { return s.bucket.idle(s.used, now) })
	q.gone = len(q.subscriptions) == 0 && q.topic.idle(q.used, now)
	return q.gone
}

// Sweep drops the state of partitions and subscriptions that were not used for a minute, of whose window nothing was used, and that owe
// nothing, and those who do not come back for more of the broker's allowance. Call it once in a while.
func (t *Throttle) Sweep(now Instant) {
	for _, c := range t.rules.Load().brokerCounters {
		if c != nil {
			c.sweep(now)
		}
	}
	t.mu.Lock()
	topics := make([]*Topic, 0, len(t.topics))
	for x := range t.topics {
		topics = append(topics, x)
	}
	t.mu.Unlock()
	for _, x := range topics {
		x.sweep(now)
	}
}

func (x *Topic) sweep(now Instant) {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := x.partitions.Load()
	if list == nil {
		return
	}
	left := false
	for i := range *list {
		switch q := (*list)[i].Load(); {
		case q == nil:
		case q.sweep(now):
			(*list)[i].Store(nil)
		default:
			left = true
		}
	}
	if !left {
		x.partitions.Store(nil)
	}
}

// idle tells whether a bucket that was last used then can be forgotten: a new one would be the same.
func (b *bucket) idle(used, now Instant) bool {
	for _, c := range b.counters {
		if c == nil {
			continue
		}
		if v := c.look(now); v.used() > v.floor || c.waitedFor() {
			return false
		}
	}
	return now-used >= Instant(keepIdle)
}

// waitedFor tells whether somebody waits for the counter.
func (c *Counter) waitedFor() bool {
	if c.crowd.Load() == nil {
		return false
	}
	cr := c.lockCrowd()
	defer cr.mu.Unlock()
	return len(cr.waiting.items) > 0
}
