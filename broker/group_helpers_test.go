package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// testMember is a member of a classic group, on a connection of its own.
type testMember struct {
	*client
	group, id string
	instance  *string
	protocols []string
	metadata  []byte // for all of them; nil: something that nobody understands
	gen       int32
}

func (n *node) member(groupID string) *testMember {
	return &testMember{client: n.dial(), group: groupID, protocols: []string{"range"}, gen: -1}
}

func (m *testMember) joinRequest() *kmsg.JoinGroupRequest {
	q := kmsg.NewPtrJoinGroupRequest()
	q.Group, q.MemberID, q.InstanceID, q.ProtocolType = m.group, m.id, m.instance, "consumer"
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 60_000, 120_000
	for _, name := range m.protocols {
		p := kmsg.JoinGroupRequestProtocol{Name: name, Metadata: m.metadata}
		if p.Metadata == nil {
			p.Metadata = []byte("of " + name)
		}
		q.Protocols = append(q.Protocols, p)
	}
	return q
}

// startJoin sends a JoinGroup; its answer is awaited with joined. A member without id first gets one.
func (m *testMember) startJoin(version int16) {
	m.t.Helper()
	if m.id == "" && m.instance == nil && version >= 4 {
		resp := do[*kmsg.JoinGroupResponse](m.client, m.joinRequest(), version)
		if resp.ErrorCode != 79 || resp.MemberID == "" {
			m.t.Fatalf("JoinGroup v%d without an id: %+v", version, resp)
		}
		m.id = resp.MemberID
	}
	m.send(m.joinRequest(), version)
}

func (m *testMember) joined(version int16) *kmsg.JoinGroupResponse {
	m.t.Helper()
	resp := answer[*kmsg.JoinGroupResponse](m.client, m.joinRequest(), version)
	if resp.ErrorCode == 0 {
		m.id, m.gen = resp.MemberID, resp.Generation
	}
	return resp
}

func (m *testMember) join(version int16) *kmsg.JoinGroupResponse {
	m.t.Helper()
	m.startJoin(version)
	return m.joined(version)
}

func (m *testMember) syncRequest(assign map[string]string) *kmsg.SyncGroupRequest {
	q := kmsg.NewPtrSyncGroupRequest()
	q.Group, q.MemberID, q.Generation, q.InstanceID = m.group, m.id, m.gen, m.instance
	for id, what := range assign {
		q.GroupAssignment = append(q.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(what)})
	}
	return q
}

func (m *testMember) sync(version int16, assign map[string]string) *kmsg.SyncGroupResponse {
	m.t.Helper()
	return do[*kmsg.SyncGroupResponse](m.client, m.syncRequest(assign), version)
}

func (m *testMember) heartbeat(version int16) int16 {
	m.t.Helper()
	q := kmsg.NewPtrHeartbeatRequest()
	q.Group, q.MemberID, q.Generation, q.InstanceID = m.group, m.id, m.gen, m.instance
	return do[*kmsg.HeartbeatResponse](m.client, q, version).ErrorCode
}

func (m *testMember) leave(version int16) *kmsg.LeaveGroupResponse {
	m.t.Helper()
	q := kmsg.NewPtrLeaveGroupRequest()
	q.Group, q.MemberID = m.group, m.id
	q.Members = []kmsg.LeaveGroupRequestMember{{MemberID: m.id, InstanceID: m.instance}}
	return do[*kmsg.LeaveGroupResponse](m.client, q, version)
}

// commitRequest commits one offset of topic-0 as the member.
func (m *testMember) commitRequest(topic string, offset int64) *kmsg.OffsetCommitRequest {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Group, q.MemberID, q.Generation = m.group, m.id, m.gen
	q.Topics = []kmsg.OffsetCommitRequestTopic{commitTopic(topic, 0, offset, "")}
	return q
}

func (m *testMember) commit(version int16, topic string, offset int64) int16 {
	m.t.Helper()
	return do[*kmsg.OffsetCommitResponse](m.client, m.commitRequest(topic, offset), version).Topics[0].Partitions[0].ErrorCode
}

func commitTopic(topic string, partition int32, offset int64, metadata string) kmsg.OffsetCommitRequestTopic {
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = partition, offset, &metadata
	t.Partitions = append(t.Partitions, p)
	return t
}

// fetched asks for the offset of a partition, in version 8.
func (c *client) fetched(groupID, topic string, partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	c.t.Helper()
	q := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = groupID
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{partition}}}
	q.Groups = append(q.Groups, g)
	resp := do[*kmsg.OffsetFetchResponse](c, q, 8).Groups[0]
	if resp.ErrorCode != 0 {
		c.t.Fatalf("OffsetFetch of %s: %d", groupID, resp.ErrorCode)
	}
	return resp.Topics[0].Partitions[0]
}

// describeGroup describes a group.
func (c *client) describeGroup(groupID string) kmsg.DescribeGroupsResponseGroup {
	c.t.Helper()
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Groups = []string{groupID}
	return do[*kmsg.DescribeGroupsResponse](c, q, 5).Groups[0]
}
