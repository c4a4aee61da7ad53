package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// newTopic is an entry of CreateTopics; kv are settings, name after value.
func createEntry(name string, partitions int32, replicas int16, kv ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replicas
	for i := 0; i < len(kv); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = kv[i], &kv[i+1]
		t.Configs = append(t.Configs, c)
	}
	return t
}

func (c *client) create(version int16, validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) []kmsg.CreateTopicsResponseTopic {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.ValidateOnly = topics, validateOnly
	return do[*kmsg.CreateTopicsResponse](c, req, version).Topics
}

// mustCreate makes a topic of one partition.
func (c *client) mustCreate(name string, kv ...string) kmsg.CreateTopicsResponseTopic {
	c.t.Helper()
	got := c.create(7, false, createEntry(name, 1, 1, kv...))[0]
	if got.ErrorCode != 0 {
		c.t.Fatalf("create %s: %d %s", name, got.ErrorCode, deref(got.ErrorMessage))
	}
	return got
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// assigned is an entry with a manual assignment: partition, then its replicas, for each.
func assigned(partitions int32, replicas int16, assignment ...[]int32) kmsg.CreateTopicsRequestTopic {
	t := createEntry("manual", partitions, replicas)
	for _, a := range assignment {
		r := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		r.Partition, r.Replicas = a[0], a[1:]
		t.ReplicaAssignment = append(t.ReplicaAssignment, r)
	}
	return t
}

func nullConfig() kmsg.CreateTopicsRequestTopic {
	t := createEntry("null-config", 1, 1, "retention.ms", "1")
	t.Configs[0].Value = nil
	return t
}

func TestCreateTopicsErrors(t *testing.T) {
	n := startNode(t, map[string]string{"sluice.max.partitions": "50"})
	c := n.dial()
	c.mustCreate("exists")
	c.mustCreate("dotted.name")
	longest := strings.Repeat("x", 249)
	for _, x := range []struct {
		what  string
		topic kmsg.CreateTopicsRequestTopic
		code  int16
	}{
		{"empty name", createEntry("", 1, 1), 17},
		{"dot", createEntry(".", 1, 1), 17},
		{"two dots", createEntry("..", 1, 1), 17},
		{"too long", createEntry(longest+"x", 1, 1), 17},
		{"longest", createEntry(longest, 1, 1), 0},
		{"slash", createEntry("a/b", 1, 1), 17},
		{"parent", createEntry("../a", 1, 1), 17},
		{"space", createEntry("a b", 1, 1), 17},
		{"NUL", createEntry("a\x00", 1, 1), 17},
		{"UTF-8", createEntry("tópico", 1, 1), 17},
		{"every character", createEntry("azAZ09._-", 1, 1), 0},
		{"collision", createEntry("dotted_name", 1, 1), 17},
		{"exists", createEntry("exists", 1, 1), 36},
		{"exists, and bad config", createEntry("exists", 1, 1, "no.such", "1"), 36},
		{"exists, and bad counts", createEntry("exists", 0, 9), 36},
		{"Kafka's metadata", createEntry("__cluster_metadata", 1, 1), 42},
		{"the catalog", createEntry("__sluice_catalog", 1, 1), 42},
		{"unknown config", createEntry("a", 1, 1, "no.such", "1"), 40},
		{"broker's config", createEntry("a", 1, 1, "num.partitions", "1"), 40},
		{"bad value", createEntry("a", 1, 1, "retention.ms", "soon"), 40},
		{"out of bounds", createEntry("a", 1, 1, "segment.bytes", "1"), 40},
		{"bad value of a list", createEntry("a", 1, 1, "cleanup.policy", "compact,burn"), 40},
		{"values that contradict", createEntry("a", 1, 1, "min.compaction.lag.ms", "2", "max.compaction.lag.ms", "1"), 40},
		{"config twice", createEntry("a", 1, 1, "retention.ms", "1", "retention.ms", "2"), 42},
		{"null value", nullConfig(), 40},
		{"bad config before bad counts", createEntry("a", 0, 9, "no.such", "1"), 40},
		{"no partitions", createEntry("a", 0, 1), 37},
		{"negative partitions", createEntry("a", -2, 1), 37},
		{"too many partitions", createEntry("a", 51, 1), 44},
		{"far too many partitions", createEntry("a", 1<<31-1, 1), 44},
		{"far too many of an internal topic", createEntry("__consumer_offsets", 1<<31-1, 1), 44},
		{"no replicas", createEntry("a", 1, 0), 38},
		{"negative replicas", createEntry("a", 1, -2), 38},
		{"too many replicas", createEntry("a", 1, 3), 38},
		{"replicas before partitions", createEntry("a", 0, 3), 38},
		{"assignment", assigned(-1, -1, []int32{0, 1}, []int32{1, 1}), 0},
		{"assignment and partitions", assigned(1, -1, []int32{0, 1}), 42},
		{"assignment and replicas", assigned(-1, 1, []int32{0, 1}), 42},
		{"assignment with a gap", assigned(-1, -1, []int32{0, 1}, []int32{2, 1}), 39},
		{"assignment from 1 on", assigned(-1, -1, []int32{1, 1}), 39},
		{"assignment of -1", assigned(-1, -1, []int32{-1, 1}), 39},
		{"assignment twice", assigned(-1, -1, []int32{0, 1}, []int32{0, 1}), 39},
		{"assignment to nobody", assigned(-1, -1, []int32{0}), 39},
		{"assignment to a stranger", assigned(-1, -1, []int32{0, 2}), 39},
		{"assignment to one twice", assigned(-1, -1, []int32{0, 1, 1}), 39},
	} {
		for _, version := range []int16{2, 4, 5, 7} {
			got := c.create(version, true, x.topic)
			if len(got) != 1 || got[0].Topic != x.topic.Topic || got[0].ErrorCode != x.code {
				t.Errorf("%s, v%d: %+v, want %d", x.what, version, got, x.code)
			} else if (got[0].ErrorMessage != nil) != (x.code != 0) {
				t.Errorf("%s, v%d: message %q", x.what, version, deref(got[0].ErrorMessage))
			}
		}
	}
	if topics, partitions := n.topics.count(); topics != 2 || partitions != 2 {
		t.Errorf("validate_only made something: %d topics, %d partitions", topics, partitions)
	}
}

// One bad topic does not hold back the others; one that is named twice is answered once and not made.
func TestCreateTopicsEachForItself(t *testing.T) {
	c := startNode(t, nil).dial()
	got := c.create(7, false, createEntry("good", 2, 1), createEntry("twice", 1, 1), createEntry("bad/", 1, 1), createEntry("twice", 1, 1))
	codes := map[string]int16{}
	for _, x := range got {
		codes[x.Topic] = x.ErrorCode
	}
	if len(got) != 3 || codes["good"] != 0 || codes["twice"] != 42 || codes["bad/"] != 17 {
		t.Errorf("%+v", got)
	}
	if names := c.names(); strings.Join(names, " ") != "good" {
		t.Errorf("topics are %v", names)
	}
}

func TestCreateTopicsCollidesWithinTheRequest(t *testing.T) {
	c := startNode(t, nil).dial()
	got := c.create(7, false, createEntry("a.b", 1, 1), createEntry("a_b", 1, 1))
	if got[0].ErrorCode != 0 || got[1].ErrorCode != 17 {
		t.Errorf("%+v", got)
	}
}

// KIP-464 and KIP-525: -1 means the defaults, and the answer tells what the topic came to be.
func TestCreateTopicsDefaults(t *testing.T) {
	n := startNode(t, map[string]string{"num.partitions": "3"})
	c := n.dial()
	got := c.create(7, false, createEntry("a", -1, -1, "retention.ms", "12345"))[0]
	if got.ErrorCode != 0 || got.NumPartitions != 3 || got.ReplicationFactor != 1 || got.ConfigErrorCode != 0 {
		t.Fatalf("%+v", got)
	}
	if id := n.topics.byName("a").id; got.TopicID != id {
		t.Errorf("id %v, want %v", got.TopicID, id)
	}
	sources := map[string]int8{}
	for _, x := range got.Configs {
		sources[x.Name] = x.Source
		if x.Name == "retention.ms" && deref(x.Value) != "12345" {
			t.Errorf("retention.ms is %s", deref(x.Value))
		}
	}
	if len(sources) < 20 || sources["retention.ms"] != 1 || sources["cleanup.policy"] != 5 {
		t.Errorf("sources of settings: %v", sources)
	}
}

func TestReplicationFactorClamp(t *testing.T) {
	refused := startNode(t, nil).dial().create(7, false, createEntry("a", 1, 3))[0]
	if refused.ErrorCode != 38 || !strings.Contains(deref(refused.ErrorMessage), "sluice.replication.factor.clamp=true") {
		t.Errorf("without the clamp: %d %s", refused.ErrorCode, deref(refused.ErrorMessage))
	}
	c := startNode(t, map[string]string{"sluice.replication.factor.clamp": "true"}).dial()
	if got := c.create(7, false, createEntry("a", 1, 3))[0]; got.ErrorCode != 0 || got.ReplicationFactor != 1 {
		t.Errorf("with the clamp: %+v", got)
	}
	if got := c.create(7, false, assigned(-1, -1, []int32{0, 1, 2, 3}))[0]; got.ErrorCode != 0 || got.ReplicationFactor != 1 {
		t.Errorf("assignment with the clamp: %+v", got)
	}
	if got := c.create(7, false, createEntry("b", 1, 0))[0]; got.ErrorCode != 38 {
		t.Errorf("no replicas with the clamp: %+v", got)
	}
}

// A request that would make more topics than one may is refused, with one answer a topic.
func TestTooManyNewTopics(t *testing.T) {
	c := startNode(t, nil).dial()
	names := make([]string, maxNewTopics+1)
	topics := make([]kmsg.CreateTopicsRequestTopic, len(names))
	for i := range topics {
		names[i] = fmt.Sprintf("t%05d", i)
		topics[i] = createEntry(names[i], 1, 1)
	}
	got := c.create(5, true, topics...)
	if len(got) != len(topics) || got[0].ErrorCode != 44 || got[maxNewTopics].ErrorCode != 44 {
		t.Errorf("CreateTopics: %d answers, the first %+v", len(got), got[0])
	}
	got = c.create(5, true, topics[1:]...)
	if len(got) != maxNewTopics || got[0].ErrorCode != 0 || len(got[0].Configs) == 0 {
		t.Errorf("CreateTopics of as many as may be: %d answers, the first %+v", len(got), got[0])
	}
	described := c.describe(9, true, names...)
	if len(described) != len(names) || described[0].ErrorCode != 0 || described[maxNewTopics].ErrorCode != 44 {
		t.Errorf("Metadata: %d answers, the last %+v", len(described), described[len(described)-1])
	}
}
