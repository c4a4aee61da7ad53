package main

import (
	"bytes"
	"fmt"
	"math"
	"time"
)

// Measures of the picture, in pixels.
const (
	left, top   = 60, 40
	plotHeight  = 220
	secondWidth = 26
)

var colours = []string{"#228833", "#ee6677", "#4477aa"}

// draw makes an SVG with the 99th percentile of each second, a line a run, on a logarithmic scale from 0.1 ms to 10 s.
func draw(runs []run, seconds int) []byte {
	width, height := left+seconds*secondWidth+20, top+plotHeight+60
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/><text x="%d" y="20" font-size="14">From producing a record to its arrival at a live reader, 99th percentile of each second</text>`+"\n", width, height, left)
	for _, d := range []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second} {
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/><text x="%d" y="%.1f" text-anchor="end">%v</text>`+"\n", left, y(d), width-20, y(d), left-6, y(d)+4, d)
	}
	for i := range runs {
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, colours[i])
		for s, p99 := range runs[i].bySecond(seconds) {
			if p99 > 0 {
				fmt.Fprintf(&b, "%d,%.1f ", left+s*secondWidth+secondWidth/2, y(p99))
			}
		}
		x := left + i*170
		fmt.Fprintf(&b, `"/><rect x="%d" y="%d" width="10" height="10" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, top+plotHeight+32, colours[i], x+14, top+plotHeight+41, runs[i].name)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#555555">seconds: 0 to %d</text>`+"\n</svg>\n", left, top+plotHeight+18, seconds)
	return b.Bytes()
}

// y is the height of a time.
func y(d time.Duration) float64 {
	const decades = 5
	at := math.Log10(float64(d) / float64(100*time.Microsecond))
	return top + plotHeight - min(max(at/decades, 0), 1)*plotHeight
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
		p99[n] = percentile(by[n], 99)
	}
	return p99
}
