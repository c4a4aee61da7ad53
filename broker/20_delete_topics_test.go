package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func deleteEntry(name *string, id [16]byte) kmsg.DeleteTopicsRequestTopic {
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic, t.TopicID = name, id
	return t
}

func (c *client) delete(version int16, topics ...kmsg.DeleteTopicsRequestTopic) []kmsg.DeleteTopicsResponseTopic {
	c.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Topics = topics
	for _, t := range topics {
		req.TopicNames = append(req.TopicNames, deref(t.Topic))
	}
	return do[*kmsg.DeleteTopicsResponse](c, req, version).Topics
}

func (c *client) mustDelete(name string) {
	c.t.Helper()
	if got := c.delete(6, deleteEntry(&name, [16]byte{})); got[0].ErrorCode != 0 {
		c.t.Fatalf("delete %s: %+v", name, got)
	}
}

func TestDeleteTopicsErrors(t *testing.T) {
	c := startNode(t, nil).dial()
	id := c.mustCreate("a").TopicID
	other := c.mustCreate("b").TopicID
	none := [16]byte{}
	name := kmsg.StringPtr
	for _, x := range []struct {
		what    string
		version int16
		topics  []kmsg.DeleteTopicsRequestTopic
		codes   []int16
	}{
		{"unknown name", 1, []kmsg.DeleteTopicsRequestTopic{deleteEntry(name("x"), none)}, []int16{3}},
		{"unknown name v6", 6, []kmsg.DeleteTopicsRequestTopic{deleteEntry(name("x"), none)}, []int16{3}},
		{"bad name", 6, []kmsg.DeleteTopicsRequestTopic{deleteEntry(name("../x"), none)}, []int16{3}},
		{"the catalog", 6, []kmsg.DeleteTopicsRequestTopic{deleteEntry(name(catalogTopic), none)}, []int16{3}},
		{"the catalog's id", 6, []kmsg.DeleteTopicsRequestTopic{deleteEntry(nil, catalogTopicID)}, []int16{100}},
		{"unknown id", 6, []kmsg.DeleteTopicsRequestTopic{deleteEntry(nil, [16]byte{1})}, []int16{100}},
		{"name and id", 6, []kmsg.DeleteTopicsRequestTopic{deleteEntry(name("a"), id)}, []int16{42}},
		{"neither", 6, []kmsg.DeleteTopicsRequestTopic{deleteEntry(nil, none)}, []int16{42}},
		{"name twice", 6, []kmsg.DeleteTopicsRequestTopic{deleteEntry(name("a"), none), deleteEntry(name("a"), none)}, []int16{42, 42}},
		{"name twice v1", 1, []kmsg.DeleteTopicsRequestTopic{deleteEntry(name("a"), none), deleteEntry(name("a"), none)}, []int16{42, 42}},
		{"id twice", 6, []kmsg.DeleteTopicsRequestTopic{deleteEntry(nil, id), deleteEntry(nil, id)}, []int16{42, 42}},
		{"name and its id apart", 6, []kmsg.DeleteTopicsRequestTopic{deleteEntry(name("a"), none), deleteEntry(nil, id)}, []int16{42, 42}},
		{"good, bad, good", 6, []kmsg.DeleteTopicsRequestTopic{deleteEntry(name("a"), none), deleteEntry(name("x"), none), deleteEntry(nil, other)}, []int16{0, 3, 0}},
	} {
		got := c.delete(x.version, x.topics...)
		if len(got) != len(x.codes) {
			t.Errorf("%s: %+v", x.what, got)
			continue
		}
		for i, code := range x.codes {
			if got[i].ErrorCode != code {
				t.Errorf("%s: %d is %+v, want %d", x.what, i, got[i], code)
			}
		}
	}
	if names := c.names(); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}

func TestDeleteTopicsDisabled(t *testing.T) {
	c := startNode(t, map[string]string{"delete.topic.enable": "false"}).dial()
	c.mustCreate("a")
	for version, code := range map[int16]int16{1: 42, 2: 42, 3: 73, 6: 73} {
		if got := c.delete(version, deleteEntry(kmsg.StringPtr("a"), [16]byte{})); got[0].ErrorCode != code {
			t.Errorf("v%d: %+v, want %d", version, got, code)
		}
	}
}

// A topic made again under a name is another one: another id, and none of the old records.
func TestRecreatedTopicIsAnother(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	old := c.mustCreate("a", "retention.ms", "1000").TopicID
	c.produce("a", 0, "old")
	before := n.topics.byName("a")
	c.mustDelete("a")
	if before.partition(0) != nil {
		t.Error("the deleted topic still has a log")
	}
	if got := c.mustCreate("a"); got.TopicID == old || got.TopicID == [16]byte{} {
		t.Errorf("ids %v and %v", old, got.TopicID)
	}
	after := n.topics.byName("a")
	if after == before || n.topics.byID(old) != nil || after.raw().Config != nil {
		t.Errorf("the new topic is the old one: %+v", after.raw())
	}
	if x := c.produce("a", 0, "new"); x.ErrorCode != 0 || x.BaseOffset != 0 {
		t.Errorf("produce: %+v", x)
	}
	n.restart()
	if o, err := n.topics.byName("a").partition(0).Offsets(); err != nil || o.End != 1 {
		t.Errorf("after a restart: %+v %v", o, err)
	}
}
