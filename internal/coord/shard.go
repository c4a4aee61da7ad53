package coord

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/machine"
)

// Options of a shard.
type Options struct {
	Logger *slog.Logger // nil: slog.Default
	// Orders receives the orders of durable steps, in order, one call at a time and never under the lock. It may take its
	// time; meanwhile the replies of later steps wait. It may call Do and View but not wait for them, and not Close. nil: there are none.
	Orders func([]any)
}

// state says how Do is answered.
//
//	running   the machine decides                        an append fails → draining; Close → closed
//	draining  the call is parked; tickets are unresolved  the last one resolves → loading
//	loading   the call is parked; a replay is on its way   it ends → running, or down
//	down      the call is parked and begins a new replay   → draining
//	closed    ErrClosed
type state uint8

const (
	draining state = iota
	loading
	running
	down
	closed
)

// Shard is a running machine. Its lock comes before the log's.
type Shard struct {
	newMachine func() machine.Machine
	log        Log
	logger     *slog.Logger
	orders     func([]any)

	mu         sync.Mutex // guards everything below; nothing blocks while it is held
	state      state
	m          machine.Machine // nil unless running
	queue      queue
	asked      call // the call being stepped; its done is nil once it is answered
	waiting    map[uint64]func(any, error)
	lastTicket uint64
	parked     []call
	unresolved int   // tickets
	fresh      *gate // gates whose tickets have not been asked to notify: that is done without the lock

	timer    *time.Timer
	armed    time.Time // when the timer fires; zero: it does not
	replayed time.Time // when the last replay ended

	releasing  bool           // somebody takes items off the queue: nobody else may
	out        []item         // the releaser's
	background sync.WaitGroup // the releaser and the replay
	closing    chan struct{}
}

// call is a Do or a View.
type call struct {
	event  machine.Event
	view   func(machine.Machine) any // not nil: a View
	ticket uint64
	done   func(any, error) // nil: nobody waits
}

// Open replays the log into a machine from fresh and starts its timer. When Open returns, the records of Loaded are durable and
// its orders have been delivered. fresh is called again after each loss; it gives an empty machine each time.
func Open(fresh func() machine.Machine, l Log, o Options) (*Shard, error) {
	s := newShard(fresh, l, o)
	m, err := s.replay()
	if err != nil {
		return nil, err
	}
	loaded := newAnswer()
	s.mu.Lock()
	s.replayed = time.Now()
	s.start(m, loaded.set)
	s.unlock()
	if _, err := loaded.wait(context.Background()); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Start is Open for those who cannot wait: it returns at once, the replay goes on in the background, and calls wait for its end.
// If it fails they are answered ErrNotDurable, and the next call begins another, at most one a second.
func Start(fresh func() machine.Machine, l Log, o Options) *Shard {
	s := newShard(fresh, l, o)
	s.background.Add(1)
	go s.reload(0)
	return s
}

func newShard(fresh func() machine.Machine, l Log, o Options) *Shard {
	s := &Shard{
		newMachine: fresh,
		log:        l,
		logger:     o.Logger,
		orders:     o.Orders,
		state:      loading,
		waiting:    make(map[uint64]func(any, error)),
		closing:    make(chan struct{}),
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.timer = time.AfterFunc(time.Hour, s.tick)
	s.timer.Stop()
	return s
}

// Do steps an event and calls done with its reply's value once that may be released, or with ErrNotDurable, ErrPanic or
// ErrClosed. done may be called before Do returns, or from any goroutine; it must not block, and it may call Do.
// With a nil done the machine gets the bare event: nobody waits for an answer.
func (s *Shard) Do(ev machine.Event, done func(value any, err error)) {
	s.submit(call{event: ev, done: done})
}

// Ask is Do for callers that can wait. When ctx ends first the event may still take effect.
func (s *Shard) Ask(ctx context.Context, ev machine.Event) (any, error) {
	a := newAnswer()
	s.Do(ev, a.set)
	return a.wait(ctx)
}

// View runs fn with the machine locked, for reads. fn must be quick and must not keep the machine. done is called as by Do, and only
// when what fn saw is durable.
func (s *Shard) View(fn func(machine.Machine) (value any), done func(value any, err error)) {
	s.submit(call{view: fn, done: done})
}

// Close stops the machine. Whatever is not durable yet, or waits, is answered ErrClosed. When Close returns no done and
// no Orders is running, and none will be called for what was asked before. It does not close the log.
func (s *Shard) Close() {
	s.mu.Lock()
	if s.state != closed {
		s.state = closed
		s.m = nil
		close(s.closing)
		s.timer.Stop()
		s.queue.fail(nil, ErrClosed)
		s.refuseWaiting(ErrClosed)
		s.refuseParked(ErrClosed)
	}
	s.unlock()
	s.background.Wait()
}

func (s *Shard) submit(c call) {
	s.mu.Lock()
	if s.state == closed {
		s.mu.Unlock()
		c.answer(nil, ErrClosed)
		return
	}
	s.handle(c)
	s.unlockAndReply()
}

func (c call) answer(value any, err error) {
	if c.done != nil {
		c.done(value, err)
	}
}

// answer is a reply on its way to somebody who waits for it.
type answer chan item

func newAnswer() answer { return make(answer, 1) } // one place: set never blocks, though the waiter be gone

func (a answer) set(value any, err error) { a <- item{value: value, err: err} }

func (a answer) wait(ctx context.Context) (any, error) {
	select {
	case it := <-a:
		return it.value, it.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
