package group

import (
	"slices"
	"strings"

	"sluice/internal/machine"
)

// Questions that the shell asks of a machine beside the events (coord.Shard.View), about members that may have stopped reading and
// about lag.

// Holder names a member of a group with a partition that it owns.
type Holder struct {
	Group, Member string
	Epoch         int32 // of Owner
	Topic         string
	Partition     int32
}

// Holding is what a machine knows of a Holder.
type Holding struct {
	// Owns tells whether the group is settled and the member still in that epoch: otherwise it has no chance to read now.
	Owns bool
	// Heard is when the member was heard of last.
	Heard machine.Time
	// Offset is the committed one, -1: none.
	Offset int64
	// Committed is when, in milliseconds since 1970.
	Committed int64
}

// Holdings answers for each holder.
func (m *Machine) Holdings(asked []Holder) []Holding {
	out := make([]Holding, len(asked))
	for i, h := range asked {
		out[i] = m.holding(h)
	}
	return out
}

func (m *Machine) holding(h Holder) Holding {
	x := Holding{Offset: -1}
	g := m.groups[h.Group]
	if g == nil {
		return x
	}
	if o, ok := g.offsets.get(h.Topic, h.Partition); ok {
		x.Offset, x.Committed = o.offset, o.committed
	}
	alive := m.alive(g, h.Member, h.Epoch)
	if x.Owns = alive != nil; x.Owns {
		x.Heard = m.clock.wall(alive.since)
	}
	return x
}

// alive gives the session of a member that is in an epoch and can read what it has; nil when it is not.
func (m *Machine) alive(g *group, id string, epoch int32) *timer {
	if g.consumers != nil {
		if c, s := g.consumers.members[id], g.sessions[id]; c != nil && s != nil && c.epoch == epoch {
			return &s.alive
		}
		return nil
	}
	if member := g.member(id); member != nil && g.state == Stable && g.assigned == epoch {
		return &member.alive
	}
	return nil
}

// evict ends a membership as the end of its session does, unless the member has moved on.
func (m *Machine) evict(ev Evict) bool {
	g := m.groups[ev.Group]
	if g == nil || m.alive(g, ev.MemberID, ev.Epoch) == nil {
		return false
	}
	if g.consumers != nil {
		m.fence(g.sessions[ev.MemberID])
	} else {
		m.removeAndGoOn(g.member(ev.MemberID))
	}
	return true
}

// Committed is a committed offset.
type Committed struct {
	Group, Topic string
	Partition    int32
	Offset       int64
}

// Offsets gives the first committed offsets of this machine, in order of group, topic and partition, and how many there are.
func (m *Machine) Offsets(most int) (first []Committed, all int) {
	groups := make([]*group, 0, len(m.groups))
	for _, g := range m.groups {
		for _, t := range g.offsets {
			all += len(t.partitions)
		}
		if len(g.offsets) > 0 {
			groups = append(groups, g)
		}
	}
	slices.SortFunc(groups, func(a, b *group) int { return strings.Compare(a.id, b.id) })
	for _, g := range groups {
		for _, t := range g.offsets {
			for _, o := range t.partitions {
				if len(first) >= most {
					return first, all
				}
				first = append(first, Committed{g.id, t.name, o.partition, o.offset})
			}
		}
	}
	return first, all
}
