package coord

import (
	"fmt"
	"time"

	"sluice/internal/machine"
)

// replayGap is the least time from the end of a replay to the next, so that a log that refuses every append is not read
// through for each of them.
const replayGap = time.Second

// lose refuses everything behind the gate of a failed ticket.
func (s *Shard) lose(g *gate, cause error) {
	cause = fmt.Errorf("make records durable: %w", cause)
	s.queue.fail(g, notDurable(cause))
	if s.state == running {
		s.drop(cause)
	}
}

// drop gives up the machine: what it holds may be ahead of the log. What waits in it is refused.
func (s *Shard) drop(cause error) {
	s.logger.Error("machine dropped, to be replayed from what is durable", "err", cause, "waiting", len(s.waiting))
	s.state = draining
	s.m = nil
	s.refuseWaiting(notDurable(cause))
}

func (s *Shard) refuseWaiting(err error) {
	for _, done := range s.waiting {
		s.queue.push(item{done: done, err: err})
	}
	clear(s.waiting)
}

func (s *Shard) refuseParked(err error) {
	for _, c := range s.parked {
		if c.done != nil {
			s.queue.push(item{done: c.done, err: err})
		}
	}
	s.parked = nil
}

// replayWhenDrained begins the replay once every ticket has resolved: before that, nobody knows what is durable.
func (s *Shard) replayWhenDrained() {
	if s.state != draining || s.unresolved > 0 {
		return
	}
	s.state = loading
	s.background.Add(1)
	go s.reload(time.Until(s.replayed.Add(replayGap)))
}

func (s *Shard) reload(after time.Duration) {
	defer s.background.Done()
	if !s.pause(after) {
		return
	}
	m, err := s.replay()
	s.mu.Lock()
	s.replayed = time.Now()
	switch {
	case s.state == closed:
	case err != nil:
		s.logger.Error("replay failed", "err", err, "parked", len(s.parked))
		s.state = down
		s.refuseParked(notDurable(err))
	default:
		s.start(m, nil)
	}
	s.unlock()
}

// pause waits, and tells whether the shard is still open.
func (s *Shard) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.closing:
		return false
	}
}

// replay builds a machine from what is durable. The lock is not held.
func (s *Shard) replay() (machine.Machine, error) {
	m := s.newMachine()
	err := protect(func() error { return s.log.Replay(m.Apply) })
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return m, nil
}

// start sets a replayed machine to work: what it has to say first, then the parked calls. done, if not nil, is called when
// the effects of Loaded have been released.
func (s *Shard) start(m machine.Machine, done func(any, error)) {
	s.m, s.state = m, running
	s.asked = call{done: done}
	s.guard(s.stepLoaded)
	s.asked = call{}
	s.arm()
	parked := s.parked
	s.parked = nil
	for _, c := range parked {
		s.handle(c)
	}
}

func (s *Shard) stepLoaded() error {
	now := time.Now()
	if err := s.commit(now, s.m.Loaded(now)); err != nil {
		return err
	}
	if s.asked.done != nil {
		s.queue.push(item{done: s.asked.done})
		s.asked.done = nil
	}
	return nil
}
