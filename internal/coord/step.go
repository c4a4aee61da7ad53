package coord

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"sluice/internal/machine"
)

// minTick is the least time between two ticks, so that a machine that leaves its deadline in the past does not burn a core.
const minTick = time.Millisecond

// handle steps a call, or parks it until there is a machine. The lock is held, and the shard is not closed.
func (s *Shard) handle(c call) {
	if s.state != running {
		s.parked = append(s.parked, c)
		if s.state == down {
			s.state = draining // unlock begins the replay
		}
		return
	}
	s.asked = c
	s.guard(s.stepAsked)
	s.asked = call{}
	s.arm()
}

func (s *Shard) stepAsked() error {
	now, c := time.Now(), &s.asked
	switch {
	case c.view != nil:
		s.queue.push(item{done: c.done, value: c.view(s.m)})
		c.done = nil
		return nil
	case c.done == nil:
		return s.commit(now, s.m.Step(now, c.event))
	}
	s.lastTicket++
	c.ticket = s.lastTicket
	if err := s.commit(now, s.m.Step(now, machine.Asked{Ticket: c.ticket, Event: c.event})); err != nil {
		return err
	}
	if c.done != nil {
		s.waiting[c.ticket] = c.done
		c.done = nil
	}
	return nil
}

// commit appends and applies the records of one step and queues its orders and replies behind them.
func (s *Shard) commit(now machine.Time, e machine.Effects) error {
	if len(e.Records) > 0 {
		if err := s.append(now, e.Records); err != nil {
			return err
		}
	}
	if len(e.Orders) > 0 {
		s.queue.push(item{orders: e.Orders})
	}
	for _, r := range e.Replies {
		if done := s.take(r.Ticket); done != nil {
			s.queue.push(item{done: done, value: r.Value})
		}
	}
	return nil
}

func (s *Shard) append(now machine.Time, records []machine.Record) error {
	t, err := s.log.Append(records, now)
	if err != nil {
		return fmt.Errorf("append %d records: %w", len(records), err)
	}
	g := &gate{ticket: t, next: s.fresh}
	s.fresh = g
	s.unresolved++
	s.queue.push(item{gate: g})
	for _, r := range records {
		if err := s.m.Apply(r); err != nil {
			return fmt.Errorf("apply what the machine decided: %w", err)
		}
	}
	return nil
}

// take gives the one who waits for a ticket, once.
func (s *Shard) take(ticket uint64) func(any, error) {
	if ticket == s.asked.ticket {
		done := s.asked.done
		s.asked.done = nil
		return done
	}
	done := s.waiting[ticket]
	delete(s.waiting, ticket)
	return done
}

// guard runs a step and drops the machine if it fails or panics: a panic may leave soft state half changed.
func (s *Shard) guard(step func() error) {
	err := protect(step)
	if err == nil {
		return
	}
	refusal := ErrPanic
	if !errors.Is(err, ErrPanic) {
		refusal = notDurable(err)
	}
	if s.asked.done != nil {
		s.queue.push(item{done: s.asked.done, err: refusal})
	}
	s.drop(err)
}

// protect makes an error of a panic.
func protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, p, debug.Stack())
		}
	}()
	return f()
}

// tick steps a Tick if the machine's deadline has passed. The timer may be early: it is not moved when the deadline goes
// back, which every heartbeat would make it do.
func (s *Shard) tick() {
	s.mu.Lock()
	s.armed = time.Time{}
	if s.state == running {
		s.guard(s.stepTick)
		s.arm()
	}
	s.unlock()
}

func (s *Shard) stepTick() error {
	now := time.Now()
	if d := s.m.Deadline(); d.IsZero() || now.Before(d) {
		return nil
	}
	return s.commit(now, s.m.Step(now, machine.Tick{}))
}

// arm sets the timer if the machine's deadline comes before it.
func (s *Shard) arm() {
	if s.state != running {
		return
	}
	d := s.m.Deadline()
	if d.IsZero() || !s.armed.IsZero() && !d.Before(s.armed) {
		return
	}
	s.armed = d
	s.timer.Reset(max(time.Until(d), minTick))
}
