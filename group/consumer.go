package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// The consumer protocol (KIP-848): the members say what they are subscribed to and what they own, in one kind of request, and the
// group assigns. Three epochs keep order:
//
//	group epoch        grows when members, subscriptions or topics change
//	assignment epoch   the group epoch that the target assignment was made for
//	member epoch       the assignment epoch that a member has come to; a request with another one is fenced
//
// A group is of this protocol while it has a ConsumerGroupMetadata record. Without members it becomes what the next
// member wants. With members, consumers of both protocols can be in it (consumer_mixed.go); others are refused:
// INCONSISTENT_GROUP_PROTOCOL to JoinGroup, GROUP_ID_NOT_FOUND to ConsumerGroupHeartbeat.
//
// What matches a member's pattern is worked out anew after a restart, so Kafka's record of it is not written.

// nameOverhead is bytes of memory for a name in a list beside its text.
const nameOverhead = 16

// consumerManagedID is the version of ConsumerGroupHeartbeat from which on the member makes its id (KIP-1082).
const consumerManagedID = 1

func (m *Machine) consumerHeartbeat(ev ConsumerHeartbeat) *kmsg.ConsumerGroupHeartbeatResponse {
	r := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	if r.ErrorCode = m.checkConsumerHeartbeat(ev.Req); r.ErrorCode != kproto.NoError {
		return r
	}
	switch {
	case ev.Req.MemberEpoch < epochJoin:
		m.consumerLeave(ev.Req, r)
	default:
		m.consumerGoOn(ev, r)
	}
	return r
}

// checkConsumerHeartbeat judges what needs no group.
func (m *Machine) checkConsumerHeartbeat(q *kmsg.ConsumerGroupHeartbeatRequest) int16 {
	switch {
	case q.Group == "", emptyText(q.InstanceID), emptyText(q.RackID), q.MemberEpoch < epochAway, q.RebalanceTimeoutMillis < -1:
		return kproto.InvalidRequest
	case q.MemberID == "" && (q.MemberEpoch != epochJoin || q.Version >= consumerManagedID):
		return kproto.InvalidRequest
	case q.MemberEpoch == epochJoin && !isFirst(q), q.MemberEpoch == epochAway && q.InstanceID == nil:
		return kproto.InvalidRequest
	case longName(q.Group, q.MemberID) || !reasonableSubscription(q):
		return kproto.InvalidRequest
	case q.ServerAssignor != nil && !slices.Contains(m.settings.ConsumerAssignors, *q.ServerAssignor):
		return kproto.UnsupportedAssignor
	}
	return kproto.NoError
}

// isFirst tells whether a request says all that a new member must say, and claims nothing.
func isFirst(q *kmsg.ConsumerGroupHeartbeatRequest) bool {
	subscribes := q.SubscribedTopicNames != nil || q.SubscribedTopicRegex != nil
	return subscribes && q.RebalanceTimeoutMillis != -1 && q.Topics != nil && len(q.Topics) == 0
}

func emptyText(s *string) bool { return s != nil && *s == "" }

func reasonableSubscription(q *kmsg.ConsumerGroupHeartbeatRequest) bool {
	size := 0
	for _, s := range []*string{q.InstanceID, q.RackID, q.SubscribedTopicRegex} {
		if s != nil {
			size += len(*s)
			if longName(*s) {
				return false
			}
		}
	}
	size += sizeOfNames(q.SubscribedTopicNames)
	return size <= maxMemberMetadata && !longName(q.SubscribedTopicNames...)
}

// sizeOfNames is about the bytes that a list takes in memory.
func sizeOfNames(names []string) (size int) {
	for _, name := range names {
		size += len(name) + nameOverhead
	}
	return size
}

// consumerGoOn is a heartbeat that joins or stays.
func (m *Machine) consumerGoOn(ev ConsumerHeartbeat, r *kmsg.ConsumerGroupHeartbeatResponse) {
	q := ev.Req
	g, code := m.consumerGroupOf(q)
	if code != kproto.NoError {
		r.ErrorCode = code
		return
	}
	d := m.draft(g)
	member, code := d.admit(ev)
	if code == kproto.NoError {
		code = m.checkSubscription(d, member, q)
	}
	if code != kproto.NoError {
		m.discard(d)
		r.ErrorCode = code
		return
	}
	m.consumerUpdate(d, member, ev, r)
}

// discard drops a draft that came to nothing, and the group if it was for it.
func (m *Machine) discard(d *consumerDraft) {
	d.g.draft = nil
	m.drafts = slices.DeleteFunc(m.drafts, func(x *consumerDraft) bool { return x == d })
	m.forgetIfNothing(d.g)
}

// consumerGroupOf finds the group, or makes it for a new member.
func (m *Machine) consumerGroupOf(q *kmsg.ConsumerGroupHeartbeatRequest) (*group, int16) {
	g := m.groups[q.Group]
	switch {
	case g != nil && g.consumers != nil:
		return g, kproto.NoError
	case q.MemberEpoch != epochJoin:
		return nil, kproto.GroupIDNotFound
	case g != nil && m.upgradable(g):
		if code := m.checkPattern(q); code != kproto.NoError {
			return nil, code
		}
		m.upgrade(g)
		return g, kproto.NoError
	case g != nil && g.state != Empty:
		return nil, kproto.GroupIDNotFound // classic, and in use
	}
	g, ok := m.obtain(q.Group)
	if !ok {
		return nil, kproto.PolicyViolation
	}
	return g, kproto.NoError
}

// checkSubscription bounds what the members of a group say together, and compiles a pattern that is new for the member.
func (m *Machine) checkSubscription(d *consumerDraft, c *consumerMember, q *kmsg.ConsumerGroupHeartbeatRequest) int16 {
	if size := sizeOfNames(q.SubscribedTopicNames); d.base.said+size > maxGroupMetadata && size > sizeOfNames(c.topics) {
		return kproto.GroupMaxSizeReached
	}
	if p := q.SubscribedTopicRegex; p != nil && *p == c.pattern {
		return kproto.NoError
	}
	return m.checkPattern(q)
}

func (m *Machine) checkPattern(q *kmsg.ConsumerGroupHeartbeatRequest) int16 {
	p := q.SubscribedTopicRegex
	if p == nil || *p == "" {
		return kproto.NoError
	}
	if _, err := m.opts.CompileRegex(*p); err != nil {
		return kproto.InvalidRegularExpression
	}
	return kproto.NoError
}

// consumerUpdate takes over what the member says, makes a new target assignment if that asks for one, takes the member a step
// towards it, and tells it.
func (m *Machine) consumerUpdate(d *consumerDraft, was *consumerMember, ev ConsumerHeartbeat, r *kmsg.ConsumerGroupHeartbeatResponse) {
	q := ev.Req
	next := m.advance(d, was, updated(was, ev), ownedPartitions(q))
	r.MemberID = &next.id
	r.MemberEpoch = next.epoch
	r.HeartbeatIntervalMillis = int32(m.consumerInterval(d, next).Milliseconds())
	if isFull(q) || !slices.Equal(next.given, was.given) {
		r.Assignment = heartbeatAssignment(next.given)
	}
}

// advance puts what a member is now in the place of what it was, and takes it a step further.
func (m *Machine) advance(d *consumerDraft, was, c *consumerMember, owned *partitionSet) *consumerMember {
	m.enterConsumers(d)
	fresh := d.member(c.id) == nil
	if fresh || !sameMember(was, c) {
		d.set(c)
	}
	m.retarget(d, fresh || c.pattern != was.pattern || !slices.Equal(c.topics, was.topics))
	if now := d.member(c.id); now != nil {
		c = now
	}
	next := d.reconcile(c, owned)
	if next != c {
		d.set(next)
	}
	m.touchConsumer(d.g, next, !slices.Equal(next.revoking, was.revoking))
	return next
}

// enterConsumers ends what a group or an instance id was before.
func (m *Machine) enterConsumers(d *consumerDraft) {
	if g := d.g; g.consumers == nil {
		m.endClassic(g)
	}
	for id, c := range d.changed {
		if c == nil { // a static member that came back under another id: there is only this one
			m.endSession(d.g, id)
		}
	}
}

// isFull tells whether a request says everything, as after an error: then the answer does, too.
func isFull(q *kmsg.ConsumerGroupHeartbeatRequest) bool {
	return q.MemberEpoch == epochJoin || q.RebalanceTimeoutMillis != -1 && q.Topics != nil &&
		(q.SubscribedTopicNames != nil || q.SubscribedTopicRegex != nil)
}

// updated gives the member with what a request says of it; what it leaves out is as before.
func updated(was *consumerMember, ev ConsumerHeartbeat) *consumerMember {
	q, c := ev.Req, was.copy()
	c.client, c.classic = ev.Client, nil
	if q.InstanceID != nil {
		c.instance = q.InstanceID
	}
	if q.RackID != nil {
		c.rack = q.RackID
	}
	if q.RebalanceTimeoutMillis >= 0 {
		c.rebalance = millis(q.RebalanceTimeoutMillis)
	}
	if q.SubscribedTopicNames != nil {
		c.topics = orderedNames(q.SubscribedTopicNames)
	}
	if q.SubscribedTopicRegex != nil {
		c.pattern = *q.SubscribedTopicRegex
	}
	if q.ServerAssignor != nil {
		c.assignor = *q.ServerAssignor
	}
	return c
}

// orderedNames gives nil for none, as a replay does.
func orderedNames(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// ownedPartitions is nil when the member does not say.
func ownedPartitions(q *kmsg.ConsumerGroupHeartbeatRequest) *partitionSet {
	if q.Topics == nil {
		return nil
	}
	var list []topicPartition
	for _, t := range q.Topics {
		for _, p := range t.Partitions {
			list = append(list, topicPartition{t.TopicID, p})
		}
	}
	owned := newPartitionSet(list)
	return &owned
}

func heartbeatAssignment(s partitionSet) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	a := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	a.Topics = []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{}
	s.byTopic(func(id kproto.TopicID, partitions []int32) {
		t := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		t.TopicID, t.Partitions = id, partitions
		a.Topics = append(a.Topics, t)
	})
	return &a
}
