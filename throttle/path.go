package throttle

import (
	"fmt"
	"math"
)

// Level is whose allowance a counter holds.
type Level uint8

const (
	BrokerLevel Level = iota
	TopicLevel
	SubscriptionLevel
)

func (l Level) String() string { return [...]string{"broker", "topic", "subscription"}[l] }

// Unit is what a counter counts.
type Unit uint8

const (
	Messages Unit = messages
	Bytes    Unit = bytes
)

func (u Unit) String() string { return [...]string{"messages", "bytes"}[u] }

// At names one of the six counters that a fetch of a partition can meet.
type At struct {
	Level Level
	Unit  Unit
}

func (a At) String() string { return fmt.Sprintf("%v %v", a.Level, a.Unit) }

// counters is how many there are: three levels, two units. Their order is that in which they are taken: broker, topic, subscription, and
// of each first messages, then bytes.
const counters = 6

func at(i int) At { return At{Level(i / 2), Unit(i % 2)} }

// Path is the counters that stand between a partition and one subscription. Topic.Path finds it; it is good for one look: after a
// wait ask again, because limits may have come and gone. The zero Path has no limits.
type Path struct {
	counters [counters]*Counter
	who      claimant
	rules    *rules
	version  uint64
}

// Limited tells whether there is a counter on the path.
func (p *Path) Limited() bool { return p.rules != nil }

// Refusal says which counter has nothing and from when it will have something. If several have nothing it is the one that
// opens last.
type Refusal struct {
	// ReadyAt is when asking again makes sense. A refund or a change of limits can bring it forward; Watch.On waits for all of it.
	ReadyAt Instant
	At

	version uint32 // of the limits, without its upper half: no look takes so long
	claim   *claim // of who was refused, at the counter that refused
}

// Plan begins a plan, or tells that there is nothing to be had now. Ask only when the partition has batches to give: who is refused
// counts as somebody who wants them. ahead is the cost of the plans that the same fetch has made for other partitions, which share
// the broker's counters with this one.
func (p *Path) Plan(ahead Cost, now Instant) (plan Plan, refusal Refusal, ok bool) {
	plan = Plan{room: -1, left: Cost{noLimit, noLimit}}
	if p.rules == nil {
		return plan, refusal, true
	}
	closed := -1
	for i, c := range p.counters {
		if c == nil {
			continue
		}
		before := int64(0)
		if i < 2 {
			before = ahead[i]
		}
		balance, ready := c.read(p.who.at(i), before, now)
		plan.left[i%2] = min(plan.left[i%2], balance)
		if balance <= 0 && (closed < 0 || ready > refusal.ReadyAt) {
			closed, refusal.ReadyAt = i, ready
		}
	}
	if closed >= 0 {
		return Plan{}, p.refuse(closed, refusal.ReadyAt, true, now), false
	}
	plan.mode = p.rules.Mode
	if plan.mode == Approximate && plan.left[messages] != noLimit {
		plan.room = int32(min(p.rules.MaxReadBatches, math.MaxInt32))
	}
	return plan, refusal, true
}

// at is the claimant at one of the counters. The last two are the subscription's own.
func (c claimant) at(i int) claimant {
	if i >= 2*int(SubscriptionLevel) {
		return claimant{}
	}
	return c
}

func (p *Path) refuse(i int, ready Instant, keep bool, now Instant) Refusal {
	return Refusal{ready, at(i), uint32(p.version), p.counters[i].deny(p.who.at(i), keep, now)}
}

// Grant is what a path's counters gave for one plan. The zero Grant is nothing.
type Grant struct {
	counters [counters]*Counter
	marks    [counters]mark
	who      claimant
	at       Instant
}

// Reserve takes a plan's cost from all counters, or from none. A refusal whose ReadyAt is not later than now means that others
// took so much since the plan was made that a shorter one must be made.
func (p *Path) Reserve(plan Plan, now Instant) (g Grant, refusal Refusal, ok bool) {
	if p.rules == nil {
		return g, refusal, true
	}
	g.who, g.at = p.who, now
	for i, c := range p.counters {
		if c == nil {
			continue
		}
		m, ok := c.take(p.who.at(i), plan.cost[i%2], plan.before[i%2], plan.More, now)
		if !ok {
			g.Refund(now)
			_, ready := c.read(p.who.at(i), 0, now)
			return Grant{}, p.refuse(i, ready, ready > now, now), false
		}
		g.counters[i], g.marks[i] = c, m
	}
	return g, refusal, true
}

// OfSubscription tells whether the subscription's own counters gave something.
func (g *Grant) OfSubscription() bool {
	i := 2 * int(SubscriptionLevel)
	return g.counters[i] != nil || g.counters[i+1] != nil
}

// Refund gives all of a grant back: its batches were not dispatched. The grant is nothing afterwards.
func (g *Grant) Refund(now Instant) {
	for i, c := range g.counters {
		if c != nil {
			c.refund(g.who.at(i), g.marks[i], g.at, now)
		}
	}
	*g = Grant{}
}
