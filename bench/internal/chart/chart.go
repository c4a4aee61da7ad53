// Package chart has what the pictures of the programs beside it share: percentiles, and SVG with times on a logarithmic scale.
package chart

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"time"
)

// Percentile is the nearest rank of p in a hundred; 0 of nothing. It sorts all.
func Percentile(all []time.Duration, p float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	rank := int(math.Ceil(p * float64(len(all)) / 100))
	return all[max(0, rank-1)].Round(10 * time.Microsecond)
}

// Begin writes the head of an SVG with a white ground and a title. End it with </svg>.
func Begin(b *bytes.Buffer, width, height, left int, title string) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(b, `<rect width="%d" height="%d" fill="#ffffff"/><text x="%d" y="20" font-size="14">%s</text>`+"\n", width, height, left, title)
}

// Panel is a part of a picture where something is drawn, in pixels.
type Panel struct{ Left, Top, Width, Height int }

// Line draws a level line across the panel with a label at its left.
func (p Panel) Line(b *bytes.Buffer, y float64, label string) {
	fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", p.Left, y, p.Left+p.Width, y, p.Left-6, y+4, label)
}

// Linear is the height of v where the panel's top stands for top.
func (p Panel) Linear(v, top float64) float64 {
	return float64(p.Top+p.Height) - min(max(v/top, 0), 1)*float64(p.Height)
}

// The scale of times goes from 0.1 ms over five decades to 10 s.
const (
	leastTime = 100 * time.Microsecond
	decades   = 5
)

// Time is the height of a time.
func (p Panel) Time(d time.Duration) float64 {
	return p.Linear(math.Log10(float64(d)/float64(leastTime)), decades)
}

// Times draws the lines of the scale of times.
func (p Panel) Times(b *bytes.Buffer) {
	d := leastTime
	for range decades + 1 {
		p.Line(b, p.Time(d), d.String())
		d *= 10
	}
}
