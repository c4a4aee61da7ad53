package throttle

import "math"

// Waiter is told that a counter may have something for it. Fire must neither block nor call into this package.
type Waiter interface{ Fire() }

// Watch is a request's line to the counter that refused it. A request has one for each partition that it asks for; the zero Watch is ready
// for use. It is used by one goroutine at a time, and must not be copied while it waits.
//
// A fire is an invitation to plan again and no promise. The counter counts on the answer: after each look either On, because the
// partition is refused still, or Cancel.
type Watch struct {
	claim      *claim // at the counter that refused
	waiter     Waiter
	since      Instant
	prev, next *Watch
	state      watchState // guarded by the crowd
}

type watchState uint8

const (
	idle watchState = iota
	waiting
	fired
)

// On waits for the counter that refused. It tells false, and does not wait, if the counter has something by now or limits have
// changed: then ask for the path and plan again. The zero Refusal is one that nothing ends.
func (w *Watch) On(r Refusal, to Waiter, now Instant) bool {
	cl := r.claim
	if w.claim != nil && (cl == nil || w.claim.counter != cl.counter) {
		w.Cancel(now)
	}
	if cl == nil {
		return true
	}
	c := cl.counter
	cr := c.lockCrowd()
	defer cr.mu.Unlock()
	cr.answered(w)
	if cl.dropped() {
		cl = cr.join(cl.who(), now)
	}
	balance, at := c.readLocked(cr, cl, c.look(now), now)
	if balance > 0 {
		cr.drop(w)
		return false
	}
	if w.state == idle {
		*w = Watch{claim: cl, waiter: to, since: now, state: waiting}
		cl.append(w)
		cr.waiting.add(cl)
		cr.present.add(cl)
	}
	c.home.timers.putSooner(&cr.timer, at)
	if uint32(c.home.version.Load()) != r.version { // after put: whoever changes limits now finds the watch
		cr.drop(w)
		return false
	}
	return true
}

// Cancel ends a wait, or the invitation that ended it, and lets others have what this one leaves.
func (w *Watch) Cancel(now Instant) {
	if w.claim == nil {
		return
	}
	c := w.claim.counter
	cr := c.lockCrowd()
	defer cr.mu.Unlock()
	cr.answered(w)
	cr.drop(w)
	w.claim, w.waiter = nil, nil
	if cr.woken == 0 && len(cr.waiting.items) > 0 {
		c.open(cr, now)
	}
}

// answered takes note that a fired watch's request has looked.
func (cr *crowd) answered(w *Watch) {
	if w.state == fired {
		w.state = idle
		cr.woken = max(0, cr.woken-1)
		w.claim.invited--
		cr.settle(w.claim)
	}
}

// drop takes a watch out of its claim's list.
func (cr *crowd) drop(w *Watch) {
	if w.state == waiting {
		w.state = idle
		w.claim.unlink(w)
		cr.settle(w.claim)
	}
}

// settle takes a claim out of the queues that it no longer belongs to.
func (cr *crowd) settle(cl *claim) {
	if cl.first == nil {
		cr.waiting.drop(cl)
		if cl.invited == 0 {
			cr.present.drop(cl)
		}
	}
}

// open invites those who wait, the least served first, as many as the balance may do for, and sees to it that the counter is
// looked at again if some are left.
func (c *Counter) open(cr *crowd, now Instant) {
	v := c.look(now)
	next := v.readyAt(now)
	if v.balance() > 0 {
		next = v.ends()
	}
	for left := v.balance(); left > 0 && len(cr.waiting.items) > 0; left -= cr.typical {
		cl := cr.waiting.items[0]
		if n, at := c.readLocked(cr, cl, v, now); n <= 0 {
			next = at
			break
		}
		cr.fire(cl.first, now)
	}
	if len(cr.waiting.items) > 0 {
		c.home.timers.put(&cr.timer, next)
	} else {
		c.home.timers.remove(&cr.timer)
	}
}

func (cr *crowd) fire(w *Watch, now Instant) {
	cl := w.claim
	cl.invited++
	cl.invitedAt = now
	cr.drop(w)
	w.state = fired
	cr.woken++
	w.waiter.Fire()
}

// due is open when the counter's time has come. Invitations that nobody answered so far count no longer.
func (c *Counter) due(now Instant) {
	cr := c.lockCrowd()
	defer cr.mu.Unlock()
	cr.woken = 0
	c.open(cr, now)
}

// fireAll invites all who wait, because the limit changed.
func (c *Counter) fireAll() {
	if c.crowd.Load() == nil {
		return
	}
	cr := c.lockCrowd()
	defer cr.mu.Unlock()
	for len(cr.waiting.items) > 0 {
		cr.fire(cr.waiting.items[0].first, math.MinInt64) // none of them keeps others back
	}
	c.home.timers.remove(&cr.timer)
}
