package broker

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/internal/crashtest"
	"sluice/log"
	"sluice/throttle"
)

// throttledWorld is a random world of readers under one limit, or all six.
type throttledWorld struct {
	b       *bubble
	rnd     *rand.Rand
	seed    uint64
	level   throttle.Level
	unit    throttle.Unit
	all     bool // the limits hold at once
	tails   bool // those at the end are exempt
	mode    throttle.Mode
	modes   []modeChange
	rates   [3][2]int64
	period  time.Duration
	windows int
	x       *topic
	readers []*worldReader
	lowest  []int64 // least and highest
	highest []int64 // rate of the limit that held in each window
}

// modeChange is since when messages are counted in a way.
type modeChange struct {
	since time.Duration
	mode  throttle.Mode
}

// worldReader is a reader and what it stands for.
type worldReader struct {
	*reader
	stays bool // from the beginning to the end
}

// unitBytes is how many bytes count as a message where bytes are limited: about a batch of one.
const unitBytes = 80

func newThrottledWorld(b *bubble, seed uint64) *throttledWorld {
	w := &throttledWorld{b: b, rnd: rand.New(rand.NewPCG(seed, 11)), seed: seed, windows: 12}
	w.level, w.all, w.tails = throttle.Level(seed%3), w.rnd.IntN(4) == 0, w.rnd.IntN(3) == 0
	w.unit, w.mode = throttle.Unit(w.rnd.IntN(2)), throttle.Mode(w.rnd.IntN(3))
	w.period = time.Duration(1+w.rnd.IntN(2)*w.rnd.IntN(3)) * time.Second
	w.lowest, w.highest = make([]int64, w.windows), make([]int64, w.windows)
	for i := range w.rates {
		w.rates[i] = [2]int64{w.rate(), w.rate() * unitBytes}
	}
	return w
}

func (w *throttledWorld) rate() int64 { return 1 + w.rnd.Int64N(40) }

// modeAt is how messages were counted at a time.
func (w *throttledWorld) modeAt(at time.Duration) (mode throttle.Mode) {
	for _, c := range w.modes {
		if c.since <= at {
			mode = c.mode
		}
	}
	return mode
}

func (w *throttledWorld) settings() throttle.Settings {
	s := throttle.Settings{Mode: w.mode, Period: w.period, ExemptTail: w.tails}
	for level, to := range []*throttle.Policy{&s.Broker, &s.Topic, &s.Subscription} {
		for unit, rate := range []*throttle.Rate{&to.Messages, &to.Bytes} {
			if w.all || throttle.Level(level) == w.level && throttle.Unit(unit) == w.unit {
				*rate = throttle.PerPeriod(w.rates[level][unit])
			}
		}
	}
	return s
}

// holds notes the rate that holds in a window.
func (w *throttledWorld) holds(window int) {
	rate := w.rates[w.level][w.unit]
	if w.highest[window] == 0 {
		w.lowest[window] = rate
	}
	w.lowest[window], w.highest[window] = min(w.lowest[window], rate), max(w.highest[window], rate)
}

// until is when the world ends.
func (w *throttledWorld) until() time.Duration { return time.Duration(w.windows) * w.period }

// run lets some readers read for a while, and alters the limits and the way of counting meanwhile.
func (w *throttledWorld) run(alter bool) {
	w.modes = []modeChange{{0, w.mode}}
	w.b.limit(w.settings())
	w.x = w.b.topic("x", 1+w.rnd.Int32N(3), nil)
	for i := range w.x.partitions() {
		for range 700 {
			w.b.produce(w.x.partition(i), 1+w.rnd.IntN(4), 1)
		}
	}
	for i := range 2 + w.rnd.IntN(4) {
		w.reader(i)
	}
	if w.tails {
		w.tail()
	}
	for window := range w.windows {
		w.holds(window)
		half := w.period/10 + time.Duration(w.rnd.Int64N(int64(w.period*8/10)))
		time.Sleep(half)
		if alter && w.rnd.IntN(3) == 0 {
			w.rates[w.rnd.IntN(3)] = [2]int64{w.rate(), w.rate() * unitBytes}
			if w.rnd.IntN(3) == 0 {
				w.mode = throttle.Mode(w.rnd.IntN(3))
				w.modes = append(w.modes, modeChange{time.Since(w.b.born), w.mode})
			}
			w.b.limit(w.settings())
			w.holds(window)
		}
		time.Sleep(w.period - half)
	}
	w.b.readers.Wait()
}

// reader starts a reader of the backlog. The first is always there and quick; others may come late, and go without a word.
func (w *throttledWorld) reader(i int) {
	var parts []want
	for _, p := range w.rnd.Perm(int(w.x.partitions())) {
		parts = append(parts, at(w.x, int32(p), 0))
	}
	x := &worldReader{stays: i == 0 || w.rnd.IntN(2) == 0}
	begin, end := time.Duration(0), w.until()
	if !x.stays {
		begin = w.period * time.Duration(w.rnd.IntN(w.windows)) // when those of its group begin
		end = min(end, begin+time.Duration(w.rnd.Int64N(int64(end))))
	}
	x.reader = w.b.read(fmt.Sprint("r", i%3), end, func(r *reader) {
		r.wait = time.Duration(w.rnd.IntN(2)*w.rnd.IntN(3000)) * time.Millisecond
		r.minBytes = int32(1 + w.rnd.IntN(2)*100_000)
		r.gap = 5 * time.Millisecond
		if i > 0 {
			r.gap = time.Duration(1+w.rnd.IntN(2)*w.rnd.IntN(700)) * time.Millisecond
		}
		r.begin, r.until = begin, w.until() // what comes when it has gone counts
	}, parts...)
	w.readers = append(w.readers, x)
}

// tail feeds the first partition and has a reader at its end, which is exempt: it gets all at once.
func (w *throttledWorld) tail() {
	const interval = 50 * time.Millisecond
	o, err := w.x.partition(0).Offsets()
	check(w.b.t, err)
	w.b.feed(w.x.partition(0), interval, w.until()-time.Second)
	r := w.b.read("tail", w.until(), nil, at(w.x, 0, o.High))
	w.b.t.Cleanup(func() {
		if fed := int64((w.until() - time.Second - 1) / interval); r.total() != fed {
			w.b.t.Errorf("seed %d: the reader at the end got %d of %d", w.seed, r.total(), fed)
		}
	})
}

// charge is what an answer costs the limit, and how much of that could not have been cut off.
func (w *throttledWorld) charge(g readerGot, mode throttle.Mode) (n, atOnce int64) {
	const largestBatch, most = 4, 200 // records and bytes
	switch {
	case w.unit == throttle.Bytes:
		return int64(g.bytes), most
	case mode == throttle.Batches:
		return int64(g.batches), 1
	case mode == throttle.Approximate:
		return g.records, g.records
	}
	return g.records, largestBatch
}

// worldAccount is what left by window through what has the limit, and the most that left at once and could not be cut.
type worldAccount struct {
	left    []int64
	largest int64
	stays   bool // somebody reads all the time
}

func (w *throttledWorld) accounts() map[string]*worldAccount {
	all := map[string]*worldAccount{}
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
				all[k] = &worldAccount{left: make([]int64, w.windows)}
			}
			n, atOnce := w.charge(g, w.modeAt(g.at))
			all[k].left[int(g.at/w.period)] += n
			all[k].largest = max(all[k].largest, atOnce)
			all[k].stays = all[k].stays || r.stays
		}
	}
	return all
}

// Whoever reads, however many, whatever changes and however it is counted: in no run of windows does more leave than the limit allows, but for less than
// one batch; and as long as somebody asks and nothing else limits, all that is allowed leaves.
func TestRatesHoldWhateverHappens(t *testing.T) {
	worlds, first := crashtest.Env("SLUICE_WORLDS", 40), crashtest.Env("SLUICE_WORLDS_SEED", 0)
	if testing.Short() {
		worlds = 6
	}
	for seed := first; seed < first+worlds; seed++ {
		inBubble(t, throttle.Settings{}, func(b *bubble) {
			w := newThrottledWorld(b, seed)
			w.run(seed%2 == 0)
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

func (w *throttledWorld) check(t *testing.T, name string, got *worldAccount) {
	over := int64(0)
	for i, n := range got.left {
		if over = max(0, over+n-w.highest[i]); over >= max(1, got.largest) {
			t.Fatalf("seed %d: %v %v %s: %d more than allowed by window %d: %v", w.seed, w.level, w.unit, name, over, i, got.left)
		}
	}
	sum, due := int64(0), int64(0)
	for i, n := range got.left {
		sum += n
		due += w.lowest[i]
	}
	if got.stays && !w.all && sum*100 < (due-got.largest)*99 {
		t.Errorf("seed %d: %v %v %s: %d were delivered, %d were allowed: %v", w.seed, w.level, w.unit, name, sum, due, got.left)
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

// Who takes little at a time, because its answers have no more room, is not taken for one that has caught up: the rest of its share is kept for it while
// it is away.
func TestSmallAnswersKeepTheirShare(t *testing.T) {
	inBubble(t, throttle.Settings{Topic: msgs(10), Mode: throttle.Precise}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 700, 1, 10)
		quick := b.read("quick", time.Minute, nil, at(x, 0, 0))
		small := b.read("small", time.Minute, func(r *reader) { r.gap = 80 * time.Millisecond }, want{x, 0, 0, 1, -1, -1})
		b.readers.Wait()
		if a, b := quick.total(), small.total(); a+b != 600 || b < 290 || b > 310 {
			t.Errorf("%d and %d of 600", a, b)
		}
	})
}
