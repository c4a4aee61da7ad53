package broker

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/group"
)

// Stalled members: they send heartbeats, so that their sessions last and nobody takes over what they own, but for longer than
// their own poll interval they neither fetch nor commit a partition in which records wait. Their threads may hang, or work on one
// record for ever; to a session timeout they look well.
//
// A check goes through the claims that stand (owners.go), which costs a few loads each; only for those that nobody has
// read for the poll interval of their owner it asks for offsets, and for what the group machine knows of the member.

// maxStalled bounds the partitions that one check looks at closely and keeps, at about 200 bytes each.
const maxStalled = 100_000

// stalls knows the stalled members as of its last check.
type stalls struct {
	owners   *owners
	resolver *resolver
	// bounds tells a partition's first offset and its high watermark; ok is false when it cannot.
	bounds func(topic string, partition int32) (start, high int64, ok bool)
	// ask asks the machine of a shard; nil when it does not answer in time.
	ask func(shard int32, asked []group.Holder) []group.Holding
	// began is called once for each member that stalls, with no lock held.
	began func(stalledMember)
	// evict ends a membership; it is called at each check while evicts says so (group.stalled.member.action).
	evicts func() bool
	evict  func(stalledMember)

	interval func() time.Duration // between two checks (group.stalled.check.interval.ms)
	stopping chan struct{}        // nil: nothing checks
	running  sync.WaitGroup

	episodes, evictions prometheus.Counter

	mu      sync.Mutex
	members map[memberKey]stalledMember
	last    stamp // of the last check
	floor   stamp // nothing was idle before
}

type memberKey struct{ group, member string }

// stalledMember is a member with the partitions that it does not read.
type stalledMember struct {
	*owner
	partitions []stalledPartition
}

type stalledPartition struct {
	topic     string
	partition int32
	since     stamp // somebody read it for the group until then
	backlog   int64 // records
}

// idleClaim is a claim that has not been used for the poll interval of its owner.
type idleClaim struct {
	*owner
	topic     string
	partition int32
	shard     int32
	since     stamp
	position  int64 // of the group's last fetch; -1: none is known
}

func newStalls(o *owners, r *resolver) *stalls {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &stalls{
		owners: o, resolver: r, began: func(stalledMember) {}, evicts: func() bool { return false }, members: map[memberKey]stalledMember{},
		episodes:  counter("sluice_group_stalls_total", "Times that a group member stopped reading while it sent heartbeats."),
		evictions: counter("sluice_group_stalled_evictions_total", "Stalled group members whose membership was ended."),
	}
}

// check looks for stalled members. pause is a time between two checks that shows that the process did not run: then
// everybody gets a full poll interval to be seen.
func (s *stalls) check(now time.Time, pause time.Duration) {
	at := stampOf(now)
	s.mu.Lock()
	if s.last == 0 || at-s.last > stamp(pause) {
		s.floor = at
	}
	s.last = at
	floor, before := s.floor, s.members
	s.mu.Unlock()

	s.resolver.expire(at)
	found := s.look(now, floor)
	s.mu.Lock()
	s.members = found
	s.mu.Unlock()
	for k, m := range found {
		if _, known := before[k]; !known {
			s.episodes.Inc()
			s.began(m)
		}
		if s.evicts() {
			s.evict(m)
		}
	}
}

// look finds all that are stalled now.
func (s *stalls) look(now time.Time, floor stamp) map[memberKey]stalledMember {
	suspects := map[int32][]idleClaim{}
	for _, c := range s.owners.idle(stampOf(now), floor, maxStalled) {
		if s.suspicious(&c, stampOf(now)) {
			suspects[c.shard] = append(suspects[c.shard], c)
		}
	}
	found := map[memberKey]stalledMember{}
	for shard, claims := range suspects {
		asked := make([]group.Holder, len(claims))
		for i, c := range claims {
			asked[i] = group.Holder{Group: c.group, Member: c.member, Epoch: c.epoch, Topic: c.topic, Partition: c.partition}
		}
		for i, h := range s.ask(shard, asked) {
			c := &claims[i]
			if backlog := s.backlog(c, h, now); backlog > 0 {
				k := memberKey{c.group, c.member}
				found[k] = stalledMember{c.owner, append(found[k].partitions, stalledPartition{c.topic, c.partition, c.since, backlog})}
			}
		}
	}
	return found
}

// suspicious sorts out what needs no question to a machine: an empty partition, and one that somebody on the member's
// host reads whose group is not known.
func (s *stalls) suspicious(c *idleClaim, now stamp) bool {
	start, high, ok := s.bounds(c.topic, c.partition)
	if !ok || high <= start {
		return false
	}
	stranger := s.resolver.strangerRead(c.topic, c.partition, c.host)
	return now-stranger > stamp(c.pollInterval)
}

// backlog is how many records wait; 0 when the member is not to blame: it is not what it was, has committed lately, or may be dead, which
// its session will show. Where nothing was committed, the group stands where it fetched last.
func (s *stalls) backlog(c *idleClaim, h group.Holding, now time.Time) int64 {
	idle := now.Sub(c.since.time())
	switch {
	case !h.Owns, now.Sub(h.Heard) > idle/2:
		return 0
	case h.Offset >= 0 && now.UnixMilli()-h.Committed <= c.pollInterval.Milliseconds():
		return 0
	}
	start, high, _ := s.bounds(c.topic, c.partition)
	from := start
	switch {
	case h.Offset >= 0:
		from = max(start, h.Offset)
	case c.position >= 0:
		from = max(start, c.position)
	}
	return high - from
}

// of tells whether a member is stalled, and with what.
func (s *stalls) of(groupID, member string) (stalledMember, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.members[memberKey{groupID, member}]
	return m, ok
}

// all gives the stalled members, in order.
func (s *stalls) all() []stalledMember {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Collect(maps.Values(s.members))
	slices.SortFunc(list, func(a, b stalledMember) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.member, b.member))
	})
	return list
}

// idle finds the claims that nobody has used for the poll interval of their owner.
func (o *owners) idle(now, floor stamp, most int) (list []idleClaim) {
	for _, topic := range o.topicNames() {
		if list = o.idleIn(list, topic, now, floor); len(list) >= most {
			return list[:most]
		}
	}
	return list
}

func (o *owners) topicNames() []string {
	o.mu.RLock()
	defer o.mu.RUnlock()
	names := make([]string, 0, len(o.topics))
	for name := range o.topics {
		names = append(names, name)
	}
	return names
}

func (o *owners) idleIn(list []idleClaim, topic string, now, floor stamp) []idleClaim {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for p, x := range o.topics[topic] {
		for _, c := range x.claims {
			since := max(floor, c.since, stamp(c.read.Load()))
			if g := o.groups[c.group]; g != nil && c.until.IsZero() && c.pollInterval > 0 && now-since > stamp(c.pollInterval) {
				list = append(list, idleClaim{c.owner, topic, int32(p), g.shard, since, c.position.Load()})
			}
		}
	}
	return list
}

// strangerRead is when a partition was last fetched from a host by somebody whose group is not known; long ago, if never.
func (r *resolver) strangerRead(topic string, partition int32, host string) (last stamp) {
	last = -never
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.readers[topicPartition{r.topicOf(topic), partition}] {
		if s.group() == "" && s.conn.host == host {
			last = max(last, stamp(s.fetched.Load()+s.conn.wait.Load()))
		}
	}
	return last
}
