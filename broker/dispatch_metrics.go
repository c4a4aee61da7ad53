package broker

import (
	"cmp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/throttle"
)

// dispatchMetrics are the figures of dispatch throttling, worked out when they are asked for. The waits are told apart by topic and group up to
// group.lag.metrics.max.partitions pairs, the first in order of their names; the sums by cause cover all.
type dispatchMetrics struct {
	b *Broker

	wait, byGroup, held, holding, throttled, omitted, charged, refunded, limit, left, owed *prometheus.Desc
}

func newDispatchMetrics(b *Broker) *dispatchMetrics {
	return &dispatchMetrics{
		b: b,
		wait: prometheus.NewDesc("sluice_dispatch_wait_seconds_total",
			"Time that fetches were held, by what they waited for: data, min bytes, or allowance of a level.", []string{"cause"}, nil),
		byGroup: prometheus.NewDesc("sluice_dispatch_group_wait_seconds_total",
			"The same by topic and group. Without a topic: for data of several, or of topics that were deleted; what stands in for a group is named like client:...", []string{"topic", "group", "cause"}, nil),
		held:    prometheus.NewDesc("sluice_dispatch_held_fetches_total", "Fetches that were held before they were answered.", nil, nil),
		holding: prometheus.NewDesc("sluice_dispatch_held_fetches", "Fetches that are held now.", nil, nil),
		throttled: prometheus.NewDesc("sluice_dispatch_throttled_total",
			"How often a fetch began to wait for allowance, by level and unit.", []string{"level", "unit"}, nil),
		omitted: prometheus.NewDesc("sluice_dispatch_group_wait_omitted", "Pairs of topic and group whose waits are not shown; group.lag.metrics.max.partitions has more shown.", nil, nil),
		charged: prometheus.NewDesc("sluice_dispatch_charged_total",
			"What left for consumers under limits, in messages as the mode counts them and in bytes.", []string{"unit"}, nil),
		refunded: prometheus.NewDesc("sluice_dispatch_refunded_total",
			"What was reserved under limits and given back, since nothing of the answer could be sent.", []string{"unit"}, nil),
		limit: prometheus.NewDesc("sluice_dispatch_broker_limit", "The broker's own limit in a period, if there is one.", []string{"unit"}, nil),
		left:  prometheus.NewDesc("sluice_dispatch_broker_left", "What is left of the broker's limit in this period.", []string{"unit"}, nil),
		owed:  prometheus.NewDesc("sluice_dispatch_broker_debt", "What later periods owe for this one under the broker's limit.", []string{"unit"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *dispatchMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.wait, m.byGroup, m.held, m.holding, m.throttled, m.omitted, m.charged, m.refunded, m.limit, m.left, m.owed} {
		out <- d
	}
}

// groupWaits is an account of fetchWaits.
type groupWaits struct {
	topic, group string
	by           [causes]time.Duration
}

// Collect implements prometheus.Collector.
func (m *dispatchMetrics) Collect(out chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	d := m.b.dispatch
	list, sum, held := d.waits.gather()
	for c, wait := range sum {
		count(m.wait, wait.Seconds(), cause(c).String())
		if cause(c) >= forAllowance {
			at := cause(c).allowance()
			count(m.throttled, float64(d.throttledBy[c].Load()), at.Level.String(), at.Unit.String())
		}
	}
	count(m.held, float64(held))
	for u := range d.charged {
		unit := throttle.Unit(u).String()
		count(m.charged, float64(d.charged[u].Load()), unit)
		count(m.refunded, float64(d.refunded[u].Load()), unit)
	}
	out <- prometheus.MustNewConstMetric(m.holding, prometheus.GaugeValue, float64(d.holding.Load()))
	shown := 0
	for _, w := range list[:min(len(list), m.b.config().Groups.LagMetricsPartitions)] {
		if !utf8.ValidString(w.group) {
			continue
		}
		shown++
		for c, wait := range w.by {
			if wait > 0 {
				count(m.byGroup, wait.Seconds(), w.topic, w.group, cause(c).String())
			}
		}
	}
	out <- prometheus.MustNewConstMetric(m.omitted, prometheus.GaugeValue, float64(len(list)-shown))
	m.collectBroker(out)
}

// collectBroker shows the one limit that all share; those of partitions are what /v1/throttle is for.
func (m *dispatchMetrics) collectBroker(out chan<- prometheus.Metric) {
	for _, c := range m.b.dispatch.ExplainBroker(instant()).Counters {
		if c.Limit == throttle.Unlimited {
			continue
		}
		for desc, v := range map[*prometheus.Desc]int64{m.limit: c.Limit, m.left: c.Left, m.owed: c.Owed} {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(v), c.Unit.String())
		}
	}
}

// gather gives all accounts in order of their names, and their sums. A group may have the name of what stands in for another: they are one account here, since
// no two series may have the same labels.
func (w *fetchWaits) gather() (list []groupWaits, sum [causes]time.Duration, held int64) {
	w.each(func(topic string, g groupKey, n int64, by [causes]time.Duration) {
		list = append(list, groupWaits{topic, g.name, by})
		held += n
		for c, d := range by {
			sum[c] += d
		}
	})
	slices.SortFunc(list, func(a, b groupWaits) int { return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.group, b.group)) })
	return merged(list), sum, held
}

// merged adds up accounts that follow each other and have the same names.
func merged(list []groupWaits) (out []groupWaits) {
	for _, w := range list {
		if n := len(out); n > 0 && out[n-1].topic == w.topic && out[n-1].group == w.group {
			for c, d := range w.by {
				out[n-1].by[c] += d
			}
			continue
		}
		out = append(out, w)
	}
	return out
}
