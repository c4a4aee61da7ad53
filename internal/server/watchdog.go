package server

import (
	"math"
	"time"
)

// The watchdog closes connections that wait too long. Readers and writers only note the tick at which a wait began;
// a deadline on the socket would cost a timer for each request.

// tickFor is the watchdog's period: timeouts are kept to an eighth, or a second.
func tickFor(o Options) time.Duration {
	shortest := o.StallTimeout
	if o.IdleTimeout > 0 {
		shortest = min(shortest, o.IdleTimeout)
	}
	return max(tickMin, min(shortest/8, tickMax))
}

// now is the watchdog's clock; it starts at 1, since 0 means that nothing is waited for.
func (s *Server) now() int64 { return s.ticks.Load() + 1 }

// ticksOf rounds up, and one more because the first tick is a part of one. A timeout below zero never ends.
func (s *Server) ticksOf(d time.Duration) int64 {
	if d < 0 {
		return math.MaxInt64
	}
	return int64((d+s.tick-1)/s.tick) + 1
}

// watch runs until the last connection is gone.
func (s *Server) watch() {
	ticker := time.NewTicker(s.tick)
	defer ticker.Stop()
	stall, idle := s.ticksOf(s.opts.StallTimeout), s.ticksOf(s.opts.IdleTimeout)
	var conns []*Conn
	for {
		select {
		case <-ticker.C:
		case <-s.quit:
			return
		}
		s.ticks.Add(1)
		conns = s.all(conns[:0])
		for _, c := range conns {
			if cause := c.overdue(s.now(), stall, idle); cause != nil {
				c.close(cause)
			}
		}
		clear(conns)
	}
}

// overdue says for what the connection has waited too long, if it has.
func (c *Conn) overdue(now, stall, idle int64) error {
	passed := func(since, limit int64) bool { return since != 0 && now-since >= limit }
	switch {
	case passed(c.writeSince.Load(), stall):
		return errSlowReader
	case passed(c.frameSince.Load(), stall):
		return errStalled
	case passed(c.lingerSince.Load(), lingerTicks):
		return errAborted
	case passed(c.idleSince.Load(), idle) && c.unoccupied():
		return errIdle
	}
	return nil
}

func (c *Conn) unoccupied() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inflight == 0 && !c.writing
}
