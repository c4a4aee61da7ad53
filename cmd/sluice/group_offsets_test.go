package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestResetTarget(t *testing.T) {
	b := bounds{start: 10, end: 20, atTime: 15}
	at := func(n int64) *int64 { return &n }
	tests := map[string]struct {
		target  resetTarget
		current *int64
		want    int64
		err     error
	}{
		"earliest":                 {resetTarget{kind: toEarliest}, at(12), 10, nil},
		"latest":                   {resetTarget{kind: toLatest}, at(12), 20, nil},
		"current":                  {resetTarget{kind: toCurrent}, at(12), 12, nil},
		"current, none":            {resetTarget{kind: toCurrent}, nil, 20, nil},
		"offset":                   {resetTarget{toOffset, 17}, nil, 17, nil},
		"offset before the log":    {resetTarget{toOffset, 1}, nil, 1, nil},
		"time":                     {resetTarget{toTime, 99}, at(12), 15, nil},
		"shift":                    {resetTarget{shiftBy, 3}, at(12), 15, nil},
		"shift back":               {resetTarget{shiftBy, -3}, at(12), 9, nil},
		"shift, none":              {resetTarget{shiftBy, 3}, nil, 0, errNothingToShift},
		"shift beyond all offsets": {resetTarget{shiftBy, math.MaxInt64}, at(12), math.MaxInt64, nil},
		"shift before all offsets": {resetTarget{shiftBy, math.MinInt64}, at(12), math.MinInt64 + 12, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tc.target.offset(b, tc.current)
			if got != tc.want || err != tc.err {
				t.Errorf("%d, %v; want %d, %v", got, err, tc.want, tc.err)
			}
		})
	}
}

// TestShiftedKeepsOrder: to shift further never leads to an earlier offset, at any number.
func TestShiftedKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Min(0).Draw(t, "offset")
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		if a <= b && shifted(offset, a) > shifted(offset, b) {
			t.Errorf("by %d to %d, by %d to %d", a, shifted(offset, a), b, shifted(offset, b))
		}
		if (shifted(offset, a) > offset) != (a > 0) && offset != math.MaxInt64 {
			t.Errorf("by %d to %d", a, shifted(offset, a))
		}
	})
}

func TestSetLag(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	tests := map[string]struct {
		current, end *int64
		lag          string
		seconds      string
	}{
		"behind":             {n(3), n(5), "2", "-"},
		"caught up":          {n(5), n(5), "0", "0"},
		"beyond the end":     {n(9), n(5), "0", "0"},
		"never committed":    {nil, n(5), "-", "-"},
		"no such topic":      {n(3), nil, "-", "-"},
		"nothing of nothing": {n(0), n(0), "0", "0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := groupOffset{Current: tc.current, End: tc.end}
			o.setLag()
			if known(o.Lag) != tc.lag || o.lagSeconds() != tc.seconds {
				t.Errorf("lag %s, seconds %s", known(o.Lag), o.lagSeconds())
			}
		})
	}
}

func TestSetLagTime(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	for age, want := range map[time.Duration]string{
		1500 * time.Millisecond: "1.5", time.Hour: "3600", 1234567 * time.Nanosecond: "0.001", -time.Second: "0", 0: "0",
	} {
		var o groupOffset
		o.setLagTime(now.Add(-age), now)
		if o.lagSeconds() != want {
			t.Errorf("age %v prints %s, want %s", age, o.lagSeconds(), want)
		}
	}
}

func TestParseTopicPartitions(t *testing.T) {
	for text, want := range map[string]string{"orders": "orders:-", "a.b-c_d:0": "a.b-c_d:0", "t:3,0,1": "t:3,0,1"} {
		var got topicPartitions
		if err := got.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		m := groupMember{Assignment: []memberAssignment{{got.topic, got.partitions}}}
		if printed := m.assignment(); strings.TrimSuffix(want, "-") != printed {
			t.Errorf("%q became %q", text, printed)
		}
	}
	for _, text := range []string{"", ":0", "t:", "t:x", "t:-1", "t:0,", "t:99999999999", "t:0:1", "t:1-3"} {
		if err := new(topicPartitions).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"P1DT2H30M": 26*time.Hour + 30*time.Minute, "PT0.5S": 500 * time.Millisecond, "P7D": 168 * time.Hour, "pt1h": time.Hour,
		"26h30m": 26*time.Hour + 30*time.Minute, "0s": 0, "P0D": 0,
	} {
		var d isoDuration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.Duration != want {
			t.Errorf("%q: %v, %v; want %v", text, d.Duration, err, want)
		}
	}
	for _, text := range []string{"", "P", "PT", "1", "P1Y", "P1H", "PT1D", "-1h", "P106752D", "P106751DT24H", "P99999999999999999999D", "PT9999999999999H"} {
		if err := new(isoDuration).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestReadOffsets(t *testing.T) {
	got, err := readOffsets(strings.NewReader("orders,0,12\n\norders,1, 0\r\naudit,0,9223372036854775807\n"))
	if err != nil || len(got) != 3 || got[partition{"orders", 0}] != 12 || got[partition{"audit", 0}] != math.MaxInt64 {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"":                           "no lines",
		"t,0,1\nt,0\n":               "line 2",
		"t,0,1\nt,1,-1\n":            "line 2",
		"t,x,1\n":                    "line 1",
		"t,-1,1\n":                   "line 1",
		",0,1\n":                     "line 1",
		"t,0,1\nu,0,1\nt,0,2":        "line 3",
		"g,t,0,1\n":                  "line 1",
		"t,0,99999999999999999999\n": "line 1",
		"t,\"0,1\n":                  "line 1",
	} {
		if _, err := readOffsets(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
