package broker

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// names lists all topics.
func (c *client) names() (names []string) {
	c.t.Helper()
	for _, t := range do[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 13).Topics {
		names = append(names, deref(t.Topic))
	}
	return names
}

// describe asks Metadata for topics by name.
func (c *client) describe(version int16, create bool, names ...string) []kmsg.MetadataResponseTopic {
	c.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = create
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	return do[*kmsg.MetadataResponse](c, req, version).Topics
}

func TestMetadataEveryVersion(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	id := c.create(7, false, createEntry("orders", 3, 1))[0].TopicID
	for v := int16(0); v <= 13; v++ {
		resp := do[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), v)
		if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != NodeID || resp.Brokers[0].Host != "127.0.0.1" {
			t.Errorf("v%d: brokers %+v", v, resp.Brokers)
		}
		if v >= 1 && resp.ControllerID != NodeID || v >= 2 && deref(resp.ClusterID) != n.ClusterID() {
			t.Errorf("v%d: controller %d, cluster %s", v, resp.ControllerID, deref(resp.ClusterID))
		}
		if len(resp.Topics) != 1 {
			t.Fatalf("v%d: topics %+v", v, resp.Topics)
		}
		x := resp.Topics[0]
		if deref(x.Topic) != "orders" || len(x.Partitions) != 3 || x.IsInternal || v >= 10 && x.TopicID != id {
			t.Errorf("v%d: topic %+v", v, x)
		}
		if v >= 8 && x.AuthorizedOperations != notAsked {
			t.Errorf("v%d: authorized operations %d though nobody asked", v, x.AuthorizedOperations)
		}
		for i, p := range x.Partitions {
			if p.Partition != int32(i) || p.Leader != NodeID || !slices.Equal(p.Replicas, onlyNode) || !slices.Equal(p.ISR, onlyNode) ||
				v >= 7 && p.LeaderEpoch != n.Epoch() || len(p.OfflineReplicas) != 0 {
				t.Errorf("v%d: partition %+v", v, p)
			}
		}
	}
}

func TestMetadataEmptyList(t *testing.T) {
	c := startNode(t, nil).dial()
	c.mustCreate("a")
	if got := c.describe(0, false); len(got) != 1 {
		t.Errorf("v0: an empty list means all, got %+v", got)
	}
	if got := c.describe(1, false); len(got) != 0 {
		t.Errorf("v1: an empty list means none, got %+v", got)
	}
}

func TestMetadataErrors(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	id := c.mustCreate("a").TopicID
	ask := func(version int16, name *string, id [16]byte) kmsg.MetadataResponseTopic {
		req := kmsg.NewPtrMetadataRequest()
		x := kmsg.NewMetadataRequestTopic()
		x.Topic, x.TopicID = name, id
		req.Topics = []kmsg.MetadataRequestTopic{x}
		got := do[*kmsg.MetadataResponse](c, req, version).Topics
		if len(got) != 1 {
			t.Fatalf("%d answers", len(got))
		}
		return got[0]
	}
	str := kmsg.StringPtr
	for _, x := range []struct {
		what    string
		version int16
		name    *string
		id      [16]byte
		code    int16
	}{
		{"unknown", 12, str("b"), [16]byte{}, 3},
		{"bad name", 12, str("b/"), [16]byte{}, 17},
		{"empty name", 12, str(""), [16]byte{}, 17},
		{"the catalog", 12, str(catalogTopic), [16]byte{}, 3},
		{"by id", 12, nil, id, 0},
		{"unknown id", 12, nil, [16]byte{1}, 100},
		{"the catalog's id", 12, nil, catalogTopicID, 100},
		{"neither", 12, nil, [16]byte{}, 42},
		{"id before v12", 11, str(""), id, 42},
		{"null name before v12", 10, nil, [16]byte{}, 42},
	} {
		if got := ask(x.version, x.name, x.id); got.ErrorCode != x.code || len(got.Partitions) != 0 && x.code != 0 {
			t.Errorf("%s: %+v, want %d", x.what, got, x.code)
		}
	}
	if got := ask(12, nil, id); deref(got.Topic) != "a" {
		t.Errorf("by id the name is %q", deref(got.Topic))
	}
}

func TestMetadataAnswersATopicOnce(t *testing.T) {
	c := startNode(t, nil).dial()
	c.mustCreate("a")
	if got := c.describe(9, false, "a", "b", "a", "b"); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestMetadataAuthorizedOperations(t *testing.T) {
	c := startNode(t, nil).dial()
	c.mustCreate("a")
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = true, true
	resp := do[*kmsg.MetadataResponse](c, req, 10)
	// What Kafka answers without an authorizer.
	if resp.AuthorizedOperations != 8096 || resp.Topics[0].AuthorizedOperations != 3576 {
		t.Errorf("cluster %d, topic %d", resp.AuthorizedOperations, resp.Topics[0].AuthorizedOperations)
	}
}

// A topic that Metadata made can be used as soon as the answer is there, and is durable.
func TestMetadataCreatesTopics(t *testing.T) {
	n := startNode(t, map[string]string{"num.partitions": "2"})
	c := n.dial()
	got := c.describe(9, true, "new", "bad/", "__consumer_offsets")
	if len(got) != 3 || got[0].ErrorCode != 0 || len(got[0].Partitions) != 2 || got[1].ErrorCode != 17 || got[2].ErrorCode != 3 {
		t.Fatalf("%+v", got)
	}
	if x := c.produce("new", 1, "hello"); x.ErrorCode != 0 {
		t.Errorf("produce: %+v", x)
	}
	n.restart()
	if names := n.dial().names(); !slices.Equal(names, []string{"new"}) {
		t.Errorf("after a restart: %v", names)
	}
}

func TestMetadataDoesNotCreateTopics(t *testing.T) {
	c := startNode(t, nil).dial()
	if got := c.describe(4, false, "new"); got[0].ErrorCode != 3 {
		t.Errorf("the client forbids it: %+v", got)
	}
	c = startNode(t, map[string]string{"auto.create.topics.enable": "false"}).dial()
	for _, v := range []int16{0, 3, 4, 13} {
		if got := c.describe(v, true, "new"); got[0].ErrorCode != 3 {
			t.Errorf("the broker forbids it: v%d %+v", v, got)
		}
	}
	c = startNode(t, map[string]string{"default.replication.factor": "3"}).dial()
	if got := c.describe(4, true, "new"); got[0].ErrorCode != 38 {
		t.Errorf("the default factor cannot be had: %+v", got)
	}
	c = startNode(t, map[string]string{"sluice.max.partitions": "1"}).dial()
	if got := c.describe(4, true, "one", "two"); got[0].ErrorCode != 0 || got[1].ErrorCode != 44 {
		t.Errorf("one is allowed: %+v", got)
	}
}

// Two clients that ask for the same new topic at once both get it.
func TestMetadataCreatesOnceForMany(t *testing.T) {
	n := startNode(t, nil)
	clients := make([]*client, 8)
	for i := range clients {
		clients[i] = n.dial()
		req := kmsg.NewPtrMetadataRequest()
		x := kmsg.NewMetadataRequestTopic()
		x.Topic = kmsg.StringPtr("new")
		req.Topics, req.AllowAutoTopicCreation = []kmsg.MetadataRequestTopic{x}, true
		clients[i].send(req, 9)
	}
	for _, c := range clients {
		b, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		resp := kmsg.NewPtrMetadataResponse()
		resp.SetVersion(9)
		if err := resp.ReadFrom(b[5:]); err != nil || resp.Topics[0].ErrorCode != 0 {
			t.Errorf("%v %+v", err, resp.Topics)
		}
	}
}
