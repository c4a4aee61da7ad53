package main

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func offsetRecord(partition int32, offset int64) *kgo.Record {
	key := kmsg.OffsetCommitKey{Version: keyOffset, Group: group, Topic: topic, Partition: partition}
	value := kmsg.OffsetCommitValue{Version: offsetValueVersion, Offset: offset, LeaderEpoch: -1, CommitTimestamp: 1}
	return &kgo.Record{Key: key.AppendTo(nil), Value: value.AppendTo(nil)}
}

// groupRecord gives the partitions of each member.
func groupRecord(generation int32, assignments ...[]int32) *kgo.Record {
	key := kmsg.GroupMetadataKey{Version: keyGroup, Group: group}
	value := kmsg.GroupMetadataValue{Version: groupValueVersion, ProtocolType: "consumer", Generation: generation}
	for _, partitions := range assignments {
		assignment := kmsg.ConsumerMemberAssignment{Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: topic, Partitions: partitions}}}
		value.Members = append(value.Members, kmsg.GroupMetadataValueMember{MemberID: "m", Assignment: assignment.AppendTo(nil)})
	}
	return &kgo.Record{Key: key.AppendTo(nil), Value: value.AppendTo(nil)}
}

func TestOffsetsBook(t *testing.T) {
	b := offsetsBook{committed: map[int32]int64{}}
	for _, r := range []*kgo.Record{groupRecord(1, []int32{0}, []int32{1}), offsetRecord(0, 5), offsetRecord(0, 6), groupRecord(2)} {
		if err := b.take(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.check([]int64{6}); err != nil {
		t.Error(err)
	}
	if err := b.check([]int64{7}); err == nil {
		t.Error("another end is not noticed")
	}
}

func TestBadRecordsAreFound(t *testing.T) {
	longer := offsetRecord(0, 5)
	longer.Value = append(longer.Value, 0)
	otherVersion := offsetRecord(0, 5)
	otherVersion.Value[1] = 1
	unknown := offsetRecord(0, 5)
	unknown.Key[1] = 99
	tests := map[string]*kgo.Record{
		"bytes at the end":            longer,
		"another version":             otherVersion,
		"an unknown key":              unknown,
		"no key":                      {Value: []byte("x")},
		"a partition with two owners": groupRecord(3, []int32{0, 1}, []int32{1}),
		"a generation goes back":      groupRecord(1, []int32{0}),
	}
	for name, r := range tests {
		t.Run(name, func(t *testing.T) {
			b := offsetsBook{committed: map[int32]int64{}, newest: 2}
			if b.take(r) == nil {
				t.Error("not found")
			}
		})
	}
}
