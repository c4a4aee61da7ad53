package broker

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// damageMetrics tell which partitions have data that is not what was once durable. Sound partitions have no line.
type damageMetrics struct{ b *Broker }

var (
	damagedRanges = prometheus.NewDesc("sluice_log_damaged_ranges", "Ranges of offsets that cannot be read because their bytes are damaged, by partition.", []string{"topic", "partition"}, nil)
	damagedBytes  = prometheus.NewDesc("sluice_log_damaged_bytes", "Bytes of those ranges, by partition.", []string{"topic", "partition"}, nil)
)

func (m damageMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- damagedRanges
	ch <- damagedBytes
}

func (m damageMetrics) Collect(ch chan<- prometheus.Metric) {
	if m.b.dir == nil {
		return
	}
	type partition struct {
		topic string
		n     int32
	}
	ranges, bytes := map[partition]int{}, map[partition]int64{}
	for _, d := range m.b.dir.Damages() {
		p := partition{d.Topic, d.Partition}
		ranges[p]++
		bytes[p] += d.Bytes
	}
	for p, n := range ranges {
		labels := []string{p.topic, strconv.Itoa(int(p.n))}
		ch <- prometheus.MustNewConstMetric(damagedRanges, prometheus.GaugeValue, float64(n), labels...)
		ch <- prometheus.MustNewConstMetric(damagedBytes, prometheus.GaugeValue, float64(bytes[p]), labels...)
	}
}
