package group

import (
	"bytes"
	"cmp"
	"slices"

	"sluice/kproto"
)

// topicPartition names a partition by its topic's id: a topic that is deleted and made again is another one.
type topicPartition struct {
	topic     kproto.TopicID
	partition int32
}

func (p topicPartition) compare(q topicPartition) int {
	return cmp.Or(bytes.Compare(p.topic[:], q.topic[:]), cmp.Compare(p.partition, q.partition))
}

// partitionSet is in order and without duplicates. It is never changed once made.
type partitionSet []topicPartition

// newPartitionSet takes the list over. The empty set is nil, so that equal sets are deeply equal.
func newPartitionSet(list []topicPartition) partitionSet {
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, topicPartition.compare)
	return slices.Compact(list)
}

func (s partitionSet) has(p topicPartition) bool {
	_, ok := slices.BinarySearchFunc(s, p, topicPartition.compare)
	return ok
}

func (s partitionSet) filter(keep func(topicPartition) bool) (out partitionSet) {
	for _, p := range s {
		if keep(p) {
			out = append(out, p)
		}
	}
	return out
}

func (s partitionSet) and(t partitionSet) partitionSet { return s.filter(t.has) }

func (s partitionSet) minus(t partitionSet) partitionSet {
	return s.filter(func(p topicPartition) bool { return !t.has(p) })
}

func (s partitionSet) or(t partitionSet) partitionSet {
	switch {
	case len(s) == 0:
		return t
	case len(t) == 0:
		return s
	}
	return newPartitionSet(slices.Concat(s, t))
}

func (s partitionSet) within(t partitionSet) bool {
	return !slices.ContainsFunc(s, func(p topicPartition) bool { return !t.has(p) })
}

// byTopic calls fn with each topic's partitions.
func (s partitionSet) byTopic(fn func(topic kproto.TopicID, partitions []int32)) {
	for len(s) > 0 {
		topic := s[0].topic
		n := 0
		var partitions []int32
		for n < len(s) && s[n].topic == topic {
			partitions = append(partitions, s[n].partition)
			n++
		}
		fn(topic, partitions)
		s = s[n:]
	}
}

// topics counts them.
func (s partitionSet) topics() (n int) {
	for i, p := range s {
		if i == 0 || s[i-1].topic != p.topic {
			n++
		}
	}
	return n
}
