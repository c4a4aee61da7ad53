package group

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// Clients move from one protocol to the other one by one, and their group goes on meanwhile. While at least one member is of the
// consumer protocol, so is the group: it assigns, and members of the classic protocol are told by the requests that they know.
//
//	JoinGroup    is answered at once: its subscription and the partitions that it says it owns are a heartbeat's; the
//	             generation is the member epoch, and nobody leads
//	SyncGroup    is answered with what the member was given
//	Heartbeat    REBALANCE_IN_PROGRESS when the member is to give something back, or can have something: it joins again
//
// The first member of the consumer protocol makes a classic group of consumers one of its own (upgrade); when the last has
// left, the rest are a classic group again, and rebalance (downgrade).

// classicMember is what a member of the classic protocol has beside the rest. It is immutable.
type classicMember struct {
	session   time.Duration
	protocols []protocol // in order of preference
}

func (c *classicMember) equal(d *classicMember) bool {
	if c == nil || d == nil {
		return c == d
	}
	return c.session == d.session && slices.EqualFunc(c.protocols, d.protocols, func(p, q protocol) bool {
		return p.name == q.name && bytes.Equal(p.metadata, q.metadata)
	})
}

func (c *classicMember) knows(name string) bool {
	return slices.ContainsFunc(c.protocols, func(p protocol) bool { return p.name == name })
}

// joinMixed takes a JoinGroup to a group of the consumer protocol that has members.
func (m *Machine) joinMixed(g *group, j *joiner) {
	d := m.draft(g)
	c, code := m.admitClassic(d, j)
	if code != kproto.NoError {
		m.discard(d)
		id := j.Req.MemberID
		if code == kproto.MemberIDRequired {
			id = j.NewMemberID
		}
		m.refuseJoin(j, id, code)
		return
	}
	s, _ := decodeSubscription(j.Req.Protocols[0].Metadata)
	owned := m.ownedByName(s)
	next := m.advance(d, c, classicUpdated(c, j, s), &owned)
	r := kmsg.NewPtrJoinGroupResponse()
	r.Generation, r.MemberID = next.epoch, next.id
	r.ProtocolType, r.Protocol = kmsg.StringPtr(consumerProtocolType), &next.classic.protocols[0].name
	m.reply(j.ticket, r)
}

// admitClassic finds the member that joins, or makes it.
func (m *Machine) admitClassic(d *consumerDraft, j *joiner) (*consumerMember, int16) {
	r, id := j.Req, j.Req.MemberID
	if !d.understands(r) {
		return nil, kproto.InconsistentGroupProtocol
	}
	var holder *consumerMember
	if r.InstanceID != nil {
		holder = d.static(*r.InstanceID)
	}
	switch {
	case holder != nil && id == "":
		return d.comeBack(holder, j.NewMemberID), kproto.NoError // as in a classic group, the old one is fenced (KIP-345)
	case holder != nil && holder.id != id:
		return nil, kproto.FencedInstanceID
	case id == "" && r.InstanceID == nil && r.Version >= joinKnownMember:
		return nil, kproto.MemberIDRequired
	case id == "":
		id = j.NewMemberID
	}
	if c := d.member(id); c != nil {
		return c, kproto.NoError
	}
	// An id that was given out is not remembered. One that claims partitions was a member, and must learn that it is none.
	if s, _ := decodeSubscription(r.Protocols[0].Metadata); len(s.OwnedPartitions) > 0 {
		return nil, kproto.UnknownMemberID
	}
	if d.size() >= d.maxSize || d.base.said+sizeOf(r.Protocols) > maxGroupMetadata {
		return nil, kproto.GroupMaxSizeReached
	}
	return &consumerMember{id: id}, kproto.NoError
}

// understands tells whether a classic member is a consumer that says what it is subscribed to, and shares a protocol with the other
// classic ones, which may have to do without the group's help one day.
func (d *consumerDraft) understands(r *kmsg.JoinGroupRequest) bool {
	if r.ProtocolType != consumerProtocolType || len(r.Protocols) == 0 {
		return false
	}
	if _, ok := decodeSubscription(r.Protocols[0].Metadata); !ok {
		return false
	}
	others := d.members()
	return slices.ContainsFunc(r.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return !slices.ContainsFunc(others, func(c *consumerMember) bool {
			return c.classic != nil && c.id != r.MemberID && !c.classic.knows(p.Name)
		})
	})
}

// classicUpdated gives the member with what a JoinGroup says of it.
func classicUpdated(was *consumerMember, j *joiner, s kmsg.ConsumerMemberMetadata) *consumerMember {
	c := was.copy()
	c.client, c.instance, c.rack = j.Client, j.Req.InstanceID, s.Rack
	c.topics, c.pattern, c.assignor = orderedNames(s.Topics), "", ""
	c.rebalance = rebalanceTimeout(j.Req)
	c.classic = &classicMember{session: millis(j.Req.SessionTimeoutMillis), protocols: copyProtocols(j.Req.Protocols)}
	return c
}

// ownedByName reads what a subscription says is owned. Topics that are not there any more are nobody's.
func (m *Machine) ownedByName(s kmsg.ConsumerMemberMetadata) partitionSet {
	owned := map[string][]int32{}
	for _, t := range s.OwnedPartitions {
		owned[t.Topic] = append(owned[t.Topic], t.Partitions...)
	}
	return m.partitionsOf(owned)
}

func (m *Machine) partitionsOf(byName map[string][]int32) partitionSet {
	var list []topicPartition
	for name, partitions := range byName {
		if t, ok := m.topics[name]; ok {
			for _, p := range partitions {
				list = append(list, topicPartition{t.ID, p})
			}
		}
	}
	return newPartitionSet(list)
}

// checkClassic finds the classic member that a request of the classic protocol comes from.
func (g *consumerGroup) checkClassic(id string, instance *string, generation int32) (*consumerMember, int16) {
	if instance != nil {
		switch holder, ok := g.statics[*instance]; {
		case !ok:
			return nil, kproto.UnknownMemberID
		case holder != id:
			return nil, kproto.FencedInstanceID
		}
	}
	c := g.members[id]
	switch {
	case c == nil || c.classic == nil:
		return nil, kproto.UnknownMemberID
	case generation != c.epoch:
		return nil, kproto.IllegalGeneration
	}
	return c, kproto.NoError
}

// hasToJoin tells whether there is something for a classic member that it can only get, or give, by joining again.
func (d *consumerDraft) hasToJoin(c *consumerMember) bool {
	if c.epoch < d.epoch || c.state == memberRevoking {
		return true
	}
	return c.state == memberWaiting && slices.ContainsFunc(c.target.minus(c.given), func(p topicPartition) bool { return d.free(p, c.id) })
}

// mixedHeartbeat is a classic member's. Told to join, it has its rebalance timeout to do so.
func (m *Machine) mixedHeartbeat(g *group, r *kmsg.HeartbeatRequest) int16 {
	c, code := g.consumers.checkClassic(r.MemberID, r.InstanceID, r.Generation)
	if code != kproto.NoError {
		return code
	}
	s := g.sessions[c.id]
	m.start(&s.alive, m.sessionOf(g, c), s)
	d := m.draft(g)
	if d.epoch == d.assigned {
		m.retarget(d, false) // topics may have changed, and there may be no other member that asks
	}
	if !d.hasToJoin(d.member(c.id)) {
		return kproto.NoError
	}
	if s.revoke.place == 0 {
		m.start(&s.revoke.timer, c.rebalance, &s.revoke)
	}
	return kproto.RebalanceInProgress
}

// mixedSync tells a classic member what it was given.
func (m *Machine) mixedSync(g *group, r *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	c, code := g.consumers.checkClassic(r.MemberID, r.InstanceID, r.Generation)
	switch {
	case code != kproto.NoError:
		return syncError(code)
	case differs(r.ProtocolType, consumerProtocolType), r.Protocol != nil && !c.classic.knows(*r.Protocol):
		return syncError(kproto.InconsistentGroupProtocol)
	case c.epoch < g.consumers.epoch && c.state != memberRevoking:
		return syncError(kproto.RebalanceInProgress)
	}
	m.start(&g.sessions[c.id].alive, m.sessionOf(g, c), g.sessions[c.id])
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ProtocolType, resp.Protocol = kmsg.StringPtr(consumerProtocolType), &c.classic.protocols[0].name
	resp.MemberAssignment = m.encodeAssignment(c.given)
	return resp
}

func (m *Machine) encodeAssignment(s partitionSet) []byte {
	a := kmsg.ConsumerMemberAssignment{}
	s.byTopic(func(id kproto.TopicID, partitions []int32) {
		if name, ok := m.topicNames[id]; ok {
			a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: name, Partitions: partitions})
		}
	})
	return a.AppendTo(nil)
}

// mixedLeave removes a classic member or, for an administrator, whoever holds an instance id.
func (m *Machine) mixedLeave(g *group, l kmsg.LeaveGroupRequestMember) int16 {
	d := m.draft(g)
	c := d.member(l.MemberID)
	if l.InstanceID != nil {
		c = d.static(*l.InstanceID)
	}
	switch {
	case c == nil:
		return kproto.UnknownMemberID
	case l.InstanceID != nil && l.MemberID == "":
	case c.id != l.MemberID:
		return kproto.FencedInstanceID
	case c.classic == nil:
		return kproto.UnknownMemberID
	}
	m.expelConsumer(d, c.id)
	return kproto.NoError
}
