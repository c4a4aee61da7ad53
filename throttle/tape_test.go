package throttle

import (
	"testing"
	"time"
)

// at is a time after the start of the virtual clock.
func after(d time.Duration) Instant { return Instant(d) }

// newTestTape is a tape that was made at time zero.
func newTestTape(units int64, period time.Duration) *tape {
	t := &tape{}
	t.init(newPace(units, period, -1), 0)
	return t
}

// drain takes single units until there are none, and tells how many it got.
func (t *tape) drain(now Instant) (n int64) {
	for {
		if _, ok := t.take(1, 0, now); !ok {
			return n
		}
		n++
	}
}

func TestOverDeliveryIsPaidByLaterWindows(t *testing.T) {
	for _, c := range []struct {
		name      string
		delivered int64
		then      []int64 // by window, from window 1 on
	}{
		{"none", 0, []int64{10, 10}}, // what was not used lapses
		{"all", 10, []int64{10, 10}},
		{"11 of 10", 11, []int64{9, 10}},
		{"30 of 10", 30, []int64{0, 0, 10, 10}},
		{"1000 of 10", 1000, append(make([]int64, 99), 10)},
	} {
		tape := newTestTape(10, time.Second)
		if c.delivered > 0 {
			if _, ok := tape.take(c.delivered, 0, 0); !ok {
				t.Fatalf("%s: refused", c.name)
			}
		}
		for i, want := range c.then {
			if got := tape.drain(after(time.Duration(i+1) * time.Second)); got != want {
				t.Errorf("%s: window %d gave %d, want %d", c.name, i+1, got, want)
			}
		}
	}
}

// One whose clock is behind sees the window of those who were there before him: their use is not taken for that of a window that is
// over, and what is refunded with an old clock does not come out of the new window.
func TestClocksDoNotGoBack(t *testing.T) {
	tape := newTestTape(10, time.Second)
	early, late := after(time.Second/2), after(3*time.Second/2)
	m, _ := tape.take(10, 0, early)
	tape.take(4, 0, late)
	if n := tape.look(early).balance(); n != 6 {
		t.Errorf("%d left for one with an old clock, want 6", n)
	}
	tape.refund(m, early, early)
	if n := tape.look(late).balance(); n != 6 {
		t.Errorf("%d left after a refund with an old clock, want 6", n)
	}
}
