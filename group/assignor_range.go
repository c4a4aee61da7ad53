package group

import (
	"slices"
	"strings"
)

// assignByRange gives each subscriber of a topic a run of neighbouring partitions, so that members with the same subscriptions
// get the same partition numbers of every topic. Static members come first, in order of instance id, so that their
// restart under a new member id changes nothing.
func assignByRange(in assignorInput) []partitionSet {
	out := make([][]topicPartition, len(in.members))
	topics, subscribers := in.subscribers()
	for _, topic := range topics {
		members := in.ranked(subscribers[topic])
		n, count := int(in.partitions[topic]), len(members)
		next := 0
		for rank, i := range members {
			share := n / count
			if rank < n%count {
				share++
			}
			for range share {
				out[i] = append(out[i], topicPartition{topic, int32(next)})
				next++
			}
		}
	}
	sets := make([]partitionSet, len(out))
	for i, list := range out {
		sets[i] = newPartitionSet(list)
	}
	return sets
}

func (in assignorInput) ranked(members []int) []int {
	ranked := slices.Clone(members)
	slices.SortFunc(ranked, func(i, j int) int { return compareRank(in.members[i], in.members[j]) })
	return ranked
}

func compareRank(a, b assignorMember) int {
	switch {
	case a.instance != nil && b.instance != nil:
		return strings.Compare(*a.instance, *b.instance)
	case a.instance != nil:
		return -1
	case b.instance != nil:
		return 1
	}
	return strings.Compare(a.id, b.id)
}
