package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// Kinds of coordinator that FindCoordinator asks for.
const (
	coordinatorGroup       int8 = 0
	coordinatorTransaction int8 = 1
)

// findCoordinator answers FindCoordinator, v0-6: this node coordinates all groups and transactions. Share groups (v6)
// are not there.
//
//	v4  several keys at once (KIP-699)
func (b *Broker) findCoordinator(c *call, q *kmsg.FindCoordinatorRequest) {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	a := c.address()
	err := checkCoordinatorType(q.CoordinatorType)
	if c.Version < 4 {
		resp.ErrorCode, resp.ErrorMessage = c.fail(err)
		resp.NodeID, resp.Host, resp.Port = coordinatorNode(a, err)
		c.answer(resp)
		return
	}
	resp.Coordinators = make([]kmsg.FindCoordinatorResponseCoordinator, len(q.CoordinatorKeys))
	for i, key := range q.CoordinatorKeys {
		x := &resp.Coordinators[i]
		x.Key = key
		x.ErrorCode, x.ErrorMessage = c.fail(err)
		x.NodeID, x.Host, x.Port = coordinatorNode(a, err)
	}
	c.answer(resp)
}

func checkCoordinatorType(t int8) error {
	if t == coordinatorGroup || t == coordinatorTransaction {
		return nil
	}
	return kproto.Errorf(kproto.InvalidRequest, "The coordinator type %d is not supported.", t)
}

func coordinatorNode(a hostPort, err error) (id int32, host string, port int32) {
	if err != nil {
		return -1, "", -1
	}
	return NodeID, a.host, a.port
}
