package broker

import (
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
	"sluice/log"
)

// spoil changes one byte of the batch that holds the offset, in the topic's partition 0.
func (n *node) spoil(topic string, offset int64) (file string) {
	n.t.Helper()
	var at log.DumpedBatch
	check(n.t, log.Dump(n.opts.FS, "/data/"+topic+"-0", log.Dumper{Batch: func(b log.DumpedBatch) error {
		if b.BaseOffset <= offset && offset <= b.LastOffset {
			at = b
		}
		return nil
	}}))
	f, err := n.opts.FS.OpenFile(at.File, os.O_RDWR, 0)
	check(n.t, err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at.Position+at.Size-1)
	check(n.t, err)
	b[0] ^= 1
	_, err = f.WriteAt(b, at.Position+at.Size-1)
	check(n.t, err)
	return at.File
}

// fetch asks for one partition from an offset on, and gives the base offsets of what comes, and the error code.
func (c *client) fetch(topic string, id kproto.TopicID, offset int64) ([]int64, int16) {
	c.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes = 4 << 20
	rt := kmsg.FetchRequestTopic{Topic: topic, TopicID: id}
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.FetchOffset, rp.PartitionMaxBytes = offset, 4<<20
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	p := do[*kmsg.FetchResponse](c, req, 12).Topics[0].Partitions[0]
	return offsetsOf(c.t, p.RecordBatches), p.ErrorCode
}

// TestDamagedRangeIsRefused: a consumer that asks for damaged offsets of a sealed segment gets KAFKA_STORAGE_ERROR. What lies before and after is served, as is
// every other partition, and appends go on. The log and the metrics name the place.
func TestDamagedRangeIsRefused(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.mustCreate("a", "segment.bytes", "1048576")
	c.mustCreate("b")
	for i := range 12 {
		c.produce("a", 0, fmt.Sprintf("%0300000d", i))
	}
	c.produce("b", 0, "x")
	n.stop()
	file := n.spoil("a", 4)
	if strings.Contains(file, "00000.log") {
		t.Fatalf("%s is not a later segment", file)
	}
	n.start()
	c = n.dial()
	got, next := []int64{}, int64(0)
	for next < 4 {
		bases, code := c.fetch("a", kproto.TopicID{}, next)
		if code != 0 || len(bases) == 0 {
			t.Fatalf("before the damage, from %d: %v, code %d", next, bases, code)
		}
		got = append(got, bases...)
		next = bases[len(bases)-1] + 1
	}
	if fmt.Sprint(got) != "[0 1 2 3]" {
		t.Errorf("before the damage: %v", got)
	}
	for range 2 {
		if bases, code := c.fetch("a", kproto.TopicID{}, 4); code != kproto.KafkaStorageError || len(bases) > 0 {
			t.Errorf("the damage: %v, code %d", bases, code)
		}
	}
	if bases, code := c.fetch("a", kproto.TopicID{}, 5); code != 0 || len(bases) == 0 || bases[0] != 5 {
		t.Errorf("behind the damage: %v, code %d", bases, code)
	}
	if bases, code := c.fetch("b", kproto.TopicID{}, 0); code != 0 || len(bases) != 1 {
		t.Errorf("another partition: %v, code %d", bases, code)
	}
	if p := c.produce("a", 0, "next"); p.ErrorCode != 0 || p.BaseOffset != 12 {
		t.Errorf("append: %+v", p)
	}
	if text := n.logs.String(); strings.Count(text, "data is damaged") != 1 || !strings.Contains(text, file) || !strings.Contains(text, "offset=4 end=5") {
		t.Errorf("the log says %s", text)
	}
	n.logs.forget() // what was said on purpose
	check(t, n.scrubber.Pass(t.Context()))
	w := httptest.NewRecorder()
	n.AdminHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{"sluice_scrub_passes_total 1", "sluice_scrub_damaged_segments_total 1", "sluice_scrub_pass_progress 1"} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("no %q in the metrics", line)
		}
	}
	if !strings.Contains(w.Body.String(), `sluice_log_damaged_ranges{partition="0",topic="a"} 1`) || strings.Contains(w.Body.String(), `topic="b"} 1`) {
		t.Errorf("metrics: %s", w.Body)
	}
}
