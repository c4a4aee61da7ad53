package broker

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/group"
	"sluice/kproto"
	"sluice/log"
)

// lagMetrics are the offsets and the lag of each group and partition, worked out when they are asked for. They are at most
// group.lag.metrics.max.partitions: the first in order of group, topic and partition, so that the same ones are there
// each time. Groups whose shard is still being replayed are not there yet.
type lagMetrics struct {
	b *Broker

	offset, end, lag, seconds, stalled, omitted *prometheus.Desc

	mu    sync.Mutex
	times map[lagPlace]int64 // the timestamps that the last scrape needed, in milliseconds
}

// lagPlace is where a group stands.
type lagPlace struct {
	log    *log.Log
	offset int64
}

func newLagMetrics(b *Broker) *lagMetrics {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"group", "topic", "partition"}, nil)
	}
	return &lagMetrics{
		b:      b,
		offset: desc("sluice_group_offset", "Committed offset of a group: that of the next record to read."),
		end:    desc("sluice_group_end_offset", "Offset of the next record to be written, of a partition that a group reads."),
		lag:    desc("sluice_group_lag", "Records between a group's committed offset and the end."),
		seconds: desc("sluice_group_lag_seconds",
			"Time since the batch with the next record of a group was written, by its first timestamp; 0 when nothing is left to read."),
		stalled: desc("sluice_group_stalled_seconds", "Time since the owner of a partition last read it, where it is stalled."),
		omitted: prometheus.NewDesc("sluice_group_lag_omitted", "Pairs of group and partition whose lag is not shown; group.lag.metrics.max.partitions has more shown.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *lagMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.offset, m.end, m.lag, m.seconds, m.stalled, m.omitted} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *lagMetrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := m.b.config().Groups.LagMetricsPartitions
	list, all := m.b.groups.offsets(most)
	shown, now, times := 0, time.Now(), map[lagPlace]int64{}
	for _, c := range list {
		if m.collectOne(out, c, now, times) {
			shown++
		}
	}
	m.times = times
	m.collectStalled(out, most, now)
	out <- prometheus.MustNewConstMetric(m.omitted, prometheus.GaugeValue, float64(all-shown))
}

// collectOne is false for a pair that cannot be shown: its topic is gone, its log does not answer, or its name is no text.
func (m *lagMetrics) collectOne(out chan<- prometheus.Metric, c group.Committed, now time.Time, times map[lagPlace]int64) bool {
	t := m.b.topics.byName(c.Topic)
	if t == nil || c.Offset < 0 || !utf8.ValidString(c.Group) {
		return false
	}
	l, o := t.used(c.Partition), log.Offsets{}
	if l != nil {
		var err error
		if o, err = l.Offsets(); err != nil {
			return false
		}
	}
	gauge := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, c.Group, c.Topic, strconv.Itoa(int(c.Partition)))
	}
	lag := max(0, o.High-c.Offset)
	gauge(m.offset, float64(c.Offset))
	gauge(m.end, float64(o.High))
	gauge(m.lag, float64(lag))
	if lag == 0 {
		gauge(m.seconds, 0)
	} else if written, ok := m.written(lagPlace{l, max(c.Offset, o.Start)}, o.High, times); ok {
		gauge(m.seconds, max(0, now.Sub(time.UnixMilli(written)).Seconds()))
	}
	return true
}

// written gives the time of the batch at a place, in milliseconds. It reads the batch's header, unless the last scrape did.
func (m *lagMetrics) written(at lagPlace, high int64, times map[lagPlace]int64) (ms int64, ok bool) {
	if ms, ok = times[at]; ok {
		return ms, true
	}
	if ms, ok = m.times[at]; !ok {
		var err error
		if ms, err = readTime(at, high); err != nil {
			return 0, false
		}
	}
	times[at] = ms
	return ms, true
}

var errNothingThere = errors.New("no batch there")

func readTime(at lagPlace, high int64) (ms int64, err error) {
	rng, err := at.log.Read(at.offset, high, 1, true)
	if err != nil {
		return 0, err
	}
	defer rng.Release()
	if rng.Len == 0 {
		return 0, errNothingThere
	}
	var head [kproto.HeaderSize]byte
	if _, err := rng.File.ReadAt(head[:], rng.Pos); err != nil {
		return 0, err
	}
	b := kproto.Batch(head[:])
	if b.LogAppendTime() {
		return b.MaxTimestamp(), nil
	}
	return b.BaseTimestamp(), nil
}

// collectStalled shows the partitions that stalled members own. A leader of a classic group may give one to two of them.
func (m *lagMetrics) collectStalled(out chan<- prometheus.Metric, most int, now time.Time) {
	type place struct {
		group, topic string
		partition    int32
	}
	seen := map[place]bool{}
	for _, s := range m.b.stalls.all() {
		for _, p := range s.partitions {
			k := place{s.group, p.topic, p.partition}
			if seen[k] || len(seen) >= most || !utf8.ValidString(s.group) {
				continue
			}
			seen[k] = true
			out <- prometheus.MustNewConstMetric(m.stalled, prometheus.GaugeValue, now.Sub(p.since.time()).Seconds(),
				s.group, p.topic, strconv.Itoa(int(p.partition)))
		}
	}
}

// offsets gives the first committed offsets of all groups, in order, and how many there are.
func (g *groups) offsets(most int) (first []group.Committed, all int) {
	type answer struct {
		first []group.Committed
		all   int
	}
	viewAll(g.running(), func(m *group.Machine) answer {
		list, n := m.Offsets(most)
		return answer{list, n}
	}, func(a answer) {
		first = append(first, a.first...)
		all += a.all
	})
	slices.SortStableFunc(first, func(a, b group.Committed) int { return strings.Compare(a.Group, b.Group) })
	return first[:min(len(first), most)], all
}
