package broker

import (
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxSubscriptions bounds what is remembered of who reads what, at about 250 bytes each: 256 MiB. Beyond it a Fetch
	// is resolved anew each time.
	maxSubscriptions = 1 << 20
	// subscriptionIdle is how long a partition need not be fetched on a connection until that is forgotten.
	subscriptionIdle = 10 * time.Minute
	// maxRivals is how many groups are told that an unsettled subscription may belong to.
	maxRivals = 16
)

// groupKey names those who share one allowance on a partition: a group, or a stand-in for it where the group is not known.
// It is comparable.
type groupKey struct {
	group bool   // name is a group's
	name  string // of a stand-in: "client:<principal>/<client.id>", "connection:<id>", "shared"; "": none applies
}

// method is how a Fetch was found to belong to a group.
type method uint8

const (
	byHint     method = iota // the client id names the group: dispatch.subscription.client.id.pattern
	byAffinity               // the connection carries the requests of a member
	byIdentity               // client id and principal are those of a member that owns the partition
	byTiebreak               // of several such groups, by host, rack, first offset or software
	bySlot                   // of several that nothing tells apart, one to each connection
	bySimple                 // of a group without members that commits
	byFallback               // of none that is known
	methods
)

func (m method) String() string {
	return [methods]string{"hint", "affinity", "identity", "tiebreak", "slot", "simple", "fallback"}[m]
}

// topicPartition is a partition by its topic's identity.
type topicPartition struct {
	topic     *topic
	partition int32
}

// subscription is one connection that reads one partition. Fetches find it in fetchPart.sub; it stays the same while
// the connection reads on, so what belongs to the pair may be kept beside it.
type subscription struct {
	conn *connState
	topicPartition
	first int64  // offset of the first fetch
	order uint64 // of creation
	// transient is set on one that is not listed, for there was no room, or it was idle: it is of one fetch.
	transient bool

	result  atomic.Pointer[resolution] // nil: it was forgotten
	checked atomic.Uint64              // owners.changes at the last check
	epoch   uint32                     // conn.epoch at the last check; the reader's
	rules   uint32                     // resolver.rules at the last check; the reader's
	again   stamp                      // when it may be looked up again; the reader's

	fetched  atomic.Int64 // stamp of the last fetch
	position atomic.Int64 // offset up to which it was given records

	labelled uint64 // order of its label; guarded by resolver.mu

	use atomic.Pointer[subscriptionUse] // see fetch_limits.go; nil until something was taken
}

// resolution is whom a subscription belongs to; immutable.
type resolution struct {
	key     groupKey
	method  method
	rivals  []string // of bySlot until a commit settles it: the groups it may be
	settled bool     // a commit told

	*mark          // of the group on the partition; nil: the group owns nothing there
	version uint64 // of the index
	until   stamp  // it must be looked up again then
}

// never is later than any stamp, and -never earlier; they are far enough from the ends to be reckoned with.
const never = stamp(1 << 62)

// resolver says which group a Fetch belongs to: a Fetch does not. It joins what is known of the connection (conn_state.go)
// to who owns the partition (owners.go) by the rules of resolve.go.
//
// The answer is remembered for each connection and partition and checked against the version of the index, so that a
// Fetch costs a few loads and stores for each partition and allocates nothing.
//
// Lock order: resolver, then connState or owners.
type resolver struct {
	owners     *owners
	unresolved func() string         // dispatch.throttling.unresolved.subscription
	hint       func() *regexp.Regexp // dispatch.subscription.client.id.pattern; nil: none
	counted    func(method)          // a resolution was made
	topicOf    func(name string) *topic

	rules atomic.Uint32 // raised when unresolved or hint change
	slots atomic.Int64  // subscriptions that a commit may settle

	mu      sync.Mutex // guards what follows
	conns   map[*connState]struct{}
	readers map[topicPartition][]*subscription // in order of creation
	count   int                                // subscriptions
	orders  uint64
	labels  uint64
	expired stamp    // when idle ones were forgotten last
	found   found    // scratch
	own     []*claim // scratch
}

func newResolver(o *owners) *resolver {
	return &resolver{
		owners: o, unresolved: func() string { return fallbackClientID }, hint: func() *regexp.Regexp { return nil }, counted: func(method) {},
		conns: map[*connState]struct{}{}, readers: map[topicPartition][]*subscription{},
	}
}

// subscription tells whom a fetch of a partition from an offset belongs to, and notes that it is being read. known is what
// an earlier call gave, or nil. It runs on the connection's reader. What it gives is never nil, and has a result.
func (r *resolver) subscription(known *subscription, c *connState, k topicPartition, offset int64, now stamp) *subscription {
	s := known
	if s == nil || s.conn != c || s.topicPartition != k {
		s = c.read(k)
	}
	if s == nil || s.transient || s.result.Load() == nil {
		s = r.add(c, k, offset, now)
	}
	res := s.result.Load()
	if res == nil || s.checked.Load() != r.owners.changes.Load() || s.epoch != c.epoch || now >= res.until {
		res = r.check(s, now)
	}
	s.note(res, offset, now)
	return s
}

// noteEvery is how old the time of the last fetch may be before it is noted anew: stores cost more than loads, and it
// is needed to the second.
const noteEvery = 10 * time.Millisecond

// note says that the subscription is being read.
func (s *subscription) note(res *resolution, offset int64, now stamp) {
	if s.position.Load() != offset {
		s.position.Store(offset)
	}
	if now-stamp(s.fetched.Load()) > stamp(noteEvery) {
		s.fetched.Store(int64(now))
	}
	m := res.mark
	if m == nil {
		return
	}
	if m.position.Load() != offset {
		m.position.Store(offset)
	}
	if now-stamp(m.read.Load()) > stamp(noteEvery) {
		m.read.Store(int64(now))
	}
}

// key gives whose allowance the subscription draws on, and how that was found. rivals are the groups that it may be just as
// well; nil when it is settled.
func (s *subscription) key() (k groupKey, how method, rivals []string) {
	res := s.result.Load()
	if res == nil {
		return groupKey{}, byFallback, nil // forgotten in this moment
	}
	return res.key, res.method, res.rivals
}

// readUntil says that the subscription is being read until a time; a fetch that waits is reading.
func (s *subscription) readUntil(at stamp) {
	if res := s.result.Load(); res != nil && res.mark != nil {
		res.read.Store(int64(at))
	}
}

// committed is told of each offset that a member has committed.
func (r *resolver) committed(groupID, topic string, partition int32, offset int64, who identity, now stamp) {
	if m := r.owners.noteCommit(groupID, topic, partition); m != nil {
		m.offset.Store(offset)
		m.read.Store(max(m.read.Load(), int64(now)))
	}
	if r.slots.Load() > 0 {
		r.settle(groupID, topicPartition{r.topicOf(topic), partition}, offset, who)
	}
}

// add begins a subscription.
func (r *resolver) add(c *connState, k topicPartition, offset int64, now stamp) *subscription {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orders++
	s := &subscription{conn: c, topicPartition: k, first: offset, order: r.orders, epoch: c.epoch, rules: r.rules.Load()}
	s.fetched.Store(int64(now))
	s.position.Store(offset)
	if r.count >= maxSubscriptions {
		r.expireLocked(now)
	}
	c.mu.Lock()
	known := !c.closed && r.count < maxSubscriptions
	if known {
		if c.reads == nil {
			c.reads = map[topicPartition]*subscription{}
		}
		c.reads[k] = s
		r.count++
	}
	c.mu.Unlock()
	s.checked.Store(r.owners.changes.Load())
	res := r.decide(s, now)
	r.counted(res.method)
	if s.transient = !known; s.transient {
		s.result.Store(res)
		return s
	}
	r.label(s, res)
	return s
}

// lookupPause is how long a look-up is good for, for each claim that it goes through, whatever changes meanwhile: more than
// a hundred times what it takes. With thousands of groups on one partition each change in one of them would have all
// looked up again.
const lookupPause = time.Millisecond

// check looks a subscription up again if something has changed that may matter to it.
func (r *resolver) check(s *subscription, now stamp) *resolution {
	changes, res := r.owners.changes.Load(), s.result.Load()
	rules := r.rules.Load()
	same := res != nil && s.epoch == s.conn.epoch && s.rules == rules && now < res.until
	if same && (now < s.again || r.owners.version(s.topic.name, s.partition) == res.version) {
		if now >= s.again {
			s.checked.Store(changes)
		}
		return res
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.decide(s, now)
	s.checked.Store(changes)
	s.epoch, s.rules = s.conn.epoch, rules
	if len(r.found.claims) > maxMarked {
		s.again = now + stamp(lookupPause)*stamp(len(r.found.claims))
	}
	old := s.result.Load()
	if old == nil || old.key != next.key || old.method != next.method {
		r.counted(next.method)
	}
	if old == nil { // forgotten meanwhile: the next fetch begins another
		s.transient = true
		s.result.Store(next)
		return next
	}
	r.label(s, next)
	return next
}

// label gives a subscription its result. The lock is held.
func (r *resolver) label(s *subscription, res *resolution) {
	old := s.result.Load()
	if old == nil {
		r.readers[s.topicPartition] = append(r.readers[s.topicPartition], s)
	}
	if old == nil || old.key != res.key {
		r.labels++
		s.labelled = r.labels
	}
	r.slots.Add(open(res) - open(old))
	old.count(-1)
	res.count(+1)
	s.result.Store(res)
}

// count counts a subscription in or out at the mark of its group. The resolver's lock is held.
func (res *resolution) count(n int) {
	if res != nil && res.mark != nil {
		res.readers += n
	}
}

// open is 1 for a result that a commit may settle.
func open(res *resolution) int64 {
	if res != nil && res.rivals != nil {
		return 1
	}
	return 0
}

// forget ends a subscription. Both locks are held.
func (r *resolver) forget(s *subscription) {
	res := s.result.Swap(nil)
	if res == nil {
		return
	}
	r.slots.Add(-open(res))
	res.count(-1)
	left := slices.DeleteFunc(r.readers[s.topicPartition], func(x *subscription) bool { return x == s })
	if r.readers[s.topicPartition] = left; len(left) == 0 {
		delete(r.readers, s.topicPartition)
	}
	delete(s.conn.reads, s.topicPartition)
	r.count--
}

// rulesChanged has everything looked up again: settings have changed.
func (r *resolver) rulesChanged() {
	r.rules.Add(1)
	r.owners.changes.Add(1)
}

func (r *resolver) opened(c *connState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[c] = struct{}{}
}

// closed forgets a connection.
func (r *resolver) closed(c *connState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, s := range c.reads {
		r.forget(s)
	}
}

// expire forgets, if it did not lately, what was not read for long.
func (r *resolver) expire(now stamp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expireLocked(now)
}

func (r *resolver) expireLocked(now stamp) {
	if now-r.expired < stamp(subscriptionIdle/10) {
		return
	}
	r.expired = now
	for c := range r.conns {
		c.mu.Lock()
		for _, s := range c.reads {
			if now-stamp(s.fetched.Load()) > stamp(subscriptionIdle) {
				r.forget(s)
			}
		}
		c.mu.Unlock()
	}
}
