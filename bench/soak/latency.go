package main

import (
	"fmt"
	"slices"
	"time"

	"sluice/bench/internal/chart"
)

// second is one of the counted seconds of a phase: what happened in it, and what the probe saw of the records that were due in it.
type second struct {
	phase      int
	at         time.Time // its beginning
	length     time.Duration
	rolled     int  // segments begun
	compacting bool // compaction read or wrote
	took       map[byte][]time.Duration
}

// seconds puts together what was sampled and what the probe saw. Those are between two samples, so not exactly of a second.
func (r *run) seconds() []second {
	var all []second
	for i := 1; i < len(r.samples); i++ {
		a, b := &r.samples[i-1], &r.samples[i]
		n := slices.IndexFunc(r.phases, func(p phase) bool { return !a.at.Before(p.begin) && !b.at.After(p.end) })
		if n < 0 {
			continue
		}
		all = append(all, second{phase: n, at: a.at, length: b.at.Sub(a.at), rolled: b.disk.rolled(&a.disk), compacting: b.cleaned > a.cleaned, took: map[byte][]time.Duration{}})
	}
	for _, s := range r.probe.all() {
		if i := secondOf(all, s.due); i >= 0 {
			all[i].took[s.kind] = append(all[i].took[s.kind], s.took)
		}
	}
	return all
}

// secondOf finds the one that holds t; -1: none.
func secondOf(all []second, t time.Time) int {
	i, found := slices.BinarySearchFunc(all, t, func(s second, t time.Time) int { return s.at.Compare(t) })
	if !found {
		i--
	}
	if i >= 0 && t.Before(all[i].at.Add(all[i].length)) {
		return i
	}
	return -1
}

// classes are what seconds are compared by.
var classes = []struct {
	name string
	is   func(r *run, s *second) bool
}{
	{"control", func(r *run, s *second) bool { return r.phases[s.phase].control }},
	{"rolling", func(r *run, s *second) bool { return !r.phases[s.phase].control && s.rolled > 0 }},
	{"compacting", func(r *run, s *second) bool { return !r.phases[s.phase].control && s.compacting }},
	{"either", func(r *run, s *second) bool { return !r.phases[s.phase].control && s.busy() }},
	{"neither", func(r *run, s *second) bool { return !r.phases[s.phase].control && !s.busy() }},
}

func (s *second) busy() bool { return s.rolled > 0 || s.compacting }

// latencies prints the percentiles of each class of seconds.
func (r *run) latencies(all []second) {
	fmt.Printf("\n%-30s %8s %9s %9s %9s %9s %9s\n", "the probe, of each second's kind", "seconds", "records", "p50", "p99", "p99.9", "max")
	for _, kind := range []byte{acked, ackedRolling, read, readRolling} {
		for _, c := range classes {
			n, took := 0, []time.Duration(nil)
			for i := range all {
				if c.is(r, &all[i]) {
					n++
					took = append(took, all[i].took[kind]...)
				}
			}
			p := func(p float64) time.Duration { return chart.Percentile(took, p) }
			fmt.Printf("%-30s %8d %9d %9v %9v %9v %9v\n", kinds[kind]+", "+c.name, n, len(took), p(50), p(99), p(99.9), p(100))
		}
	}
	fmt.Println()
}

var kinds = map[byte]string{acked: "acked", read: "read", ackedRolling: "acked, topic rolls", readRolling: "read, topic rolls"}

// ratios are the p99 of each phase's seconds with rolling or compaction, as a multiple of that of the control after it. The kinds are what was seen.
func (r *run) ratios(all []second, kind, controlKind byte) (ratios []float64) {
	for n := 0; n+1 < len(r.phases); n += 2 {
		var busy, control []time.Duration
		for i := range all {
			switch s := &all[i]; {
			case s.phase == n && s.busy():
				busy = append(busy, s.took[kind]...)
			case s.phase == n+1:
				control = append(control, s.took[controlKind]...)
			}
		}
		if a, b := chart.Percentile(busy, 99), chart.Percentile(control, 99); a > 0 && b > 0 {
			ratios = append(ratios, float64(a)/float64(b))
		}
	}
	return ratios
}

// median of nothing is 0.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}
