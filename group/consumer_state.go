package group

import (
	"maps"
	"slices"
	"time"
)

// modern is the part of the consumer protocol in a group. All but consumers is soft.
type modern struct {
	consumers *consumerGroup              // hard; nil: the group is classic
	sessions  map[string]*consumerSession // by member id
	matches   matches
	changed   time.Duration  // running time of the newest change that asks for another target assignment
	targeted  time.Duration  // running time of the newest target assignment
	restless  time.Duration  // running time until which more changes are likely
	draft     *consumerDraft // of the step that runs
}

// consumerGroup is the hard state of a group of the consumer protocol (KIP-848): what its records say. Apply alone
// changes it.
type consumerGroup struct {
	// epoch grows with every change that asks for a new assignment: of members, of subscriptions, of topics.
	epoch int32
	// topicsHash is of the subscribed topics as they were at that epoch.
	topicsHash int64
	// assigned is the epoch of the target assignment. While it is behind epoch, the next heartbeat makes a new one.
	assigned int32
	members  map[string]*consumerMember // by id; the members are immutable

	// What follows from the members.
	statics  map[string]string         // instance id to member id
	said     int                       // bytes of what they say
	classics int                       // members of the classic protocol
	holders  map[topicPartition]string // who was given a partition and has not given it back
}

// consumerMember is a member as its records say. It is immutable: changes are made to a copy.
type consumerMember struct {
	id string

	// What the member says of itself.
	instance  *string // of a static member
	rack      *string
	client    Client
	topics    []string // subscribed, in order
	pattern   string   // subscribed, RE2; "": none
	rebalance time.Duration
	assignor  string         // "": the group's choice
	classic   *classicMember // nil: it is of the consumer protocol

	// target is what it is to have in the end.
	target partitionSet

	// What it has been told.
	epoch, previous int32
	state           consumerMemberState
	given           partitionSet // what it may consume
	revoking        partitionSet // what it is to give back: it holds it until it says so, or is fenced
	since           assignmentEpochs
}

// consumerMemberState is a member's way to the target assignment. The numbers are Kafka's, in the records.
type consumerMemberState int8

const (
	// memberSettled: it has all of the target assignment of its epoch.
	memberSettled consumerMemberState = 0
	// memberRevoking: it was told to give partitions back, and keeps its epoch until it says that it has, which it must
	// within its rebalance timeout.
	memberRevoking consumerMemberState = 1
	// memberWaiting: it is at the target's epoch, and others still hold what it is to have.
	memberWaiting consumerMemberState = 2
)

// Member epochs with a meaning of their own, in requests; the last also in records.
const (
	epochJoin  = 0
	epochLeave = -1
	// epochAway: a static member left to come back. What it has is kept for its instance id until its session ends.
	epochAway = -2
)

func newConsumerGroup() *consumerGroup {
	return &consumerGroup{
		members: map[string]*consumerMember{},
		statics: map[string]string{},
		holders: map[topicPartition]string{},
	}
}

// settledAt tells whether there is nothing to do for a target assignment.
func (c *consumerMember) settledAt(epoch int32) bool {
	return c.state == memberSettled && c.epoch == epoch
}

// held is what nobody else may be given.
func (c *consumerMember) held() partitionSet { return c.given.or(c.revoking) }

// said is the bytes of what the member says that have no small bound of their own.
func (c *consumerMember) said() int {
	size := sizeOfNames(c.topics)
	if c.classic != nil {
		for _, p := range c.classic.protocols {
			size += p.size()
		}
	}
	return size
}

func (c *consumerMember) copy() *consumerMember {
	d := *c
	return &d
}

// put replaces a member; nil removes it.
func (g *consumerGroup) put(id string, c *consumerMember) {
	if old := g.members[id]; old != nil {
		g.said -= old.said()
		if old.classic != nil {
			g.classics--
		}
		if old.instance != nil && g.statics[*old.instance] == id {
			delete(g.statics, *old.instance)
		}
		for _, p := range old.held() {
			if g.holders[p] == id {
				delete(g.holders, p)
			}
		}
	}
	if c == nil {
		delete(g.members, id)
		return
	}
	g.members[id] = c
	g.said += c.said()
	if c.classic != nil {
		g.classics++
	}
	if c.instance != nil {
		g.statics[*c.instance] = id
	}
	for _, p := range c.held() {
		g.holders[p] = id
	}
}

func (g *consumerGroup) inOrder() []*consumerMember {
	out := make([]*consumerMember, 0, len(g.members))
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		out = append(out, g.members[id])
	}
	return out
}

// State names of consumer groups, as Kafka shows them. Empty, Stable and Dead are those of classic groups.
const (
	Assigning   State = "Assigning"   // the next heartbeat makes a new target assignment
	Reconciling State = "Reconciling" // some member does not have yet what it is to have
)

func (g *consumerGroup) shown() State {
	switch {
	case len(g.members) == 0:
		return Empty
	case g.epoch > g.assigned:
		return Assigning
	}
	for _, c := range g.members {
		if !c.settledAt(g.assigned) {
			return Reconciling
		}
	}
	return Stable
}
