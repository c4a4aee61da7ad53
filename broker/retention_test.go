package broker

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestRetentionClock(t *testing.T) {
	const grace = 10 * time.Minute
	day := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	type look struct {
		passed  time.Duration // since the start
		ahead   time.Duration // of the wall clock over day + passed
		want    time.Duration // of what is believed, likewise
		doubted bool
	}
	const years = 10 * 365 * 24 * time.Hour
	for _, c := range []struct {
		name    string
		lastRun time.Time
		looks   []look
	}{
		{"steady", day, []look{{0, 0, 0, false}, {time.Hour, 0, 0, false}, {100 * time.Hour, 0, 0, false}}},
		{"nothing is known", time.Time{}, []look{{0, years, years, false}, {time.Minute, years, years, false}}},
		{"a small jump", day, []look{{time.Minute, time.Hour, time.Hour, false}}},
		{"ten years, corrected in time", day, []look{
			{time.Minute, 0, 0, false}, {2 * time.Minute, years, 0, true}, {11 * time.Minute, years, 0, true}, {11*time.Minute + 1, 0, 0, false}}},
		{"ten years, to stay", day, []look{
			{time.Minute, 0, 0, false}, {2 * time.Minute, years, 0, true}, {12 * time.Minute, years, years, false}, {13 * time.Minute, years, years, false}}},
		{"again and again", day, []look{
			{time.Minute, years, 0, true}, {2 * time.Minute, 0, 0, false}, {3 * time.Minute, years, 0, true}, {12 * time.Minute, years, 0, true}}},
		{"stopped for two hours", day.Add(-2 * time.Hour), []look{{0, 0, -2 * time.Hour, true}, {grace, 0, 0, false}}},
		{"an hour back", day, []look{{time.Minute, -time.Hour, -time.Hour, false}, {2 * time.Minute, 0, 0, false}}},
		{"years back and forth", day, []look{{time.Minute, -years, -years, false}, {2 * time.Minute, 0, -years, true}, {12 * time.Minute, 0, 0, false}}},
		{"frozen", day, []look{{time.Hour, -time.Hour, -time.Hour, false}, {2 * time.Hour, -2 * time.Hour, -2 * time.Hour, false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := retentionClock{wall: c.lastRun}
			for i, l := range c.looks {
				now, jump := clock.read(day.Add(l.passed+l.ahead), l.passed, grace)
				if want := day.Add(l.passed + l.want); !now.Equal(want) || (jump > 0) != l.doubted {
					t.Errorf("look %d: %v, jump %v; want %v, doubted %v", i, now, jump, want, l.doubted)
				}
			}
		})
	}
}

func TestClockGrace(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{
		time.Millisecond: minClockGrace, 5 * time.Minute: 10 * time.Minute, time.Hour: 2 * time.Hour, 1<<63 - 1: 2 * 365 * 24 * time.Hour,
	} {
		if got := clockGrace(interval); got != want {
			t.Errorf("of %v: %v, want %v", interval, got, want)
		}
	}
}

// A clock that jumps ten years ahead is told once, and does not count until it has stood for the grace.
func TestRetentionDoubtsTheClock(t *testing.T) {
	n := startNode(t, nil)
	var r retention
	day := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	r.now(n.Broker, day, 0)
	far := day.AddDate(10, 0, 0)
	for _, passed := range []time.Duration{time.Minute, 2 * time.Minute} {
		if got := r.now(n.Broker, far, passed); !got.Equal(day.Add(passed)) || !r.doubt.Load() {
			t.Errorf("after %v: %v", passed, got)
		}
	}
	if told := strings.Count(n.logs.String(), "level=ERROR"); told != 1 {
		t.Errorf("told %d times", told)
	}
	if got := r.now(n.Broker, far, time.Hour); !got.Equal(far) || r.doubt.Load() || !n.logs.contains("by the wall clock again") {
		t.Errorf("after an hour: %v", got)
	}
	n.logs.forget()
}

// edges gives the first and the next offset of partition 0.
func (c *client) edges(topic string) (start, end int64) {
	c.t.Helper()
	var offsets []int64
	for _, asked := range []int64{-2, -1} {
		q := kmsg.NewPtrListOffsetsRequest()
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp, p.CurrentLeaderEpoch = asked, -1
		q.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		got := do[*kmsg.ListOffsetsResponse](c, q, 4).Topics[0].Partitions[0]
		if got.ErrorCode != 0 {
			c.t.Fatalf("offset %d of %s: code %d", asked, topic, got.ErrorCode)
		}
		offsets = append(offsets, got.Offset)
	}
	return offsets[0], offsets[1]
}

// TestRetention has the background pass delete what topics no longer keep, and nothing else.
func TestRetention(t *testing.T) {
	n := startNode(t, map[string]string{"log.retention.check.interval.ms": "10", "log.segment.delete.delay.ms": "0"})
	c := n.dial()
	small := []string{"internal.segment.bytes", "200"}
	for topic, own := range map[string][]string{
		"time":      {"retention.ms", "1"},
		"bytes":     {"retention.bytes", "400"},
		"appended":  {"retention.ms", "1", "message.timestamp.type", "LogAppendTime"},
		"both":      {"retention.ms", "1", "cleanup.policy", "compact,delete"},
		"compacted": {"retention.ms", "1", "cleanup.policy", "compact"},
		"kept":      {"retention.ms", "1", "cleanup.policy", ""},
		"for-ever":  {"retention.ms", "-1"},
		"a-week":    nil,
	} {
		c.mustCreate(topic, append(own, small...)...)
		for i := range 10 {
			if p := c.produce(topic, 0, fmt.Sprint("value-", i, strings.Repeat("x", 60))); p.ErrorCode != 0 || p.BaseOffset != int64(i) {
				t.Fatalf("%s: %+v", topic, p)
			}
		}
	}
	for topic, least := range map[string]int64{"time": 10, "appended": 10, "both": 10, "bytes": 6} {
		waitFor(t, func() bool { start, _ := c.edges(topic); return start >= least })
	}
	passes := n.retention.passes.Load()
	waitFor(t, func() bool { return n.retention.passes.Load() > passes+3 })
	for topic, want := range map[string][2]int64{
		"time": {10, 10}, "appended": {10, 10}, "both": {10, 10}, "compacted": {0, 10}, "kept": {0, 10}, "for-ever": {0, 10}, "a-week": {0, 10},
	} {
		if start, end := c.edges(topic); start != want[0] || end != want[1] {
			t.Errorf("%s: %d to %d, want %v", topic, start, end, want)
		}
	}
	if start, end := c.edges("bytes"); start > 8 || end != 10 {
		t.Errorf("bytes: %d to %d", start, end)
	}

	c.set(kmsg.ConfigResourceTypeTopic, "for-ever", "retention.ms", "1")
	c.set(kmsg.ConfigResourceTypeTopic, "kept", "cleanup.policy", "delete")
	for _, topic := range []string{"for-ever", "kept"} {
		waitFor(t, func() bool { start, _ := c.edges(topic); return start == 10 })
	}
	if p := c.produce("time", 0, "next"); p.ErrorCode != 0 || p.BaseOffset != 10 {
		t.Errorf("the next record: %+v", p)
	}
	n.restart()
	c = n.dial()
	if start, end := c.edges("for-ever"); start != 10 || end != 10 {
		t.Errorf("after a restart: %d to %d", start, end)
	}
}

func TestRetentionMetrics(t *testing.T) {
	n := startNode(t, map[string]string{"log.retention.check.interval.ms": "10"})
	c := n.dial()
	c.mustCreate("a", "retention.ms", "1")
	c.produce("a", 0, "x")
	waitFor(t, func() bool { start, _ := c.edges("a"); return start == 1 && n.dir.WaitingFiles() > 0 })
	w := httptest.NewRecorder()
	n.AdminHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`sluice_retention_deleted_segments_total{cause="log_start"} 0`,
		`sluice_retention_deleted_segments_total{cause="retention_bytes"} 0`,
		`sluice_retention_deleted_segments_total{cause="retention_ms"} 1`,
		`sluice_retention_waiting_files 3`, // indexes and data, for file.delete.delay.ms
		`sluice_retention_clock_doubted 0`,
	} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("no %q in %s", line, w.Body)
		}
	}
}

// A partition that has outgrown retention.bytes by a segment does not wait for the next check.
func TestRetentionBySizeDoesNotWait(t *testing.T) {
	n := startNode(t, map[string]string{"log.retention.check.interval.ms": "3600000"})
	c := n.dial()
	c.mustCreate("bytes", "retention.bytes", "400", "internal.segment.bytes", "200")
	for i := range 20 {
		if p := c.produce("bytes", 0, fmt.Sprint("value-", i, strings.Repeat("x", 60))); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
	}
	waitFor(t, func() bool { start, _ := c.edges("bytes"); return start >= 16 })
	if passes := n.retention.passes.Load(); passes != 0 {
		t.Errorf("%d checks of all partitions", passes)
	}
}
