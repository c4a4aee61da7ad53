package main

import (
	"bytes"
	"fmt"
	"time"

	"sluice/bench/internal/chart"
)

// Measures of the picture, in pixels.
const (
	left, top   = 60, 40
	plotHeight  = 220
	secondWidth = 26
)

var colours = []string{"#228833", "#ee6677", "#4477aa"}

// draw makes an SVG with the 99th percentile of each second, a line a run.
func draw(runs []run, seconds int) []byte {
	panel := chart.Panel{Left: left, Top: top, Width: seconds * secondWidth, Height: plotHeight}
	var b bytes.Buffer
	chart.Begin(&b, left+panel.Width+20, top+plotHeight+60, left, "From producing a record to its arrival at a live reader, 99th percentile of each second")
	panel.Times(&b)
	for i := range runs {
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, colours[i])
		for s, p99 := range runs[i].bySecond(seconds) {
			if p99 > 0 {
				fmt.Fprintf(&b, "%d,%.1f ", left+s*secondWidth+secondWidth/2, panel.Time(p99))
			}
		}
		x := left + i*170
		fmt.Fprintf(&b, `"/><rect x="%d" y="%d" width="10" height="10" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, top+plotHeight+32, colours[i], x+14, top+plotHeight+41, runs[i].name)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#555555">seconds: 0 to %d</text>`+"\n</svg>\n", left, top+plotHeight+18, seconds)
	return b.Bytes()
}

// bySecond gives the 99th percentile of each second; 0 where nothing arrived.
func (r *run) bySecond(seconds int) []time.Duration {
	by := make([][]time.Duration, seconds)
	for _, s := range r.sights {
		if n := int(s.at / time.Second); n < seconds {
			by[n] = append(by[n], s.latency)
		}
	}
	p99 := make([]time.Duration, seconds)
	for n := range by {
		p99[n] = chart.Percentile(by[n], 99)
	}
	return p99
}
