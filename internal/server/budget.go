package server

import (
	"context"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// budget is a semaphore over bytes. It hands out in the order of asking, except that whoever already holds some
// and needs more goes first: only a frame that completes gives memory back.
//
// Frames that grow can still wait for each other when all of the budget is held by them; the stall timeout,
// which runs for a frame that has begun, ends that.
type budget struct {
	gauge prometheus.Gauge

	mu      sync.Mutex
	size    int64
	used    int64
	waiters []*claim
}

type claim struct {
	n       int64
	granted chan struct{}
}

func newBudget(size int64, gauge prometheus.Gauge) *budget {
	return &budget{size: size, gauge: gauge}
}

// try takes n bytes if nobody waits and they are there.
func (b *budget) try(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiters) > 0 || !b.fits(n) {
		return false
	}
	b.take(n)
	return true
}

// tryAhead takes n bytes for what is not needed but good to have.
func (b *budget) tryAhead(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiters) > 0 || b.used+n > b.size/aheadShare {
		return false
	}
	b.take(n)
	return true
}

// acquire waits for n bytes until ctx ends. first is for whoever holds some already.
func (b *budget) acquire(ctx context.Context, n int64, first bool) error {
	b.mu.Lock()
	if b.fits(n) && (first || len(b.waiters) == 0) {
		b.take(n)
		b.mu.Unlock()
		return nil
	}
	c := &claim{n: n, granted: make(chan struct{})}
	if first {
		b.waiters = slices.Insert(b.waiters, 0, c)
	} else {
		b.waiters = append(b.waiters, c)
	}
	b.mu.Unlock()
	select {
	case <-c.granted:
		return nil
	case <-ctx.Done():
		b.cancel(c)
		return context.Cause(ctx)
	}
}

// cancel takes a claim back, granted in the meantime or not.
func (b *budget) cancel(c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiters, c); i >= 0 {
		b.waiters = slices.Delete(b.waiters, i, i+1)
	} else {
		b.take(-c.n)
	}
	b.grant()
}

func (b *budget) release(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.take(-n)
	b.grant()
}

// fits lets one claim larger than the whole budget pass when it is alone, rather than never.
func (b *budget) fits(n int64) bool { return b.used == 0 || b.used+n <= b.size }

func (b *budget) take(n int64) {
	b.used += n
	b.gauge.Set(float64(b.used))
}

func (b *budget) grant() {
	for len(b.waiters) > 0 && b.fits(b.waiters[0].n) {
		b.take(b.waiters[0].n)
		close(b.waiters[0].granted)
		b.waiters = slices.Delete(b.waiters, 0, 1)
	}
}
