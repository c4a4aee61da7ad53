package coord

import "sluice/internal/machine"

// Log is what the driver needs of a partition log.
type Log interface {
	// Append writes the records as one batch: all of them or none. It orders them now, never waits for the disk to sync, keeps
	// no reference to the slices, and gives a ticket that resolves when they are durable. Calls come one at a time.
	Append(records []machine.Record, now machine.Time) (Ticket, error)
	// Replay gives every durable record from the start, in order, and stops at fn's first error. It is called only
	// while no ticket is unresolved. fn may keep the records.
	Replay(fn func(machine.Record) error) error
}

// Ticket is a promise of durability. A batch is durable only if all before it are; tickets may resolve in any order.
type Ticket interface {
	// Notify has fn called once, maybe at once, from any goroutine. fn does not block and does not call into the log.
	Notify(fn func(err error))
}
