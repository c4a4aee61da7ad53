package group

import (
	"bytes"
	"slices"

	"sluice/kproto"
)

// Names of the server-side assignors, as members ask for them.
const (
	assignorUniform = "uniform"
	assignorRange   = "range"
)

// assignors make target assignments: all partitions of the topics that somebody is subscribed to, each to one member that is
// subscribed to its topic. They give a set for each member, in the members' order, and are pure. Racks do not count: on one node all
// partitions are in the same, and then Kafka takes no notice of them either (KIP-881).
var assignors = map[string]func(assignorInput) []partitionSet{
	assignorUniform: assignUniform,
	assignorRange:   assignByRange,
}

type assignorInput struct {
	members    []assignorMember         // in order of id
	partitions map[kproto.TopicID]int32 // how many a topic has; every topic that a member is subscribed to is here
}

type assignorMember struct {
	id       string
	instance *string
	topics   []kproto.TopicID // subscribed
	had      partitionSet     // of the target assignment before
}

// preferredAssignor is the one of those on offer that most members ask for, the first if they are even or do not care.
func preferredAssignor(members []*consumerMember, offered []string) string {
	votes := map[string]int{}
	for _, c := range members {
		votes[c.assignor]++
	}
	best := offered[0]
	for _, name := range offered {
		if votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// subscribers gives the members of each topic by their place, and the topics in order.
func (in assignorInput) subscribers() (topics []kproto.TopicID, members map[kproto.TopicID][]int) {
	members = map[kproto.TopicID][]int{}
	for i, m := range in.members {
		for _, t := range m.topics {
			members[t] = append(members[t], i)
		}
	}
	for t := range members {
		topics = append(topics, t)
	}
	slices.SortFunc(topics, func(a, b kproto.TopicID) int { return bytes.Compare(a[:], b[:]) })
	return topics, members
}
