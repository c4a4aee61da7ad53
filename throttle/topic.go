package throttle

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// Topic holds the limits of a topic's partitions. The broker has one for each topic, for as long as the topic lives.
type Topic struct {
	home     *Throttle
	name     string
	resolved atomic.Pointer[resolved]

	mu         sync.Mutex // guards what follows; taken before a partition's
	own        Policies
	partitions atomic.Pointer[[]*partition] // replaced under mu, never changed in place
}

// resolved is a topic's limits under one version of all settings.
type resolved struct {
	version uint64
	rules   *rules
	topicLimits
}

// partition is the buckets of a partition, made where a limit applies.
type partition struct {
	mu            sync.Mutex // guards what follows
	topic         bucket
	subscriptions []subscription // by name
}

type subscription struct {
	name   string
	bucket *bucket
}

// Topic adds a topic. Its own policies are set with Configure.
func (t *Throttle) Topic(name string) *Topic { return &Topic{home: t, name: name} }

// Configure sets the topic's own policies and has every waiting request look again.
func (x *Topic) Configure(own Policies) {
	x.mu.Lock()
	same := x.own == own
	x.own = own
	x.mu.Unlock()
	if !same {
		x.home.changed()
	}
}

// Path finds the counters between a partition and a subscription, which is "" when it is not known: then the levels of broker
// and topic hold. It costs a few nanoseconds if there is no limit.
func (x *Topic) Path(i int32, sub string, now Instant) (p Path) {
	r := x.limits()
	l := r.subscription
	if sub == "" {
		l = unlimited
	} else if g := r.rules.groups[sub]; g != nil {
		l = g
	}
	if !r.rules.broker.limits() && !r.topic.limits() && !l.limits() {
		return p
	}
	p.rules, p.version, p.who = r.rules, r.version, claimant{x, i, sub}
	p.counters[0], p.counters[1] = r.rules.brokerCounters[0], r.rules.brokerCounters[1]
	if r.topic.limits() || l.limits() {
		x.partition(i).path(&p, x.home, r, l, now)
	}
	return p
}

var unlimited = &limit{messages: -1, bytes: -1}

// limits are the topic's limits as of now.
func (x *Topic) limits() *resolved {
	version := x.home.version.Load()
	if r := x.resolved.Load(); r != nil && r.version == version {
		return r
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	rules := x.home.rules.Load()
	r := &resolved{version, rules, rules.resolve(x.name, x.own)}
	x.resolved.Store(r)
	return r
}

// partition is a partition's state, made if it has none.
func (x *Topic) partition(i int32) *partition {
	if list := x.partitions.Load(); list != nil && int(i) < len(*list) && (*list)[i] != nil {
		return (*list)[i]
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var list []*partition
	if old := x.partitions.Load(); old != nil {
		list = slices.Clone(*old)
	}
	for len(list) <= int(i) {
		list = append(list, nil)
	}
	if list[i] == nil {
		list[i] = &partition{topic: bucket{shared: true}}
	}
	x.partitions.Store(&list)
	return list[i]
}

// path fills in the counters of the topic and of the subscription.
func (q *partition) path(p *Path, t *Throttle, r *resolved, sub *limit, now Instant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.topic.follow(t, r.topic, r.version, now)
	p.counters[2], p.counters[3] = q.topic.counters[0], q.topic.counters[1]
	if sub.limits() {
		b := q.subscription(p.who.subscription)
		b.follow(t, sub, r.version, now)
		p.counters[4], p.counters[5] = b.counters[0], b.counters[1]
	}
}

func (q *partition) subscription(name string) *bucket {
	i, ok := slices.BinarySearchFunc(q.subscriptions, name, func(s subscription, name string) int { return cmp.Compare(s.name, name) })
	if !ok {
		q.subscriptions = slices.Insert(q.subscriptions, i, subscription{name, &bucket{}})
	}
	return q.subscriptions[i].bucket
}
