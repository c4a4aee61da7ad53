package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// The consumer protocol (KIP-848) has its place here: groups of another type beside the classic ones, in files of their own. A request
// of one protocol for a group of the other is answered INCONSISTENT_GROUP_PROTOCOL or GROUP_ID_NOT_FOUND.

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
