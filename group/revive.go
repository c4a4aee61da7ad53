package group

// revive makes the soft state of a group after a replay: as its last recorded generation left it, with sessions that begin
// now. Nobody waits any more. A rebalance that was not recorded has not happened; those who took part are told that one is in progress, or nothing,
// and join again.
func (m *Machine) revive(g *group) {
	if g.consumers != nil {
		m.reviveConsumers(g)
	}
	r := g.recorded
	if r == nil {
		return
	}
	g.generation, g.assigned, g.revived = r.number, r.number, true
	g.protocolType = r.protocolType
	g.since = r.since
	if len(r.members) == 0 {
		return
	}
	if r.protocol != nil {
		g.protocol = *r.protocol
	}
	for _, rm := range r.members {
		m.reviveMember(g, rm)
	}
	if g.member(r.leader) != nil {
		g.leader = r.leader
	}
	g.state = Stable
	m.tellOwnership(g)
	if len(g.members) > m.settings.MaxSize {
		m.prepare(g) // the limit was lowered; the last to join will not find room
	}
}

func (m *Machine) reviveMember(g *group, r recordedMember) {
	if g.member(r.id) != nil {
		return // no broker writes a member twice
	}
	member := &member{
		g:          g,
		id:         r.id,
		instance:   r.instance,
		client:     r.client,
		session:    millis(r.session),
		rebalance:  millis(r.rebalance),
		protocols:  []protocol{{g.protocol, r.subscription}},
		assignment: r.assignment,
	}
	g.add(member, g.protocolType)
	m.touch(member)
}
