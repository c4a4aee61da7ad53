package group

import (
	"maps"
	"slices"
)

// purge is a deleted topic whose offsets are being forgotten. What was committed after its deletion is for a new topic of
// the same name.
type purge struct {
	topic string
	until int64 // milliseconds of the wall clock
}

// purger is when a purge that was too much for one step goes on. A crash ends it: the shell tells of a deletion again after
// a replay, until its files are gone.
type purger struct{}

// ring implements ringer.
func (purger) ring(m *Machine) { m.purge() }

// topicDeleted forgets what any group has committed for a topic.
func (m *Machine) topicDeleted(name string) {
	m.purges = append(m.purges, purge{name, m.millis})
	m.purge()
}

func (m *Machine) purge() {
	for len(m.purges) > 0 {
		for _, g := range m.inOrder() {
			if !m.purgeGroup(g, m.purges[0]) {
				m.start(&m.purging, 0, purger{})
				return
			}
		}
		m.purges = m.purges[1:]
	}
	m.purges = nil
}

// purgeGroup tells whether the step had room for all of it.
func (m *Machine) purgeGroup(g *group, p purge) bool {
	i, ok := g.offsets.topic(p.topic)
	if !ok {
		return true
	}
	for _, o := range g.offsets[i].partitions {
		if m.written >= maxStepBytes/2 {
			return false
		}
		if o.committed <= p.until {
			m.write(g, offsetTombstone(g.id, p.topic, o.partition))
		}
	}
	return true
}

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
			break
		}
		if left := m.expireOffsets(g); left == 0 && !g.hasMembers() && len(g.pending) == 0 {
			if g.recorded != nil {
				m.write(g, groupTombstone(g.id))
			}
			for _, r := range g.consumerTombstones() {
				m.write(g, r)
			}
			g.enter(Dead)
		}
	}
	if m.written >= sweepBytes {
		m.start(&m.expiry, 0, expiryCheck{})
	}
}

// expireOffsets gives how many offsets remain.
func (m *Machine) expireOffsets(g *group) (left int) {
	if len(g.offsets) == 0 {
		return 0
	}
	subscribed, expirable := m.subscription(g), g.mayExpire()
	for _, t := range g.offsets {
		if !expirable || subscribed.has(t.name) {
			left += len(t.partitions)
			continue
		}
		for _, o := range t.partitions {
			if m.written < sweepBytes && m.expired(g, o) {
				m.write(g, offsetTombstone(g.id, t.name, o.partition))
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
