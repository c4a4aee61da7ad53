package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerProtocolType is the protocol type of Kafka's consumers. What their members say and are told is public: a version, and
// then at least what version 0 has. Of other types this machine knows nothing, and does not need to.
const consumerProtocolType = "consumer"

// decodeAssignment reads the partitions of a consumer's assignment; nil when there are none, or the bytes are no assignment.
func decodeAssignment(b []byte) map[string][]int32 {
	var a kmsg.ConsumerMemberAssignment
	if len(b) == 0 || a.ReadFrom(b) != nil || a.Version < 0 {
		return nil
	}
	var owned map[string][]int32
	for _, t := range a.Topics {
		if len(t.Partitions) == 0 {
			continue
		}
		if owned == nil {
			owned = make(map[string][]int32, len(a.Topics))
		}
		owned[t.Topic] = append(owned[t.Topic], t.Partitions...)
	}
	return owned
}

// decodeSubscription reads what a consumer says in JoinGroup.
func decodeSubscription(b []byte) (s kmsg.ConsumerMemberMetadata, ok bool) {
	err := s.ReadFrom(b)
	return s, err == nil && s.Version >= 0
}

// topicSet is the topics that a group's members are subscribed to.
type topicSet struct {
	names   map[string]bool
	unknown bool // some member's subscription cannot be read: it may be to anything
}

func (s topicSet) has(topic string) bool { return s.unknown || s.names[topic] }

// subscription reads the subscriptions of a consumers' group. Other groups subscribe to nothing.
func (m *Machine) subscription(g *group) topicSet {
	if g.consumers != nil {
		return m.consumerSubscription(g)
	}
	s := topicSet{}
	if !g.isConsumers() {
		return s
	}
	for _, member := range g.members {
		metadata, ok := decodeSubscription(member.metadata(g.protocol))
		if !ok {
			s.unknown = true
			return s
		}
		if s.names == nil {
			s.names = map[string]bool{}
		}
		for _, t := range metadata.Topics {
			s.names[t] = true
		}
	}
	return s
}

// tellOwnership gives the order that says who owns what. That nobody does is said once.
func (m *Machine) tellOwnership(g *group) {
	o := Ownership{Group: g.id, All: true}
	if g.isConsumers() {
		for _, member := range g.members {
			if owned := decodeAssignment(member.assignment); owned != nil {
				o.Members = append(o.Members, g.owner(member, owned))
			}
		}
	}
	if len(o.Members) > 0 || g.owned {
		m.order(o)
	}
	g.owned = len(o.Members) > 0
}

// tellGone gives the order that says that a member owns nothing any more.
func (m *Machine) tellGone(member *member) {
	if g := member.g; g.owned && len(member.assignment) > 0 {
		m.order(Ownership{Group: g.id, Members: []Owner{{MemberID: member.id}}})
	}
}

func (g *group) owner(m *member, owned map[string][]int32) Owner {
	o := Owner{MemberID: m.id, Client: m.client, Epoch: g.assigned, Partitions: owned, PollInterval: m.rebalance}
	if s, ok := decodeSubscription(m.metadata(g.protocol)); ok && s.Rack != nil {
		o.RackID = *s.Rack
	}
	return o
}
