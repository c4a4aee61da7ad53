package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// growEntry is an entry of CreatePartitions; replicas are a manual assignment, one for each new partition.
func growEntry(name string, count int32, replicas ...[]int32) kmsg.CreatePartitionsRequestTopic {
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = name, count
	for _, r := range replicas {
		a := kmsg.NewCreatePartitionsRequestTopicAssignment()
		a.Replicas = r
		t.Assignment = append(t.Assignment, a)
	}
	return t
}

func (c *client) grow(version int16, validateOnly bool, topics ...kmsg.CreatePartitionsRequestTopic) []kmsg.CreatePartitionsResponseTopic {
	c.t.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Topics, req.ValidateOnly = topics, validateOnly
	return do[*kmsg.CreatePartitionsResponse](c, req, version).Topics
}

func TestCreatePartitionsErrors(t *testing.T) {
	n := startNode(t, map[string]string{"sluice.max.partitions": "20"})
	c := n.dial()
	c.create(7, false, createEntry("a", 3, 1))
	for _, x := range []struct {
		what  string
		topic kmsg.CreatePartitionsRequestTopic
		code  int16
	}{
		{"unknown", growEntry("x", 4), 3},
		{"bad name", growEntry("x/", 4), 3},
		{"the same", growEntry("a", 3), 37},
		{"fewer", growEntry("a", 2), 37},
		{"none", growEntry("a", 0), 37},
		{"negative", growEntry("a", -1), 37},
		{"too many", growEntry("a", 21), 44},
		{"far too many", growEntry("a", 1<<31-1), 44},
		{"assignment", growEntry("a", 4, []int32{1}), 0},
		{"assignments too few", growEntry("a", 5, []int32{1}), 39},
		{"assignments too many", growEntry("a", 4, []int32{1}, []int32{1}), 39},
		{"assignment to nobody", growEntry("a", 4, []int32{}), 39},
		{"assignment to a stranger", growEntry("a", 4, []int32{7}), 39},
		{"more", growEntry("a", 20), 0},
	} {
		for version := int16(0); version <= 3; version++ {
			if got := c.grow(version, true, x.topic); len(got) != 1 || got[0].ErrorCode != x.code {
				t.Errorf("%s, v%d: %+v, want %d", x.what, version, got, x.code)
			}
		}
	}
	got := c.grow(3, true, growEntry("a", 4), growEntry("a", 5), growEntry("x", 2))
	if len(got) != 2 || got[0].ErrorCode != 42 || got[1].ErrorCode != 3 {
		t.Errorf("twice: %+v", got)
	}
	if p := n.topics.byName("a").partitions(); p != 3 {
		t.Errorf("validate_only made %d partitions", p-3)
	}
}

func TestCreatePartitionsGrows(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	id := c.mustCreate("a").TopicID
	c.produce("a", 0, "before")
	if got := c.grow(3, false, growEntry("a", 5)); got[0].ErrorCode != 0 {
		t.Fatalf("%+v", got)
	}
	for p := range int32(5) {
		if x := c.produce("a", p, "after"); x.ErrorCode != 0 || (p == 0) != (x.BaseOffset == 1) {
			t.Errorf("produce to %d: %+v", p, x)
		}
	}
	n.restart()
	got := n.dial().describe(13, false, "a")[0]
	if len(got.Partitions) != 5 || got.TopicID != id {
		t.Errorf("after a restart: %+v", got)
	}
	if _, partitions := n.topics.count(); partitions != 5 {
		t.Errorf("%d partitions are counted", partitions)
	}
}
