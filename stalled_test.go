package sluice

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// book keeps what a broker logs.
type book struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *book) count(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), what)
}

func startWatched(t *testing.T, settings map[string]string) (*Broker, *book) {
	t.Helper()
	logs := &book{}
	if settings["num.partitions"] == "" {
		settings["num.partitions"] = "2"
	}
	settings["group.stalled.check.interval.ms"] = "20"
	settings["group.consumer.heartbeat.interval.ms"] = "5000" // the least that is allowed
	b, err := Start(Options{InMemory: true, Settings: settings, Logger: slog.New(slog.NewTextHandler(logs, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b, logs
}

// metric gives the value of a series of /metrics as it is written there, and whether it is there.
func metric(t *testing.T, b *Broker, series string) (float64, bool) {
	t.Helper()
	w := httptest.NewRecorder()
	b.broker.AdminHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v, true
		}
	}
	if w.Code != 200 {
		t.Fatalf("/metrics: %d %s", w.Code, w.Body)
	}
	return 0, false
}

func metricIs(t *testing.T, b *Broker, series string, want float64) bool {
	t.Helper()
	got, ok := metric(t, b, series)
	return ok && got == want
}

// stalledIn gives what a description of the group says of its members.
func stalledIn(t *testing.T, c *kgo.Client, group string) (all []kproto.Stalled) {
	t.Helper()
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Groups = []string{group}
	resp, err := q.RequestWith(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range resp.Groups[0].Members {
		all = append(all, kproto.GetStalled(&m.UnknownTags)...)
	}
	return all
}

// produceOn writes to both partitions until the test ends.
func produceOn(t *testing.T, b *Broker) {
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	for t.Context().Err() == nil {
		for p := range int32(2) {
			c.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: p, Value: []byte("on")})
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// connection is one of /v1/connections.
type connection struct {
	Reads []struct {
		Topic     string
		Partition int32
		Group     *string
		StandIn   string `json:"stand_in"`
		Method    string
	}
}

func connections(t *testing.T, b *Broker, query string) []connection {
	t.Helper()
	w := httptest.NewRecorder()
	b.broker.AdminHandler().ServeHTTP(w, httptest.NewRequest("GET", "/v1/connections"+query, nil))
	var body struct{ Connections []connection }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != 200 {
		t.Fatalf("%d %v %s", w.Code, err, w.Body)
	}
	return body.Connections
}

// A member that joins and then never polls sends heartbeats in the background, and keeps its partitions.
func TestStalledMember(t *testing.T) {
	b, logs := startWatched(t, map[string]string{})
	produceValues(t, b, 0, 20)
	healthy := join(t, b.Addr(), "well", kgo.RebalanceTimeout(groupTimeout)) // far more than any machine keeps it from reading
	defer healthy.close()
	idle, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.Balancers(kgo.RangeBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(50*time.Millisecond), kgo.RebalanceTimeout(time.Second),
		kgo.DisableAutoCommit(), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	admin := client(t, b)
	go produceOn(t, b) // the two groups have one client id: what the healthy member commits tells them apart
	until(t, "it is stalled with both partitions", func() bool { return len(stalledIn(t, admin, "g")) == 2 })
	s := stalledIn(t, admin, "g")[0]
	if s.Topic != "t" || s.IdleMs < 1000 || s.Backlog < 10 {
		t.Errorf("%+v", s)
	}
	if n := len(stalledIn(t, admin, "well")); n > 0 {
		t.Errorf("%d partitions of a healthy member are stalled", n)
	}
	if !metricIs(t, b, "sluice_group_stalled_members", 1) || !metricIs(t, b, "sluice_group_stalls_total", 1) {
		t.Error("the metrics do not tell")
	}
	if v, _ := metric(t, b, `sluice_group_stalled_seconds{group="g",partition="1",topic="t"}`); v < 1 {
		t.Errorf("stalled for %v s", v)
	}

	ctx, cancel := context.WithTimeout(context.Background(), groupTimeout)
	defer cancel()
	go func() { // it works again
		for ctx.Err() == nil {
			idle.PollFetches(ctx)
		}
	}()
	until(t, "it is not stalled any more, and its partition is not shown", func() bool {
		_, shown := metric(t, b, `sluice_group_stalled_seconds{group="g",partition="1",topic="t"}`)
		return metricIs(t, b, "sluice_group_stalled_members", 0) && !shown
	})
	cancel()
	until(t, "it is stalled again", func() bool { return metricIs(t, b, "sluice_group_stalled_members", 1) })
	until(t, "each episode has its line in the log", func() bool { // more than two where this machine kept it from reading for a second
		episodes, _ := metric(t, b, "sluice_group_stalls_total")
		n := logs.count("a group member is stalled")
		return n >= 2 && n == int(episodes)
	})
	if _, evicted := metric(t, b, "sluice_group_stalled_evictions_total"); !evicted || logs.count("was ended") > 0 {
		t.Error("report is not report")
	}
}

// With evict the others get what the stalled member had.
func TestStalledMemberIsEvicted(t *testing.T) {
	b, logs := startWatched(t, map[string]string{"group.stalled.member.action": "evict"})
	produceValues(t, b, 0, 20)
	var lost atomic.Int64
	idle, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.Balancers(kgo.RangeBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(50*time.Millisecond), kgo.RebalanceTimeout(time.Second),
		kgo.DisableAutoCommit(), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) { lost.Add(1) }))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it is evicted", func() bool {
		n, _ := metric(t, b, "sluice_group_stalled_evictions_total")
		return n >= 1
	})
	if logs.count("the membership of a stalled group member was ended") == 0 {
		t.Error("the log does not tell")
	}
	working := join(t, b.Addr(), "g", kgo.Balancers(kgo.RangeBalancer()))
	defer working.close()
	until(t, "the other reads all that is there", func() bool { return working.values() == 20 })
	until(t, "the stalled member is told", func() bool { return lost.Load() > 0 })
	idle.Close()
}

// Lag is in /metrics, for as many pairs as are allowed.
func TestLagMetrics(t *testing.T) {
	b, _ := startWatched(t, map[string]string{"group.lag.metrics.max.partitions": "3"})
	produceValues(t, b, 0, 20)
	commit := func(group string, offsets ...int64) {
		t.Helper()
		o := kadm.Offsets{}
		for p, at := range offsets {
			o.AddOffset("t", int32(p), at, -1)
		}
		if err := kadm.NewClient(client(t, b)).CommitAllOffsets(context.Background(), group, o); err != nil {
			t.Fatal(err)
		}
	}
	commit("b", 4, 10)
	commit("c", 0, 0)
	commit("\xff", 1)
	for series, want := range map[string]float64{"offset": 4, "end_offset": 10, "lag": 6} {
		if !metricIs(t, b, fmt.Sprintf(`sluice_group_%s{group="b",partition="0",topic="t"}`, series), want) {
			t.Errorf("%s is not %v", series, want)
		}
	}
	if s, ok := metric(t, b, `sluice_group_lag_seconds{group="b",partition="0",topic="t"}`); !ok || s <= 0 || s > groupTimeout.Seconds() {
		t.Errorf("lag in seconds: %v %v", s, ok)
	}
	if !metricIs(t, b, `sluice_group_lag_seconds{group="b",partition="1",topic="t"}`, 0) {
		t.Error("what is read up to the end lags")
	}
	if _, ok := metric(t, b, `sluice_group_lag{group="c",partition="1",topic="t"}`); ok {
		t.Error("more is shown than is allowed")
	}
	if !metricIs(t, b, "sluice_group_lag_omitted", 2) {
		n, _ := metric(t, b, "sluice_group_lag_omitted")
		t.Errorf("%v left out", n)
	}
}
