package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sessionFetch fetches partitions of t from an offset, in a session.
func sessionFetch(c *client, id, epoch int32, offset int64, parts ...int32) *kmsg.FetchResponse {
	q := kmsg.NewPtrFetchRequest()
	q.MaxBytes, q.SessionID, q.SessionEpoch = 1<<20, id, epoch
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = "t"
	for _, p := range parts {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, offset, 1<<20
		rt.Partitions = append(rt.Partitions, rp)
	}
	if len(parts) > 0 {
		q.Topics = append(q.Topics, rt)
	}
	return do[*kmsg.FetchResponse](c, q, 12)
}

// onlyReader gives the connections' only one that reads.
func (n *node) onlyReader() *connState {
	n.t.Helper()
	n.resolver.mu.Lock()
	defer n.resolver.mu.Unlock()
	var found []*connState
	for c := range n.resolver.conns {
		if len(c.reads) > 0 {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		n.t.Fatalf("%d connections read", len(found))
	}
	return found[0]
}

// A connection that carries its member's requests and fetches in a session: what is found stands in the session, and is found
// anew when the member's partitions change. When the connection ends it is forgotten.
func TestSubscriptionsOverTheWire(t *testing.T) {
	n := startNode(t, nil)
	m := n.member("g")
	m.client.mustCreate("t")
	m.produce("t", 0, "a")
	m.protocols = []string{"range"}
	m.join(9)
	assign := func(partitions ...int32) {
		own := kmsg.NewConsumerMemberAssignment()
		own.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: partitions}}
		m.sync(4, map[string]string{m.id: string(own.AppendTo(nil))})
	}
	assign(0)
	first := sessionFetch(m.client, 0, 0, 0, 0)
	c := n.onlyReader()
	s := c.read(topicPartition{n.topics.byName("t"), 0})
	if k, how, _ := s.key(); k != (groupKey{true, "g"}) || how != byAffinity || s.position.Load() != 1 {
		t.Errorf("%v %v at %d", k, how, s.position.Load())
	}
	x := n.fetchSessions.find(first.SessionID)
	if got := x.order.next.sub.Load(); got != s {
		t.Error("the session does not have it")
	}
	m.produce("t", 0, "b")
	sessionFetch(m.client, first.SessionID, 1, 1, 0)
	if s.position.Load() != 2 || c.read(s.topicPartition) != s || x.order.next.sub.Load() != s {
		t.Error("the next fetch is another's")
	}

	m.join(9) // and is given nothing this time
	assign()
	sessionFetch(m.client, first.SessionID, 2, 2)
	if k, how, _ := s.key(); k != (groupKey{true, "g"}) || how != byAffinity {
		t.Errorf("while it drains: %v %v", k, how)
	}
	m.conn.Close()
	waitFor(t, func() bool {
		n.resolver.mu.Lock()
		defer n.resolver.mu.Unlock()
		return len(n.resolver.readers) == 0 && n.resolver.count == 0
	})
}
