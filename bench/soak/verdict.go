package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/bench/internal/chart"
)

// verdict is whether a bound held.
type verdict struct {
	held bool
	text string
}

// conclude stops the broker, verifies what it leaves, and prints what was measured and the verdicts.
func (r *run) conclude(ctx context.Context) error {
	stopped := r.s.stop()
	verified := r.s.verify(ctx)
	all := r.seconds()
	r.latencies(all)
	verdicts := slices.Concat(r.diskVerdicts(), r.flatVerdicts(), []verdict{r.recordsVerdict()}, r.cliffVerdicts(all), []verdict{
		outcome("the broker stops cleanly", stopped), outcome("sluice log verify finds the data sound", verified),
	})
	if r.tally.first != nil {
		fmt.Println(strings.Join(r.tally.first, "\n"))
	}
	_ = r.showComplaints()
	broken := 0
	for _, v := range verdicts {
		word := "held  "
		if !v.held {
			word = "BROKEN"
			broken++
		}
		fmt.Println(word, v.text)
	}
	if err := r.picture(); err != nil {
		return err
	}
	if broken > 0 {
		return fmt.Errorf("%w (%d of %d)", errBroken, broken, len(verdicts))
	}
	fmt.Printf("all %d bounds held over %v\n", len(verdicts), r.o.duration)
	return nil
}

func outcome(what string, err error) verdict {
	if err != nil {
		return verdict{false, fmt.Sprintf("%s: %v", what, err)}
	}
	return verdict{true, what}
}

// phaseText is one line while the run goes on.
func (r *run) phaseText(p phase) string {
	name := "rolling"
	if p.control {
		name = "control"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var rolled int
	var first, last *sample
	for i := range r.samples {
		if s := &r.samples[i]; !s.at.Before(p.begin) && !s.at.After(p.end) {
			if first == nil {
				first = s
			} else {
				rolled += s.disk.rolled(&r.samples[i-1].disk)
			}
			last = s
		}
	}
	if first == nil {
		return name + ": too short"
	}
	took := map[byte][]time.Duration{}
	for _, s := range r.probe.all() {
		if !s.due.Before(p.begin) && !s.due.After(p.end) {
			took[s.kind] = append(took[s.kind], s.took)
		}
	}
	length := p.end.Sub(p.begin).Seconds()
	return fmt.Sprintf("%s %-7s %3.0f s  %4.0f MB/s in  %4.0f out  CPU %3.0f %%  rolls %4d  compactions %4.0f  disk %5.0f MB  RSS %4.0f MB  fds %3d  ack p50 %v p99 %v  read p99 %v  rolling itself: ack p99 %v",
		p.end.UTC().Format(time.TimeOnly), name, length, float64(p.written)/1e6/length, float64(p.read)/1e6/length, 100*(last.cpu-first.cpu)/length, rolled, last.runs-first.runs,
		float64(last.disk.total)/1e6, float64(last.rss)/1e6, last.fds, chart.Percentile(took[acked], 50), chart.Percentile(took[acked], 99), chart.Percentile(took[read], 99), chart.Percentile(took[ackedRolling], 99))
}

// partitionsOf are the directories of a topic.
func (f *feed) partitionsOf() (names []string) {
	for p := range f.partitions {
		names = append(names, fmt.Sprintf("%s-%d", f.topic, p))
	}
	return names
}

// most is the largest size that a partition of the feed had.
func (r *run) most(f *feed) (most int64) {
	for i := range r.samples {
		for _, name := range f.partitionsOf() {
			most = max(most, r.samples[i].disk.live[name])
		}
	}
	return most
}

// diskVerdicts: the partitions within their bounds, and files of deleted segments gone in time.
func (r *run) diskVerdicts() []verdict {
	slack, keyed := r.o.slackMiB<<20, r.o.keyedSegmentMiB()<<20
	full, both := r.o.retentionMiB<<20+r.o.segmentMiB<<20, 5*keyed
	// Compacted: a record of each key and its batch's share of 61 bytes at most, as much again as may be dirty before it is worth a round and while the
	// round lasts, and the segment that is written to.
	compacted := int64(r.o.keys) * 1100 * 2
	compacted += 2 * keyed
	var most int64
	var oldest time.Duration
	for i := range r.samples {
		d := &r.samples[i].disk
		most, oldest = max(most, d.total), max(oldest, d.oldest(r.samples[i].at))
	}
	bound := func(f *feed, limit int64, what string) verdict {
		size := r.most(f)
		return verdict{size <= limit+slack, fmt.Sprintf("disk: a partition of %s takes %.1f MB at most; %s: %.1f MB", f.topic, float64(size)/1e6, what, float64(limit)/1e6)}
	}
	late := r.o.deleteDelay + 3*time.Second // samples are a second apart, and a sample may come late
	return []verdict{
		bound(r.feeds[0], full, "retention.bytes and a segment"),
		bound(r.feeds[2], both, "retention.bytes and a segment"),
		bound(r.feeds[1], compacted, "twice its keys and two segments"),
		{oldest <= late, fmt.Sprintf("disk: files of deleted segments are gone after %v at most; file.delete.delay.ms and 3 s: %v", oldest.Round(time.Millisecond), late)},
		{true, fmt.Sprintf("disk: the data directory has %.1f GB at most, the control's topics included", float64(most)/1e9)},
	}
}

// flatVerdicts: what must not grow. The first fifth of the run is not looked at: caches and pools fill.
func (r *run) flatVerdicts() []verdict {
	samples := r.samples[len(r.samples)/5:]
	flat := func(what, unit string, scale float64, allowed func(mid float64) float64, value func(*sample) float64) verdict {
		var at, v []float64
		for i := range samples {
			at, v = append(at, samples[i].at.Sub(samples[0].at).Seconds()), append(v, value(&samples[i])/scale)
		}
		mid := median(v)
		growth := slope(at, v) * at[len(at)-1]
		return verdict{growth <= allowed(mid), fmt.Sprintf("%s: %.1f to %.1f %s, median %.1f, trend %+.1f over the run; allowed: %+.1f", what, slices.Min(v), slices.Max(v), unit, mid, growth, allowed(mid))}
	}
	memory := func(mid float64) float64 { return max(10, mid/5) }
	few := func(mid float64) float64 { return max(4, mid/5) }
	return []verdict{
		flat("resident memory", "MB", 1e6, memory, func(s *sample) float64 { return float64(s.rss) }),
		flat("heap in use", "MB", 1e6, memory, func(s *sample) float64 { return float64(s.heap) }),
		flat("open files", "descriptors", 1, few, func(s *sample) float64 { return float64(s.fds) }),
		flat("goroutines", "of them", 1, few, func(s *sample) float64 { return float64(s.goroutines) }),
	}
}

// slope is that of the least squares' line.
func slope(x, y []float64) float64 {
	var mx, my float64
	for i := range x {
		mx, my = mx+x[i]/float64(len(x)), my+y[i]/float64(len(x))
	}
	var over, under float64
	for i := range x {
		over, under = over+(x[i]-mx)*(y[i]-my), under+(x[i]-mx)*(x[i]-mx)
	}
	if under == 0 {
		return 0
	}
	return over / under
}

func (r *run) recordsVerdict() verdict {
	t := &r.tally
	for _, s := range r.probe.all() {
		if s.kind == refused {
			t.failed.Add(1)
		}
	}
	text := fmt.Sprintf("records: %d checked, %d wrong, %d missing, %d refused, %d expired before they were read; compacted topics read whole %d times",
		t.checked.Load(), t.wrong.Load(), t.missing.Load(), t.failed.Load(), t.expired.Load(), t.rebuilt.Load())
	return verdict{t.wrong.Load()+t.missing.Load()+t.failed.Load() == 0 && t.checked.Load() > 0 && t.rebuilt.Load() > 0, text}
}

// cliffVerdicts: the p99 of what the probe saw in phases with rolling and compaction, beside the control's.
func (r *run) cliffVerdicts(all []second) (verdicts []verdict) {
	for _, c := range []struct {
		what             string
		rolling, control byte
	}{
		{"a topic that does not roll, acknowledged", acked, acked},
		{"a topic that does not roll, read", read, read},
		{"a topic that rolls itself, acknowledged", ackedRolling, acked},
		{"a topic that rolls itself, read", readRolling, read},
	} {
		ratios := r.ratios(all, c.rolling, c.control)
		if len(ratios) == 0 {
			verdicts = append(verdicts, verdict{false, "latency: there is nothing to compare; make the run longer"})
			continue
		}
		m := median(ratios)
		verdicts = append(verdicts, verdict{m <= r.o.cliff, fmt.Sprintf("latency: %s: p99 beside the control's x%.2f (%.2f to %.2f, %d pairs); a cliff is x%.1f",
			c.what, m, slices.Min(ratios), slices.Max(ratios), len(ratios), r.o.cliff)})
	}
	return verdicts
}
