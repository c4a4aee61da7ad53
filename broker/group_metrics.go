package broker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
	"sluice/internal/coord"
	"sluice/internal/machine"
)

// groupMetrics are figures of all groups together; no series is of one group.
type groupMetrics struct {
	groups *groups

	rebalances prometheus.Counter
	commits    prometheus.Counter
	resolves   [methods]prometheus.Counter

	byState, members, offsets *prometheus.Desc
}

func newGroupMetrics(g *groups) *groupMetrics {
	m := &groupMetrics{
		groups: g,
		rebalances: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_group_rebalances_total", Help: "Generations of classic groups that began.",
		}),
		commits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_group_offset_commits_total", Help: "Offsets committed, one for each partition of a request.",
		}),
		byState: prometheus.NewDesc("sluice_groups", "Groups, by state.", []string{"state"}, nil),
		members: prometheus.NewDesc("sluice_group_members", "Members of all groups.", nil, nil),
		offsets: prometheus.NewDesc("sluice_group_offsets", "Committed offsets kept, of all groups.", nil, nil),
	}
	for how := range m.resolves {
		m.resolves[how] = prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_fetch_group_resolutions_total", Help: "Times that a connection's reading of a partition was found to belong to a group, by how.",
			ConstLabels: prometheus.Labels{"method": method(how).String()},
		})
	}
	return m
}

// resolved counts how a Fetch was found to belong to a group.
func (m *groupMetrics) resolved(how method) { m.resolves[how].Inc() }

// answered counts what an answer says of the group.
func (m *groupMetrics) answered(resp kmsg.Response) {
	// Of each generation one JoinGroup answer goes to the leader and tells it to assign.
	if j, ok := resp.(*kmsg.JoinGroupResponse); ok && j.ErrorCode == 0 && j.MemberID == j.LeaderID && !j.SkipAssignment {
		m.rebalances.Inc()
	}
}

// Describe implements prometheus.Collector.
func (m *groupMetrics) Describe(out chan<- *prometheus.Desc) {
	m.rebalances.Describe(out)
	m.commits.Describe(out)
	for _, c := range m.resolves {
		c.Describe(out)
	}
	out <- m.byState
	out <- m.members
	out <- m.offsets
}

// Collect implements prometheus.Collector.
func (m *groupMetrics) Collect(out chan<- prometheus.Metric) {
	m.rebalances.Collect(out)
	m.commits.Collect(out)
	for _, c := range m.resolves {
		c.Collect(out)
	}
	s := m.groups.stats()
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	for _, state := range []group.State{group.Empty, group.PreparingRebalance, group.CompletingRebalance, group.Assigning, group.Reconciling, group.Stable} {
		gauge(m.byState, s.Groups[state], string(state))
	}
	gauge(m.members, s.Members)
	gauge(m.offsets, s.Offsets)
}

// statsTimeout is how long a scrape waits for shards that are being replayed or synced; it then counts the others.
const statsTimeout = time.Second

// stats counts over all shards.
func (g *groups) stats() group.Stats {
	sum := group.Stats{Groups: map[group.State]int{}}
	viewAll(g.running(), (*group.Machine).Stats, func(one group.Stats) {
		for state, n := range one.Groups {
			sum.Groups[state] += n
		}
		sum.Members += one.Members
		sum.Offsets += one.Offsets
	})
	return sum
}

// viewAll asks the machines of shards at once and takes their answers one after the other, of those that answer in time.
func viewAll[T any](shards []*coord.Shard, ask func(*group.Machine) T, take func(T)) {
	answers := make(chan *T, len(shards)) // a place for each: late ones block nobody
	for _, s := range shards {
		s.View(func(m machine.Machine) any { return ask(m.(*group.Machine)) }, func(v any, _ error) {
			if one, ok := v.(T); ok {
				answers <- &one
			} else {
				answers <- nil
			}
		})
	}
	timeout := time.After(statsTimeout)
	for range shards {
		select {
		case one := <-answers:
			if one != nil {
				take(*one)
			}
		case <-timeout:
			return
		}
	}
}
