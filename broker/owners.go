package broker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/group"
)

// drainTime is how long a partition's last owner in a group is remembered after it lost the partition: it may still have
// requests under way, or read what it had asked for.
const drainTime = 30 * time.Second

// maxPast is how many past claims are remembered, in partitions: some tens of megabytes. A client can have them made as fast
// as it makes its group rebalance; then they are forgotten early.
const maxPast = 1 << 20

// owners is the index from partitions to those who own them in their groups. It stands on the orders of the group
// machines and says which groups a Fetch may belong to. Assignments are what a client says, so only partitions that
// exist are indexed.
type owners struct {
	partitionsOf func(topic string) int32 // 0 for an unknown topic
	changes      atomic.Uint64            // raised by every change, for those who keep what they looked up

	mu     sync.RWMutex
	topics map[string][]ownedPartition // by partition
	groups map[string]*groupClaims
	ended  []endedClaims // in the order of their end
	past   int           // partitions that they name

	simples int // entries of ownedPartition.simple, of all partitions
}

func newOwners(partitionsOf func(topic string) int32) *owners {
	return &owners{partitionsOf: partitionsOf, topics: map[string][]ownedPartition{}, groups: map[string]*groupClaims{}}
}

// ownedPartition is who may read a partition for a group.
type ownedPartition struct {
	claims  []claim   // the newest last
	simple  []*simple // groups without members that commit; see simple.go
	version uint64    // owners.changes as of the last change here
}

// owner is a member of a group in one epoch, shared by all its claims.
type owner struct {
	group, member string
	identity
	host, rack, software string
	epoch                int32         // generation or member epoch
	pollInterval         time.Duration // how long it may take between two polls, by its own word
}

// claim is an owner's hold on a partition. Of a group there is at most one that is past: the last.
type claim struct {
	*owner
	until time.Time // of one that is past; zero: it stands
	since stamp     // when the member came to hold the partition, in whatever epoch
	*mark           // the group's on this partition
}

// mark is what a group was seen to do on a partition. All of its claims there share it.
type mark struct {
	read   atomic.Int64 // stamp until which somebody read the partition for the group, or committed
	offset atomic.Int64 // that the group was told or has committed last; -1: not known
	// position is the offset of the group's last fetch; -1: not known.
	position atomic.Int64
	readers  int // subscriptions that are the group's there; guarded by resolver.mu
}

func newMark() *mark {
	m := &mark{}
	m.read.Store(int64(-never))
	m.offset.Store(-1)
	m.position.Store(-1)
	return m
}

// stamp is nanoseconds of the monotonic clock since the process began, for what is read and written without a lock.
type stamp int64

var processStart = time.Now()

func stampOf(t time.Time) stamp { return stamp(t.Sub(processStart)) }

func (s stamp) time() time.Time { return processStart.Add(time.Duration(s)) }

// groupClaims is what the members of a group own.
type groupClaims struct {
	shard   int32
	members map[string]memberClaims
}

type memberClaims struct {
	*owner
	partitions map[string][]int32 // the machine's; not changed
}

// endedClaims are what a member had when it got, or lost, others.
type endedClaims struct {
	memberClaims
	until time.Time
}

// set follows an order of a machine.
func (o *owners) set(shard int32, own group.Ownership, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expire(now)
	g := o.groups[own.Group]
	if g == nil {
		g = &groupClaims{shard, map[string]memberClaims{}}
		o.groups[own.Group] = g
	}
	before := g.members
	if own.All {
		g.members = make(map[string]memberClaims, len(own.Members))
	}
	for _, m := range own.Members {
		o.replace(g, before, own.Group, m, now)
	}
	if own.All {
		for _, gone := range before {
			o.end(gone, now)
		}
	}
	if len(g.members) == 0 {
		delete(o.groups, own.Group)
	}
	o.changes.Add(1)
}

// forget ends the claims of all groups of a shard whose machine was lost; those that live on are set again.
func (o *owners) forget(shard int32, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expire(now)
	for name, g := range o.groups {
		if g.shard != shard {
			continue
		}
		for _, m := range g.members {
			o.end(m, now)
		}
		delete(o.groups, name)
	}
	o.changes.Add(1)
}

// topicDeleted forgets who owned the partitions of a topic.
func (o *owners) topicDeleted(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.topics, name)
	o.changes.Add(1)
}

// at gives a partition that somebody owns, or did; nil when nobody does. The lock is held.
func (o *owners) at(topic string, partition int32) *ownedPartition {
	all := o.topics[topic]
	if partition < 0 || int(partition) >= len(all) {
		return nil
	}
	return &all[partition]
}

// found is what the index tells of a partition.
type found struct {
	claims  []claim   // of those who own it, or did until lately; the newest last
	simple  []*simple // groups without members that commit for it
	version uint64    // changes with all of it, but for what ends by time alone
}

// lookup fills f, whose lists' memory is used again.
func (o *owners) lookup(f *found, topic string, partition int32, now time.Time) {
	*f = found{claims: f.claims[:0], simple: f.simple[:0]}
	o.mu.RLock()
	defer o.mu.RUnlock()
	p := o.at(topic, partition)
	if p == nil {
		return
	}
	f.version = p.version
	for _, c := range p.claims {
		if c.until.IsZero() || now.Before(c.until) {
			f.claims = append(f.claims, c)
		}
	}
	for _, x := range p.simple {
		if x.current(stampOf(now)) {
			f.simple = append(f.simple, x)
		}
	}
}

// version is that of lookup, alone.
func (o *owners) version(topic string, partition int32) uint64 {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if p := o.at(topic, partition); p != nil {
		return p.version
	}
	return 0
}

// maxMarked is how many claims of a partition are looked through for the one of a group that commits. What it is noted for
// is of little use among more.
const maxMarked = 64

// markOf finds a group's mark on a partition it holds, or nil. past tells that there is a past claim beside one that stands.
func (o *owners) markOf(groupID, topic string, partition int32) (m *mark, past bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	p := o.at(topic, partition)
	if p == nil || len(p.claims) > maxMarked {
		return nil, false
	}
	stands := false
	for _, c := range p.claims {
		if c.group == groupID {
			m = c.mark
			stands = stands || c.until.IsZero()
			past = past || !c.until.IsZero()
		}
	}
	return m, past && stands
}

// noteCommit is markOf for a commit, after which the group's last owner of the partition has no more to say there.
func (o *owners) noteCommit(groupID, topic string, partition int32) *mark {
	m, past := o.markOf(groupID, topic, partition)
	if past {
		o.drained(groupID, topic, partition)
	}
	return m
}

// drained ends a past claim before its time.
func (o *owners) drained(groupID, topic string, partition int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.at(topic, partition)
	if p == nil {
		return
	}
	before := len(p.claims)
	p.claims = slices.DeleteFunc(p.claims, func(c claim) bool { return c.group == groupID && !c.until.IsZero() })
	if len(p.claims) < before {
		p.version = o.changes.Load() + 1
		o.changes.Add(1)
	}
}

// has tells whether a group has members that own something.
func (o *owners) has(groupID string) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.groups[groupID] != nil
}

// replace gives a member what it owns now, and ends what it owned before.
func (o *owners) replace(g *groupClaims, before map[string]memberClaims, name string, m group.Owner, now time.Time) {
	old, had := before[m.MemberID]
	delete(before, m.MemberID)
	if len(m.Partitions) > 0 {
		x := memberClaims{ownerOf(name, m), m.Partitions}
		g.members[m.MemberID] = x
		o.begin(x, stampOf(now))
	}
	if had {
		o.end(old, now)
	}
}

func ownerOf(name string, m group.Owner) *owner {
	return &owner{
		group: name, member: m.MemberID, identity: identity{m.Client.ID, anonymous}, host: m.Client.Host, rack: m.RackID,
		software: m.Client.Software, epoch: m.Epoch, pollInterval: m.PollInterval,
	}
}

// begin claims partitions. What the member claimed of them before is not told beside it.
func (o *owners) begin(m memberClaims, now stamp) {
	o.each(m, true, func(claims []claim) []claim {
		x := claim{owner: m.owner, since: now}
		claims = slices.DeleteFunc(claims, func(c claim) bool {
			if c.group != m.group {
				return false
			}
			x.mark = c.mark
			if c.member == m.member && c.until.IsZero() {
				x.since = c.since
			}
			return c.member == m.member
		})
		if x.mark == nil {
			x.mark = newMark()
		}
		return append(claims, x)
	})
}

// end makes past claims of those that still stand, each in place of the group's past claim before it.
func (o *owners) end(m memberClaims, now time.Time) {
	until := now.Add(drainTime)
	ended := false
	o.each(m, false, func(claims []claim) []claim {
		i := slices.IndexFunc(claims, func(c claim) bool { return c.owner == m.owner })
		if i < 0 {
			return claims
		}
		claims[i].until = until
		ended = true
		return slices.DeleteFunc(claims, func(c claim) bool { return c.group == m.group && c.owner != m.owner && !c.until.IsZero() })
	})
	if ended {
		o.ended = append(o.ended, endedClaims{m, until})
		o.past += m.count()
	}
}

func (m memberClaims) count() (n int) {
	for _, partitions := range m.partitions {
		n += len(partitions)
	}
	return n
}

// expire removes the past claims whose time is over, or that are too many.
func (o *owners) expire(now time.Time) {
	n := 0
	for ; n < len(o.ended) && (o.past > maxPast || !now.Before(o.ended[n].until)); n++ {
		m := o.ended[n]
		o.past -= m.count()
		o.each(m.memberClaims, false, func(claims []claim) []claim {
			return slices.DeleteFunc(claims, func(c claim) bool { return c.owner == m.owner })
		})
	}
	o.ended = slices.Delete(o.ended, 0, n)
}

// each has fn change the claims on every partition that the member names, if it exists.
func (o *owners) each(m memberClaims, grow bool, fn func([]claim) []claim) {
	for topic, partitions := range m.partitions {
		all := o.topics[topic]
		if n := int(o.partitionsOf(topic)); grow && n > len(all) {
			all = append(all, make([]ownedPartition, n-len(all))...)
			o.topics[topic] = all
		}
		for _, p := range partitions {
			if p >= 0 && int(p) < len(all) {
				all[p].claims = fn(all[p].claims)
				all[p].version = o.changes.Load() + 1
			}
		}
	}
}
