package broker

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/log"
)

// partitionMetrics are figures of the partitions' logs: their files, and how many are not served as they should be.
type partitionMetrics struct{ b *Broker }

var (
	openFiles    = prometheus.NewDesc("sluice_log_open_files", "Files of segments that are open, their indexes among them.", nil, nil)
	openLimit    = prometheus.NewDesc("sluice_log_open_files_limit", "How many may be: a part of the process's limit of open files.", nil, nil)
	filesOpened  = prometheus.NewDesc("sluice_log_files_opened_total", "Files of segments opened. Where it rises by thousands a second, more partitions are in use than may have files open.", nil, nil)
	logsTroubled = prometheus.NewDesc("sluice_log_partitions", "Partitions that are not served as they should be, by what is wrong.", []string{"state"}, nil)
)

func (partitionMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{openFiles, openLimit, filesOpened, logsTroubled} {
		ch <- d
	}
}

func (m partitionMetrics) Collect(ch chan<- prometheus.Metric) {
	if m.b.dir == nil {
		return
	}
	open, limit, opened := m.b.dir.OpenFiles()
	ch <- prometheus.MustNewConstMetric(openFiles, prometheus.GaugeValue, float64(open))
	ch <- prometheus.MustNewConstMetric(openLimit, prometheus.GaugeValue, float64(limit))
	ch <- prometheus.MustNewConstMetric(filesOpened, prometheus.CounterValue, float64(opened))
	for _, t := range log.Troubles {
		ch <- prometheus.MustNewConstMetric(logsTroubled, prometheus.GaugeValue, float64(m.b.dir.Troubled(t)), t.String())
	}
}
