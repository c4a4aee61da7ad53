package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"sluice/bench/internal/chart"
)

// Measures of the picture, in pixels.
const (
	left, width = 70, 1000
	gap         = 46
)

const (
	controlColour, rollingColour = "#4477aa", "#ee6677"
	sizeColour, memoryColour     = "#228833", "#aa3377"
)

// buckets is how many points there are at most from the left to the right.
const buckets = 250

// draw makes an SVG of three panels over time: what the probe saw, the largest partition beside its bound, memory and descriptors.
func (r *run) draw() []byte {
	begin, end := r.samples[0].at, r.samples[len(r.samples)-1].at
	x := func(t time.Time) float64 { return left + width*t.Sub(begin).Seconds()/end.Sub(begin).Seconds() }
	times := chart.Panel{Left: left, Top: 50, Width: width, Height: 200}
	sizes := chart.Panel{Left: left, Top: times.Top + times.Height + gap, Width: width, Height: 110}
	memory := chart.Panel{Left: left, Top: sizes.Top + sizes.Height + gap, Width: width, Height: 110}
	var b bytes.Buffer
	chart.Begin(&b, left+width+30, memory.Top+memory.Height+40, left, fmt.Sprintf("A soak of %v, durability %s", r.o.duration, r.o.durability))
	r.drawLatency(&b, times, x, begin, end)
	r.drawSizes(&b, sizes, x)
	r.drawMemory(&b, memory, x)
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#555555">%s, from 0 to %v</text>`+"\n</svg>\n", left, memory.Top+memory.Height+24, "time", end.Sub(begin).Round(time.Second))
	return b.Bytes()
}

// caption stands above a panel, with a word in the colour of each line.
func caption(b *bytes.Buffer, p chart.Panel, text string, words ...[2]string) {
	fmt.Fprintf(b, `<text x="%d" y="%d">%s`, p.Left, p.Top-8, text)
	for _, w := range words {
		fmt.Fprintf(b, ` <tspan fill="%s" font-weight="bold">%s</tspan>`, w[1], w[0])
	}
	b.WriteString("</text>\n")
}

// drawLatency draws the p99 of reading, a point for each bucket of time, in the colour of its phase.
func (r *run) drawLatency(b *bytes.Buffer, p chart.Panel, x func(time.Time) float64, begin, end time.Time) {
	caption(b, p, "from when a small record was due to when its consumer had it, p99:", [2]string{"segments roll, are deleted and compacted", rollingColour}, [2]string{"control", controlColour})
	p.Times(b)
	width := max(time.Second, end.Sub(begin)/buckets)
	took := make([][]time.Duration, end.Sub(begin)/width+1)
	for _, s := range r.probe.all() {
		if i := int(s.due.Sub(begin) / width); s.kind == read && i >= 0 && i < len(took) {
			took[i] = append(took[i], s.took)
		}
	}
	for _, phase := range r.phases {
		colour := rollingColour
		if phase.control {
			colour = controlColour
		}
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, colour)
		for i := range took {
			at := begin.Add(time.Duration(i) * width)
			if !at.Before(phase.begin) && !at.Add(width).After(phase.end) && len(took[i]) > 0 {
				fmt.Fprintf(b, "%.1f,%.1f ", x(at.Add(width/2)), p.Time(chart.Percentile(took[i], 99)))
			}
		}
		b.WriteString(`"/>` + "\n")
	}
}

// drawSizes draws the largest partition of the topic that is kept by size, and its bound.
func (r *run) drawSizes(b *bytes.Buffer, p chart.Panel, x func(time.Time) float64) {
	caption(b, p, "bytes of the largest partition that is kept by retention.bytes, in MiB, with", [2]string{"retention.bytes and a segment", "#555555"})
	limit := r.o.retentionMiB + r.o.segmentMiB
	top := float64(limit) * 1.25
	p.Line(b, p.Linear(0, top), "0")
	p.Line(b, p.Linear(float64(r.o.retentionMiB), top), fmt.Sprint(r.o.retentionMiB))
	y := p.Linear(float64(limit), top)
	fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#555555" stroke-dasharray="5 3"/><text x="%d" y="%.1f" text-anchor="end">%d</text>`+"\n", p.Left, y, p.Left+p.Width, y, p.Left-6, y+4, limit)
	names := r.feeds[0].partitionsOf()
	r.drawSamples(b, p, x, sizeColour, top, func(s *sample) float64 {
		var most int64
		for _, name := range names {
			most = max(most, s.disk.live[name])
		}
		return float64(most) / (1 << 20)
	})
}

func (r *run) drawMemory(b *bytes.Buffer, p chart.Panel, x func(time.Time) float64) {
	caption(b, p, "the broker's", [2]string{"resident memory in MB", memoryColour}, [2]string{"and open files", sizeColour})
	rss := func(s *sample) float64 { return float64(s.rss) / 1e6 }
	fds := func(s *sample) float64 { return float64(s.fds) }
	top := 10.0
	for i := range r.samples {
		top = max(top, 1.2*rss(&r.samples[i]), 1.2*fds(&r.samples[i]))
	}
	for _, share := range []float64{0, 0.5, 1} {
		p.Line(b, p.Linear(share*top, top), fmt.Sprintf("%.0f", share*top))
	}
	r.drawSamples(b, p, x, memoryColour, top, rss)
	r.drawSamples(b, p, x, sizeColour, top, fds)
}

// drawSamples draws a value of each sample, the largest of each bucket.
func (r *run) drawSamples(b *bytes.Buffer, p chart.Panel, x func(time.Time) float64, colour string, top float64, value func(*sample) float64) {
	fmt.Fprintf(b, `<polyline fill="none" stroke="%s" points="`, colour)
	for some := range slices.Chunk(r.samples, max(1, len(r.samples)/buckets)) {
		most := 0.0
		for i := range some {
			most = max(most, value(&some[i]))
		}
		fmt.Fprintf(b, "%.1f,%.1f ", x(some[0].at), p.Linear(most, top))
	}
	b.WriteString(`"/>` + "\n")
}
