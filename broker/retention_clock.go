package broker

import "time"

const (
	// maxClockJump is how far the wall clock may get ahead of the time that has passed before retention doubts it: an hour, as a change of
	// daylight saving done wrong.
	maxClockJump = time.Hour
	// minClockGrace is the least time that a clock is doubted: an operator must be able to notice.
	minClockGrace = 10 * time.Minute
)

// retentionClock is the wall clock as retention believes it. When it jumps ahead, everything would be too old at once; so for some
// time retention goes on by the time that has really passed, and only then believes the new one.
type retentionClock struct {
	wall    time.Time     // believed at the moment at; zero: nothing is known
	at      time.Duration // on a clock that does not jump
	doubted bool
	since   time.Duration // when the doubt began
}

// read gives the time to go by. passed is a clock that does not jump. jump is by how much the wall clock is doubted, else zero.
func (c *retentionClock) read(wall time.Time, passed, grace time.Duration) (now time.Time, jump time.Duration) {
	expected := c.wall.Add(passed - c.at)
	jump = wall.Sub(expected)
	if c.wall.IsZero() || jump <= maxClockJump || c.doubted && passed-c.since >= grace {
		*c = retentionClock{wall: wall, at: passed}
		return wall, 0
	}
	if !c.doubted {
		c.doubted, c.since = true, passed
	}
	return expected, jump
}

// clockGrace is how long a jump of the wall clock is doubted: two checks.
func clockGrace(interval time.Duration) time.Duration {
	if interval > minClockGrace { // also against overflow
		return 2 * min(interval, 365*24*time.Hour)
	}
	return max(2*interval, minClockGrace)
}
