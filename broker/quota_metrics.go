package broker

import (
	"cmp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/throttle/quota"
)

// maxShownQuotas bounds the meters that have series of their own: those that held clients longest come first.
const maxShownQuotas = 1000

// quotaMetrics are the figures of client quotas, worked out when they are asked for. The sums by kind cover all that ever was; a meter's own begin anew when it
// was not used for an hour.
type quotaMetrics struct {
	b *Broker

	throttles, throttled, meters, omitted, limit, used, held *prometheus.Desc
}

func newQuotaMetrics(b *Broker) *quotaMetrics {
	kind, client := []string{"quota"}, []string{"quota", "user", "client_id"}
	return &quotaMetrics{
		b:         b,
		throttles: prometheus.NewDesc("sluice_quota_throttles_total", "How often a client was told to wait by a client quota, by its kind.", kind, nil),
		throttled: prometheus.NewDesc("sluice_quota_throttle_seconds_total", "How long clients were told to wait by client quotas.", kind, nil),
		meters:    prometheus.NewDesc("sluice_quota_meters", "Users and client ids under quotas that were there within the last hour, by kind.", kind, nil),
		omitted:   prometheus.NewDesc("sluice_quota_client_omitted", "Those of them that have no series of their own, since there are too many.", nil, nil),
		limit: prometheus.NewDesc("sluice_quota_client_limit",
			"The quota of those who share it, in bytes, seconds of a processor or partitions in a second. Without user or client id: whatever it is; * stands for those that came when there were too many.", client, nil),
		used: prometheus.NewDesc("sluice_quota_client_used_total", "What was used of it, in the same unit.", client, nil),
		held: prometheus.NewDesc("sluice_quota_client_throttle_seconds_total", "How long they were told to wait.", client, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *quotaMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.throttles, m.throttled, m.meters, m.omitted, m.limit, m.used, m.held} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *quotaMetrics) Collect(out chan<- prometheus.Metric) {
	var waits, number [quota.Kinds]int64
	var wait [quota.Kinds]time.Duration
	for k := range quota.Kinds {
		waits[k], wait[k] = m.b.quotas.limits.Retired(k)
	}
	var all []quota.State
	m.b.quotas.limits.Each(quotaNow(), func(s quota.State) {
		number[s.Kind]++
		waits[s.Kind] += s.Waits
		wait[s.Kind] += s.Wait
		all = append(all, s)
	})
	for k := range quota.Kinds {
		name := k.String()
		out <- prometheus.MustNewConstMetric(m.throttles, prometheus.CounterValue, float64(waits[k]), name)
		out <- prometheus.MustNewConstMetric(m.throttled, prometheus.CounterValue, wait[k].Seconds(), name)
		out <- prometheus.MustNewConstMetric(m.meters, prometheus.GaugeValue, float64(number[k]), name)
	}
	shown := m.collectClients(all, out)
	out <- prometheus.MustNewConstMetric(m.omitted, prometheus.GaugeValue, float64(len(all)-shown))
}

// collectClients shows the meters that there is room for. Two may look alike, as a client id may be "*" or empty: then the first is shown.
func (m *quotaMetrics) collectClients(all []quota.State, out chan<- prometheus.Metric) (shown int) {
	slices.SortFunc(all, func(a, b quota.State) int {
		return cmp.Or(cmp.Compare(b.Wait, a.Wait), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.User, b.User), cmp.Compare(a.ClientID, b.ClientID))
	})
	seen := map[[3]string]bool{}
	for i := range all {
		s := &all[i]
		labels := [3]string{s.Kind.String(), s.User, s.ClientID}
		if s.Rest && s.ClientID == "" {
			labels[2] = "*"
		}
		if shown == maxShownQuotas || seen[labels] || !utf8.ValidString(labels[1]) || !utf8.ValidString(labels[2]) {
			continue
		}
		seen[labels] = true
		shown++
		out <- prometheus.MustNewConstMetric(m.limit, prometheus.GaugeValue, s.Rate, labels[:]...)
		out <- prometheus.MustNewConstMetric(m.used, prometheus.CounterValue, s.Used, labels[:]...)
		out <- prometheus.MustNewConstMetric(m.held, prometheus.CounterValue, s.Wait.Seconds(), labels[:]...)
	}
	return shown
}
