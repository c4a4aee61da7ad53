package broker

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A whole life in every version of JoinGroup: first member, second member, the first one learns of it by heartbeat, both
// are given their share, one leaves, the other goes on.
func TestGroupOfTwo(t *testing.T) {
	n := startNode(t, nil)
	for v := int16(0); v <= 9; v++ {
		name := "group-" + string('0'+rune(v))
		a, b := n.member(name), n.member(name)
		resp := a.join(v)
		if resp.ErrorCode != 0 || resp.LeaderID != a.id || resp.Generation != 1 || deref(resp.Protocol) != "range" || len(resp.Members) != 1 {
			t.Fatalf("v%d: the first JoinGroup: %+v", v, resp)
		}
		if v >= 7 && deref(resp.ProtocolType) != "consumer" {
			t.Errorf("v%d: protocol type %v", v, resp.ProtocolType)
		}
		if !strings.HasPrefix(a.id, "test-") || len(a.id) != len("test-")+36 {
			t.Errorf("v%d: member id %q", v, a.id)
		}
		if resp := a.sync(min(v, 4), map[string]string{a.id: "all"}); resp.ErrorCode != 0 || string(resp.MemberAssignment) != "all" {
			t.Fatalf("v%d: the first SyncGroup: %+v", v, resp)
		}
		b.startJoin(v)
		waitFor(t, func() bool { return a.heartbeat(min(v, 4)) == 27 })
		if code := a.commit(7, "t", 1); code != 3 { // no such topic; the group itself would take it
			t.Errorf("v%d: commit while the others join: %d", v, code)
		}
		if resp := a.join(v); resp.ErrorCode != 0 || resp.Generation != 2 || len(resp.Members) != 2 || resp.LeaderID != a.id {
			t.Fatalf("v%d: the leader joins again: %+v", v, resp)
		}
		if resp := b.joined(v); resp.ErrorCode != 0 || resp.Generation != 2 || len(resp.Members) != 0 || resp.LeaderID != a.id {
			t.Fatalf("v%d: the second JoinGroup: %+v", v, resp)
		}
		b.send(b.syncRequest(nil), min(v, 4))
		if resp := a.sync(min(v, 4), map[string]string{a.id: "half", b.id: "other half"}); resp.ErrorCode != 0 || string(resp.MemberAssignment) != "half" {
			t.Fatalf("v%d: the leader's SyncGroup: %+v", v, resp)
		}
		if resp := answer[*kmsg.SyncGroupResponse](b.client, b.syncRequest(nil), min(v, 4)); resp.ErrorCode != 0 || string(resp.MemberAssignment) != "other half" {
			t.Fatalf("v%d: the other's SyncGroup: %+v", v, resp)
		}
		if a.heartbeat(min(v, 4)) != 0 || b.heartbeat(min(v, 4)) != 0 {
			t.Errorf("v%d: heartbeats of a stable group are refused", v)
		}
		if resp := a.leave(min(v, 5)); resp.ErrorCode != 0 || v >= 3 && resp.Members[0].ErrorCode != 0 {
			t.Errorf("v%d: LeaveGroup: %+v", v, resp)
		}
		if code := b.heartbeat(min(v, 4)); code != 27 {
			t.Errorf("v%d: heartbeat after the other left: %d", v, code)
		}
		if resp := b.join(v); resp.ErrorCode != 0 || resp.Generation != 3 || resp.LeaderID != b.id {
			t.Errorf("v%d: the one that is left joins: %+v", v, resp)
		}
	}
}

func one(b bool) int16 {
	if b {
		return 1
	}
	return 0
}

// Before v1 the session timeout is the rebalance timeout as well: a member that does not come back is thrown out after it.
func TestJoinGroupV0RebalanceTimeout(t *testing.T) { synctest.Test(t, joinGroupV0RebalanceTimeout) }

func joinGroupV0RebalanceTimeout(t *testing.T) {
	n := startNodeInBubble(t, map[string]string{"group.min.session.timeout.ms": "1"})
	a, b := n.member("g"), n.member("g")
	q := a.joinRequest()
	q.SessionTimeoutMillis = 300
	a.id = do[*kmsg.JoinGroupResponse](a.client, q, 0).MemberID
	a.gen = 1
	a.sync(0, map[string]string{a.id: "all"})
	b.send(q, 0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // it lives on, but does not join: only the rebalance timeout can end it
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				a.heartbeat(0)
			}
		}
	}()
	if resp := b.joined(0); resp.ErrorCode != 0 || resp.LeaderID != b.id || len(resp.Members) != 1 {
		t.Errorf("JoinGroup: %+v", resp)
	}
	close(stop)
	<-stopped
}

// SyncGroup v5 names the protocol, which must be the group's.
func TestSyncGroupProtocol(t *testing.T) {
	n := startNode(t, nil)
	m := n.member("g")
	m.join(9)
	name := kmsg.StringPtr
	for _, x := range []struct {
		typ, name *string
		code      int16
	}{
		{nil, name("range"), 23},
		{name("consumer"), nil, 23},
		{name("consumer"), name("sticky"), 23},
		{name("connect"), name("range"), 23},
		{name("consumer"), name("range"), 0},
	} {
		q := m.syncRequest(map[string]string{m.id: "all"})
		q.ProtocolType, q.Protocol = x.typ, x.name
		resp := do[*kmsg.SyncGroupResponse](m.client, q, 5)
		if resp.ErrorCode != x.code || x.code == 0 && (deref(resp.ProtocolType) != "consumer" || deref(resp.Protocol) != "range") {
			t.Errorf("SyncGroup as %s/%s: %+v", deref(x.typ), deref(x.name), resp)
		}
	}
}

// What is wrong with a request whatever the group is like.
func TestGroupRequestsThatAreRefused(t *testing.T) {
	n := startNode(t, nil)
	join := func(change func(q *kmsg.JoinGroupRequest)) int16 {
		q := n.member("g").joinRequest()
		change(q)
		return do[*kmsg.JoinGroupResponse](n.dial(), q, 9).ErrorCode
	}
	many := make([]kmsg.JoinGroupRequestProtocol, 65)
	for i := range many {
		many[i].Name = strings.Repeat("p", i+1)
	}
	for what, x := range map[string]struct{ got, want int16 }{
		"no group":             {join(func(q *kmsg.JoinGroupRequest) { q.Group = "" }), 24},
		"many protocols":       {join(func(q *kmsg.JoinGroupRequest) { q.Protocols = many }), 42},
		"large subscription":   {join(func(q *kmsg.JoinGroupRequest) { q.Protocols[0].Metadata = make([]byte, 1<<20) }), 42},
		"short session":        {join(func(q *kmsg.JoinGroupRequest) { q.SessionTimeoutMillis = 5999 }), 26},
		"long session":         {join(func(q *kmsg.JoinGroupRequest) { q.SessionTimeoutMillis = 1_800_001 }), 26},
		"no protocols":         {join(func(q *kmsg.JoinGroupRequest) { q.Protocols = nil }), 23},
		"unknown member":       {join(func(q *kmsg.JoinGroupRequest) { q.MemberID = "who" }), 25},
		"heartbeat, no group":  {n.member("").heartbeat(4), 24},
		"sync, no group":       {n.member("").sync(4, nil).ErrorCode, 24},
		"leave, no group":      {n.member("").leave(4).ErrorCode, 24},
		"heartbeat, unknown":   {n.member("g").heartbeat(4), 25},
		"sync, unknown":        {n.member("g").sync(4, nil).ErrorCode, 25},
		"leave, unknown":       {n.member("g").leave(2).ErrorCode, 25},
		"leave batch, unknown": {n.member("g").leave(4).Members[0].ErrorCode, 25},
	} {
		if x.got != x.want {
			t.Errorf("%s: %d, want %d", what, x.got, x.want)
		}
	}
}

// A static member's id begins with its instance.
func TestStaticMemberID(t *testing.T) {
	n := startNode(t, nil)
	m := n.member("g")
	m.instance = kmsg.StringPtr("worker-7")
	if resp := m.join(5); resp.ErrorCode != 0 || !strings.HasPrefix(resp.MemberID, "worker-7-") {
		t.Errorf("%+v", resp)
	}
	if d := n.dial().describeGroup("g"); len(d.Members) != 1 || deref(d.Members[0].InstanceID) != "worker-7" || d.Members[0].ClientID != "test" || d.Members[0].ClientHost != "/127.0.0.1" {
		t.Errorf("%+v", d)
	}
}

// A stable group stays stable over a restart and a power cut: same generation, same assignment, and its offsets.
func TestGroupSurvives(t *testing.T) {
	n := startNode(t, map[string]string{"sluice.durability": "os"}) // which is not for groups
	n.dial().mustCreate("t")
	m := n.member("g")
	m.join(9)
	m.sync(4, map[string]string{m.id: "all"})
	offset := int64(1)
	for _, again := range []struct {
		what string
		do   func()
	}{{"restart", n.restart}, {"power cut", n.powerCut}} {
		if code := m.commit(9, "t", offset); code != 0 {
			t.Fatalf("commit: %d", code)
		}
		again.do()
		m.client = n.dial()
		if d := m.describeGroup("g"); d.State != "Stable" || len(d.Members) != 1 || string(d.Members[0].MemberAssignment) != "all" {
			t.Errorf("after a %s: %+v", again.what, d)
		}
		if code := m.heartbeat(4); code != 0 {
			t.Errorf("heartbeat after a %s: %d", again.what, code)
		}
		if x := m.fetched("g", "t", 0); x.Offset != offset {
			t.Errorf("offset after a %s: %+v", again.what, x)
		}
		offset++
	}
}

// Requests that come while the shard is being replayed wait for its end.
func TestRequestsWaitForTheReplay(t *testing.T) {
	n := startNode(t, nil)
	m := n.member("g")
	m.join(9)
	m.sync(4, map[string]string{m.id: "all"})
	n.stop()
	for range cap(groupReplays) {
		groupReplays <- struct{}{}
	}
	n.start()
	m.client = n.dial()
	q := kmsg.NewPtrHeartbeatRequest()
	q.Group, q.MemberID, q.Generation = m.group, m.id, m.gen
	m.send(q, 4)
	if names := n.dial().names(); len(names) != 1 { // others are served meanwhile
		t.Errorf("topics: %v", names)
	}
	for range cap(groupReplays) {
		<-groupReplays
	}
	if resp := answer[*kmsg.HeartbeatResponse](m.client, q, 4); resp.ErrorCode != 0 {
		t.Errorf("heartbeat: %+v", resp)
	}
}

// A broker that stops while members wait for a rebalance does not wait for them.
func TestStopWhileJoining(t *testing.T) {
	n := startNode(t, nil)
	a, b := n.member("g"), n.member("g")
	a.join(9)
	a.sync(4, map[string]string{a.id: "all"})
	b.startJoin(9)
	waitFor(t, func() bool { return a.heartbeat(4) == 27 })
	n.restart()
	if state := n.dial().describeGroup("g").State; state != "Stable" {
		t.Errorf("the group is %s", state)
	}
}

// consumerHeartbeat is a member's heartbeat in the consumer protocol; what is nil has not changed.
func (c *client) consumerHeartbeat(version int16, q kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	c.t.Helper()
	return do[*kmsg.ConsumerGroupHeartbeatResponse](c, &q, version)
}

func consumerJoin(groupID, member string, topics ...string) kmsg.ConsumerGroupHeartbeatRequest {
	q := kmsg.NewConsumerGroupHeartbeatRequest()
	q.Group, q.MemberID, q.RebalanceTimeoutMillis = groupID, member, 60_000
	q.SubscribedTopicNames, q.Topics = topics, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return q
}

// The consumer protocol (KIP-848): a member is given all, also of a topic that is made later; a second one by pattern.
func TestConsumerProtocol(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	t1 := c.create(7, false, createEntry("t1", 2, 1))[0].TopicID
	if resp := c.consumerHeartbeat(1, consumerJoin("", "m", "t1")); resp.ErrorCode != 42 {
		t.Errorf("no group: %+v", resp)
	}
	if resp := c.consumerHeartbeat(0, consumerJoin("v0", "", "t1")); resp.ErrorCode != 0 || deref(resp.MemberID) == "" {
		t.Errorf("version 0: %+v", resp)
	}
	resp := c.consumerHeartbeat(1, consumerJoin("g", "m", "t1", "t2"))
	if resp.ErrorCode != 0 || resp.MemberEpoch < 1 || resp.Assignment == nil || len(resp.Assignment.Topics) != 1 ||
		resp.Assignment.Topics[0].TopicID != t1 || len(resp.Assignment.Topics[0].Partitions) != 2 {
		t.Fatalf("the first heartbeat: %+v", resp)
	}
	epoch := resp.MemberEpoch
	t2 := c.create(7, false, createEntry("t2", 1, 1))[0].TopicID
	waitFor(t, func() bool {
		q := kmsg.NewConsumerGroupHeartbeatRequest()
		q.Group, q.MemberID, q.MemberEpoch, q.RebalanceTimeoutMillis = "g", "m", epoch, -1
		resp = c.consumerHeartbeat(1, q)
		epoch = resp.MemberEpoch
		return resp.Assignment != nil && len(resp.Assignment.Topics) == 2
	})
	if resp.Assignment.Topics[0].TopicID != t2 && resp.Assignment.Topics[1].TopicID != t2 {
		t.Errorf("with the new topic: %+v", resp)
	}
	pattern := consumerJoin("h", "p")
	pattern.SubscribedTopicNames, pattern.SubscribedTopicRegex = nil, kmsg.StringPtr("t.")
	if resp := c.consumerHeartbeat(1, pattern); resp.ErrorCode != 0 || resp.Assignment == nil || len(resp.Assignment.Topics) != 2 {
		t.Errorf("by pattern: %+v", resp)
	}
	for _, bad := range []string{"t(", strings.Repeat("t", maxSubscriptionRegex+1)} {
		pattern.MemberID, pattern.SubscribedTopicRegex = "q", &bad
		if resp := c.consumerHeartbeat(1, pattern); resp.ErrorCode != 128 {
			t.Errorf("by %.10q: %+v", bad, resp)
		}
	}
	q := kmsg.NewPtrConsumerGroupDescribeRequest()
	q.Groups, q.IncludeAuthorizedOperations = []string{"g", "nobody", "g", ""}, true
	d := do[*kmsg.ConsumerGroupDescribeResponse](c, q, 1).Groups
	if d[0].ErrorCode != 0 || d[0].State != "Stable" || len(d[0].Members) != 1 || d[0].Members[0].ClientID != "test" || d[0].AuthorizedOperations != groupOperations ||
		d[1].ErrorCode != 69 || d[2].ErrorCode != 42 || d[3].ErrorCode != 24 {
		t.Errorf("described: %+v", d)
	}
}

// After a restart a group of the consumer protocol hears of new partitions although nobody but a classic member is in it.
func TestTopicsReachMixedGroupAfterRestart(t *testing.T) {
	n := startNode(t, map[string]string{"group.consumer.migration.policy": "upgrade"})
	c := n.dial()
	c.create(7, false, createEntry("t", 2, 1))
	m := n.member("g")
	subscription := kmsg.ConsumerMemberMetadata{Topics: []string{"t"}}
	m.metadata = subscription.AppendTo(nil)
	m.join(9)
	m.sync(4, nil)
	if resp := c.consumerHeartbeat(1, consumerJoin("g", "new", "t")); resp.ErrorCode != 0 {
		t.Fatalf("the group was not taken along: %+v", resp)
	}
	leave := consumerJoin("g", "new")
	leave.MemberEpoch = -1
	c.consumerHeartbeat(1, leave)
	settle := func() {
		t.Helper()
		waitFor(t, func() bool {
			if m.heartbeat(4) == 27 {
				m.join(9)
				return false
			}
			return m.sync(4, nil).ErrorCode == 0
		})
	}
	settle()
	n.restart()
	m.client = n.dial()
	settle()
	n.dial().grow(3, false, growEntry("t", 3))
	waitFor(t, func() bool { return m.heartbeat(4) == 27 })
}

func TestGroupMetrics(t *testing.T) {
	n := startNode(t, nil)
	n.dial().mustCreate("t")
	scrape := func() string {
		w := httptest.NewRecorder()
		n.AdminHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	if body := scrape(); !strings.Contains(body, `sluice_groups{state="Stable"} 0`) {
		t.Errorf("without groups:\n%s", body)
	}
	a, b := n.member("g"), n.member("g")
	a.join(9)
	a.sync(4, map[string]string{a.id: "all"})
	b.startJoin(9)
	waitFor(t, func() bool { return a.heartbeat(4) == 27 })
	a.join(9)
	b.joined(9)
	a.sync(4, map[string]string{a.id: "half", b.id: "half"})
	a.commit(9, "t", 1)
	n.dial().commitCodes(8, "idle", commitTopic("t", 0, 1, ""))
	body := scrape()
	for _, line := range []string{
		`sluice_groups{state="Stable"} 1`, `sluice_groups{state="Empty"} 1`, `sluice_groups{state="PreparingRebalance"} 0`,
		"sluice_group_members 2", "sluice_group_offsets 2", "sluice_group_rebalances_total 2", "sluice_group_offset_commits_total 2",
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("%s is not in\n%s", line, body)
		}
	}
}

// What the members own reaches the index, and leaves it with them.
func TestOwnershipReachesTheIndex(t *testing.T) {
	n := startNode(t, nil)
	n.dial().create(7, false, createEntry("t", 2, 1))
	m := n.member("g")
	m.protocols = []string{"range"}
	m.join(9)
	own := kmsg.NewConsumerMemberAssignment()
	own.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: []int32{1}}}
	m.sync(4, map[string]string{m.id: string(own.AppendTo(nil))})
	lookup := func(partition int32) string { return fmt.Sprint(n.groups.owners.who("t", partition, time.Now())) }
	want := fmt.Sprintf("[g/%s@1]", m.id)
	waitFor(t, func() bool { return lookup(1) == want })
	if got := lookup(0); got != "[]" {
		t.Errorf("t-0 belongs to %s", got)
	}
	var f found
	n.groups.owners.lookup(&f, "t", 1, time.Now())
	if x := f.claims[0]; x.clientID != "test" || x.host != "/127.0.0.1" {
		t.Errorf("%+v", x.owner)
	}
	n.restart()
	waitFor(t, func() bool { return lookup(1) == want })
	m.client = n.dial()
	m.leave(4)
	waitFor(t, func() bool { return fmt.Sprint(n.groups.owners.who("t", 1, time.Now().Add(drainTime))) == "[]" })
	if got := lookup(1); got != want {
		t.Errorf("t-1, while the last owner may drain, belongs to %s", got)
	}
}
