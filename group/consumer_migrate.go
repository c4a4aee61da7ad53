package group

import (
	"maps"
	"slices"

	"sluice/kproto"
)

// upgradable tells whether a classic group can become one of the consumer protocol with its members: that is allowed, they are
// consumers, whose subscriptions can be read, and there is room for one more.
func (m *Machine) upgradable(g *group) bool {
	if !m.settings.Upgrade || !g.isConsumers() || len(g.members) == 0 || len(g.members) >= m.settings.ConsumerMaxSize {
		return false
	}
	return !slices.ContainsFunc(g.members, func(member *member) bool {
		_, ok := decodeSubscription(member.protocols[0].metadata)
		return !ok
	})
}

// upgrade makes the group one of the consumer protocol. The members keep what they were assigned, and their generation is the
// first epoch. Who waits for the others need not any more, and is told to join again.
func (m *Machine) upgrade(g *group) {
	d := m.draft(g)
	d.epoch = max(g.generation, 1)
	d.assigned = d.epoch
	d.brought = map[topicPartition]string{}
	for _, member := range g.members {
		d.set(m.upgraded(d, member))
	}
	for _, member := range g.members {
		d.set(m.stillRevoking(d, member))
	}
	m.endClassic(g)
	for _, c := range d.members() {
		m.touchConsumer(g, c, true)
	}
}

// upgraded gives the member that a classic one becomes, with what it was assigned.
func (m *Machine) upgraded(d *consumerDraft, member *member) *consumerMember {
	s, _ := decodeSubscription(member.protocols[0].metadata)
	given := d.bring(member.id, m.partitionsOf(decodeAssignment(member.assignment)))
	return &consumerMember{
		id: member.id, instance: member.instance, client: member.client, rack: s.Rack, topics: orderedNames(s.Topics),
		rebalance: member.rebalance, classic: &classicMember{member.session, member.protocols},
		epoch: d.epoch, previous: d.epoch, given: given, target: given,
	}
}

// stillRevoking gives the member with what it owned when it joined and was not assigned again: it may be busy with giving that back, as
// cooperative members do before they join once more, and until then nobody else may have it.
func (m *Machine) stillRevoking(d *consumerDraft, member *member) *consumerMember {
	c := d.member(member.id)
	s, _ := decodeSubscription(member.protocols[0].metadata)
	if owned := d.bring(c.id, m.ownedByName(s)); len(owned) > 0 {
		c = c.copy()
		c.state, c.revoking = memberRevoking, owned
	}
	return c
}

// bring notes whose partitions are, and gives those of them that were not another's, or its own, before.
func (d *consumerDraft) bring(id string, s partitionSet) partitionSet {
	s = s.filter(func(p topicPartition) bool { return d.brought[p] == "" }) // a leader may have assigned it twice
	for _, p := range s {
		d.brought[p] = id
	}
	return s
}

// endClassic clears the classic part of a group, but for its record.
func (m *Machine) endClassic(g *group) {
	for _, member := range slices.Clone(g.members) {
		m.endJoin(member, joinError(member.id, kproto.RebalanceInProgress))
		m.endSync(member, syncError(kproto.RebalanceInProgress))
		m.stop(&member.alive)
	}
	for _, id := range slices.Sorted(maps.Keys(g.pending)) {
		m.removePending(g.pending[id])
	}
	m.stop(&g.phase)
	owned := g.owned
	g.classic = classic{recorded: g.recorded, state: Empty, owned: owned}
}

// abandoned tells whether a draft leaves classic members among themselves.
func (d *consumerDraft) abandoned() bool {
	if !d.hasClassics() {
		return false
	}
	members := d.members()
	return len(members) > 0 && !slices.ContainsFunc(members, func(c *consumerMember) bool { return c.classic == nil })
}

// hasClassics tells whether classic members are, or before the step were, in the group.
func (d *consumerDraft) hasClassics() bool {
	some := d.base.classics > 0
	for _, c := range d.changed {
		some = some || c != nil && c.classic != nil
	}
	return some
}

// downgradable tells whether a group whose last member of the consumer protocol has left becomes classic. Where that is not
// allowed, or a classic group of its size is not, it goes on as it is.
func (m *Machine) downgradable(d *consumerDraft) bool {
	return m.settings.Downgrade && d.abandoned() && d.size() <= m.settings.MaxSize
}

// downgrade makes the group classic. The members keep what they hold, as the generation of the group's epoch, and are called
// to join, so that their leader assigns.
func (m *Machine) downgrade(d *consumerDraft) {
	g, members := d.g, d.members()
	for _, id := range slices.Sorted(maps.Keys(d.base.members)) {
		for _, kind := range []int16{keyConsumerCurrent, keyConsumerTargetMember, keyConsumerMember} {
			m.write(g, memberTombstone(kind, g.id, id))
		}
	}
	for _, r := range g.consumerTombstones() {
		m.write(g, r)
	}
	for _, id := range slices.Sorted(maps.Keys(g.sessions)) {
		m.endSession(g, id)
	}
	g.classic = classic{recorded: g.recorded, state: Stable, since: m.millis, generation: d.epoch, assigned: d.epoch, owned: g.owned}
	for _, c := range members {
		member := &member{
			g: g, id: c.id, instance: c.instance, client: c.client, session: c.classic.session, rebalance: c.rebalance,
			protocols: c.classic.protocols, assignment: m.encodeAssignment(c.held()),
		}
		g.add(member, consumerProtocolType)
		m.touch(member)
	}
	g.protocol = g.choose()
	m.record(g)
	m.tellOwnership(g)
	m.prepare(g)
}
