package group

import (
	"maps"
	"slices"
	"time"
)

// consumerSession is the soft state of a member of the consumer protocol: the time in which it must be heard of, and the
// time it has to give partitions back.
type consumerSession struct {
	g        *group
	id       string
	software string // Client.Software, which no record keeps
	alive    timer
	// revoke runs while the member is revoking.
	revoke revokeTimer
}

type revokeTimer struct {
	timer
	s *consumerSession
}

// ring implements ringer: the member was not heard of.
func (s *consumerSession) ring(m *Machine) { m.fence(s) }

// ring implements ringer: the member is alive, and has not given back in time what others wait for.
func (r *revokeTimer) ring(m *Machine) { m.fence(r.s) }

// fence ends a membership that the member did not end. It will be told when it is heard of again.
func (m *Machine) fence(s *consumerSession) {
	m.expelConsumer(m.draft(s.g), s.id)
	m.written += 3 * (6 + len(s.g.id) + len(s.id)) // its tombstones, which leave at the end of the step
}

func (m *Machine) expelConsumer(d *consumerDraft, id string) {
	d.remove(id)
	d.g.changed = m.clock.running
	m.endSession(d.g, id)
}

func (m *Machine) endSession(g *group, id string) {
	if s := g.sessions[id]; s != nil {
		m.stop(&s.alive)
		m.stop(&s.revoke.timer)
		delete(g.sessions, id)
	}
}

// touchConsumer starts a member's session anew, and its time to revoke if it has just been told to.
func (m *Machine) touchConsumer(g *group, c *consumerMember, revokes bool) {
	s := g.sessions[c.id]
	if s == nil {
		s = &consumerSession{g: g, id: c.id}
		s.revoke.s = s
		if g.sessions == nil {
			g.sessions = map[string]*consumerSession{}
		}
		g.sessions[c.id] = s
	}
	if c.client.Software != "" {
		s.software = c.client.Software
	}
	m.start(&s.alive, m.sessionOf(g, c), s)
	switch {
	case c.state != memberRevoking:
		m.stop(&s.revoke.timer)
	case revokes:
		m.start(&s.revoke.timer, c.rebalance, &s.revoke)
	}
}

// sessionOf is the group's to say; a classic member says it itself.
func (m *Machine) sessionOf(g *group, c *consumerMember) time.Duration {
	if c.classic != nil {
		return c.classic.session
	}
	return m.consumerSettings(g.id).ConsumerSessionTimeout
}

// reviveConsumers begins the members' sessions after a replay. They keep their epochs and what they have.
func (m *Machine) reviveConsumers(g *group) {
	for _, id := range slices.Sorted(maps.Keys(g.consumers.members)) {
		m.touchConsumer(g, g.consumers.members[id], true)
	}
	if len(g.consumers.members) > 0 {
		m.tellConsumerOwnership(&consumerDraft{g: g, base: g.consumers})
	}
}

// tellConsumerOwnership gives the order that says what the members that a step has changed hold now; all members, where
// there were none before, or no step. That nobody holds anything is said once.
func (m *Machine) tellConsumerOwnership(d *consumerDraft) {
	o := Ownership{Group: d.g.id, All: len(d.base.members) == 0 || len(d.changed) == 0}
	if o.All {
		for _, c := range d.members() {
			if owner := m.consumerOwner(d.g, c); len(owner.Partitions) > 0 {
				o.Members = append(o.Members, owner)
			}
		}
	} else {
		o.Members = m.changedOwners(d)
	}
	if len(o.Members) > 0 || o.All && d.g.owned {
		m.order(o)
	}
	d.g.owned = len(o.Members) > 0 || !o.All && d.g.owned
}

func (m *Machine) changedOwners(d *consumerDraft) (owners []Owner) {
	for _, id := range slices.Sorted(maps.Keys(d.changed)) {
		c, had := d.changed[id], d.was(id)
		switch {
		case c == nil && len(had.held()) > 0:
			owners = append(owners, Owner{MemberID: id})
		case c != nil && len(had.held())+len(c.held()) > 0 && (c.epoch != had.epoch || !slices.Equal(c.held(), had.held())):
			owners = append(owners, m.consumerOwner(d.g, c))
		}
	}
	return owners
}

func (m *Machine) consumerOwner(g *group, c *consumerMember) Owner {
	o := Owner{MemberID: c.id, Client: c.client, Epoch: c.epoch, Partitions: m.named(c.held()), PollInterval: c.rebalance}
	if c.rack != nil {
		o.RackID = *c.rack
	}
	if s := g.sessions[c.id]; s != nil {
		o.Client.Software = s.software
	}
	return o
}

// named gives the partitions by name of their topics; those of deleted topics are left out.
func (m *Machine) named(s partitionSet) map[string][]int32 {
	out := map[string][]int32{}
	for _, p := range s {
		if name, ok := m.topicNames[p.topic]; ok {
			out[name] = append(out[name], p.partition)
		}
	}
	return out
}
