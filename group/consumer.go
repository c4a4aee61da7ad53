package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// The consumer protocol (KIP-848) has its place here, as a part of group beside classic, in files of its own. The protocols meet where
// a group of the other type is asked for something: in join, sync, heartbeat and leave (migration, or
// INCONSISTENT_GROUP_PROTOCOL), committer and fetch (member epochs), describe and list (the type), delete and kill
// (the tombstones), subscription and mayExpire (what may be forgotten), forgetIfNothing, Apply and revive.

func (m *Machine) consumerHeartbeat(ConsumerHeartbeat) *kmsg.ConsumerGroupHeartbeatResponse {
	r := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	r.ErrorCode = kproto.UnsupportedVersion
	return r
}

func (m *Machine) consumerDescribe(id string) kmsg.ConsumerGroupDescribeResponseGroup {
	r := kmsg.NewConsumerGroupDescribeResponseGroup()
	r.Group = id
	r.ErrorCode = kproto.GroupIDNotFound
	return r
}
