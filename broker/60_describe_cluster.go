package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// Kinds of endpoint that DescribeCluster asks for (KIP-919).
const (
	endpointBrokers     int8 = 1
	endpointControllers int8 = 2
)

// describeCluster answers DescribeCluster, v0-2 (KIP-700). Clients reach brokers here, never controllers.
func (b *Broker) describeCluster(c *call, q *kmsg.DescribeClusterRequest) {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.EndpointType = endpointBrokers
	if c.Version >= 1 && q.EndpointType != endpointBrokers {
		resp.ErrorCode, resp.ErrorMessage = c.fail(endpointError(q.EndpointType))
		c.answer(resp)
		return
	}
	a := c.address()
	node := kmsg.NewDescribeClusterResponseBroker()
	node.NodeID, node.Host, node.Port = NodeID, a.host, a.port
	resp.Brokers = []kmsg.DescribeClusterResponseBroker{node}
	resp.ClusterID, resp.ControllerID = b.clusterID, NodeID
	resp.ClusterAuthorizedOperations = operations(q.IncludeClusterAuthorizedOperations, clusterOperations)
	c.answer(resp)
}

func endpointError(t int8) error {
	if t == endpointControllers {
		return kproto.Errorf(kproto.MismatchedEndpointType, "The request was sent to an endpoint of brokers, but wants one of controllers.")
	}
	return kproto.Errorf(kproto.UnsupportedEndpointType, "There is no endpoint type %d.", t)
}
