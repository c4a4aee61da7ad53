package throttle

import "sync"

// timers are the counters with waiters, by when each opens next. There is one entry a counter and not one a waiter: a counter that
// opens invites as many as it has something for, and a broker needs one real timer for all of them.
type timers struct {
	mu    sync.Mutex
	queue queue[*timer]
	arm   func(at Instant) // told when the earliest instant became earlier
}

// timer is a counter's entry.
type timer struct {
	counter *Counter
	at      Instant
	place   int32
}

func newTimers(arm func(Instant)) timers {
	return timers{arm: arm, queue: queue[*timer]{
		less:  func(a, b *timer) bool { return a.at < b.at },
		place: func(t *timer) *int32 { return &t.place },
	}}
}

func (q *timers) put(t *timer, at Instant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.queue.has(t) || t.at != at {
		q.putLocked(t, at)
	}
}

// putSooner is put, but never makes an entry later.
func (q *timers) putSooner(t *timer, at Instant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.queue.has(t) || t.at > at {
		q.putLocked(t, at)
	}
}

func (q *timers) putLocked(t *timer, at Instant) {
	t.at = at
	q.queue.put(t)
	if q.queue.items[0] == t && at != Never {
		q.arm(at)
	}
}

func (q *timers) remove(t *timer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue.remove(t)
}

// due takes out a counter whose time has come; if there is none it tells when the next one's comes.
func (q *timers) due(now Instant) (c *Counter, next Instant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue.items) == 0 {
		return nil, Never
	}
	t := q.queue.items[0]
	if t.at > now {
		return nil, t.at
	}
	q.queue.remove(t)
	return t.counter, Never
}

// all are the counters with waiters.
func (q *timers) all() []*Counter {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := make([]*Counter, 0, len(q.queue.items))
	for _, t := range q.queue.items {
		list = append(list, t.counter)
	}
	return list
}
