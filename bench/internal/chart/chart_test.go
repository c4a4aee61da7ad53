package chart

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	var all []time.Duration
	for i := 1000; i > 0; i-- {
		all = append(all, time.Duration(i)*time.Millisecond)
	}
	for _, c := range []struct {
		p    float64
		want time.Duration
	}{{0, time.Millisecond}, {50, 500 * time.Millisecond}, {99, 990 * time.Millisecond}, {99.9, 999 * time.Millisecond}, {100, time.Second}} {
		if got := Percentile(all, c.p); got != c.want {
			t.Errorf("percentile %v: %v, want %v", c.p, got, c.want)
		}
	}
	if got := Percentile(nil, 99); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestScales(t *testing.T) {
	p := Panel{Left: 10, Top: 20, Width: 100, Height: 50}
	for _, c := range []struct {
		d    time.Duration
		want float64
	}{{0, 70}, {100 * time.Microsecond, 70}, {time.Millisecond, 60}, {10 * time.Second, 20}, {time.Hour, 20}} {
		if got := p.Time(c.d); got != c.want {
			t.Errorf("%v at %v, want %v", c.d, got, c.want)
		}
	}
	if got := p.Linear(5, 10); got != 45 {
		t.Errorf("half at %v", got)
	}
}
