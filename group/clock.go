package group

import (
	"time"

	"sluice/internal/machine"
)

// pauseTolerance is how much later than the machine's deadline a step may come before it counts as a pause. The driver's timer
// is late by milliseconds, under load by tenths of a second.
const pauseTolerance = time.Second

// clock is time as the timers see it: it stands still while the process does not run.
//
// A process that was stopped (SIGSTOP, a frozen machine) comes back to find every session expired, through no fault of
// the members. It shows as a step that comes much later than the deadline the machine gave: somebody would have called then.
// The time after that deadline did not happen, and every timer starts anew at the end of it. So members get a full session
// timeout to be heard of. A process that is stopped again and again does not keep the dead alive: a timer ends, renewed or
// not, when it has run for twice its timeout.
type clock struct {
	base    time.Time     // the first reading
	stopped time.Duration // the length of all pauses
	resumed time.Duration // running time at the end of the last pause
	running time.Duration // the newest reading
}

// read takes a new reading. The deadline is what the machine gave last.
func (c *clock) read(now, deadline machine.Time) {
	if c.base.IsZero() {
		c.base = now
	}
	if late := now.Sub(deadline); !deadline.IsZero() && late > pauseTolerance {
		c.stopped += late
		c.resumed = now.Sub(c.base) - c.stopped
	}
	// A time before the last one can only come from a driver that passes no monotonic times.
	c.running = max(c.running, now.Sub(c.base)-c.stopped)
}

// wall turns a running time into a time of the driver's.
func (c *clock) wall(running time.Duration) machine.Time {
	return c.base.Add(running + c.stopped)
}
