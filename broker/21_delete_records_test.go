package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (c *client) deleteRecords(version int16, topic string, partition int32, offset int64) kmsg.DeleteRecordsResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = partition, offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return do[*kmsg.DeleteRecordsResponse](c, req, version).Topics[0].Partitions[0]
}

func TestDeleteRecords(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.mustCreate("a")
	c.mustCreate("compacted", "cleanup.policy", "compact")
	c.mustCreate("both", "cleanup.policy", "compact,delete")
	c.create(7, false, createEntry("__consumer_offsets", 1, 1))
	for range 10 {
		c.produce("a", 0, "x")
		c.produce("both", 0, "x")
	}
	for _, x := range []struct {
		what      string
		topic     string
		partition int32
		offset    int64
		code      int16
		start     int64
	}{
		{"unknown topic", "x", 0, 1, 3, -1},
		{"bad name", "../x", 0, 1, 3, -1},
		{"the catalog", catalogTopic, 0, 1, 3, -1},
		{"unknown partition", "a", 1, 1, 3, -1},
		{"negative partition", "a", -1, 1, 3, -1},
		{"internal topic", "__consumer_offsets", 0, 0, 17, -1},
		{"compacted topic", "compacted", 0, 0, 44, -1},
		{"compacted and deleted topic", "both", 0, 2, 0, 2},
		{"beyond the end", "a", 0, 11, 1, -1},
		{"negative offset", "a", 0, -2, 1, -1},
		{"nothing", "a", 0, 0, 0, 0},
		{"some", "a", 0, 4, 0, 4},
		{"before the start", "a", 0, 2, 0, 4},
		{"all", "a", 0, -1, 0, 10},
		{"all again", "a", 0, 10, 0, 10},
	} {
		for version := int16(0); version <= 2; version++ {
			got := c.deleteRecords(version, x.topic, x.partition, x.offset)
			if got.ErrorCode != x.code || got.LowWatermark != x.start || got.Partition != x.partition {
				t.Errorf("%s, v%d: %+v, want code %d, start %d", x.what, version, got, x.code, x.start)
			}
		}
	}
	n.restart()
	if o, err := n.topics.byName("a").partition(0).Offsets(); err != nil || o.Start != 10 || o.End != 10 {
		t.Errorf("after a restart: %+v %v", o, err)
	}
}
