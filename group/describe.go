package group

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// typeClassic is how ListGroups names the groups whose members assign among themselves.
const typeClassic = "classic"

func (m *Machine) describe(id string) kmsg.DescribeGroupsResponseGroup {
	r := kmsg.NewDescribeGroupsResponseGroup()
	r.Group = id
	r.State = string(Dead)
	g := m.groups[id]
	if g == nil || g.consumers != nil {
		return r
	}
	r.State = string(g.state)
	r.ProtocolType = g.protocolType
	if g.state == Stable {
		r.Protocol = g.protocol
	}
	for _, member := range g.members {
		r.Members = append(r.Members, g.describeMember(member))
	}
	return r
}

// describeMember leaves out what is being negotiated.
func (g *group) describeMember(m *member) kmsg.DescribeGroupsResponseGroupMember {
	d := kmsg.NewDescribeGroupsResponseGroupMember()
	d.MemberID = m.id
	d.InstanceID = m.instance
	d.ClientID = m.client.ID
	d.ClientHost = m.client.Host
	if g.state == Stable {
		d.ProtocolMetadata = m.metadata(g.protocol)
		d.MemberAssignment = m.assignment
	}
	return d
}

func (m *Machine) list() []kmsg.ListGroupsResponseGroup {
	out := make([]kmsg.ListGroupsResponseGroup, 0, len(m.groups))
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[id]
		l := kmsg.NewListGroupsResponseGroup()
		l.Group = id
		l.ProtocolType = g.protocolType
		l.GroupState = string(g.state)
		l.GroupType = typeClassic
		if g.consumers != nil {
			l.ProtocolType, l.GroupType = consumerProtocolType, typeConsumer
			l.GroupState = string(g.consumers.shown())
		}
		out = append(out, l)
	}
	return out
}

// delete removes a group without members, and its offsets.
func (m *Machine) delete(id string) int16 {
	g := m.groups[id]
	switch {
	case g == nil:
		return kproto.GroupIDNotFound
	case g.hasMembers():
		return kproto.NonEmptyGroup
	case m.written+g.tombstonesSize() > maxStepBytes:
		return kproto.PolicyViolation // its offsets can be deleted topic by topic
	}
	m.kill(g)
	return kproto.NoError
}

// kill writes the end of a group and of what belongs to it.
func (m *Machine) kill(g *group) {
	for _, id := range slices.Sorted(maps.Keys(g.pending)) {
		m.removePending(g.pending[id])
	}
	for _, t := range g.offsets {
		for _, o := range t.partitions {
			m.write(g, offsetTombstone(g.id, t.name, o.partition))
		}
	}
	if g.recorded != nil {
		m.write(g, groupTombstone(g.id))
	}
	for _, r := range g.consumerTombstones() {
		m.write(g, r)
	}
	g.enter(Dead)
	m.forgetIfNothing(g)
}
