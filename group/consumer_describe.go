package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// typeConsumer is how ListGroups names the groups of the consumer protocol.
const typeConsumer = "consumer"

// How ConsumerGroupDescribe names the protocol of a member.
const (
	classicMemberType  = 0
	consumerMemberType = 1
)

func (m *Machine) consumerDescribe(id string) kmsg.ConsumerGroupDescribeResponseGroup {
	r := kmsg.NewConsumerGroupDescribeResponseGroup()
	r.Group = id
	g := m.groups[id]
	if g == nil || g.consumers == nil {
		r.ErrorCode = kproto.GroupIDNotFound
		if id == "" {
			r.ErrorCode = kproto.InvalidGroupID
		}
		r.State = string(Dead)
		return r
	}
	members := g.consumers.inOrder()
	r.State = string(g.consumers.shown())
	r.Epoch = g.consumers.epoch
	r.AssignmentEpoch = g.consumers.assigned
	r.AssignorName = preferredAssignor(members, m.settings.ConsumerAssignors)
	for _, c := range members {
		r.Members = append(r.Members, m.describeConsumer(c))
	}
	return r
}

func (m *Machine) describeConsumer(c *consumerMember) kmsg.ConsumerGroupDescribeResponseGroupMember {
	d := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	d.MemberID = c.id
	d.InstanceID = c.instance
	d.RackID = c.rack
	d.MemberEpoch = c.epoch
	d.ClientID = c.client.ID
	d.ClientHost = c.client.Host
	d.SubscribedTopics = c.topics
	d.SubscribedTopicRegex = nullable(c.pattern)
	d.Assignment = m.describeAssignment(c.given)
	d.TargetAssignment = m.describeAssignment(c.target)
	d.MemberType = consumerMemberType
	if c.classic != nil {
		d.MemberType = classicMemberType
	}
	return d
}

// describeAssignment leaves out topics that are deleted.
func (m *Machine) describeAssignment(s partitionSet) (a kmsg.Assignment) {
	s.byTopic(func(id kproto.TopicID, partitions []int32) {
		if name, ok := m.topicNames[id]; ok {
			a.TopicPartitions = append(a.TopicPartitions, kmsg.AssignmentTopicPartition{TopicID: id, Topic: name, Partitions: partitions})
		}
	})
	return a
}

// checkConsumerFetch tells whether a client that may say who it is may fetch offsets.
func (g *group) checkConsumerFetch(r FetchOffsets) int16 {
	if r.MemberID == "" && r.MemberEpoch < 0 {
		return kproto.NoError
	}
	c := g.consumers.members[r.MemberID]
	switch {
	case c == nil:
		return kproto.UnknownMemberID
	case r.MemberEpoch == c.epoch:
		return kproto.NoError
	case c.classic != nil:
		return kproto.IllegalGeneration
	}
	return kproto.StaleMemberEpoch
}

// hasMembers tells whether somebody is in the group, in either protocol.
func (g *group) hasMembers() bool {
	return g.state != Empty || g.consumers != nil && len(g.consumers.members) > 0
}
