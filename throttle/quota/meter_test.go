package quota

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func meterOf(k Kind, rate float64) *Meter {
	return limits(k, map[Entity]float64{{User: Named("u")}: rate}).Client("u", "", 0).Meter(k)
}

func TestUse(t *testing.T) {
	m := meterOf(Produce, 1000) // 10,000 at once
	for _, tt := range []struct {
		at   float64
		n    float64
		want time.Duration
	}{
		{0, 10_000, 0},
		{0, 1, time.Millisecond},
		{0, 4999, 5 * time.Second},
		{5, 0, 0},
		{5, 30_000, 30 * time.Second}, // all of it is paid, and no more
		{35, 0, 0},
		{100, 10_000, 0}, // idle time saves a window's worth and not more
		{100, 500, 500 * time.Millisecond},
		{99, 500, time.Second}, // a clock that went back
	} {
		if got := m.Use(tt.n, Instant(tt.at*float64(second))); got != tt.want {
			t.Errorf("at %v, %v: held for %v, want %v", tt.at, tt.n, got, tt.want)
		}
	}
	if s := m.state(101 * second); s.Used != 56_000 || s.Waits != 5 || s.Left != 0 {
		t.Errorf("%+v", s)
	}
}

func TestTake(t *testing.T) {
	m := meterOf(Fetch, 1000)
	for _, tt := range []struct {
		at      float64
		n       float64
		patient bool
		want    time.Duration
		ok      bool
	}{
		{0, 4000, false, 0, true},
		{0, 7000, false, time.Second, false},
		{0, 6000, false, 0, true},
		{0.5, 7000, false, 6500 * time.Millisecond, false},
		{0.5, 7000, true, 0, true}, // who has waited goes into debt
		{0.5, 1, true, 6501 * time.Millisecond, false},
		{7, 1, true, 0, true},
		{17, 50_000, false, time.Millisecond, false}, // larger than the quota ever admits: all of it must be free
		{17.001, 50_000, false, 0, true},
		{17.001, 1, false, 40_001 * time.Millisecond, false},
	} {
		wait, ok := m.Take(tt.n, tt.patient, Instant(tt.at*float64(second)))
		if near := (wait - tt.want).Abs() <= time.Millisecond; !near || ok != tt.ok {
			t.Errorf("at %v, %v, patient %v: %v, held for %v, want %v, %v", tt.at, tt.n, tt.patient, ok, wait, tt.ok, tt.want)
		}
	}
}

func TestAdmit(t *testing.T) {
	m := meterOf(Mutation, 2) // 22 at once: all samples count
	for _, tt := range []struct {
		at   float64
		n    float64
		want time.Duration
		ok   bool
	}{{0, 22, 0, true}, {0, 10, 0, true}, {0, 1, 5 * time.Second, false}, {5, 1, 0, true}, {5, 1, 500 * time.Millisecond, false}} {
		if wait, ok := m.Admit(tt.n, Instant(tt.at*float64(second))); wait != tt.want || ok != tt.ok {
			t.Errorf("at %v, %v: %v, %v", tt.at, tt.n, ok, wait)
		}
	}
}

// Request time is held for a sample at most; nothing is held longer than the protocol can say.
func TestLongest(t *testing.T) {
	if got := meterOf(Request, 1).Use(1e9, 0); got != time.Second {
		t.Errorf("request time: %v", got)
	}
	if got := meterOf(Produce, 1e-7).Use(1e12, 0); got != MaxWait || int64(int32(got.Milliseconds())) != got.Milliseconds() {
		t.Errorf("bytes: %v", got)
	}
}

// 50 KB/s are 3 MB in a minute, and at the beginning a window's worth.
func TestMinute(t *testing.T) {
	const rate, request = 50_000, 1000
	for _, kind := range []Kind{Produce, Fetch} {
		m, sum := meterOf(kind, rate), 0.0
		for now := Instant(0); now < 60*second; {
			if kind == Produce {
				sum += request
				now += Instant(m.Use(request, now))
				continue
			}
			wait, ok := m.Take(request, false, now)
			if now += Instant(wait); ok {
				sum += request
			}
		}
		if window := 10.0 * rate; math.Abs(sum-60*rate-window) > 0.01*60*rate {
			t.Errorf("%v: %v bytes in a minute", kind, sum)
		}
	}
}

// Whatever the rates and the sizes of requests are: clients that wait as long as they are told never get more than their quota and what may be
// used at once, and while they ask they get almost all of it, each of them.
func TestLongRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]Kind{Produce, Fetch}).Draw(t, "kind")
		m := meterOf(kind, math.Exp(rapid.Float64Range(0, 20).Draw(t, "log rate")))
		full, largest, rng := m.full(), 0.0, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		type client struct {
			at      Instant
			refused int // in a row
			size    float64
			got     float64
		}
		clients := make([]client, rapid.IntRange(1, 4).Draw(t, "clients"))
		for i := range clients {
			clients[i].size = full * math.Exp(rapid.Float64Range(-6, 3).Draw(t, "log size"))
			largest = max(largest, clients[i].size)
		}
		// As long as every client gets twenty of the largest requests.
		length := float64(len(clients)) * max(2000, 20*largest/m.rate)
		end, sum := Instant(length*float64(second)), 0.0
		for steps := 0; ; steps++ {
			c := &clients[0]
			for i := range clients {
				if clients[i].at < c.at {
					c = &clients[i]
				}
			}
			if c.at >= end {
				break
			}
			wait, ok := time.Duration(0), true
			if kind == Produce {
				wait = m.Use(c.size, c.at)
			} else {
				wait, ok = m.Take(c.size, c.refused >= 2, c.at)
			}
			c.refused++
			if ok {
				c.refused, sum, c.got = 0, sum+c.size, c.got+c.size
			}
			c.at += Instant(wait) + Instant(time.Millisecond) + Instant(rng.Int64N(int64(time.Millisecond))) // the way there and back
		}
		// Beyond the rate: a window at the beginning, and at the end a debt that is still to be paid, of each client one request.
		if most := m.rate*length + 2*full + float64(len(clients))*largest; sum > most {
			t.Fatalf("%v in %v s at %v/s with %v at once", sum, length, m.rate, full)
		}
		demand := 0.0
		for _, c := range clients {
			demand += c.size * 500 // one request in two milliseconds
		}
		if least := 0.99 * min(m.rate, demand) * length; sum < least {
			t.Fatalf("only %v of %v in %v s", sum, m.rate*length, length)
		}
		for i, c := range clients {
			if c.got == 0 {
				t.Fatalf("client %d of %d got nothing, size %v", i, len(clients), c.size)
			}
		}
	})
}

func TestParseKind(t *testing.T) {
	for k := Produce; k <= Connection; k++ {
		for _, ip := range []bool{false, true} {
			if got, ok := ParseKind(k.String(), ip); ok != (ip == (k == Connection)) || ok && got != k {
				t.Errorf("%v of an address %v: %v, %v", k, ip, got, ok)
			}
		}
	}
	if _, ok := ParseKind("bogus", false); ok {
		t.Error("bogus is a kind")
	}
}
