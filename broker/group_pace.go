package broker

import (
	"sync"
	"sync/atomic"
	"time"

	"sluice/config"
	"sluice/group"
	"sluice/internal/machine"
)

// pace says how often the members of the consumer protocol send a heartbeat (KIP-848 has the broker say it in each answer). A member hears of
// a change with its next one, so few members are asked often, and many within a bound of what all of them cost.
type pace struct {
	members atomic.Int64 // of all groups, when they were last counted

	mu      sync.Mutex
	counted time.Time // when
}

const (
	// calmInterval is between the heartbeats of a member of a calm group: a member that comes has its partitions after this and reconcileInterval.
	calmInterval = 250 * time.Millisecond
	// calmSpacing, times the members, is the least: 400 heartbeats a second, one percent of a core.
	calmSpacing = 2500 * time.Microsecond
	// reconcileInterval is between heartbeats while partitions move.
	reconcileInterval = 200 * time.Millisecond
	// reconcileSpacing, times the members, is the least then: 5,000 a second, which is what a single group is held to as well.
	reconcileSpacing = 200 * time.Microsecond
	// countInterval is how often members are counted while they send heartbeats.
	countInterval = time.Second
)

// calm is for groups that nobody has set an interval for; at most the given one.
func (p *pace) calm(most time.Duration) time.Duration {
	return min(most, p.spaced(calmInterval, calmSpacing))
}

// reconciling is for groups that have something to do.
func (p *pace) reconciling() time.Duration { return p.spaced(reconcileInterval, reconcileSpacing) }

func (p *pace) spaced(least, spacing time.Duration) time.Duration {
	return max(least, time.Duration(p.members.Load())*spacing)
}

// count begins to count the members if that was not done lately. It does not wait for those shards that are being replayed.
func (p *pace) count(g *groups) {
	if !p.due(time.Now()) {
		return
	}
	shards := g.running()
	var members, left atomic.Int64
	left.Store(int64(len(shards)))
	for _, s := range shards {
		s.View(func(m machine.Machine) any { return m.(*group.Machine).ConsumerMembers() }, func(v any, _ error) {
			if n, ok := v.(int); ok {
				members.Add(int64(n))
			}
			if left.Add(-1) == 0 {
				p.members.Store(members.Load())
			}
		})
	}
}

func (p *pace) due(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.counted) < countInterval {
		return false
	}
	p.counted = now
	return true
}

// consumerSettings are a group's, or those of all that have none of their own. An interval that was set holds as it is.
func (g *groups) consumerSettings(c *config.Group) group.ConsumerSettings {
	calm := c.HeartbeatInterval
	if !c.HeartbeatSet {
		calm = g.pace.calm(calm)
	}
	return group.ConsumerSettings{
		ConsumerSessionTimeout:     c.SessionTimeout,
		ConsumerHeartbeatInterval:  c.HeartbeatInterval,
		ConsumerCalmInterval:       calm,
		ConsumerAssignmentInterval: c.AssignmentInterval,
	}
}
