// Package coordtest gives tests of machines and of their driver a log in memory whose durability they control.
package coordtest

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"sluice/internal/coord"
	"sluice/internal/machine"
)

// MemLog is a coord.Log. The zero value makes every append durable at once, on the goroutine that asks to be notified.
type MemLog struct {
	mu      sync.Mutex
	held    bool
	durable []machine.Record
	pending []*ticket
	appends int

	failAppend, failReplay error
	replays                chan struct{} // what a replay waits for; nil: nothing
}

// Hold leaves appends pending from now on, until Sync, FailSync or Release.
func (l *MemLog) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

// Release makes everything durable, and what comes later at once.
func (l *MemLog) Release() {
	l.mu.Lock()
	l.held = false
	synced := l.sync(len(l.pending))
	l.mu.Unlock()
	resolve(synced, nil)
}

// Sync makes the n oldest pending appends durable, all of them when n is negative, and gives how many there were.
func (l *MemLog) Sync(n int) int {
	l.mu.Lock()
	if n < 0 || n > len(l.pending) {
		n = len(l.pending)
	}
	synced := l.sync(n)
	l.mu.Unlock()
	resolve(synced, nil)
	return n
}

// sync moves the n oldest pending appends to what is durable; their tickets are yet to be told.
func (l *MemLog) sync(n int) []*ticket {
	synced := l.cut(n)
	for _, t := range synced {
		l.durable = append(l.durable, t.records...)
	}
	return synced
}

// FailSync loses every pending append: their tickets fail with err, and a replay does not show them. It gives how many there were.
func (l *MemLog) FailSync(err error) int {
	l.mu.Lock()
	lost := l.cut(len(l.pending))
	l.mu.Unlock()
	resolve(lost, err)
	return len(lost)
}

// FailAppends makes every Append fail with err, until it is set to nil.
func (l *MemLog) FailAppends(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failAppend = err
}

// FailReplays makes every Replay fail with err, until it is set to nil.
func (l *MemLog) FailReplays(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failReplay = err
}

// HoldReplays has every Replay wait until release is called.
func (l *MemLog) HoldReplays() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(chan struct{})
	l.replays = held
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.replays = nil
		close(held)
	}
}

// Durable gives the records that a replay would show.
func (l *MemLog) Durable() []machine.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.durable)
}

// Pending is how many appends are not durable yet.
func (l *MemLog) Pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pending)
}

// Appends is how many batches were taken.
func (l *MemLog) Appends() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appends
}

// Append implements coord.Log.
func (l *MemLog) Append(records []machine.Record, _ machine.Time) (coord.Ticket, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failAppend != nil {
		return nil, l.failAppend
	}
	l.appends++
	t := &ticket{records: clone(records)}
	if l.held {
		l.pending = append(l.pending, t)
		return t, nil
	}
	l.durable = append(l.durable, t.records...)
	t.resolve(nil)
	return t, nil
}

var errUnresolved = errors.New("coordtest: replay while an append is pending: its outcome would be lost")

// Replay implements coord.Log.
func (l *MemLog) Replay(fn func(machine.Record) error) error {
	l.mu.Lock()
	held := l.replays
	l.mu.Unlock()
	if held != nil {
		<-held
	}
	l.mu.Lock()
	records, pending, err := clone(l.durable), len(l.pending), l.failReplay
	l.mu.Unlock()
	if pending > 0 {
		return errUnresolved
	}
	for _, r := range records {
		if err := fn(r); err != nil {
			return err
		}
	}
	return err
}

func (l *MemLog) cut(n int) []*ticket {
	out := slices.Clone(l.pending[:n])
	l.pending = slices.Delete(l.pending, 0, n)
	return out
}

// clone copies deeply: the owner of a record may use its bytes again.
func clone(records []machine.Record) []machine.Record {
	out := make([]machine.Record, len(records))
	for i, r := range records {
		out[i] = machine.Record{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
	}
	return out
}

type ticket struct {
	records []machine.Record

	mu       sync.Mutex
	resolved bool
	err      error
	fn       func(error)
}

// Notify implements coord.Ticket.
func (t *ticket) Notify(fn func(error)) {
	t.mu.Lock()
	resolved, err := t.resolved, t.err
	t.fn = fn
	t.mu.Unlock()
	if resolved {
		fn(err)
	}
}

func (t *ticket) resolve(err error) {
	t.mu.Lock()
	t.resolved, t.err = true, err
	fn := t.fn
	t.mu.Unlock()
	if fn != nil {
		fn(err)
	}
}

// resolve tells the newest first: nobody may rely on the order.
func resolve(tickets []*ticket, err error) {
	for _, t := range slices.Backward(tickets) {
		t.resolve(err)
	}
}
