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
	topics map[string][][]claim // by partition
	groups map[string]*groupClaims
	ended  []endedClaims // in the order of their end
	past   int           // partitions that they name
}

func newOwners(partitionsOf func(topic string) int32) *owners {
	return &owners{partitionsOf: partitionsOf, topics: map[string][][]claim{}, groups: map[string]*groupClaims{}}
}

// owner is a member of a group in one epoch, shared by all its claims.
type owner struct {
	group, member, clientID, host, rack string
	epoch                               int32 // generation or member epoch
}

// claim is an owner's hold on a partition. Of a group there is at most one that is past: the last.
type claim struct {
	*owner
	until time.Time // of one that is past; zero: it stands
}

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

// lookup appends those who own a partition, or did until lately.
func (o *owners) lookup(dst []owner, topic string, partition int32, now time.Time) []owner {
	o.mu.RLock()
	defer o.mu.RUnlock()
	all := o.topics[topic]
	if partition < 0 || int(partition) >= len(all) {
		return dst
	}
	for _, c := range all[partition] {
		if c.until.IsZero() || now.Before(c.until) {
			dst = append(dst, *c.owner)
		}
	}
	return dst
}

// replace gives a member what it owns now, and ends what it owned before.
func (o *owners) replace(g *groupClaims, before map[string]memberClaims, name string, m group.Owner, now time.Time) {
	old, had := before[m.MemberID]
	delete(before, m.MemberID)
	if len(m.Partitions) > 0 {
		x := memberClaims{&owner{name, m.MemberID, m.Client.ID, m.Client.Host, m.RackID, m.Epoch}, m.Partitions}
		g.members[m.MemberID] = x
		o.begin(x)
	}
	if had {
		o.end(old, now)
	}
}

// begin claims partitions. What the member claimed of them before is not told beside it.
func (o *owners) begin(m memberClaims) {
	o.each(m, true, func(claims []claim) []claim {
		claims = slices.DeleteFunc(claims, func(c claim) bool { return c.group == m.group && c.member == m.member })
		return append(claims, claim{owner: m.owner})
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
			all = append(all, make([][]claim, n-len(all))...)
			o.topics[topic] = all
		}
		for _, p := range partitions {
			if p >= 0 && int(p) < len(all) {
				all[p] = fn(all[p])
			}
		}
	}
}
