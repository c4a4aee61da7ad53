package main

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	key := keyName(3)
	v := make([]byte, 100)
	stamp(v, 1, 2, 3, key)
	if err := check(v, 1, 2, 3, key); err != nil {
		t.Fatal(err)
	}
	for at := range v {
		v[at] ^= 1
		if err := check(v, 1, 2, 3, key); !errors.Is(err, errCRC) {
			t.Errorf("byte %d changed: %v", at, err)
		}
		v[at] ^= 1
	}
	for name, err := range map[string]error{
		"feed": check(v, 0, 2, 3, key), "partition": check(v, 1, 0, 3, key), "sequence": check(v, 1, 2, 4, key),
		"key": check(v, 1, 2, 3, keyName(4)), "no key": check(v, 1, 2, 3, nil), "cut": check(v[:99], 1, 2, 3, key), "too short": check(v[:10], 1, 2, 3, key),
	} {
		if err == nil {
			t.Errorf("%s: another one is not seen", name)
		}
	}
}

func TestKeysAreAllDrawn(t *testing.T) {
	for p := range int32(2) {
		drawn := map[int]int{}
		for seq := range int64(10_000) {
			drawn[keyOf(p, seq, 100)]++
		}
		for k := range 100 {
			if n := drawn[k]; n < 50 || n > 150 {
				t.Errorf("partition %d: key %d was drawn %d times of 10,000", p, k, n)
			}
		}
	}
}

func TestSecondOf(t *testing.T) {
	begin := time.Unix(1000, 0)
	all := []second{{at: begin, length: time.Second}, {at: begin.Add(time.Second), length: time.Second}, {at: begin.Add(5 * time.Second), length: time.Second}}
	for after, want := range map[time.Duration]int{-1: -1, 0: 0, time.Second - 1: 0, time.Second: 1, 2 * time.Second: -1, 5 * time.Second: 2, 6 * time.Second: -1} {
		if got := secondOf(all, begin.Add(after)); got != want {
			t.Errorf("after %v: %d, want %d", after, got, want)
		}
	}
}

func TestTrend(t *testing.T) {
	if got := slope([]float64{0, 1, 2, 3}, []float64{5, 7, 9, 11}); math.Abs(got-2) > 1e-9 {
		t.Errorf("slope %v", got)
	}
	if got := slope([]float64{1}, []float64{1}); got != 0 {
		t.Errorf("of one point: %v", got)
	}
	for _, c := range []struct {
		all  []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5}} {
		if got := median(c.all); got != c.want {
			t.Errorf("median of %v: %v", c.all, got)
		}
	}
}

func TestFilesOfASample(t *testing.T) {
	now := time.Unix(1000, 0)
	d := disk{live: map[string]int64{}, files: map[string]bool{}, doomed: map[string]time.Time{}}
	seen := map[string]time.Time{"a-0/1.log.deleted": now.Add(-3 * time.Second)}
	for name, size := range map[string]int64{"1.log": 10, "2.log": 20, "1.index": 3, "1.log.deleted": 4, "2.log.deleted": 5, "3.log.cleaned": 6, "3.log.swap": 7} {
		d.add("a-0", name, size, now, seen)
	}
	if d.live["a-0"] != 30 || d.waiting != 9 || d.beside != 13 || d.total != 55 || d.oldest(now) != 3*time.Second {
		t.Errorf("%+v, oldest %v", d, d.oldest(now))
	}
	before := disk{live: map[string]int64{"a-0": 10}, files: map[string]bool{"a-0/1.log": true}}
	if n := d.rolled(&before); n != 1 {
		t.Errorf("%d rolled", n)
	}
	if n := d.rolled(&disk{}); n != 0 {
		t.Errorf("of a partition that is new, %d rolled", n)
	}
}
