package throttle

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Instant is a moment in nanoseconds on one monotonic clock. Where that clock begins does not matter.
type Instant int64

// Never is an instant that does not come.
const Never Instant = math.MaxInt64

// Bounds that keep positions on a tape within an int64.
const (
	// maxUnits bounds the units of a window. More than 10^18 messages or bytes a period is no limit to anybody.
	maxUnits = 1 << 60
	// tapeEnd is the position from which a tape is laid anew, so that the position of window k, k times the units of a
	// window, stays far from the end of an int64.
	tapeEnd = 1 << 61
)

// pace is an allowance: so many units in each window, and how deep in debt a take may get. It is immutable and shared by
// all counters that have it.
type pace struct {
	units  int64 // allowed in a window, 1 to maxUnits
	period int64 // of a window, in nanoseconds
	debt   int64 // the most debt that is carried over, in units
	last   int64 // the window from which on positions would pass tapeEnd
}

func newPace(units int64, period time.Duration, debtPeriods int64) *pace {
	units = min(units, maxUnits)
	p := &pace{units: units, period: int64(period), debt: maxUnits, last: tapeEnd / units}
	if debtPeriods >= 0 && debtPeriods < maxUnits/units {
		p.debt = debtPeriods * units
	}
	return p
}

// tape is one allowance as a position on a tape on which every window has the same length:
//
//	window      |    0    |    1    |    2    |    3    |      10 units each
//	position    0        10        20        30        40
//	                     └ floor of window 1
//
// A take moves the position forward by what it takes. In window k everything below k times the units has lapsed: what was not
// used is not carried over. A position beyond the window's end is debt, and later windows begin with it: 11 delivered leave
// 9 for the next window, 30 delivered leave two windows empty. Nothing has to run when a window ends.
//
// A take needs a balance above zero in the same compare-and-swap that lowers it, so that any number of takers together
// pass the line by at most what one of them takes.
type tape struct {
	span atomic.Pointer[span]
	mu   sync.Mutex // held while a span gives way to the next, or a window to the next
}

// span is the stretch of a tape with one pace. A change freezes its position and lays the next span.
type span struct {
	pace    *pace
	start   Instant // of window 0
	change  *change // that laid it; nil for the first span
	pos     atomic.Int64
	seen    atomic.Int64 // the latest window that somebody took in; never behind a take that pos holds
	carried int64        // the debt with which that window began, less what of it was refunded since; guarded by tape.mu
}

// change is what a span keeps of those before it. For its window 0 it remembers what the limits were, for when they change again: lowering and
// raising a limit in turn must not give the same window its allowance again.
type change struct {
	at       Instant // takes before it were from the span before
	peak     int64   // the highest allowance that the window had
	forgiven int64   // used in it, but not on the tape
}

// frozen is the position of a span that is over.
const frozen = math.MinInt64

// mark is what a take moved: n units up to the position end.
type mark struct{ end, n int64 }

func (t *tape) init(p *pace, now Instant) {
	t.span.Store(&span{pace: p, start: now})
}

// view is one reading of a tape. It has four words: larger structs do not stay in registers.
type view struct {
	span   *span
	window int64
	floor  int64
	pos    int64
}

// used is the position on the tape, or the floor if that is further.
func (v view) used() int64 { return max(v.pos, v.floor) }

func (v view) balance() int64 { return v.floor + v.span.pace.units - v.used() }

// begins is when the window began.
func (v view) begins() Instant { return v.span.start + Instant(v.window*v.span.pace.period) }

func (v view) ends() Instant { return v.begins() + Instant(v.span.pace.period) }

// readyAt is when the balance is above zero: now, or the start of the first window that the position leaves something of.
func (v view) readyAt(now Instant) Instant {
	if v.balance() > 0 {
		return now
	}
	p := v.span.pace
	k := v.used() / p.units
	if k > (math.MaxInt64-max(0, int64(v.span.start)))/p.period {
		return Never
	}
	return v.span.start + Instant(k*p.period)
}

// look reads the tape. Time does not go back in it: a reader whose clock is behind that of a taker sees the taker's window.
func (t *tape) look(now Instant) view {
	for {
		s := t.span.Load()
		pos := s.pos.Load() // before seen: a take is not seen without its window
		k := s.seen.Load()
		if p := s.pace; now >= s.start+Instant((k+1)*p.period) {
			k = int64(now-s.start) / p.period
		}
		switch {
		case pos == frozen:
			t.laid()
		case k > s.pace.last:
			t.lay(s.pace, now, s)
		default:
			return view{s, k, k * s.pace.units, pos}
		}
	}
}

// laid returns when the next span has been laid.
func (t *tape) laid() {
	t.mu.Lock()
	defer t.mu.Unlock()
}

// take takes n units if the balance is above before, and else nothing. before is what of n is not its last part: a list
// of batches may pass the line with its last one only.
func (t *tape) take(n, before int64, now Instant) (mark, bool) {
	for {
		v := t.look(now)
		if v.balance() <= before {
			return mark{}, false
		}
		if n == 0 {
			return mark{}, true
		}
		s := v.span
		if v.window > s.seen.Load() {
			t.enter(v)
		}
		end := min(v.used()+n, v.floor+s.pace.units+s.pace.debt)
		if s.pos.CompareAndSwap(v.pos, end) {
			return mark{end, end - v.used()}, true
		}
	}
}

// enter notes the window before something is taken in it, once a window.
func (t *tape) enter(v view) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v.enterLocked()
}

func (v view) enterLocked() {
	if s := v.span; v.window > s.seen.Load() {
		s.carried = max(s.pos.Load()-v.floor, 0)
		s.seen.Store(v.window)
	}
}

// refund gives back what a take at the instant at took, as far as it has not lapsed since. It tells how much that was, and whether it
// opened the tape. It never gives a later window more than its units.
func (t *tape) refund(m mark, at, now Instant) (n int64, opened bool) {
	for m.n > 0 {
		v := t.look(now)
		if !v.holds(at) {
			return t.refundLate(m, at, v)
		}
		if v.span.pos.CompareAndSwap(v.pos, v.pos-m.n) {
			return m.n, v.opens(m.n)
		}
	}
	return 0, false
}

// holds tells whether a take at the instant at is one of this window. What was taken before a change is of the window that the change fell into, even if
// shorter windows have begun before the take since.
func (v view) holds(at Instant) bool {
	c := v.span.change
	return at >= v.begins() && (v.window == 0 || c == nil || c.at < at)
}

// opens tells whether giving back n units brings the balance above zero.
func (v view) opens(n int64) bool {
	after := v
	after.pos -= n
	return v.balance() <= 0 && after.balance() > 0
}

// refundLate is refund in a later window than that of the take. Only the take's debt still counts, the part beyond the floor, and of
// that no more than the debt with which the window began: what was taken in this window is not there to be given back. The
// lock keeps the window from ending meanwhile.
func (t *tape) refundLate(m mark, at Instant, v view) (n int64, opened bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := v.span
	if t.span.Load() != s || s.change != nil && s.change.at >= at || s.seen.Load() > v.window {
		return 0, false // the tape went on without us: what is left of the take is not known
	}
	v.enterLocked()
	n = min(m.n, m.end-v.floor, s.carried)
	if n <= 0 {
		return 0, false
	}
	s.carried -= n
	v.pos = s.pos.Add(-n) + n
	return n, v.opens(n)
}

// set changes the pace. What was delivered beyond the allowance is kept as debt; what was delivered within it is not made
// a debt by lowering it: after 50 of 100 were used, 10 a window means nothing more in this window and 10 in the next. Windows of
// another period begin where the current one began.
func (t *tape) set(p *pace, now Instant) {
	if s := t.span.Load(); s.pace != p && *s.pace != *p {
		t.lay(p, now, s)
	}
}

// lay puts the next span in the place of old, if it is still there.
func (t *tape) lay(p *pace, now Instant, old *span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.span.Load() != old {
		return
	}
	k := max(old.seen.Load(), int64(now-old.start)/old.pace.period)
	floor := int64(math.MaxInt64) // all has lapsed
	if k <= math.MaxInt64/old.pace.units {
		floor = k * old.pace.units
	}
	used := max(old.pos.Swap(frozen)-floor, 0)
	next := &span{pace: p, start: old.start + Instant(k*old.pace.period)}
	peak := max(old.pace.units, p.units)
	if k == 0 && old.change != nil {
		used += old.change.forgiven
		peak = max(peak, old.change.peak)
	}
	pos := min(used, p.units) + max(used-peak, 0)
	next.change = &change{now, peak, used - pos}
	next.pos.Store(pos)
	t.span.Store(next)
}
