package throttle

import (
	"hash/maphash"
	"unique"
)

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

// claim is a claimant's part in the crowd of a counter. Many groups on many partitions have one each, so it is kept to 80 bytes.
type claim struct {
	counter      *Counter
	topic        *Topic // these three are the claimant; the claims of a subscription share its name
	subscription unique.Handle[string]
	partition    int32
	invited      int32 // watches that were fired and have not looked yet
	service      int64 // units it got, on a scale on which newcomers start even
	until        Instant
	first        *Watch // of those that wait, the longest waiting first; its prev is the last
	invitedAt    Instant
	places       [3]int32 // in active, waiting, present; -1: not there
}

func newClaim(c *Counter, who claimant) *claim {
	return &claim{counter: c, topic: who.topic, subscription: unique.Make(who.subscription), partition: who.partition, places: [3]int32{-1, -1, -1}}
}

func (cl *claim) who() claimant { return claimant{cl.topic, cl.partition, cl.subscription.Value()} }

func (cl *claim) shares() bool { return cl.topic != nil }

// dropped tells whether the crowd knows the claim no more.
func (cl *claim) dropped() bool { return cl.places[0] < 0 }

func (cl *claim) append(w *Watch) {
	w.next = nil
	if cl.first == nil {
		w.prev, cl.first = w, w
		return
	}
	w.prev = cl.first.prev
	w.prev.next, cl.first.prev = w, w
}

func (cl *claim) unlink(w *Watch) {
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		cl.first.prev = w.prev
	}
	if cl.first == w {
		cl.first = w.next
	} else {
		w.prev.next = w.next
	}
	w.prev, w.next = nil, nil
}

// claims are the claims of a crowd by claimant: a table with open addressing, which takes a word or two for each and has no copies of the claimants.
type claims struct {
	slots []*claim // a power of two of them, and at least a quarter free
	count int
}

var claimSeed = maphash.MakeSeed()

// slot is where a claimant's claim is, or else where it would be. There must be slots.
func (t *claims) slot(who claimant) int {
	mask := len(t.slots) - 1
	for i := t.home(who); ; i = (i + 1) & mask {
		if cl := t.slots[i]; cl == nil || cl.who() == who {
			return i
		}
	}
}

// home is the slot that a claimant's claim is in unless others were there before.
func (t *claims) home(who claimant) int {
	return int(maphash.Comparable(claimSeed, who)) & (len(t.slots) - 1)
}

// find gives nil if there is no such claim.
func (t *claims) find(who claimant) *claim {
	if t.count == 0 {
		return nil
	}
	return t.slots[t.slot(who)]
}

// add puts a claim in whose claimant has none.
func (t *claims) add(cl *claim) {
	if t.count++; 4*t.count > 3*len(t.slots) {
		old := t.slots
		t.slots = make([]*claim, max(4, 2*len(old)))
		for _, x := range old {
			if x != nil {
				t.slots[t.slot(x.who())] = x
			}
		}
	}
	t.slots[t.slot(cl.who())] = cl
}

// remove takes a claim out, and moves up those behind it that may be nearer to their homes now.
func (t *claims) remove(cl *claim) {
	mask := len(t.slots) - 1
	free := t.slot(cl.who())
	if t.slots[free] != cl {
		return
	}
	for i := (free + 1) & mask; t.slots[i] != nil; i = (i + 1) & mask {
		if home := t.home(t.slots[i].who()); (i-home)&mask >= (i-free)&mask {
			t.slots[free], free = t.slots[i], i
		}
	}
	t.slots[free] = nil
	t.count--
}

// each calls fn for every claim, which may remove that one; some may be shown twice.
func (t *claims) each(fn func(*claim)) {
	for i := 0; i < len(t.slots); {
		cl := t.slots[i]
		if cl != nil {
			fn(cl)
		}
		if t.slots[i] == cl { // else another one moved up
			i++
		}
	}
}
