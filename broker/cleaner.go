package broker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/log"
)

// startCleaner begins to compact. The switch is read once, as in Kafka; all else may change while the broker runs.
func (b *Broker) startCleaner() {
	if !b.config().Cleaner.Enable {
		b.logger.Warn("log.cleaner.enable is false: compacted topics grow for ever, the broker's own among them")
		return
	}
	b.cleaner = b.dir.NewCleaner(func() log.CleanerSettings {
		c := b.config().Cleaner
		return log.CleanerSettings{Threads: c.Threads, Backoff: c.Backoff, MapBytes: c.DedupeBuffer, BytesPerSecond: c.BytesPerSecond}
	})
	b.cleaner.Start()
}

func (b *Broker) stopCleaner() {
	if b.cleaner != nil {
		b.cleaner.Close()
	}
}

// cleanerMetrics collects the cleaner's figures. Those that Apache Kafka has too are named after its own.
type cleanerMetrics struct{ b *Broker }

var cleanerFigures = []cleanerFigure{
	cleanerCounter("runs_total", "Partitions compacted.", func(s log.CleanerStats) float64 { return float64(s.Runs) }),
	cleanerCounter("failures_total", "Compactions of a partition that failed.", func(s log.CleanerStats) float64 { return float64(s.Failures) }),
	cleanerCounter("read_bytes_total", "Bytes that compaction read.", func(s log.CleanerStats) float64 { return float64(s.Read) }),
	cleanerCounter("written_bytes_total", "Bytes that compaction wrote.", func(s log.CleanerStats) float64 { return float64(s.Written) }),
	cleanerCounter("dropped_records_total", "Records that compaction dropped.", func(s log.CleanerStats) float64 { return float64(s.Dropped) }),
	cleanerCounter("dropped_records_without_key_total", "Records without a key that compaction dropped.", func(s log.CleanerStats) float64 { return float64(s.Keyless) }),
	cleanerGauge("recopy_percent", "What the last compaction wrote, of what it read (cleaner-recopy-percent).", func(s log.CleanerStats) float64 { return s.RecopyPercent }),
	cleanerGauge("buffer_utilization_percent", "How full the map of keys was in the last compaction (max-buffer-utilization-percent).", func(s log.CleanerStats) float64 { return s.MapUsePercent }),
	cleanerGauge("clean_time_seconds", "How long the last compaction took (max-clean-time-secs).", func(s log.CleanerStats) float64 { return s.Time.Seconds() }),
	cleanerGauge("max_dirty_percent", "The dirty share of the dirtiest partition (max-dirty-percent).", func(s log.CleanerStats) float64 { return s.MaxDirtyPercent }),
	cleanerGauge("max_compaction_delay_seconds", "How far beyond max.compaction.lag.ms the most delayed partition is (max-compaction-delay-secs).", func(s log.CleanerStats) float64 { return s.MaxDelay.Seconds() }),
	cleanerGauge("uncleanable_partitions", "Partitions that are not compacted any more (uncleanable-partitions-count).", func(s log.CleanerStats) float64 { return float64(s.Uncleanable) }),
	cleanerGauge("uncleanable_bytes", "Their dirty bytes (uncleanable-bytes).", func(s log.CleanerStats) float64 { return float64(s.UncleanableSize) }),
	cleanerGauge("time_since_last_run_seconds", "Since compaction last looked for work (time-since-last-run-ms).", func(s log.CleanerStats) float64 {
		if s.LastLook.IsZero() {
			return 0
		}
		return time.Since(s.LastLook).Seconds()
	}),
}

// cleanerFigure is one figure and where it comes from.
type cleanerFigure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(log.CleanerStats) float64
}

func cleanerCounter(name, help string, value func(log.CleanerStats) float64) cleanerFigure {
	return cleanerFigure{prometheus.NewDesc("sluice_log_cleaner_"+name, help, nil, nil), prometheus.CounterValue, value}
}

func cleanerGauge(name, help string, value func(log.CleanerStats) float64) cleanerFigure {
	return cleanerFigure{prometheus.NewDesc("sluice_log_cleaner_"+name, help, nil, nil), prometheus.GaugeValue, value}
}

func (m cleanerMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, f := range cleanerFigures {
		out <- f.desc
	}
}

func (m cleanerMetrics) Collect(out chan<- prometheus.Metric) {
	if m.b.cleaner == nil || !m.b.ready.Load() {
		return
	}
	stats := m.b.cleaner.Stats()
	for _, f := range cleanerFigures {
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(stats))
	}
}
