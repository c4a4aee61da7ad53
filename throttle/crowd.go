package throttle

import (
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
	claims  map[claimant]*claim
	active  queue[*claim] // all claims, the least served first
	waiting queue[*claim] // those with watches
	swept   Instant       // the window in which claims were last dropped
	most    int64         // the highest service of a claim
	largest int64         // the largest take
	typical int64         // running mean of takes
	woken   int           // watches that were fired and whose requests have not looked yet
	timer   timer
}

// memory is for how many periods a claim is kept for a claimant that is not there: it was denied, or left data behind, and will be
// back. Also how many windows of service it can fall behind, and make up for later.
const memory = 2

// maxMemory bounds that time. A client that wants more polls more often, however long the period is.
const maxMemory = time.Minute

// maxClaims bounds the claims of a crowd, at some 200 bytes each. Those beyond share one, like the subscriptions beyond
// maxSubscriptions.
const maxClaims = 1 << 18

// claimant is who shares with others: a subscription on a partition. Its connections share one claim.
type claimant struct {
	topic        *Topic
	partition    int32
	subscription string
}

// claim is a claimant's part in a crowd.
type claim struct {
	who              claimant
	service          int64 // units it got, on a scale on which newcomers start even
	until            Instant
	first, last      *Watch // that wait, the longest waiting first
	inActive, inWait int    // places in the queues
}

func newCrowd(c *Counter) *crowd {
	cr := &crowd{claims: map[claimant]*claim{}, typical: 1}
	less := func(a, b *claim) bool { return a.service < b.service }
	cr.active = queue[*claim]{less: less, place: func(c *claim) *int { return &c.inActive }}
	cr.waiting = queue[*claim]{less: less, place: func(c *claim) *int { return &c.inWait }}
	cr.timer = timer{counter: c, place: -1}
	return cr
}

// join is the claimant's claim, made if it has none.
func (cr *crowd) join(who claimant, now Instant) *claim {
	cl := cr.claims[who]
	if cl == nil && len(cr.claims) >= maxClaims {
		who = claimant{subscription: others}
		cl = cr.claims[who]
	}
	if cl == nil {
		cl = &claim{who: who, until: now, service: cr.most, inActive: -1, inWait: -1}
		if len(cr.active.items) > 0 {
			cl.service = cr.active.items[0].service
		}
		cr.claims[who] = cl
		cr.active.put(cl)
	}
	return cl
}

func (cr *crowd) leave(cl *claim) {
	if cl.first == nil {
		cr.active.remove(cl)
		delete(cr.claims, cl.who)
	}
}

// sweep drops claims that nobody came back for, once a window.
func (cr *crowd) sweep(v view, now Instant) {
	if v.begins() == cr.swept {
		return
	}
	cr.swept = v.begins()
	for _, cl := range cr.claims {
		if cl.until < now {
			cr.leave(cl)
		}
	}
}

// serve books n units for a claim; a negative n takes them back.
func (cr *crowd) serve(cl *claim, n int64) {
	cl.service += n
	cr.most = max(cr.most, cl.service)
	cr.largest = max(cr.largest, n)
	if n > 0 {
		cr.typical = max(1, (7*cr.typical+n)/8)
	}
	cr.active.put(cl)
	if cr.waiting.has(cl) {
		cr.waiting.put(cl)
	}
}

// share is how many units a claim may take of a counter's balance.
func (cr *crowd) share(cl *claim, v view, now Instant, f fairness) int64 {
	balance := v.balance()
	if now >= v.begins()+f.hold(v.span.pace.period) {
		return balance
	}
	other, ok := cr.active.firstBut(cl)
	if !ok {
		return balance
	}
	units, n := v.span.pace.units, int64(len(cr.active.items))
	behind := memory * (units + n*cr.largest)
	cl.service = max(cl.service, cr.most-behind)
	return min(balance, max(other.service, cr.most-behind)+max(1, units/n)-cl.service)
}

// fairness is how long a window is young.
type fairness struct {
	ratio float64       // of the period
	most  time.Duration // at most
}

func (f fairness) hold(period int64) Instant {
	return Instant(min(f.ratio*float64(period), float64(f.most)))
}
