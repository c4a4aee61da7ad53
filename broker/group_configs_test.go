package broker

import (
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// listed is ListConfigResources v1 of one type.
func (c *client) listed(typ kmsg.ConfigResourceType) (names []string) {
	c.t.Helper()
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = []int8{int8(typ)}
	for _, r := range do[*kmsg.ListConfigResourcesResponse](c, req, 1).ConfigResources {
		names = append(names, r.Name)
	}
	return names
}

// Groups have settings of their own whether they exist or not, over restarts, and are listed while they have some.
func TestGroupConfigs(t *testing.T) {
	n := startNode(t, map[string]string{"group.consumer.session.timeout.ms": "46000"})
	c := n.dial()
	expect := func(when, group, session string, source kmsg.ConfigSource, names ...string) {
		t.Helper()
		code, configs := c.described(4, typeGroup, group)
		if code != 0 {
			t.Fatalf("%s: describe: %d", when, code)
		}
		e := configs["consumer.session.timeout.ms"]
		if deref(e.Value) != session || e.Source != source || e.ConfigType != kmsg.ConfigTypeInt || e.ReadOnly || deref(e.Documentation) == "" {
			t.Errorf("%s: %+v", when, e)
		}
		if len(e.ConfigSynonyms) == 0 || e.ConfigSynonyms[0].Source != source {
			t.Errorf("%s: synonyms %+v", when, e.ConfigSynonyms)
		}
		if got := c.listed(typeGroup); !slices.Equal(got, names) {
			t.Errorf("%s: groups with settings: %q, want %q", when, got, names)
		}
	}
	const odd = "no such/..# group"
	expect("at first", "g", "46000", kmsg.ConfigSourceStaticBrokerConfig)
	c.set(typeGroup, "g", "consumer.session.timeout.ms", " 50000 ")
	c.set(typeGroup, odd, "consumer.session.timeout.ms", "51000")
	expect("set", "g", "50000", kmsg.ConfigSourceGroupConfig, "g", odd)
	expect("another", odd, "51000", kmsg.ConfigSourceGroupConfig, "g", odd)
	if codes := c.edit(1, false, incremental(typeGroup, "g", edit{0, "consumer.session.timeout.ms", "60001"})); codes[0] != 40 {
		t.Errorf("too long a session: %v", codes)
	}
	n.restart()
	c = n.dial()
	expect("after a restart", "g", "50000", kmsg.ConfigSourceGroupConfig, "g", odd)
	if code := c.replace(2, typeGroup, "g", "consumer.heartbeat.interval.ms", "6000"); code != 0 {
		t.Fatal(code)
	}
	expect("replaced", "g", "46000", kmsg.ConfigSourceStaticBrokerConfig, "g", odd)
	c.replace(2, typeGroup, "g")
	c.edit(1, false, incremental(typeGroup, odd, edit{1, "consumer.session.timeout.ms", null}))
	expect("taken back", "g", "46000", kmsg.ConfigSourceStaticBrokerConfig)
	_, configs := c.described(4, typeGroup, "g", "consumer.heartbeat.interval.ms", "no.such")
	if got := slices.Collect(maps.Keys(configs)); !slices.Equal(got, []string{"consumer.heartbeat.interval.ms"}) {
		t.Errorf("asked for one key that exists, got %q", got)
	}
}

// A change is felt by a group that is running, at the member's next heartbeat.
func TestGroupConfigsTakeEffect(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.mustCreate("t")
	epoch := int32(0)
	interval := func() int32 {
		t.Helper()
		q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		q.Group, q.MemberID, q.MemberEpoch = "g", "member-of-g", epoch
		if epoch == 0 {
			q.RebalanceTimeoutMillis = 60_000
			q.SubscribedTopicNames = []string{"t"}
			q.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		}
		r := do[*kmsg.ConsumerGroupHeartbeatResponse](c, q, 1)
		if r.ErrorCode != 0 {
			t.Fatalf("heartbeat: %d %s", r.ErrorCode, deref(r.ErrorMessage))
		}
		epoch = r.MemberEpoch
		return r.HeartbeatIntervalMillis
	}
	calm := int32(calmInterval.Milliseconds())
	first := interval() // shorter: the group has just changed
	n.restart()         // a new process finds the group calm
	c = n.dial()
	waitFor(t, func() bool { return interval() == calm })
	if first >= calm {
		t.Errorf("the first interval is %d", first)
	}
	c.set(typeGroup, "other", "consumer.heartbeat.interval.ms", "9000")
	if got := interval(); got != calm {
		t.Errorf("with the setting of another group: %d", got)
	}
	c.set(typeGroup, "g", "consumer.heartbeat.interval.ms", "7000")
	if got := interval(); got != 7000 {
		t.Errorf("with its own setting: %d", got)
	}
	n.restart()
	c = n.dial()
	if got := interval(); got != 7000 {
		t.Errorf("after a restart: %d", got)
	}
	c.edit(1, false, incremental(typeGroup, "g", edit{1, "consumer.heartbeat.interval.ms", null}))
	if got := interval(); got != calm {
		t.Errorf("taken back: %d", got)
	}
	n.opts.Static = map[string]string{"group.consumer.heartbeat.interval.ms": "5000"}
	n.restart()
	c = n.dial()
	if got := interval(); got != 5000 {
		t.Errorf("with a setting of the broker's that is as its default: %d", got)
	}
}

// Bounds that became others since a group's value was set are no reason not to start: the value counts as the nearest.
func TestGroupConfigsOutsideNewBounds(t *testing.T) {
	n := startNode(t, nil)
	n.dial().set(typeGroup, "g", "consumer.session.timeout.ms", "60000")
	n.opts.Static = map[string]string{"group.consumer.max.session.timeout.ms": "50000"}
	n.restart()
	if got := n.groupConfigs.of("g").SessionTimeout.Milliseconds(); got != 50000 {
		t.Errorf("the session timeout is %d", got)
	}
	if !n.logs.contains("out of bounds") {
		t.Error("nobody was told")
	}
}

// Where the consumer protocol is not offered its requests say so, and the classic one works.
func TestConsumerProtocolNotOffered(t *testing.T) {
	c := startNode(t, map[string]string{"group.coordinator.rebalance.protocols": "classic"}).dial()
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Group, beat.MemberID = "g", "m"
	if r := do[*kmsg.ConsumerGroupHeartbeatResponse](c, beat, 1); r.ErrorCode != kproto.UnsupportedVersion {
		t.Errorf("heartbeat: %d", r.ErrorCode)
	}
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Groups = []string{"g", "g"}
	for _, g := range do[*kmsg.ConsumerGroupDescribeResponse](c, describe, 1).Groups {
		if g.Group != "g" || g.ErrorCode != kproto.UnsupportedVersion || deref(g.ErrorMessage) == "" {
			t.Errorf("describe: %+v", g)
		}
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "g", "consumer", 10_000, 10_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	if r := do[*kmsg.JoinGroupResponse](c, join, 9); r.ErrorCode != kproto.MemberIDRequired {
		t.Errorf("join: %d", r.ErrorCode)
	}
}
