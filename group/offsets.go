package group

import (
	"cmp"
	"slices"
	"strings"
)

// offset is what one commit said.
type offset struct {
	partition   int32
	leaderEpoch int32 // -1: unknown
	offset      int64
	metadata    string
	committed   int64 // milliseconds of the wall clock
	expires     int64 // the same; -1: by the broker's retention
}

// offsets are a group's, in order of topic and partition: small for the many groups that have few, and the same in every replay.
type offsets []topicOffsets

type topicOffsets struct {
	name       string
	partitions []offset
}

func (o offsets) topic(name string) (int, bool) {
	return slices.BinarySearchFunc(o, name, func(t topicOffsets, name string) int { return cmp.Compare(t.name, name) })
}

func (t topicOffsets) partition(p int32) (int, bool) {
	return slices.BinarySearchFunc(t.partitions, p, func(o offset, p int32) int { return cmp.Compare(o.partition, p) })
}

// get finds a commit.
func (o offsets) get(topic string, partition int32) (offset, bool) {
	i, ok := o.topic(topic)
	if !ok {
		return offset{}, false
	}
	j, ok := o[i].partition(partition)
	if !ok {
		return offset{}, false
	}
	return o[i].partitions[j], true
}

func (o *offsets) put(topic string, c offset) {
	i, ok := o.topic(topic)
	if !ok {
		*o = slices.Insert(*o, i, topicOffsets{name: strings.Clone(topic)})
	}
	t := &(*o)[i]
	j, ok := t.partition(c.partition)
	if !ok {
		t.partitions = slices.Insert(t.partitions, j, offset{})
	}
	t.partitions[j] = c
}

func (o *offsets) remove(topic string, partition int32) {
	i, ok := o.topic(topic)
	if !ok {
		return
	}
	t := &(*o)[i]
	j, ok := t.partition(partition)
	if !ok {
		return
	}
	if t.partitions = slices.Delete(t.partitions, j, j+1); len(t.partitions) == 0 {
		*o = slices.Delete(*o, i, i+1)
	}
	if len(*o) == 0 {
		*o = nil
	}
}
