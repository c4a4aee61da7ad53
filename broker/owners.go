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

// owners is the index from partitions to those who own them in their groups. It stands on the orders of the group
// machines and says which groups a Fetch may belong to. Assignments are what a client says, so only partitions that
// exist are indexed.
type owners struct {
	partitionsOf func(topic string) int32 // 0 for an unknown topic
	changes      atomic.Uint64            // raised by every change, for those who keep what they looked up

	mu     sync.RWMutex
	topics map[string][][]claim // by partition
	groups map[string]*groupClaims
	ending []endingGroup // in order of their end
}

func newOwners(partitionsOf func(topic string) int32) *owners {
	return &owners{partitionsOf: partitionsOf, topics: map[string][][]claim{}, groups: map[string]*groupClaims{}}
}

// owner is a member of a group, shared by all claims of the member.
type owner struct {
	group, member, clientID, host, rack string
	epoch                               int32 // generation or member epoch
}

// claim is an owner's hold on a partition. A group has at most two on each: one that stands, and the one before it.
type claim struct {
	*owner
	past bool
}

// groupClaims are the claims of a group that stand, and those that it lost with its last change.
type groupClaims struct {
	shard  int32
	now    []memberClaims
	before []memberClaims
	until  time.Time // of before
}

type memberClaims struct {
	*owner
	partitions map[string][]int32 // the machine's; not changed
}

type endingGroup struct {
	name  string
	until time.Time
}

// set replaces what a group owns.
func (o *owners) set(shard int32, own group.Ownership, now time.Time) {
	members := make([]memberClaims, len(own.Members))
	for i, m := range own.Members {
		members[i] = memberClaims{&owner{own.Group, m.MemberID, m.Client.ID, m.Client.Host, m.RackID, m.Epoch}, m.Partitions}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expire(now)
	o.replace(shard, own.Group, members, now)
	o.changes.Add(1)
}

// forget ends the claims of all groups of a shard whose machine was lost; those that live on are set again.
func (o *owners) forget(shard int32, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expire(now)
	for name, g := range o.groups {
		if g.shard == shard && len(g.now) > 0 {
			o.replace(shard, name, nil, now)
		}
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

// lookup appends those who own a partition, or did until lately: one or two of each group.
func (o *owners) lookup(dst []owner, topic string, partition int32, now time.Time) []owner {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, c := range o.at(topic, partition) {
		if !c.past || now.Before(o.groups[c.group].until) {
			dst = append(dst, *c.owner)
		}
	}
	return dst
}

func (o *owners) at(topic string, partition int32) []claim {
	if all := o.topics[topic]; partition >= 0 && int(partition) < len(all) {
		return all[partition]
	}
	return nil
}

func (o *owners) replace(shard int32, name string, members []memberClaims, now time.Time) {
	g := o.groups[name]
	if g == nil {
		if len(members) == 0 {
			return
		}
		g = &groupClaims{}
		o.groups[name] = g
	}
	g.shard = shard
	o.drop(g.before)
	g.before, g.now = g.now, members
	o.each(g.before, true, func(c []claim, x *owner) []claim { return end(c, x) })
	o.each(g.now, true, func(c []claim, x *owner) []claim { return begin(c, x) })
	g.until = now.Add(drainTime)
	o.ending = append(o.ending, endingGroup{name, g.until})
}

// end makes a claim a past one.
func end(claims []claim, x *owner) []claim {
	for i := range claims {
		if claims[i].owner == x {
			claims[i].past = true
		}
	}
	return claims
}

// begin adds a claim. The member that had the partition before, in an older epoch, is not told of twice.
func begin(claims []claim, x *owner) []claim {
	for i := range claims {
		if c := claims[i].owner; c.group == x.group && c.member == x.member {
			claims[i] = claim{owner: x}
			return claims
		}
	}
	return append(claims, claim{owner: x})
}

// drop removes claims that are past.
func (o *owners) drop(members []memberClaims) {
	o.each(members, false, func(claims []claim, x *owner) []claim {
		return slices.DeleteFunc(claims, func(c claim) bool { return c.owner == x })
	})
}

// each has fn change the claims on every partition that the members name, if it exists.
func (o *owners) each(members []memberClaims, grow bool, fn func([]claim, *owner) []claim) {
	for _, m := range members {
		for topic, partitions := range m.partitions {
			all := o.topics[topic]
			if n := int(o.partitionsOf(topic)); grow && n > len(all) {
				all = append(all, make([][]claim, n-len(all))...)
				o.topics[topic] = all
			}
			for _, p := range partitions {
				if p >= 0 && int(p) < len(all) {
					all[p] = fn(all[p], m.owner)
				}
			}
		}
	}
}

// expire removes the past claims whose time is over.
func (o *owners) expire(now time.Time) {
	n := 0
	for ; n < len(o.ending) && !now.Before(o.ending[n].until); n++ {
		e := o.ending[n]
		g := o.groups[e.name]
		if g == nil || !g.until.Equal(e.until) {
			continue // it changed again since
		}
		o.drop(g.before)
		if g.before = nil; len(g.now) == 0 {
			delete(o.groups, e.name)
		}
	}
	o.ending = slices.Delete(o.ending, 0, n)
}
