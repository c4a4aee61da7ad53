package broker

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"sluice/kproto"
)

// metrics are the broker's own figures. Every label has a bounded set of values: APIs of the table, Kafka's error codes.
type metrics struct {
	registry *prometheus.Registry

	requests [maxKey + 1]prometheus.Counter // by API key; nil where there is no row
	errors   *prometheus.CounterVec         // by API and name of the code
	panics   prometheus.Counter
	groups   *groupMetrics
}

func newMetrics(b *Broker) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_request_errors_total", Help: "Errors answered, by API and error code; one request may carry several.",
		}, []string{"api", "error"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_request_panics_total", Help: "Requests that ended in a panic. Each one is a defect.",
		}),
	}
	m.groups = newGroupMetrics(b.groups)
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_requests_total", Help: "Requests taken, by API.",
	}, []string{"api"})
	for _, r := range table {
		m.requests[r.key] = requests.WithLabelValues(r.name)
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(damageMetrics{b}, scrubMetrics{b})
	m.registry.MustRegister(requests, m.errors, m.panics, m.groups, retentionMetrics{b}, diskMetrics{b}, partitionMetrics{b}, cleanerMetrics{b},
		newLagMetrics(b), newDispatchMetrics(b), newQuotaMetrics(b), b.stalls.episodes, b.stalls.evictions,
		gauge("sluice_group_stalled_members", "Group members that send heartbeats and do not read.", func() float64 { return float64(len(b.stalls.all())) }),
		gauge("sluice_topics", "Topics, without the catalog.", func() float64 { n, _ := b.countTopics(); return float64(n) }),
		gauge("sluice_partitions", "Partitions of all topics.", func() float64 { _, n := b.countTopics(); return float64(n) }),
		gauge("sluice_broker_epoch", "The leader epoch of every partition, raised by each start.", func() float64 { return float64(b.epoch) }),
		gauge("sluice_ready", "1 when requests are served.", func() float64 {
			if b.ready.Load() {
				return 1
			}
			return 0
		}),
	)
	return m
}

func (b *Broker) countTopics() (topics, partitions int) {
	if b.topics == nil {
		return 0, 0
	}
	return b.topics.count()
}

func (m *metrics) requested(r *row) { m.requests[r.key].Inc() }

func (m *metrics) failed(r *row, code int16) {
	m.errors.WithLabelValues(r.name, errorLabel(code)).Inc()
}

// errorLabel is the code's name; a code that Kafka does not have shows as its number.
func errorLabel(code int16) string {
	if name := kproto.CodeName(code); name != "" {
		return name
	}
	return strconv.Itoa(int(code))
}

// Metrics is the registry that /metrics serves; the rooms beside the broker register theirs there.
func (b *Broker) Metrics() *prometheus.Registry { return b.metrics.registry }
