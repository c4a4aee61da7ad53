package crashtest

import (
	"fmt"
	"math/rand/v2"
	"time"
	"unsafe"
)

// Clocks are ways in which a wall clock goes wrong while the monotonic clock goes on: how far it is ahead when so much time has really passed since the start.
func Clocks() map[string]func(passed time.Duration) time.Duration {
	jump := func(by time.Duration) func(time.Duration) time.Duration {
		return func(passed time.Duration) time.Duration {
			if passed < time.Second {
				return 0
			}
			return by
		}
	}
	walk, at := rand.New(rand.NewPCG(1, 2)), time.Duration(0)
	return map[string]func(time.Duration) time.Duration{
		"an hour back":    jump(-time.Hour),
		"an hour ahead":   jump(time.Hour),
		"ten years ahead": jump(10 * 365 * 24 * time.Hour),
		"frozen":          func(passed time.Duration) time.Duration { return -passed },
		"random walk": func(time.Duration) time.Duration {
			at += time.Duration(walk.Int64N(int64(20*time.Minute))) - 10*time.Minute
			return at
		},
	}
}

// SetClock gives t as time.Now would have, had somebody set the wall clock ahead: with the same monotonic reading. A time of package time cannot be made so,
// hence the look at how it is laid out, which is held against what the package says of the result.
func SetClock(t time.Time, ahead time.Duration) time.Time {
	const (
		monotonic = 1 << 63 // wall has 33 bits of seconds since 1885, and ext is the monotonic reading
		shift     = 30      // of the seconds; the bits below are nanoseconds
	)
	set := t
	wall := (*uint64)(unsafe.Pointer(&set))
	moved := t.Round(0).Add(ahead)
	seconds := (*wall&^monotonic)>>shift + uint64(moved.Unix()-t.Unix())
	*wall = monotonic | seconds<<shift | uint64(moved.Nanosecond())
	if set.Sub(t) != 0 || set.Round(0).Sub(t.Round(0)) != ahead {
		panic(fmt.Sprintf("package time is not as it was: %v set by %v is %v", t, ahead, set))
	}
	return set
}
