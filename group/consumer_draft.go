package group

import (
	"maps"
	"slices"
)

// consumerDraft is what a step makes of a consumer group. Deciders read and change the draft; at the end of the step the
// difference to the hard state leaves as records, and Apply makes it so.
type consumerDraft struct {
	g    *group
	base *consumerGroup

	epoch, assigned int32
	topicsHash      int64
	changed         map[string]*consumerMember // nil: removed
	moved           bool                       // what somebody holds has changed
	brought         map[topicPartition]string  // what classic members bring into a group that is upgraded, to their ids
	maxSize         int                        // group.consumer.max.size
}

// draft gives the step's draft of a group.
func (m *Machine) draft(g *group) *consumerDraft {
	if g.draft == nil {
		base := g.consumers
		if base == nil {
			base = newConsumerGroup()
		}
		g.draft = &consumerDraft{g: g, base: base, epoch: base.epoch, assigned: base.assigned, topicsHash: base.topicsHash, maxSize: m.settings.ConsumerMaxSize}
		m.drafts = append(m.drafts, g.draft)
	}
	return g.draft
}

func (d *consumerDraft) member(id string) *consumerMember {
	if c, ok := d.changed[id]; ok {
		return c
	}
	return d.base.members[id]
}

func (d *consumerDraft) set(c *consumerMember) { d.change(c.id, c) }

func (d *consumerDraft) change(id string, c *consumerMember) {
	if d.changed == nil {
		d.changed = map[string]*consumerMember{}
	}
	d.changed[id] = c
}

// remove ends a membership, which asks for a new assignment.
func (d *consumerDraft) remove(id string) {
	d.change(id, nil)
	d.bump()
}

// bump asks for a new assignment, once for all changes since the last one.
func (d *consumerDraft) bump() {
	if d.epoch == d.assigned {
		d.epoch++
	}
}

// members are in order of id.
func (d *consumerDraft) members() []*consumerMember {
	ids := maps.Clone(d.base.members)
	for id, c := range d.changed {
		if c == nil {
			delete(ids, id)
		} else {
			ids[id] = c
		}
	}
	return (&consumerGroup{members: ids}).inOrder()
}

func (d *consumerDraft) size() int {
	n := len(d.base.members)
	for id, c := range d.changed {
		was := d.base.members[id] != nil
		switch {
		case was && c == nil:
			n--
		case !was && c != nil:
			n++
		}
	}
	return n
}

// static gives the member that has an instance id.
func (d *consumerDraft) static(instance string) *consumerMember {
	for _, c := range d.changed {
		if c != nil && c.instance != nil && *c.instance == instance {
			return c
		}
	}
	if c := d.member(d.base.statics[instance]); c != nil && c.instance != nil && *c.instance == instance {
		return c
	}
	return nil
}

// free tells whether nobody but this member holds a partition. In one step only one member is given anything, so the others can only
// have lost something since the step began, but for what an upgrade brings.
func (d *consumerDraft) free(p topicPartition, but string) bool {
	if id, ok := d.brought[p]; ok && id != but && d.member(id) != nil {
		return false
	}
	holder, ok := d.base.holders[p]
	if !ok || holder == but {
		return true
	}
	c, changed := d.changed[holder]
	return changed && (c == nil || !c.given.has(p) && !c.revoking.has(p))
}

// writeDrafts turns what the step has decided into records, and says who owns what now.
func (m *Machine) writeDrafts() {
	for _, d := range m.drafts {
		m.writeDraft(d)
		d.g.draft = nil
	}
	m.drafts = nil
}

// writeDraft keeps to Kafka's order: a member's end before anybody's beginning, and the member before its assignments.
func (m *Machine) writeDraft(d *consumerDraft) {
	if len(d.changed) > 0 && m.downgradable(d) {
		m.downgrade(d)
		return
	}
	ids := slices.Sorted(maps.Keys(d.changed))
	m.writeRemoved(d, ids)
	m.writeMembers(d, ids)
	if d.epoch != d.base.epoch || d.topicsHash != d.base.topicsHash {
		m.write(d.g, consumerGroupRecord(d.g.id, d.epoch, d.topicsHash))
	}
	m.writeTargets(d, ids)
	if d.assigned != d.base.assigned {
		m.write(d.g, consumerTargetRecord(d.g.id, d.assigned))
	}
	m.writeGiven(d, ids)
	if d.g.recorded != nil && d.epoch > 0 {
		m.write(d.g, groupTombstone(d.g.id)) // an empty classic group that has become one of this protocol
	}
	if d.moved {
		m.tellConsumerOwnership(d)
	}
}

func (m *Machine) writeRemoved(d *consumerDraft, ids []string) {
	for _, id := range ids {
		if old := d.base.members[id]; old != nil && d.changed[id] == nil {
			d.moved = d.moved || len(old.held()) > 0
			for _, kind := range []int16{keyConsumerCurrent, keyConsumerTargetMember, keyConsumerMember} {
				m.write(d.g, memberTombstone(kind, d.g.id, id))
			}
		}
	}
}

func (m *Machine) writeMembers(d *consumerDraft, ids []string) {
	for _, id := range ids {
		if c := d.changed[id]; c != nil && !sameMember(d.base.members[id], c) {
			m.write(d.g, consumerMemberRecord(d.g.id, c))
		}
	}
}

func (m *Machine) writeTargets(d *consumerDraft, ids []string) {
	for _, id := range ids {
		c, old := d.changed[id], d.was(id)
		if c != nil && !slices.Equal(c.target, old.target) {
			m.write(d.g, consumerTargetMemberRecord(d.g.id, c))
		}
	}
}

func (m *Machine) writeGiven(d *consumerDraft, ids []string) {
	for _, id := range ids {
		c, old := d.changed[id], d.was(id)
		if c == nil || sameGiven(old, c) {
			continue
		}
		m.write(d.g, consumerCurrentRecord(d.g.id, c))
		d.moved = d.moved || c.epoch != old.epoch || !slices.Equal(c.held(), old.held())
	}
}

// was gives the member before the step; one that is new had nothing.
func (d *consumerDraft) was(id string) *consumerMember {
	if c := d.base.members[id]; c != nil {
		return c
	}
	return &consumerMember{id: id}
}

// sameMember compares what the member's own record says.
func sameMember(a, b *consumerMember) bool {
	return a != nil && equalText(a.instance, b.instance) && equalText(a.rack, b.rack) && a.client.same(b.client) &&
		slices.Equal(a.topics, b.topics) && a.pattern == b.pattern && a.rebalance == b.rebalance && a.assignor == b.assignor && a.classic.equal(b.classic)
}

// sameGiven compares what the record of its assignment says.
func sameGiven(a, b *consumerMember) bool {
	return a.epoch == b.epoch && a.previous == b.previous && a.state == b.state &&
		slices.Equal(a.given, b.given) && slices.Equal(a.revoking, b.revoking)
}

func equalText(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
