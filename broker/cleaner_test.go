package broker

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/machine"
	"sluice/kproto"
)

// cleanedSoon are settings by which every topic is compacted as soon as a segment is full, and a segment is soon full.
func cleanedSoon() map[string]string {
	return map[string]string{
		"log.cleanup.policy": "compact", "log.cleaner.backoff.ms": "0", "log.cleaner.min.cleanable.ratio": "0", "log.cleaner.delete.retention.ms": "0",
		"internal.segment.bytes": "200",
	}
}

// cleanCatalogSoon has the catalog compacted likewise.
func (n *node) cleanCatalogSoon() {
	c := catalogConfig()
	c.SegmentBytes, c.MinDirtyRatio = 300, 0
	n.dir.Log(catalogTopic, catalogTopicID, 0, c).SetConfig(c)
}

// readKeys fetches all of partition 0 and gives offset, key and value of each record.
func (c *client) readKeys(topic string) (all []string) {
	c.t.Helper()
	_, end := c.edges(topic)
	for at := int64(0); at < end; {
		q := kmsg.NewPtrFetchRequest()
		q.MaxBytes = 1 << 20
		p := kmsg.NewFetchRequestTopicPartition()
		p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = at, 1, -1 // one batch at a time
		q.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
		got := do[*kmsg.FetchResponse](c, q, 11).Topics[0].Partitions[0]
		if got.ErrorCode != 0 || len(got.RecordBatches) == 0 {
			c.t.Fatalf("fetch of %s from %d: code %d, %d bytes", topic, at, got.ErrorCode, len(got.RecordBatches))
		}
		b, _, err := kproto.SplitBatch(got.RecordBatches)
		check(c.t, err)
		check(c.t, b.EachRecord(func(r kproto.Record) bool {
			all = append(all, fmt.Sprintf("%d %s=%s", r.Offset, r.Key, r.Value))
			return true
		}))
		at = b.NextOffset()
	}
	return all
}

// TestCompaction has the cleaner keep the newest record of each key, where the policy says so, and clients read over the gaps.
func TestCompaction(t *testing.T) {
	n := startNode(t, cleanedSoon())
	c := n.dial()
	policies := map[string]string{"compact": "compact", "both": "compact,delete", "delete": "delete", "late": "delete"}
	for topic, policy := range policies {
		c.mustCreate(topic, "cleanup.policy", policy)
		for i := range 12 {
			if p := c.produce(topic, 0, strings.Repeat("x", 60+i)); p.ErrorCode != 0 || p.BaseOffset != int64(i) {
				t.Fatalf("%s: %+v", topic, p)
			}
		}
	}
	c.set(kmsg.ConfigResourceTypeTopic, "late", "cleanup.policy", "compact")
	for _, topic := range []string{"compact", "both", "late"} {
		waitFor(t, func() bool { return len(c.readKeys(topic)) <= 4 })
	}
	if got := c.readKeys("delete"); len(got) != 12 {
		t.Errorf("the delete policy alone: %d records", len(got))
	}
	before := c.readKeys("compact")
	if last := "11 k=" + strings.Repeat("x", 71); before[len(before)-1] != last {
		t.Errorf("the newest is %s", before[len(before)-1])
	}
	n.restart()
	c = n.dial()
	if got := c.readKeys("compact"); len(got) > len(before) || got[len(got)-1] != before[len(before)-1] {
		t.Errorf("%v, before the restart %v", got, before)
	}
	if start, end := c.edges("compact"); start != 0 || end != 12 {
		t.Errorf("offsets %d to %d", start, end)
	}
}

// A record without a key has no place in a compacted topic (INVALID_RECORD), whatever else is checked.
func TestCompactedTopicsNeedKeys(t *testing.T) {
	for _, validation := range []string{"strict", "relaxed"} {
		n := startNode(t, map[string]string{"sluice.batch.validation": validation})
		c := n.dial()
		for topic, policy := range map[string]string{"a": "compact", "b": "compact,delete", "c": "delete"} {
			c.mustCreate(topic, "cleanup.policy", policy)
			for _, codec := range []kproto.Codec{kproto.None, kproto.Zstd} {
				b := kproto.NewBuilder(codec)
				b.Add(kproto.Record{Value: []byte("v")})
				q := kmsg.NewPtrProduceRequest()
				q.Acks, q.TimeoutMillis = -1, 10_000
				p := kmsg.NewProduceRequestTopicPartition()
				p.Records = b.Batch()
				q.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{p}}}
				want := int16(kproto.InvalidRecord)
				if policy == "delete" {
					want = 0
				}
				got := do[*kmsg.ProduceResponse](c, q, 9).Topics[0].Partitions[0]
				if got.ErrorCode != want || len(got.ErrorRecords) != int(want/kproto.InvalidRecord) {
					t.Errorf("%s, %v, %s: %+v", policy, codec, validation, got)
				}
			}
		}
	}
}

// The catalog stays short, and what a start reads of it is what was.
func TestCatalogIsCompacted(t *testing.T) {
	n := startNode(t, cleanedSoon())
	n.cleanCatalogSoon()
	c := n.dial()
	for i := range 30 {
		name := fmt.Sprint("gone-", i)
		c.mustCreate(name)
		c.set(kmsg.ConfigResourceTypeTopic, name, "retention.ms", fmt.Sprint(1000+i))
		c.mustDelete(name)
	}
	c.mustCreate("kept", "retention.ms", "777")
	l := n.dir.Log(catalogTopic, catalogTopicID, 0, nil)
	waitFor(t, func() bool {
		there := int64(0)
		check(t, (&machineLog{log: l}).Replay(func(machine.Record) error { there++; return nil }))
		o, err := l.Offsets()
		check(t, err)
		return there < o.End/2
	})
	id := n.ClusterID()
	n.restart()
	if n.ClusterID() != id || len(n.dial().names()) != 1 || n.topics.byName("kept").config().RetentionMs != 777 {
		t.Errorf("cluster %s, topics %v", n.ClusterID(), n.dial().names())
	}
}

func TestCleanerMetrics(t *testing.T) {
	n := startNode(t, cleanedSoon())
	c := n.dial()
	c.mustCreate("a")
	for range 8 {
		c.produce("a", 0, strings.Repeat("x", 60))
	}
	waitFor(t, func() bool { return n.cleaner.Stats().Dropped > 0 })
	w := httptest.NewRecorder()
	n.AdminHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, f := range cleanerFigures {
		name := strings.Split(strings.TrimPrefix(f.desc.String(), `Desc{fqName: "`), `"`)[0]
		if !strings.Contains(w.Body.String(), "\n"+name+" ") {
			t.Errorf("%s is missing", name)
		}
	}
}
