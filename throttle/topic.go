package throttle

import (
	"sync"
	"sync/atomic"
)

// Topic holds the limits of a topic's partitions. The broker has one for each topic, for as long as the topic lives.
type Topic struct {
	home       *Throttle
	name       string
	resolved   atomic.Pointer[resolved]
	partitions atomic.Pointer[partitions] // replaced by a longer one under mu

	mu  sync.Mutex // guards own and who writes partitions; taken before a partition's
	own Policies
}

// partitions is the state of a topic's partitions by number, nil where no limit applied yet.
type partitions []atomic.Pointer[partition]

// resolved is a topic's limits under one version of all settings.
type resolved struct {
	version uint64
	rules   *rules
	levels
	limited bool // something holds
}

// Topic adds a topic, which has no policies of its own before Configure. Close takes it out.
func (t *Throttle) Topic(name string) *Topic {
	x := &Topic{home: t, name: name}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.topics[x] = struct{}{}
	return x
}

// Close takes a deleted topic out. Who still has it goes on as before.
func (x *Topic) Close() {
	x.home.mu.Lock()
	defer x.home.mu.Unlock()
	delete(x.home.topics, x)
}

// Configure sets the topic's own policies. It does for the topic what Throttle.Configure does for all; who is refused by the broker's counters is
// left alone, because these have not changed.
func (x *Topic) Configure(own Policies, now Instant) {
	x.mu.Lock()
	same := x.own == own
	x.own = own
	x.mu.Unlock()
	if same {
		return
	}
	x.home.version.Add(1)
	x.retune(now)
}

// retune brings the counters of all partitions to the topic's limits. A debt is paid at the pace that was in force, window by window, so this
// does not wait for the next fetch.
func (x *Topic) retune(now Instant) {
	list := x.partitions.Load()
	if list == nil {
		return
	}
	r := x.limits()
	for i := range *list {
		if q := (*list)[i].Load(); q != nil {
			q.retune(r, now)
		}
	}
}

// Path finds the counters between a partition, which must exist, and a subscription, which is "" when it is not known: then the
// levels of broker and topic hold. Without limits it costs a few nanoseconds.
func (x *Topic) Path(i int32, sub string, now Instant) (p Path) {
	r := x.limits()
	if !r.limited {
		return p
	}
	l := r.of(sub)
	if !r.rules.broker.limits() && !r.topic.limits() && !l.limits() {
		return p
	}
	p.rules, p.version, p.who = r.rules, r.version, claimant{x, i, sub}
	p.counters[0], p.counters[1] = r.rules.brokerCounters[0], r.rules.brokerCounters[1]
	if r.topic.limits() || l.limits() {
		q := x.lock(i)
		q.path(&p, x.home, r, l, now)
		q.mu.Unlock()
	}
	return p
}

// Limited tells whether there may be a limit between a partition of the topic and some subscription. It costs two loads.
func (x *Topic) Limited() bool { return x.limits().limited }

// limits are the topic's limits as of now.
func (x *Topic) limits() *resolved {
	version := x.home.version.Load() // before the rules: what is newer than its version is found out of date next time
	if r := x.resolved.Load(); r != nil && r.version == version {
		return r
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	rules := x.home.rules.Load()
	r := &resolved{version: version, rules: rules, levels: rules.resolve(x.name, x.own)}
	r.limited = rules.broker.limits() || r.topic.limits() || r.subscription.limits() || len(rules.groups) > 0
	x.resolved.Store(r)
	return r
}

// lock gives a partition's state, made if it has none, and locked.
func (x *Topic) lock(i int32) *partition {
	for {
		q := x.find(i)
		if q == nil {
			q = x.add(i)
		}
		q.mu.Lock()
		if !q.gone {
			return q
		}
		q.mu.Unlock()
	}
}

// find gives nil for a partition without state.
func (x *Topic) find(i int32) *partition {
	if list := x.partitions.Load(); list != nil && int(i) < len(*list) {
		return (*list)[i].Load()
	}
	return nil
}

func (x *Topic) add(i int32) *partition {
	x.mu.Lock()
	defer x.mu.Unlock()
	if q := x.find(i); q != nil {
		return q
	}
	q := &partition{}
	x.put(i, q)
	return q
}

// put sets the state of a partition, in a list that is at least twice as long if it is too short: a fetch may be the first of ten thousand partitions. Who has
// the shorter list does not see the state, and takes mu before it makes another. x.mu is held.
func (x *Topic) put(i int32, q *partition) {
	list := x.partitions.Load()
	if list == nil || int(i) >= len(*list) {
		var old partitions
		if list != nil {
			old = *list
		}
		longer := make(partitions, max(int(i)+1, 2*len(old)))
		for j := range old {
			longer[j].Store(old[j].Load())
		}
		list = &longer
		x.partitions.Store(list)
	}
	(*list)[i].Store(q)
}
