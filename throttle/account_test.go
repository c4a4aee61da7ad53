package throttle

import (
	"fmt"
	"testing"
)

// account is what one who stands beside knows of a limit: which windows there were, what each allowed, and what left in it. It knows
// the settings and what was delivered, and nothing of counters.
type account struct {
	units   int64
	period  Instant
	begins  Instant // of the last window
	windows []accountWindow
	largest int64 // of what left at once and could not have been less
}

// accountWindow has the highest and the least limit that held in a window. The least is 0 if the window was cut short.
type accountWindow struct{ most, least, left int64 }

func newAccount(units int64, period, now Instant) *account {
	return &account{units: units, period: period, begins: now, windows: []accountWindow{{units, units, 0}}}
}

func (a *account) last() *accountWindow { return &a.windows[len(a.windows)-1] }

// advance goes on to the window of an instant, or stays where it is.
func (a *account) advance(now Instant) {
	for now >= a.begins+a.period {
		a.begins += a.period
		a.windows = append(a.windows, accountWindow{a.units, a.units, 0})
	}
}

// alter changes the limit. Windows of another period begin where the current one began, and those that are over by now were too short for anybody.
func (a *account) alter(units int64, period, now Instant) {
	if units == a.units && period == a.period {
		return
	}
	a.advance(now)
	w := a.last()
	w.most, w.least = max(w.most, units), min(w.least, units)
	a.units = units
	if period == a.period {
		return
	}
	a.period = period
	first := len(a.windows) - 1
	a.advance(now)
	for i := range a.windows[first:] {
		a.windows[first+i].least = 0
	}
}

func (a *account) add(n, atOnce int64, now Instant) {
	a.advance(now)
	a.last().left += n
	a.largest = max(a.largest, atOnce)
}

// excess is the most by which a run of the windows that end with the last one passed what it allowed.
func excess(windows []accountWindow) (most int64) {
	run := int64(0)
	for _, w := range windows {
		run = max(0, run+w.left-w.most)
		most = max(most, run)
	}
	return most
}

// check holds every run of windows against what it allows and one delivery.
func (a *account) check() error {
	if e := excess(a.windows); e >= max(1, a.largest) {
		return fmt.Errorf("%d more than allowed left in a run of windows, and what leaves at once is %d: %+v", e, a.largest, a.windows)
	}
	return nil
}

// spare tells whether nothing was taken in this window and nothing is owed: then the limit may as well begin anew.
func (a *account) spare(now Instant) bool {
	a.advance(now)
	owed := int64(0)
	for _, w := range a.windows[:len(a.windows)-1] {
		owed = max(0, owed+w.left-w.most)
	}
	return owed == 0 && a.last().left == 0
}

func TestAccount(t *testing.T) {
	a := newAccount(10, 100, 0)
	a.add(12, 6, 0)
	a.add(9, 6, 199)
	if a.add(10, 6, 200); a.check() != nil || a.spare(299) || !a.spare(400) {
		t.Errorf("%+v: %v", a, a.check())
	}
	if a.add(17, 6, 400); a.check() == nil {
		t.Errorf("%+v: 17 of 10 and 5 are too many", a)
	}
	b := newAccount(10, 100, 0)
	b.add(10, 1, 0)
	b.alter(30, 100, 50)
	if b.add(20, 1, 60); b.check() != nil {
		t.Error(b.check())
	}
	b.alter(5, 20, 90) // the fifth window of 20
	b.add(5, 1, 90)
	b.add(5, 1, 99)
	if len(b.windows) != 5 || b.check() == nil {
		t.Errorf("%+v: 10 of 5 are too many", b)
	}
}
