package throttle

import "time"

// tailPause is how long a subscription at the end of a log may take between an answer and its next fetch until what
// came in between counts as backlog. A consumer that keeps up is back at once; a second is a window of the default period.
const tailPause = time.Second

// tail tells whether a subscription reads at the end of a partition, for those who do not throttle subscriptions without backlog.
//
// Whoever reads at the end still lags behind at the moment in which records arrive, so lag alone does not tell. A subscription is caught up when an
// answer reaches the end or a fetch asks for what comes next. It has backlog when it asks for something that lies further back than all that
// has arrived since its last answer, or when it was away for longer than tailPause.
type tail struct {
	caughtUp bool
	end      int64   // at the last answer or arrival
	at       Instant // of that
}

// arrived takes note of a fetch from an offset while the log ends at end.
func (t *tail) arrived(offset, end, threshold int64, now Instant) (caughtUp bool) {
	lag, slack := end-offset, threshold
	if now-t.at <= Instant(tailPause) {
		slack = max(slack, end-t.end)
	}
	switch {
	case lag <= threshold:
		t.caughtUp = true
	case lag > slack:
		t.caughtUp = false
	}
	t.end, t.at = end, now
	return t.caughtUp
}

// answered takes note of an answer whose next offset is next while the log ends at end.
func (t *tail) answered(next, end, threshold int64, now Instant) {
	t.end, t.at = end, now
	if end-next <= threshold {
		t.caughtUp = true
	}
}

// ExemptsTails tells whether Settings.ExemptTail is set.
func (t *Throttle) ExemptsTails() bool { return t.rules.Load().ExemptTail }

// Arrived tells whether a fetch is exempt because its subscription has no backlog, which it never is unless Settings.ExemptTail is set. The
// log ends for the fetch at end: at the high watermark or the last stable offset. Call it when the fetch arrives, once, and not when
// it looks again after a wait.
func (x *Topic) Arrived(i int32, sub string, offset, end int64, now Instant) (exempt bool) {
	r := x.home.rules.Load()
	if !r.ExemptTail {
		return false
	}
	q := x.lock(i)
	defer q.mu.Unlock()
	return q.tail(sub, now).arrived(offset, end, r.TailThreshold, now)
}

// Answered takes note of what a fetch was answered: records up to next, where the log ended at end. It is needed for every
// answer, with records or without, but does something only if Settings.ExemptTail is set.
func (x *Topic) Answered(i int32, sub string, next, end int64, now Instant) {
	r := x.home.rules.Load()
	if !r.ExemptTail {
		return
	}
	q := x.lock(i)
	defer q.mu.Unlock()
	q.tail(sub, now).answered(next, end, r.TailThreshold, now)
}

// tail is a subscription's, made if it has none.
func (q *partition) tail(sub string, now Instant) *tail {
	s := q.subscription(sub, now)
	if s.tail == nil {
		s.tail = &tail{}
	}
	return s.tail
}
