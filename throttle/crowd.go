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
	waiting queue[*claim] // those with watches that wait
	present queue[*claim] // and those whose watches were fired in this window and have not looked yet
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

// claimant is who shares a counter with others: a subscription on a partition. Its connections share one claim. The zero claimant shares with
// nobody: it is the subscription at its own counters.
type claimant struct {
	topic        *Topic
	partition    int32
	subscription string
}

func (c claimant) shares() bool { return c.topic != nil }

// theOthers are the claimants beyond maxClaims.
var theOthers = claimant{topic: &Topic{}, subscription: others}

// claim is a claimant's part in a crowd.
type claim struct {
	who         claimant
	service     int64 // units it got, on a scale on which newcomers start even
	until       Instant
	first, last *Watch // that wait, the longest waiting first
	invitedAt   Instant
	invited     int32    // watches that were fired and have not looked yet
	places      [3]int32 // in active, waiting, present; -1: not there
}

func newCrowd(c *Counter) *crowd {
	cr := &crowd{claims: map[claimant]*claim{}, typical: 1}
	for i, q := range []*queue[*claim]{&cr.active, &cr.waiting, &cr.present} {
		q.less = func(a, b *claim) bool { return a.service < b.service }
		q.place = func(c *claim) *int32 { return &c.places[i] }
	}
	cr.timer = timer{counter: c, place: -1}
	return cr
}

// join is the claimant's claim, made if it has none.
func (cr *crowd) join(who claimant, now Instant) *claim {
	cl := cr.claims[who]
	if cl == nil && len(cr.claims) >= maxClaims {
		who = theOthers
		cl = cr.claims[who]
	}
	if cl == nil {
		cl = &claim{who: who, until: now, service: cr.most, places: [3]int32{-1, -1, -1}}
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
		cr.present.remove(cl)
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
	cr.moved(cl)
}

// moved puts a claim to where it belongs after its service changed.
func (cr *crowd) moved(cl *claim) {
	for _, q := range [...]*queue[*claim]{&cr.active, &cr.waiting, &cr.present} {
		if q.has(cl) {
			q.put(cl)
		}
	}
}

// share is how many units a claim may take of a counter's balance, and when to look again if there are none. Those who are not there
// count only in a young window. Of those who are the least served may always take something, so that nothing is left lying: whoever
// waits while there is a balance will be invited when those who were invited have looked.
func (cr *crowd) share(cl *claim, v view, now Instant, f fairness) (units int64, readyAt Instant) {
	least, readyAt := cr.rival, v.begins()+f.hold(v.span.pace.period)
	if now >= readyAt {
		least, readyAt = cr.presentRival, v.ends()
	}
	other := least(cl, v)
	if other == nil {
		return v.balance(), readyAt
	}
	units = v.span.pace.units
	floor := cr.most - memory*max(units, cr.largest)
	if cl.service < floor {
		cl.service = floor
		cr.moved(cl)
	}
	share := max(1, units/int64(len(cr.active.items)))
	return min(v.balance(), max(other.service, floor)+share-cl.service), readyAt
}

// rival is the least served other claim, nil without one.
func (cr *crowd) rival(cl *claim, _ view) *claim {
	other, _ := cr.active.firstBut(cl)
	return other
}

// presentRival is the least served other claim of somebody who is there. Who did not follow an invitation of an earlier window is
// not.
func (cr *crowd) presentRival(cl *claim, v view) *claim {
	for {
		other, ok := cr.present.firstBut(cl)
		if !ok || other.first != nil || other.invitedAt >= v.begins() {
			return other
		}
		cr.present.remove(other)
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
