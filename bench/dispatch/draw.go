package main

import (
	"bytes"
	"fmt"
	"html"
)

// Measures of a picture, in pixels.
const (
	barWidth   = 44
	plotHeight = 150
	plotTop    = 34
	plotLeft   = 46
)

// colours of the consumers, which are stacked in this order.
var colours = []string{"#4477aa", "#ee6677"}

// draw makes an SVG of bars, one a period, with a line at what the limit allows.
func draw(e example, r result) []byte {
	periods := len(r.series[0])
	top := e.line
	for p := range periods {
		top = max(top, r.total(p))
	}
	scale := float64(plotHeight) / float64(top)
	width, height := plotLeft+periods*barWidth+20, plotTop+plotHeight+46
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="18" font-size="14">%s</text>`+"\n", plotLeft, html.EscapeString(e.title))
	for p := range periods {
		drawPeriod(&b, r, p, scale)
	}
	base, line := plotTop+plotHeight, float64(plotTop+plotHeight)-float64(e.line)*scale
	fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#333333"/>`+"\n", plotLeft, base, width-20, base)
	fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#228833" stroke-dasharray="5 3"/>`+"\n", plotLeft, line, width-20, line)
	fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end" fill="#228833">%d</text>`+"\n", plotLeft-6, line+4, e.line)
	drawLegend(&b, r, base+36)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (r result) total(period int) (n int) {
	for _, s := range r.series {
		n += s[period]
	}
	return n
}

func drawPeriod(b *bytes.Buffer, r result, period int, scale float64) {
	x, y := plotLeft+period*barWidth+4, float64(plotTop+plotHeight)
	for i, s := range r.series {
		h := float64(s[period]) * scale
		y -= h
		fmt.Fprintf(b, `<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s"/>`+"\n", x, y, barWidth-8, h, colours[i%len(colours)])
	}
	fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="middle">%d</text>`+"\n", x+barWidth/2-4, y-4, r.total(period))
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" fill="#555555">%d s</text>`+"\n", x+barWidth/2-4, plotTop+plotHeight+16, period)
}

func drawLegend(b *bytes.Buffer, r result, y int) {
	x := plotLeft
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="#555555">messages in each second</text>`+"\n", x, y)
	x += 160
	for i, name := range r.names {
		if len(r.names) == 1 {
			return
		}
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="10" height="10" fill="%s"/><text x="%d" y="%d">group %s</text>`+"\n", x, y-9, colours[i%len(colours)], x+14, y, html.EscapeString(name))
		x += 80
	}
}
