package throttle

import "sync/atomic"

// Counter is one limit where it applies: the messages or the bytes of the broker, of a partition, or of a subscription on a
// partition. It is safe for use by any number of goroutines.
type Counter struct {
	tape
	crowd atomic.Pointer[crowd] // nil until somebody was denied
	home  *Throttle
}

func newCounter(t *Throttle, p *pace, now Instant) *Counter {
	c := &Counter{home: t}
	c.init(p, now)
	return c
}

// lockCrowd gives the counter's crowd, locked.
func (c *Counter) lockCrowd() *crowd {
	for {
		cr := c.crowd.Load()
		if cr == nil {
			cr = newCrowd(c)
			if !c.crowd.CompareAndSwap(nil, cr) {
				continue
			}
		}
		cr.mu.Lock()
		if !cr.gone {
			return cr
		}
		cr.mu.Unlock()
	}
}

// read is what a claimant may take of a counter now, apart from what is ahead of it, and, if that is nothing, when to look again.
func (c *Counter) read(who claimant, ahead int64, now Instant) (balance int64, readyAt Instant) {
	v := c.look(now)
	if balance = v.balance() - ahead; !who.shares() || balance <= 0 || c.crowd.Load() == nil {
		return balance, v.readyAt(now)
	}
	cr := c.lockCrowd()
	defer cr.mu.Unlock()
	share, readyAt := c.readLocked(cr, c.claimOf(cr, who, v, now), v, now)
	return min(balance, share), readyAt
}

func (c *Counter) readLocked(cr *crowd, cl *claim, v view, now Instant) (balance int64, readyAt Instant) {
	balance, readyAt = v.balance(), v.readyAt(now)
	if cl == nil || !cl.shares() || balance <= 0 {
		return balance, readyAt
	}
	if balance, readyAt = cr.share(cl, v, now, c.home.fairness()); balance > 0 {
		readyAt = now
	}
	return balance, readyAt
}

// claimOf is the claim of somebody who looks at a counter and shares it, or nil if there is nothing to share any more.
func (c *Counter) claimOf(cr *crowd, who claimant, v view, now Instant) *claim {
	if c.ends(cr, v, now) {
		return nil
	}
	return cr.join(who, now)
}

// ends drops claims that nobody came back for. If none is left the crowd ends, and takes need no lock until the next refusal.
func (c *Counter) ends(cr *crowd, v view, now Instant) bool {
	cr.sweep(v, now)
	if cr.claims.count > 0 {
		return false
	}
	cr.gone = true
	c.crowd.Store(nil)
	c.home.timers.remove(&cr.timer)
	return true
}

// sweep ends a crowd that nobody comes back to. Its claims have topics that may be gone.
func (c *Counter) sweep(now Instant) {
	if c.crowd.Load() == nil {
		return
	}
	cr := c.lockCrowd()
	defer cr.mu.Unlock()
	c.ends(cr, c.look(now), now)
}

// take takes n units for a claimant if it may take more than before, see tape.take. more tells that it leaves data behind.
func (c *Counter) take(who claimant, n, before int64, more bool, now Instant) (mark, bool) {
	if !who.shares() || c.crowd.Load() == nil {
		return c.tape.take(n, before, now)
	}
	cr := c.lockCrowd()
	defer cr.mu.Unlock()
	v := c.look(now)
	cl := c.claimOf(cr, who, v, now)
	if b, _ := c.readLocked(cr, cl, v, now); b <= before {
		return mark{}, false
	}
	m, ok := c.tape.take(n, before, now)
	if !ok || cl == nil {
		return m, ok
	}
	cr.serve(cl, m.n)
	if cl.until = c.remembered(now); !more {
		cl.until = now
		cr.leave(cl)
	}
	return m, true
}

// remembered is until when a claim is kept whose claimant is not there.
func (c *Counter) remembered(now Instant) Instant {
	return now + min(memory*Instant(c.span.Load().pace.period), Instant(maxMemory))
}

// deny gives the claim of somebody who was refused. If there is nothing for it yet it is kept for a while.
func (c *Counter) deny(who claimant, keep bool, now Instant) *claim {
	cr := c.lockCrowd()
	defer cr.mu.Unlock()
	if !who.shares() {
		return cr.join(who, now)
	}
	cr.sweep(c.look(now), now)
	cl := cr.join(who, now)
	if keep {
		cl.until = c.remembered(now)
	}
	return cl
}

// refund gives back what a take at the instant at took; those who wait may have it. It tells how much that was.
func (c *Counter) refund(who claimant, m mark, at, now Instant) int64 {
	n, opened := c.tape.refund(m, at, now)
	if n == 0 || c.crowd.Load() == nil {
		return n
	}
	cr := c.lockCrowd()
	defer cr.mu.Unlock()
	if cl := cr.claims.find(who); cl != nil {
		cr.serve(cl, -n)
		cl.until = now // it is not known to want more
	}
	if opened {
		c.open(cr, now)
	}
	return n
}
