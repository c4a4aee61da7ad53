// Package machine is the contract between a decider (catalog, group, txn) and the driver that runs it over a log
// (internal/coord). It holds types only, so that deciders stay pure: they import this package and never the driver.
package machine

import "time"

type (
	// Time is what the driver passes as now. It carries Go's monotonic reading, so times that a machine
	// adds to it and gives back from Deadline are immune to steps of the wall clock.
	Time = time.Time
	// Event is what happened: a type of the machine's own, Asked around one, or Tick.
	Event any
)

// Record is a key and a value of the internal log. A nil value is a tombstone. Records are fit for compaction:
// the newest value of a key says all there is to know of it.
type Record struct{ Key, Value []byte }

// Effects are all that leaves a Step. Records go to the log first, as one batch and so all or none of them; orders
// and replies are released when the log is durable up to where it stood after this Step, orders before replies.
type Effects struct {
	Records []Record
	Replies []Reply
	// Orders are work for the shell. What each one means is between the machine and its shell.
	Orders []any
}

// Reply answers a waiting request, named by the number that Asked gave it.
type Reply struct {
	Ticket uint64
	Value  any
}

// Machine is a decider: one value of it lives behind the driver's lock and sees one call at a time.
type Machine interface {
	// Step decides. It may change soft state (who waits, deadlines) and never hard state: that changes by the
	// records it returns, which Apply sees next. Equal state and equal arguments give equal effects.
	Step(now Time, ev Event) Effects
	// Apply is the only writer of hard state, live and at replay. An error says that the log holds what this
	// version cannot read; the machine is then of no use.
	Apply(r Record) error
	// Loaded is called once, after the replay: it rebuilds soft state and gives orders that describe what exists.
	Loaded(now Time) Effects
	// Deadline is when the machine wants the next Tick; the zero Time says never.
	Deadline() Time
}

// Asked wraps an event that wants an answer: the machine gives exactly one Reply with this Ticket, from this Step or a later one.
type Asked struct {
	Ticket uint64
	Event  Event
}

// Tick is stepped when the Deadline has passed.
type Tick struct{}
