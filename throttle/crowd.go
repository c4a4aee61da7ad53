package throttle

import (
	"math"
	"sync"
	"time"
)

// crowd is those who want more of a counter than it has: it shares the counter fairly between them and wakes those who
// wait. It exists only on counters that were exhausted.
//
// Sharing is start-time fair queueing with a short memory. Every claim has its service, the units that it got, and a newcomer
// starts with the least service of the others. While a window is young a claim may take its share beyond the least
// served other claim, even if that one is between two polls just now; later, or alone, it may take what is left. First
// come, first served would let a client that asks again at once starve one that needs longer between its polls, and so does
// a queue of those who wait: the slower client's poll may end just before each window begins.
type crowd struct {
	mu      sync.Mutex
	gone    bool // replaced; look for the counter's crowd again
	claims  claims
	active  ranking // all claims, the least served first
	waiting ranking // those with watches that wait
	present ranking // and those whose watches were fired in this window and have not looked yet
	swept   Instant // the window in which claims were last dropped
	most    int64   // the highest service of a claim
	largest int64   // the largest take
	typical int64   // running mean of takes
	woken   int     // watches that were fired and whose requests have not looked yet
	timer   timer
}

// memory is for how many periods a claim is kept for a claimant that is not there: it was denied, or left data behind, and will be
// back. Also how many windows of service it can fall behind, and make up for later.
const memory = 2

// maxMemory bounds that time. A client that wants more polls more often, however long the period is.
const maxMemory = time.Minute

// maxClaims bounds the claims of a crowd, at some 120 bytes each. Those beyond share one, like the subscriptions beyond
// maxSubscriptions.
const maxClaims = 1 << 18

func newCrowd(c *Counter) *crowd {
	cr := &crowd{typical: 1, swept: math.MinInt64}
	for i, q := range cr.rankings() {
		q.less = func(a, b *claim) bool { return a.service < b.service }
		q.place = func(c *claim) *int32 { return &c.places[i] }
	}
	cr.timer = timer{counter: c, place: -1}
	return cr
}

// join is the claimant's claim, made if it has none.
func (cr *crowd) join(who claimant, now Instant) *claim {
	cl := cr.claims.find(who)
	if cl == nil && cr.claims.count >= maxClaims {
		who = theOthers
		cl = cr.claims.find(who)
	}
	if cl == nil {
		cl = newClaim(cr.timer.counter, who)
		cl.until, cl.service = now, cr.most
		if len(cr.active.items) > 0 {
			cl.service = cr.active.items[0].service
		}
		cr.claims.add(cl)
		cr.active.add(cl)
	}
	return cl
}

// leave drops a claim, unless its claimant waits or was invited and will look in a moment: by what it got it is to be judged then.
func (cr *crowd) leave(cl *claim) {
	if cl.first == nil && cl.invited == 0 {
		cr.active.drop(cl)
		cr.present.drop(cl)
		cr.claims.remove(cl)
	}
}

// sweep drops claims that nobody came back for, once a window. Who looks with a clock of the window before does not have it done again: a look at many
// partitions may take from one window to the next, and another one at the same time.
func (cr *crowd) sweep(v view, now Instant) {
	if v.begins() <= cr.swept {
		return
	}
	cr.swept = v.begins()
	cr.claims.each(func(cl *claim) {
		if cl.until < now {
			cr.leave(cl)
		}
	})
	cr.rebase()
}

// highService is where the least service is set back to zero, so that the sum over all claims stays within an int64.
const highService = 1 << 30

// rebase takes from all claims what all have. That changes nothing between them.
func (cr *crowd) rebase() {
	if len(cr.active.items) == 0 || cr.active.items[0].service < highService {
		return
	}
	base := cr.active.items[0].service
	for _, cl := range cr.active.items {
		cl.service -= base
	}
	for _, r := range cr.rankings() {
		r.total -= base * int64(len(r.items))
	}
	cr.most -= base
}

// serve books n units for a claim; a negative n takes them back.
func (cr *crowd) serve(cl *claim, n int64) {
	cr.raise(cl, n)
	cr.most = max(cr.most, cl.service)
	cr.largest = max(cr.largest, n)
	if n > 0 {
		cr.typical = max(1, (7*cr.typical+n)/8)
	}
}

// ranking is claims by their service, and the sum of it.
type ranking struct {
	queue[*claim]
	total int64
}

func (cr *crowd) rankings() [3]*ranking { return [...]*ranking{&cr.active, &cr.waiting, &cr.present} }

func (r *ranking) add(cl *claim) {
	if !r.has(cl) {
		r.total += cl.service
		r.put(cl)
	}
}

func (r *ranking) drop(cl *claim) {
	if r.has(cl) {
		r.total -= cl.service
		r.remove(cl)
	}
}

// raise adds to a claim's service.
func (cr *crowd) raise(cl *claim, n int64) {
	cl.service += n
	for _, r := range cr.rankings() {
		if r.has(cl) {
			r.total += n
			r.put(cl)
		}
	}
}

// share is how many units a claim may take of a counter's balance, and when to look again if there are none. Those who are not there
// count only in a young window.
//
// The balance would bring all to the same level of service if everybody took what he lacks of it, so that is what a claim may take. But those who
// are above that level already do not take part; so it may not get further ahead of the least served than by an equal part of a window, either. The
// least served may always take something, so nothing is left lying: whoever waits while there is a balance will be invited when those who were
// invited have looked.
func (cr *crowd) share(cl *claim, v view, now Instant, f fairness) (units int64, readyAt Instant) {
	rivals, readyAt := &cr.active, v.begins()+f.hold(v.span.pace.period)
	if now >= readyAt {
		rivals, readyAt = &cr.present, v.ends()
		cr.forgetAbsent(v)
	}
	other, ok := rivals.firstBut(cl)
	if !ok {
		return v.balance(), readyAt
	}
	units = v.span.pace.units
	floor := cr.most - memory*max(units, cr.largest)
	if cl.service < floor {
		cr.raise(cl, floor-cl.service)
	}
	ahead := max(other.service, floor) + max(1, units/int64(len(cr.active.items)))
	return min(v.balance(), min(ahead, rivals.level(cl, v.balance()))-cl.service), readyAt
}

// level is the service that all would have if the balance made them even.
func (r *ranking) level(cl *claim, balance int64) int64 {
	n, total := int64(len(r.items)), r.total+balance
	if !r.has(cl) {
		n, total = n+1, total+cl.service
	}
	return (total + n - 1) / n
}

// forgetAbsent drops those from the ones present who did not follow an invitation of an earlier window, as far as they are the least
// served.
func (cr *crowd) forgetAbsent(v view) {
	for len(cr.present.items) > 0 {
		cl := cr.present.items[0]
		if cl.first != nil || cl.invitedAt >= v.begins() {
			return
		}
		cr.present.drop(cl)
	}
}

// fairness is how long a window is young.
type fairness struct {
	ratio float64       // of the period
	most  time.Duration // at most
}

func (f fairness) hold(period int64) Instant {
	return Instant(min(f.ratio*float64(period), float64(f.most)))
}
