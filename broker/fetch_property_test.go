package broker

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/log"
	"sluice/throttle"
)

// throttledWorld is a random world of readers under one limit, or three.
type throttledWorld struct {
	rnd     *rand.Rand
	seed    uint64
	level   throttle.Level
	all     bool // the levels hold at once
	rates   [3]int64
	seconds int
	x       *topic
	readers []*reader
	largest int64   // records of a batch
	lowest  []int64 // least and highest
	highest []int64 // rate of level that held in each second
}

func newThrottledWorld(seed uint64) *throttledWorld {
	w := &throttledWorld{rnd: rand.New(rand.NewPCG(seed, 11)), seed: seed, seconds: 12}
	w.level, w.all = throttle.Level(seed%3), w.rnd.IntN(4) == 0
	w.lowest, w.highest = make([]int64, w.seconds), make([]int64, w.seconds)
	for i := range w.rates {
		w.rates[i] = 1 + w.rnd.Int64N(40)
	}
	return w
}

func (w *throttledWorld) settings() throttle.Settings {
	s := throttle.Settings{Mode: throttle.Precise}
	for level, to := range []*throttle.Policy{&s.Broker, &s.Topic, &s.Subscription} {
		if w.all || throttle.Level(level) == w.level {
			*to = msgs(w.rates[level])
		}
	}
	return s
}

// holds notes the rate that holds in a second.
func (w *throttledWorld) holds(second int) {
	rate := w.rates[w.level]
	if w.highest[second] == 0 {
		w.lowest[second] = rate
	}
	w.lowest[second], w.highest[second] = min(w.lowest[second], rate), max(w.highest[second], rate)
}

// run lets some readers read for a while, and alters the limits meanwhile.
func (w *throttledWorld) run(b *bubble, alter bool) {
	b.limit(w.settings())
	w.x = b.topic("x", 1+w.rnd.Int32N(3), nil)
	for i := range w.x.partitions() {
		for range 700 {
			n := 1 + w.rnd.IntN(4)
			w.largest = max(w.largest, int64(n))
			b.produce(w.x.partition(i), n, 1)
		}
	}
	until := time.Duration(w.seconds) * time.Second
	for i := range 2 + w.rnd.IntN(4) {
		var parts []want
		for _, p := range w.rnd.Perm(int(w.x.partitions())) {
			parts = append(parts, at(w.x, int32(p), 0))
		}
		w.readers = append(w.readers, b.read(fmt.Sprint("r", i%3), until, func(r *reader) {
			r.wait = time.Duration(w.rnd.IntN(2)*w.rnd.IntN(3000)) * time.Millisecond
			r.minBytes = int32(1 + w.rnd.IntN(2)*100_000)
			r.gap = 5 * time.Millisecond
			if i > 0 { // the first is always there
				r.gap = time.Duration(1+w.rnd.IntN(2)*w.rnd.IntN(700)) * time.Millisecond
			}
		}, parts...))
	}
	for second := range w.seconds {
		w.holds(second)
		half := time.Duration(100+w.rnd.IntN(800)) * time.Millisecond
		time.Sleep(half)
		if alter && w.rnd.IntN(3) == 0 {
			w.rates[w.rnd.IntN(3)] = 1 + w.rnd.Int64N(40)
			b.limit(w.settings())
			w.holds(second)
		}
		time.Sleep(time.Second - half)
	}
	b.readers.Wait()
}

// accounts are the records by second of each account that has the limit.
func (w *throttledWorld) accounts() map[string][]int64 {
	all := map[string][]int64{}
	for _, r := range w.readers {
		for _, g := range r.got {
			k := "broker"
			switch w.level {
			case throttle.TopicLevel:
				k = fmt.Sprint(g.partition)
			case throttle.SubscriptionLevel:
				k = fmt.Sprint(g.partition, r.w.id)
			}
			if all[k] == nil {
				all[k] = make([]int64, w.seconds)
			}
			all[k][int(g.at/time.Second)] += g.records
		}
	}
	return all
}

// Whoever reads, however many, whatever changes: in no run of seconds does more leave than the rate allows, but for less than one
// batch; and as long as somebody asks and nothing else limits, all that is allowed leaves.
func TestRatesHoldWhateverHappens(t *testing.T) {
	worlds := uint64(30)
	if testing.Short() {
		worlds = 3
	}
	for seed := range worlds {
		inBubble(t, throttle.Settings{}, func(b *bubble) {
			w := newThrottledWorld(seed)
			w.run(b, seed%2 == 0)
			accounts := w.accounts()
			if len(accounts) == 0 {
				t.Errorf("seed %d: nothing was read", seed)
			}
			for name, got := range accounts {
				w.check(t, name, got)
			}
		})
	}
}

func (w *throttledWorld) check(t *testing.T, name string, got []int64) {
	for from := range got {
		sum, allowed := int64(0), w.largest-1
		for to := from; to < len(got); to++ {
			sum += got[to]
			allowed += w.highest[to]
			if sum > allowed {
				t.Fatalf("seed %d: %v %s: %d records in the seconds %d to %d, %d are allowed: %v", w.seed, w.level, name, sum, from, to, allowed, got)
			}
		}
	}
	sum, due := int64(0), int64(0)
	for i, n := range got {
		sum += n
		due += w.lowest[i]
	}
	if !w.all && sum*100 < (due-w.largest)*99 {
		t.Errorf("seed %d: %v %s: %d records, %d were allowed: %v", w.seed, w.level, name, sum, due, got)
	}
}

// Readers of one partition get alike under its limit, be they quick or slow.
func TestEqualReadersGetAlike(t *testing.T) {
	for seed := range uint64(6) {
		inBubble(t, throttle.Settings{Topic: msgs(10), Mode: throttle.Precise}, func(b *bubble) {
			rnd := rand.New(rand.NewPCG(seed, 5))
			x := b.topic("x", 1, nil)
			for range 1300 {
				_, err := x.partition(0).Append(recordBatch(1, 1), log.AppendOptions{})
				check(t, err)
			}
			var readers []*reader
			for i := range 2 + rnd.IntN(3) {
				readers = append(readers, b.read(fmt.Sprint("r", i), 2*time.Minute, func(r *reader) {
					r.gap = time.Duration(1+rnd.IntN(2)*rnd.IntN(600)) * time.Millisecond
				}, at(x, 0, 0)))
			}
			b.readers.Wait()
			sum, squares := 0.0, 0.0
			for _, r := range readers {
				n := float64(r.total())
				sum, squares = sum+n, squares+n*n
			}
			if jain := sum * sum / squares / float64(len(readers)); jain < 0.99 || sum != 1200 {
				t.Errorf("seed %d: %v messages, fairness %.3f", seed, sum, jain)
			}
		})
	}
}
