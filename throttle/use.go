package throttle

// Use is what a connection took of a subscription's counters in the current window. If later the connection turns out to belong to another
// subscription, its use moves there, so that a change of name is no fresh allowance. The zero Use is nothing.
type Use struct {
	counters [2]*Counter
	marks    [2]mark
	at       Instant
}

// Add takes a grant into account.
func (u *Use) Add(g *Grant) {
	for i, m := range g.marks[2*SubscriptionLevel:] {
		c := g.counters[2*int(SubscriptionLevel)+i]
		if c == nil {
			continue
		}
		if u.counters[i] == c && c.look(g.at).holds(u.at) {
			m.n += u.marks[i].n
		}
		u.counters[i], u.marks[i] = c, m
	}
	u.at = g.at
}

// Move moves the use, as far as it still counts, from the counters that it was taken from to those of another path.
func (u *Use) Move(to *Path, now Instant) {
	for i, c := range u.counters {
		next := to.counters[2*int(SubscriptionLevel)+i]
		if c == nil || c == next {
			continue
		}
		n := c.refund(claimant{}, u.marks[i], u.at, now)
		u.counters[i], u.marks[i] = nil, mark{}
		if next != nil {
			u.marks[i], _ = next.tape.take(n, -noLimit, now)
			u.counters[i] = next
		}
	}
	u.at = now
}
