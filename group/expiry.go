package group

import (
	"maps"
	"slices"
)

// expiryCheck is when expired offsets are looked for.
type expiryCheck struct{}

// ring implements ringer.
func (expiryCheck) ring(m *Machine) { m.expire() }

func (m *Machine) armExpiry() {
	switch {
	case len(m.groups) == 0:
		m.stop(&m.expiry)
	case m.expiry.place == 0:
		every := m.settings.OffsetsRetentionCheck
		if every <= 0 {
			every = defaultExpiryCheck
		}
		m.start(&m.expiry, every, expiryCheck{})
	}
}

func (m *Machine) inOrder() []*group {
	out := make([]*group, 0, len(m.groups))
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		out = append(out, m.groups[id])
	}
	return out
}

// expire forgets offsets whose time is over, and groups that have no members and no offsets left. What is too much for one step
// is left to the next one.
func (m *Machine) expire() {
	for _, g := range m.inOrder() {
		if m.written >= sweepBytes {
			m.start(&m.expiry, 0, expiryCheck{})
			return
		}
		if left := m.expireOffsets(g); left == 0 && g.state == Empty && len(g.pending) == 0 {
			if g.recorded != nil {
				m.write(groupTombstone(g.id))
			}
			g.enter(Dead)
		}
	}
}

// expireOffsets gives how many offsets remain.
func (m *Machine) expireOffsets(g *group) (left int) {
	if len(g.offsets) == 0 {
		return 0
	}
	subscribed, expirable := g.subscription(), g.mayExpire()
	for _, t := range g.offsets {
		if !expirable || subscribed.has(t.name) {
			left += len(t.partitions)
			continue
		}
		for _, o := range t.partitions {
			if m.written < sweepBytes && m.expired(g, o) {
				m.write(offsetTombstone(g.id, t.name, o.partition))
			} else {
				left++
			}
		}
	}
	return left
}

// mayExpire tells whether the group is in a state in which offsets age: it has no members, or it is stable and its
// members' topics are known.
func (g *group) mayExpire() bool {
	return g.state == Empty || g.state == Stable && g.isConsumers()
}

// expired follows KIP-211: the retention counts from the later of the commit and the end of the last membership. A commit that brought its own
// time (OffsetCommit 2 to 4) is kept until then.
func (m *Machine) expired(g *group, o offset) bool {
	if o.expires >= 0 {
		return m.millis >= o.expires
	}
	from := o.committed
	if g.state == Empty && g.protocolType != "" {
		from = max(from, g.since)
	}
	return m.millis-from >= m.settings.OffsetsRetention.Milliseconds()
}
