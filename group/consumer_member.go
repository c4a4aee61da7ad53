package group

import (
	"cmp"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// admit finds the member that a heartbeat comes from, or makes it. The codes are
//
//	GROUP_MAX_SIZE_REACHED   it is new, and there is no room
//	UNKNOWN_MEMBER_ID        it is not new, and no member
//	FENCED_MEMBER_EPOCH      it has another epoch: it must give up what it has, and join
//	UNRELEASED_INSTANCE_ID   its instance id belongs to a member that has not left
//	FENCED_INSTANCE_ID       its instance id was taken over
func (d *consumerDraft) admit(ev ConsumerHeartbeat) (*consumerMember, int16) {
	q := ev.Req
	id := q.MemberID
	if id == "" {
		id = ev.NewMemberID
	}
	var holder *consumerMember
	if q.InstanceID != nil {
		holder = d.static(*q.InstanceID)
	}
	if q.MemberEpoch != epochJoin {
		return d.known(q, holder)
	}
	switch {
	case holder != nil && (holder.epoch == epochAway || holder.classic != nil):
		return d.comeBack(holder, id), kproto.NoError
	case holder != nil && holder.id != id:
		return nil, kproto.UnreleasedInstanceID
	}
	if c := d.member(id); c != nil {
		return c, kproto.NoError // it was fenced, or did not get the answer: it goes on from what it has here
	}
	if d.size() >= d.maxSize {
		return nil, kproto.GroupMaxSizeReached
	}
	return &consumerMember{id: id}, kproto.NoError
}

// known finds a member that has joined, and checks its epoch.
func (d *consumerDraft) known(q *kmsg.ConsumerGroupHeartbeatRequest, holder *consumerMember) (*consumerMember, int16) {
	c := d.member(q.MemberID)
	switch {
	case q.InstanceID != nil && holder == nil, q.InstanceID == nil && c == nil:
		return nil, kproto.UnknownMemberID
	case q.InstanceID != nil && holder.id != q.MemberID:
		return nil, kproto.FencedInstanceID
	case q.MemberEpoch == c.epoch:
		return c, kproto.NoError
	}
	// It may not have got the answer that told it of its new epoch. Then it owns no more than that answer gave it.
	owned := ownedPartitions(q)
	if c.epoch != epochAway && q.MemberEpoch < c.epoch && q.MemberEpoch == c.previous && owned != nil && owned.within(c.given) {
		return c, kproto.NoError
	}
	return nil, kproto.FencedMemberEpoch
}

// comeBack gives what a static member left behind to the same instance, perhaps under a new id.
func (d *consumerDraft) comeBack(old *consumerMember, id string) *consumerMember {
	c := old.copy()
	c.id, c.epoch, c.previous = id, epochJoin, epochJoin
	if id != old.id {
		d.change(old.id, nil) // and no bump: for the others nothing has changed
	}
	d.set(c)
	return c
}

// consumerLeave ends a membership, or a static member's presence. The epoch is not compared: who leaves may not know it.
func (m *Machine) consumerLeave(q *kmsg.ConsumerGroupHeartbeatRequest, r *kmsg.ConsumerGroupHeartbeatResponse) {
	g := m.groups[q.Group]
	if g == nil || g.consumers == nil {
		r.ErrorCode = kproto.GroupIDNotFound
		return
	}
	d := m.draft(g)
	c := d.member(q.MemberID)
	if q.InstanceID != nil {
		c = d.static(*q.InstanceID)
	}
	switch {
	case c == nil:
		r.ErrorCode = kproto.UnknownMemberID
	case c.id != q.MemberID:
		r.ErrorCode = kproto.FencedInstanceID
	case q.MemberEpoch == epochLeave:
		m.expelConsumer(d, c.id)
	default:
		m.goAway(d, c)
	}
	r.MemberID = &q.MemberID
	r.MemberEpoch = q.MemberEpoch
}

// goAway keeps a static member's place for its instance. What it was to give back, it has given back by leaving. Its session
// goes on: it ends when the member does not come back.
func (m *Machine) goAway(d *consumerDraft, c *consumerMember) {
	away := c.copy()
	away.epoch, away.state, away.revoking = epochAway, memberSettled, nil
	away.since = away.holdSince(c)
	d.set(away)
	if s := d.g.sessions[c.id]; s != nil {
		m.stop(&s.revoke.timer)
	}
}

// consumerInterval is when the member is to be heard of next: soon while it has something to do, or when the group has just
// changed, for then more is likely to come; otherwise more rarely. What is soon depends on how many they are.
func (m *Machine) consumerInterval(d *consumerDraft, c *consumerMember) time.Duration {
	s := m.consumerSettings(d.g.id)
	restless := m.clock.running < d.g.restless
	if !restless && c.settledAt(d.epoch) {
		return cmp.Or(s.ConsumerCalmInterval, s.ConsumerHeartbeatInterval)
	}
	return min(s.ConsumerHeartbeatInterval, max(m.settings.ConsumerReconcileInterval, time.Duration(d.size())*heartbeatSpacing))
}

// becomeClassic lets a classic member have a group of the consumer protocol in which nobody is left.
func (m *Machine) becomeClassic(g *group) {
	for _, r := range g.consumerTombstones() {
		m.write(g, r)
	}
}
