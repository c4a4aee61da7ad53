package broker

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/log"
)

// fakePart is a partition that has bytes, or an error, and watchers.
type fakePart struct {
	mu       sync.Mutex
	bytes    int64
	failed   bool
	watchers map[*log.Watch]bool
}

func (p *fakePart) Watch(w *log.Watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers[w] = true
}

func (p *fakePart) Unwatch(w *log.Watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watchers, w)
}

// add gives the partition bytes and fires under its lock, as a log does.
func (p *fakePart) add(n int64, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += n
	p.failed = p.failed || failed
	for w := range p.watchers {
		w.To.Fire()
	}
}

func (p *fakePart) look() (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes, p.failed
}

// fakePoll is a parkable over fake partitions. It counts what is done to it.
type fakePoll struct {
	t     testing.TB
	parts []*fakePart
	seen  []int64
	total int64
	need  int64
	ctx   context.Context

	beforePlan func() // called at the start of each plan
	mu         sync.Mutex
	busy       bool // somebody plans or looks
	plans      int
	looks      int
	answers    int
	held       bool
	answered   chan int64 // the bytes that the last plan saw
}

func newFakePoll(t testing.TB, parts int, need int64) *fakePoll {
	f := &fakePoll{t: t, need: need, ctx: context.Background(), seen: make([]int64, parts), answered: make(chan int64, 10)}
	for range parts {
		f.parts = append(f.parts, &fakePart{watchers: map[*log.Watch]bool{}})
	}
	return f
}

func (f *fakePoll) sources() int             { return len(f.parts) }
func (f *fakePoll) source(i int) watchable   { return f.parts[i] }
func (f *fakePoll) park([]watch)             {}
func (f *fakePoll) context() context.Context { return f.ctx }
func (f *fakePoll) guard(fn func())          { fn() }

// enter checks that no two goroutines work on the request at a time.
func (f *fakePoll) enter() (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy {
		f.t.Error("two goroutines work on one request")
	}
	f.busy = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.busy = false
	}
}

func (f *fakePoll) plan(last bool) bool {
	defer f.enter()()
	if f.beforePlan != nil {
		f.beforePlan()
	}
	f.plans++
	f.total = 0
	due := last
	for i, p := range f.parts {
		n, failed := p.look()
		f.seen[i] = n
		f.total += n
		due = due || failed
	}
	due = due || f.total >= f.need
	f.held = due
	return due
}

func (f *fakePoll) promise(moved []int) bool {
	defer f.enter()()
	due := false
	for _, i := range moved {
		f.looks++
		n, failed := f.parts[i].look()
		f.total += n - f.seen[i]
		f.seen[i] = n
		due = due || failed
	}
	return due || f.total >= f.need
}

func (f *fakePoll) answer() {
	if !f.held {
		f.t.Error("an answer without a plan")
	}
	if f.answers++; f.answers > 1 {
		f.t.Error("answered twice")
	}
	f.answered <- f.total
}

// unwatched checks that nothing watches any more.
func (f *fakePoll) unwatched() {
	f.t.Helper()
	for i, p := range f.parts {
		if len(p.watchers) > 0 {
			f.t.Errorf("partition %d is still watched", i)
		}
	}
}

func TestParkCompletions(t *testing.T) {
	for _, c := range []struct {
		name  string
		wait  time.Duration
		act   func(f *fakePoll, cancel func())
		after time.Duration // when the answer comes
		bytes int64
	}{
		{"A at once", time.Hour, func(f *fakePoll, _ func()) { f.parts[0].bytes = 10 }, 0, 10},
		{"no wait", 0, func(f *fakePoll, _ func()) {}, 0, 0},
		{"A in steps", time.Hour, func(f *fakePoll, _ func()) {
			f.parts[2].bytes = 3
			for i := range 7 {
				time.AfterFunc(time.Duration(i+1)*time.Second, func() { f.parts[i%3].add(1, false) })
			}
		}, 7 * time.Second, 10},
		{"A between the looks", time.Hour, func(f *fakePoll, _ func()) {
			f.beforePlan = func() {
				if f.plans == 1 {
					f.parts[1].bytes = 10 // before the watch: no fire
				}
			}
		}, 0, 10},
		{"B", time.Hour, func(f *fakePoll, _ func()) {
			time.AfterFunc(time.Second, func() { f.parts[1].add(0, true) })
		}, time.Second, 0},
		{"C", 5 * time.Second, func(f *fakePoll, _ func()) { f.parts[1].bytes = 4 }, 5 * time.Second, 4},
		{"D and E", time.Hour, func(f *fakePoll, cancel func()) { time.AfterFunc(time.Second, cancel) }, time.Second, 0},
		{"E before", time.Hour, func(f *fakePoll, cancel func()) { cancel() }, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakePoll(t, 3, 10)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				f.ctx = ctx
				c.act(f, cancel)
				start := time.Now()
				await(f, c.wait)
				if got := <-f.answered; got != c.bytes || time.Since(start) != c.after {
					t.Errorf("%d bytes after %v", got, time.Since(start))
				}
				f.parts[0].add(100, true) // nobody may notice
				cancel()
				time.Sleep(2 * time.Hour)
				f.unwatched()
			})
		})
	}
}

// Fires that come while the request is looked at are not lost and start no second look.
func TestParkFireWhilePlanning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakePoll(t, 2, 10)
		f.beforePlan = func() {
			if f.plans == 1 { // watched, and about to look the second time
				f.parts[0].add(3, false)
				f.parts[1].add(3, false)
				time.AfterFunc(time.Second, func() { f.parts[0].add(4, false) })
			}
		}
		start := time.Now()
		await(f, time.Hour)
		if got := <-f.answered; got != 10 || time.Since(start) != time.Second {
			t.Errorf("%d bytes after %v", got, time.Since(start))
		}
	})
}

// A thousand partitions of which one moves a thousand times cost a look each time, not a plan of all.
func TestParkManyPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakePoll(t, 1000, 1000)
		await(f, time.Hour)
		for range 1000 {
			f.parts[500].add(1, false)
			synctest.Wait()
		}
		if got := <-f.answered; got != 1000 || f.plans != 3 || f.looks != 1000 {
			t.Errorf("%d bytes, %d plans, %d looks", got, f.plans, f.looks)
		}
		f.unwatched()
	})
}

// Random appends, cancellations and deadlines from many goroutines: one answer, with enough unless it was ended.
func TestParkRandom(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		f := newFakePoll(t, 1+rnd.IntN(5), int64(1+rnd.IntN(20)))
		ctx, cancel := context.WithCancel(context.Background())
		f.ctx = ctx
		wait := time.Hour
		if rnd.IntN(3) == 0 {
			wait = time.Duration(rnd.IntN(300)) * time.Microsecond
		}
		var wg sync.WaitGroup
		for range 4 {
			adds := rnd.Perm(20)
			wg.Go(func() {
				for _, n := range adds {
					f.parts[n%len(f.parts)].add(int64(n%3), false)
				}
			})
		}
		if rnd.IntN(3) == 0 {
			wg.Go(cancel)
		}
		await(f, wait)
		wg.Wait()
		if got := <-f.answered; got < f.need && wait == time.Hour && ctx.Err() == nil {
			t.Errorf("seed %d: answered with %d of %d bytes", seed, got, f.need)
		}
		cancel()
		f.unwatched()
	}
}
