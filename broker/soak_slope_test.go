package broker

import (
	"math"
	"testing"
)

// TestSlope: what comes and goes has no slope, what stays has.
func TestSlope(t *testing.T) {
	hourly := func(f func(h int) int64) (all []int64) {
		for h := range 96 {
			all = append(all, f(h))
		}
		return all
	}
	for _, c := range []struct {
		name string
		of   func(h int) int64
		want float64 // percent a day
	}{
		{"flat", func(int) int64 { return 1000 }, 0},
		{"saw", func(h int) int64 { return 1000 + 100*int64(h%7) }, 0},
		{"more for a moment", func(h int) int64 { return 1000 + int64(h/95)*500 }, 0},
		{"2 % a day", func(h int) int64 { return 240_000 + 200*int64(h) }, 2},
		{"a saw that climbs", func(h int) int64 { return 240_000 + 200*int64(h) + 20*int64(h%3) }, 2},
		{"less", func(h int) int64 { return 240_000 - 100*int64(h) }, -1},
	} {
		if got := slope(hourly(c.of)); math.Abs(got-c.want) > 0.02 {
			t.Errorf("%s: %.3f %% a day, want %.0f", c.name, got, c.want)
		}
	}
}
