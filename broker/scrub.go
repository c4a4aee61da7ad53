package broker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/log"
)

// firstScrub lets a start be over before the scrubber reads.
const firstScrub = 30 * time.Second

// startScrubber begins to read everything now and then, to find damage.
func (b *Broker) startScrubber() {
	b.scrubber = b.dir.NewScrubber(func() log.ScrubSettings {
		c := b.config()
		return log.ScrubSettings{BytesPerSecond: float64(c.ScrubBytesPerSecond), Interval: c.ScrubInterval}
	})
	b.scrubber.Start(firstScrub)
}

func (b *Broker) stopScrubber() {
	if b.scrubber != nil {
		b.scrubber.Close()
	}
}

// scrubMetrics tell how far the scrubber is and what it found.
type scrubMetrics struct{ b *Broker }

type scrubFigure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(log.ScrubStats) float64
}

func scrubFigureOf(name, help string, kind prometheus.ValueType, value func(log.ScrubStats) float64) scrubFigure {
	return scrubFigure{prometheus.NewDesc("sluice_scrub_"+name, help, nil, nil), kind, value}
}

var scrubFigures = []scrubFigure{
	scrubFigureOf("bytes_total", "Bytes read and checked.", prometheus.CounterValue, func(s log.ScrubStats) float64 { return float64(s.Bytes) }),
	scrubFigureOf("segments_total", "Segments read and checked.", prometheus.CounterValue, func(s log.ScrubStats) float64 { return float64(s.Segments) }),
	scrubFigureOf("damaged_segments_total", "Segments in which damage was met.", prometheus.CounterValue, func(s log.ScrubStats) float64 { return float64(s.Found) }),
	scrubFigureOf("unreadable_segments_total", "Segments that the disk would not read.", prometheus.CounterValue, func(s log.ScrubStats) float64 { return float64(s.Unreadable) }),
	scrubFigureOf("passes_total", "Passes over all data that have come to their end.", prometheus.CounterValue, func(s log.ScrubStats) float64 { return float64(s.Passes) }),
	scrubFigureOf("pass_progress", "How much of its bytes the pass under way, or the last one, has read: 0 to 1.", prometheus.GaugeValue, scrubProgress),
	scrubFigureOf("pass_began_timestamp_seconds", "When the pass under way, or the last one, began; 0: none has in this run.", prometheus.GaugeValue, func(s log.ScrubStats) float64 { return timestamp(s.Began) }),
	scrubFigureOf("pass_ended_timestamp_seconds", "When a pass last came to its end; 0: none has in this run.", prometheus.GaugeValue, func(s log.ScrubStats) float64 { return timestamp(s.Ended) }),
}

func scrubProgress(s log.ScrubStats) float64 {
	if s.Total == 0 {
		return 0
	}
	return min(1, float64(s.Done)/float64(s.Total))
}

func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func (m scrubMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range scrubFigures {
		ch <- f.desc
	}
}

func (m scrubMetrics) Collect(ch chan<- prometheus.Metric) {
	if m.b.scrubber == nil || !m.b.ready.Load() {
		return
	}
	stats := m.b.scrubber.Stats()
	for _, f := range scrubFigures {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(stats))
	}
}
