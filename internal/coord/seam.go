// Package coord drives a pure machine over one internal log: Step, append the records as one batch, Apply each, and release
// replies and orders only when the log end that the machine had at Step is durable. It does not know groups from transactions or topics.
package coord

import (
	"context"
	"log/slog"
	"time"
)

// SEAM FILE: what catalog, group, txn and broker build on. (The pure rooms import only the types; if the import rule of architecture.md is to hold to the letter, these few types live in a
// pure package of their own, e.g. internal/coord/machine.)

type Time = time.Time
type Event any

// Record is a key and a value (nil: tombstone) of the internal log.
type Record struct{ Key, Value []byte }

// Effects of a Step: nothing else leaves a machine. Records go to the log first, then replies and orders.
type Effects struct {
	Records []Record
	Replies []Reply
	Orders  []any
}

// Reply answers a waiting request: Ticket is the number that Do gave it.
type Reply struct {
	Ticket uint64
	Value  any
}

// Machine is a decider (architecture.md 4). Step may change soft state only. An event that needs an answer arrives as Asked.
type Machine interface {
	Step(now Time, ev Event) Effects
	Apply(r Record) error // error: the log holds something this version cannot read: refuse to start
	Loaded(now Time) Effects
	Deadline() Time // zero: none
}

// Asked is how Do hands an event to Step: the machine answers with Reply{Ticket: Ticket}, now or in a later Step.
type Asked struct {
	Ticket uint64
	Event  Event
}

// Tick is stepped when the Deadline passed.
type Tick struct{}

// Log is what the driver needs of a partition log; broker adapts log.Log (and a test has one in memory).
type Log interface {
	// Append writes the records as one batch (ordered now) and gives a ticket that resolves when durable.
	Append(records []Record, now Time) (Ticket, error)
	// Replay gives every durable record from the start, in order.
	Replay(fn func(Record) error) error
}
type Ticket interface {
	Notify(func(err error)) // fn is called once, maybe at once, from any goroutine; it must not block
}

type Options struct {
	Logger *slog.Logger
	// Orders receives the orders of durable steps, in order, from one goroutine at a time.
	Orders func([]any)
}

// Shard is a running machine.
type Shard struct{}

// Open replays the log into a fresh machine from make and starts its timer.
func Open(make func() Machine, l Log, o Options) (*Shard, error) { panic("seam") }

// Do steps an event and calls done with its reply's value once that may be released, or with an error (ErrNotDurable: retriable; ErrClosed).
// done must not block. Nobody waits while the shard's lock is held.
func (s *Shard) Do(ev Event, done func(value any, err error)) { panic("seam") }

// Ask is Do for callers that can wait.
func (s *Shard) Ask(ctx context.Context, ev Event) (any, error) { panic("seam") }

// View runs fn with the machine locked, for reads; released (called) only when what fn saw is durable.
func (s *Shard) View(fn func(Machine) (value any), done func(value any, err error)) { panic("seam") }

func (s *Shard) Close() { panic("seam") }
