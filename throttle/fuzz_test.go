package throttle

import (
	"strings"
	"testing"
	"time"
)

// plainTape is a tape as one would tell it: a number of units used in this window, debts included, and a visit to every window.
type plainTape struct {
	units    int64
	used     int64 // debt that the window began with, and what was taken in it
	forgiven int64 // of what was taken in it
	peak     int64
	window   int64
}

func (p *plainTape) advance(window int64) {
	for ; p.window < window; p.window++ {
		p.used, p.forgiven, p.peak = max(0, p.used-p.units), 0, p.units
	}
}

func (p *plainTape) set(units int64) {
	p.peak = max(p.peak, units)
	real := p.used + p.forgiven
	p.used = min(real, units) + max(0, real-p.peak)
	p.forgiven, p.units = real-p.used, units
}

// Whatever is taken, when, and at which paces: the tape has what the plain one has.
func FuzzTape(f *testing.F) {
	f.Add([]byte{0, 11, 0, 1, 5, 0, 2, 40, 1, 3, 7, 2, 0, 200, 1, 1})
	f.Add([]byte{3, 1, 0, 250, 1, 9, 3, 200, 0, 3, 1, 1, 3, 5, 3, 100})
	f.Fuzz(func(t *testing.T, ops []byte) {
		const period = 100
		tape := &tape{}
		tape.init(newPace(10, period, -1), 0)
		plain := &plainTape{units: 10, peak: 10}
		now := Instant(0)
		for ; len(ops) >= 2; ops = ops[2:] {
			n := int64(ops[1])
			switch ops[0] % 4 {
			case 0:
				if _, ok := tape.take(n, 0, now); ok != (plain.used < plain.units) {
					t.Fatalf("at %d: took %d: %v; %+v", now, n, ok, plain)
				} else if ok {
					plain.used += n
				}
			case 1:
				now += Instant(n)
				plain.advance(int64(now) / period)
			case 2:
				if m, ok := tape.take(n, 0, now); ok { // and never was
					tape.refund(m, now, now)
				}
			case 3:
				tape.set(newPace(1+n, period, -1), now)
				if plain.units != 1+n {
					plain.set(1 + n)
				}
			}
			if got, want := tape.look(now).balance(), plain.units-plain.used; got != want {
				t.Fatalf("at %d after op %d of %d: balance %d, want %d", now, ops[0]%4, n, got, want)
			}
		}
	})
}

// The longest namespace that a topic is in, found by looking at all of them.
func FuzzNamespace(f *testing.F) {
	f.Add("orders.eu.retry", "orders orders.eu other", ".")
	f.Add("a--b-", "a a- a-- a--b", "-")
	f.Add("ab", "a ab abc", ".")
	f.Add("0000000000000", "0", "00000")
	f.Fuzz(func(t *testing.T, topic, prefixes, delimiter string) {
		if delimiter == "" {
			return
		}
		s := Settings{Namespaces: map[string]Policies{}, Delimiter: delimiter}
		longest := ""
		for _, prefix := range strings.Fields(prefixes) {
			s.Namespaces[prefix] = Policies{Topic: Policy{Period: time.Minute}}
			if topic == prefix || strings.HasPrefix(topic, prefix+delimiter) {
				if len(prefix) > len(longest) {
					longest = prefix
				}
			}
		}
		th := New(func(Instant) {})
		th.Configure(s, 0)
		if got := th.Topic(topic).Explain(0, "", 0).Levels[TopicLevel].Namespace; got != longest {
			t.Fatalf("%q is in %q, want %q", topic, got, longest)
		}
	})
}
