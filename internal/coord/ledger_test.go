package coord_test

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"time"

	"sluice/internal/coord"
	"sluice/internal/machine"
)

// ledger is a machine for tests: its hard state is the list of the numbers put into it.
type ledger struct {
	entries []uint64
	waits   map[uint64]int // soft: ticket to the count it waits for
	alarm   time.Time      // soft
	faults  *faults
}

// faults outlive the ledgers of a shard.
type faults struct {
	loadedRecord uint64 // not zero: put by Loaded
	apply        error
}

type (
	put    struct{ n uint64 }        // a record and an order; the reply is the count with it
	puts   struct{ ns []uint64 }     // the same with one batch; the reply is the count
	count  struct{}                  // the reply is the count
	wait   struct{ n int }           // the reply is the count, once it is n
	alarm  struct{ after time.Time } // a Tick then puts 1000 and orders
	boom   struct{}
	stored struct{ n uint64 } // order: n is in the ledger
	loaded struct{ n int }    // order: n entries are there
	rang   struct{ at time.Time }
)

func (r rang) String() string { return r.at.Format("15:04:05.000") }

func newLedger(f *faults) func() machine.Machine {
	return func() machine.Machine { return &ledger{waits: map[uint64]int{}, faults: f} }
}

func (l *ledger) Step(now machine.Time, ev machine.Event) machine.Effects {
	var ticket uint64
	if a, ok := ev.(machine.Asked); ok {
		ticket, ev = a.Ticket, a.Event
	}
	switch ev := ev.(type) {
	case put:
		return l.put(ticket, ev.n)
	case puts:
		return l.put(ticket, ev.ns...)
	case count:
		return machine.Effects{Replies: []machine.Reply{{Ticket: ticket, Value: len(l.entries)}}}
	case wait:
		l.waits[ticket] = ev.n
		return machine.Effects{Replies: l.wake(len(l.entries))}
	case alarm:
		l.alarm = ev.after
		return machine.Effects{Replies: []machine.Reply{{Ticket: ticket}}}
	case machine.Tick:
		l.alarm = time.Time{}
		e := l.put(0, 1000)
		e.Orders = []any{rang{now}}
		return e
	}
	panic("boom")
}

func (l *ledger) put(ticket uint64, ns ...uint64) (e machine.Effects) {
	total := len(l.entries) + len(ns)
	for _, n := range ns {
		e.Records = append(e.Records, entry(n))
		e.Orders = append(e.Orders, stored{n})
	}
	e.Replies = append(l.wake(total), machine.Reply{Ticket: ticket, Value: total})
	return e
}

func (l *ledger) wake(total int) (replies []machine.Reply) {
	for ticket, n := range l.waits {
		if total >= n {
			replies = append(replies, machine.Reply{Ticket: ticket, Value: total})
			delete(l.waits, ticket)
		}
	}
	return replies
}

func entry(n uint64) machine.Record {
	return machine.Record{Key: []byte("n"), Value: binary.BigEndian.AppendUint64(nil, n)}
}

var errUnreadable = errors.New("unreadable entry")

func (l *ledger) Apply(r machine.Record) error {
	if l.faults.apply != nil {
		return l.faults.apply
	}
	if len(r.Value) != 8 {
		return errUnreadable
	}
	l.entries = append(l.entries, binary.BigEndian.Uint64(r.Value))
	return nil
}

func (l *ledger) Loaded(machine.Time) machine.Effects {
	e := machine.Effects{Orders: []any{loaded{len(l.entries)}}}
	if n := l.faults.loadedRecord; n != 0 && !slices.Contains(l.entries, n) {
		e.Records = []machine.Record{entry(n)}
	}
	return e
}

func (l *ledger) Deadline() machine.Time { return l.alarm }

// quiet is for shards that are meant to fail.
var quiet = slog.New(slog.DiscardHandler)

// nullLog keeps nothing, at once.
type nullLog struct{}

func (nullLog) Append([]machine.Record, machine.Time) (coord.Ticket, error) { return nullLog{}, nil }
func (nullLog) Replay(func(machine.Record) error) error                     { return nil }
func (nullLog) Notify(fn func(error))                                       { fn(nil) }
