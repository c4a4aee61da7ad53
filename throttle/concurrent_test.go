package throttle

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fetchers take batches of size records by plan and reservation, n at once and each with a path of its own, until they are refused. They tell how
// many records they got.
func fetchers(n int, path func(i int, now Instant) Path, size int64, now Instant) int64 {
	var got atomic.Int64
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for {
				path := path(i, now)
				plan, _, ok := path.Plan(Cost{}, now)
				if !ok {
					return
				}
				for i := 0; i < 3 && plan.Add(size, size); i++ {
				}
				if _, _, ok := path.Reserve(plan, now); ok {
					got.Add(plan.Cost()[messages])
				}
			}
		})
	}
	all.Wait()
	return got.Load()
}

// Sixty-four fetchers at once pass the line by one batch at most, all of them together: those of one subscription, and those of as many topics under the
// broker's limit.
func TestParallelFetchers(t *testing.T) {
	for level, settings := range map[Level]Settings{
		BrokerLevel: {Broker: msgs(1000)}, TopicLevel: {Topic: msgs(1000)}, SubscriptionLevel: {Subscription: msgs(1000)},
	} {
		for size, want := range map[int64][]int64{1: {1000, 1000, 1000}, 6: {1002, 1002, 996}} {
			settings.Mode = Precise
			th := New(func(Instant) {})
			th.Configure(settings, 0)
			topics := make([]*Topic, 64)
			for i := range topics {
				topics[i] = th.Topic(fmt.Sprint(i))
			}
			path := func(i int, now Instant) Path {
				if level == BrokerLevel {
					return topics[i].Path(0, fmt.Sprint(i), now)
				}
				return topics[0].Path(0, "g", now)
			}
			for k, n := range want {
				if got := fetchers(64, path, size, after(time.Duration(k)*time.Second)); got != n {
					t.Errorf("%v, batches of %d: window %d gave %d, want %d", level, size, k, got, n)
				}
			}
		}
	}
}

// Whoever holds the locks of one topic's partition and counters holds up no other topic.
func TestTopicsDoNotLockEachOther(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Topic: msgs(10), Subscription: msgs(10), Mode: Precise}, 0)
	busy, other := th.Topic("busy"), th.Topic("other")
	path := busy.Path(0, "g", 0)
	for _, c := range path.counters[2:] {
		if c != nil {
			defer c.lockCrowd().mu.Unlock()
		}
	}
	defer busy.lock(0).mu.Unlock()
	g := reserve(t, other, "g", 10, Cost{1, 1}, 0) // hangs if not
	p := other.Path(0, "g", 0)
	_, refusal, _ := p.Plan(Cost{}, 0)
	var w Watch
	if !w.On(refusal, new(bell), 0) {
		t.Fatal("does not wait")
	}
	g.Refund(0)
	w.Cancel(0)
}

// An approximate plan is charged what it holds: once one has passed the line nobody else gets anything.
func TestParallelApproximateFetchers(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Topic: msgs(100)}, 0)
	topic := th.Topic("t")
	path := func(_ int, now Instant) Path { return topic.Path(0, "g", now) }
	if got := fetchers(64, path, 50, 0); got < 100 || got >= 100+3*50 {
		t.Errorf("%d were delivered, want 100 and at most one plan of 3 batches of 50", got)
	}
}

// Takers, refunds, a clock that goes on under them, and a pace that changes: what was kept never exceeds what the windows so far
// allowed, but for one take.
func TestTapeUnderFire(t *testing.T) {
	const biggest, most = 7, 500
	tape := newTestTape(100, time.Millisecond)
	var clock, kept, refused atomic.Int64
	var all sync.WaitGroup
	for id := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(id)))
			for range 20_000 {
				now := Instant(clock.Add(r.Int64N(200)))
				n := 1 + r.Int64N(biggest)
				m, ok := tape.take(n, 0, now)
				switch {
				case !ok:
					refused.Add(1)
				case r.IntN(8) == 0:
					back, _ := tape.refund(m, now, Instant(clock.Load()))
					kept.Add(n - back)
				default:
					kept.Add(n)
				}
				if id == 0 && r.IntN(100) == 0 {
					tape.set(newPace(1+r.Int64N(most), time.Duration(1+r.IntN(2))*time.Millisecond, -1), now)
				}
			}
		})
	}
	all.Wait()
	windows := clock.Load()/int64(time.Millisecond) + 1
	if got := kept.Load(); got > windows*most+biggest {
		t.Errorf("%d were kept in %d windows of at most %d", got, windows, most)
	}
	if kept.Load() == 0 || refused.Load() == 0 {
		t.Errorf("kept %d, refused %d: nothing was tested", kept.Load(), refused.Load())
	}
}

// Requests that look, wait and are woken on several goroutines, while the clock runs and limits change, all get their data in the
// end: no wake-up is lost.
func TestNoWakeUpIsLost(t *testing.T) {
	var clock atomic.Int64
	th := New(func(Instant) {})
	th.Configure(Settings{Broker: msgs(60), Topic: msgs(20), Subscription: msgs(7), Mode: Precise}, 0)
	topic := th.Topic("t")
	stop := make(chan struct{})
	var driver, all sync.WaitGroup
	driver.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			now := Instant(clock.Add(int64(50 * time.Millisecond)))
			th.Wake(now)
			topic.Explain(0, "a", now)
			if i%20 == 19 {
				th.Sweep(now)
			}
			if i%60 == 59 {
				topic.Configure(Policies{Subscription: msgs(int64(5 + i%3))}, now)
			}
			if i%50 == 49 {
				th.Configure(Settings{Broker: msgs(40 + int64(i%40)), Topic: msgs(20), Subscription: msgs(7), Mode: Precise}, now)
			}
		}
	})
	for id := range 6 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(id)))
			rung := make(ring, 1)
			var w Watch
			for range 100 {
				for {
					now := Instant(clock.Load())
					path := topic.Path(int32(id%2), string(rune('a'+id/2)), now)
					plan, refusal, ok := path.Plan(Cost{}, now)
					if ok {
						for i := r.IntN(5); i >= 0 && plan.Add(1, 1); i-- {
						}
						var g Grant
						if g, refusal, ok = path.Reserve(plan, now); ok {
							if r.IntN(4) == 0 {
								g.Refund(Instant(clock.Load()))
							}
							break
						}
					}
					if w.On(refusal, rung, now) {
						<-rung
					}
				}
				w.Cancel(Instant(clock.Load()))
			}
		})
	}
	all.Wait()
	close(stop)
	driver.Wait()
	if n := len(th.timers.all()); n != 0 {
		t.Errorf("%d counters still have a timer", n)
	}
}

// ring is a Waiter that remembers one fire.
type ring chan struct{}

func (r ring) Fire() {
	select {
	case r <- struct{}{}:
	default:
	}
}
