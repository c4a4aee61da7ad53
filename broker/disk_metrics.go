package broker

import "github.com/prometheus/client_golang/prometheus"

// diskMetrics are the figures of the disk that holds the data directory.
type diskMetrics struct{ b *Broker }

var (
	diskTotal  = prometheus.NewDesc("sluice_disk_total_bytes", "Size of the disk of the data directory.", nil, nil)
	diskUsable = prometheus.NewDesc("sluice_disk_usable_bytes", "Bytes of it that can be used, without the ballast file.", nil, nil)
	diskFull   = prometheus.NewDesc("sluice_disk_full", "1 while appends are refused because the disk is full.", nil, nil)
)

func (diskMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{diskTotal, diskUsable, diskFull} {
		ch <- d
	}
}

func (m diskMetrics) Collect(ch chan<- prometheus.Metric) {
	if m.b.dir == nil {
		return
	}
	disk := m.b.dir.Disk()
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	if disk.Total >= 0 {
		gauge(diskTotal, float64(disk.Total))
		gauge(diskUsable, float64(disk.Usable))
	}
	full := 0.0
	if disk.Full {
		full = 1
	}
	gauge(diskFull, full)
}
