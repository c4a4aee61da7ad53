package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/log"
)

// TestCatalogOfManyPartitions: what a start replays grows with the topics and their changes, and not with the partitions.
func TestCatalogOfManyPartitions(t *testing.T) {
	const partitions, changes, most = 100_000, 100, 64 << 10
	n := startNode(t, nil)
	c := n.dial()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "large", partitions, 1
	req.Topics = append(req.Topics, topic)
	if code := do[*kmsg.CreateTopicsResponse](c, req, 5).Topics[0].ErrorCode; code != 0 {
		t.Fatalf("code %d", code)
	}
	for i := range changes {
		c.mustCreate(fmt.Sprintf("small-%d", i))
	}
	n.stop()
	n.start()
	if _, got := n.countTopics(); got < partitions+changes {
		t.Errorf("%d partitions after a start", got)
	}
	bytes := int64(0)
	check(t, log.Dump(n.opts.FS, "/data/"+catalogTopic+"-0", log.Dumper{Batch: func(b log.DumpedBatch) error {
		bytes += b.Size
		return nil
	}}))
	if bytes == 0 || bytes > most {
		t.Errorf("the catalog's log has %d bytes", bytes)
	}
	entries, err := n.opts.FS.ReadDir("/data")
	check(t, err)
	if len(entries) > 20 {
		t.Errorf("%d entries in the data directory", len(entries))
	}
}
