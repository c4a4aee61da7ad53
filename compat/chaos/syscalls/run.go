package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"

	"sluice/compat/chaos/ptrace"
)

// point is one run of the scenario: what happens at which call.
type point struct {
	call   string
	n      int // the N-th call, counted over all lives; 0: nothing happens
	action string
	sticky bool
}

// Actions. The other ones are names of errors.
const (
	actionCount = "count"
	actionKill  = "kill"
)

var errnos = map[string]syscall.Errno{"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC}

func (p point) String() string {
	n := fmt.Sprint(p.n)
	if p.sticky {
		n += "+"
	}
	return fmt.Sprintf("%s at %s %s", p.action, p.call, n)
}

// plan is what is left of the point for a life that begins after so many calls.
func (p point) plan(at place, before int) *ptrace.Plan {
	plan := &ptrace.Plan{Calls: []string{p.call}, Under: at.dir, Mark: at.mark(), Partial: p.action == "ENOSPC", Sockets: p.action == actionKill, When: p.n - before, Sticky: p.sticky, Kill: p.action == actionKill}
	if p.action == actionCount {
		plan.Calls, plan.Sockets, plan.When = calls, true, 0
	}
	plan.Errno = errnos[p.action]
	return plan
}

// outcome of a point.
type outcome struct {
	problems []string
	counts   map[string]int
	hit      string   // what the call worked on; "": the scenario ended before
	healed   bool     // after an error that stayed: every partition took appends again, without a restart, once it was gone
	stuck    []string // partitions that did not
}

// runner does points.
type runner struct {
	bin    string
	dir    string // where places are made
	times  int    // each round of the scenario is played so often
	verify bool
	keep   bool
}

// run does one point in a new place.
func (r *runner) run(p point, seed uint64) (o outcome, err error) {
	dir, err := os.MkdirTemp(r.dir, "syscalls-")
	if err != nil {
		return o, err
	}
	t := trial{runner: r, place: place{dir}, point: p, world: newWorld(), rng: rand.New(rand.NewPCG(seed, 1))}
	t.outcome.counts = map[string]int{}
	err = t.run()
	if text := t.place.crashed(); text != "" {
		t.problem("the broker panicked: %s", text)
	}
	if r.keep && len(t.outcome.problems) > 0 {
		t.problem("kept: %s", dir)
	} else if rerr := os.RemoveAll(dir); err == nil {
		err = rerr
	}
	return t.outcome, err
}

// trial is one point under way.
type trial struct {
	*runner
	place   place
	point   point
	world   *world
	rng     *rand.Rand
	outcome outcome
}

func (t *trial) problem(format string, args ...any) {
	t.outcome.problems = append(t.outcome.problems, fmt.Sprintf(format, args...))
}

func (t *trial) run() error {
	for _, l := range lives {
		if err := t.live(l); err != nil {
			return err
		}
		if t.outcome.hit != "" || len(t.outcome.problems) > 0 {
			break
		}
	}
	return t.afterwards()
}

// live is one life under trace.
func (t *trial) live(l life) error {
	before := 0
	for _, n := range t.outcome.counts {
		before += n
	}
	b, err := t.place.start(t.bin, t.point.plan(t.place, before))
	if b == nil {
		return err
	}
	switch {
	case errors.Is(err, errExited):
	case err != nil:
		t.problem("%s: %v: %s", l.name, err, t.place.said())
	default:
		t.serve(b, l, before)
	}
	<-b.done
	return t.account(b, l, err)
}

// account takes in how a life under trace ended.
func (t *trial) account(b *process, l life, started error) error {
	result, err := b.traced.Result()
	if err != nil {
		return err
	}
	for c, n := range result.Counts {
		t.outcome.counts[c] += n
	}
	if result.Hit != "" {
		t.outcome.hit = l.name + ": " + result.Hit
	}
	switch {
	case started != nil && result.Hits == 0:
		t.problem("%s: the broker did not start: %s", l.name, t.place.said())
	case started != nil && t.point.action != actionKill && result.Exit == 0:
		t.problem("%s: the broker could not start and ended with status 0", l.name)
	case result.Hits == 0 && !l.crash && result.Exit != 0:
		t.problem("%s: status %d after SIGTERM: %s", l.name, result.Exit, t.place.said())
	}
	return nil
}

// serve does a life's part of the scenario and ends the process.
func (t *trial) serve(b *process, l life, before int) {
	injects := t.point.n > 0 && t.point.action != actionKill
	s, err := t.connect(b, injects)
	if err == nil {
		err = l.do(s)
		if err == nil && injects {
			err = t.whileItFails(s, b, l)
		}
		t.outcome.problems = append(t.outcome.problems, s.problems...)
		defer s.conn.Close()
	}
	switch {
	case errors.Is(err, errHung):
		t.problem("%s: %v", l.name, err)
		b.dump()
	case err != nil && t.point.action == actionKill && b.ended(): // killed, or account will tell
	case err != nil && t.point.action != actionKill && b.ended():
		t.problem("%s: the broker ended: %s", l.name, t.place.said())
	case err != nil:
		t.problem("%s: the connection was closed, the broker lives: %v", l.name, err)
		b.kill()
	case l.crash:
		b.kill()
		if err := t.place.tear(t.rng); err != nil {
			t.problem("the test itself failed: %v", err)
		}
	case !b.stop():
		t.problem("%s: still running %v after SIGTERM", l.name, stopTime)
	}
}

func (t *trial) connect(b *process, tolerant bool) (*session, error) {
	c, err := dial(b.addr)
	if err != nil {
		return nil, err
	}
	s := &session{world: t.world, conn: c, rng: t.rng, times: t.times, pid: -1, tolerant: tolerant, retries: retriesAfterOneError, noAck: never}
	if t.point.sticky && tolerant {
		if t.point.call == "pwrite64" || t.point.call == "fdatasync" {
			s.noAck = t.place.failed
		}
		s.retries = retriesWhileAllFails
	}
	if err := s.hello(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return s, nil
}

func never() bool { return false }

// failed tells whether the first call has failed.
func (p place) failed() bool {
	_, err := os.Stat(p.mark())
	return err == nil
}

// whileItFails: what is durable can be read although appends fail. Then the disk is healed.
func (t *trial) whileItFails(s *session, b *process, l life) error {
	for name := range t.world.names {
		tp, n := t.world.current(name)
		if tp == nil {
			continue
		}
		for p := range n {
			im, code, err := s.conn.read(name, p)
			if err != nil {
				return err
			}
			if code == codeKafkaStorageError && (l.recovers || !tp.part(p).holds()) {
				continue // there is nothing to read, or what is there could not be recovered
			}
			if code != codeNone {
				s.problem("%s-%d: a read while appends fail has error %d", name, p, code)
				continue
			}
			for _, w := range tp.part(p).missing(im) {
				s.problem("%s-%d while appends fail: %s", name, p, w)
			}
		}
	}
	if !t.point.sticky {
		return nil
	}
	if err := b.traced.Heal(); err != nil {
		return nil // it has ended, which the caller finds out
	}
	return t.afterHealing(s)
}

// afterHealing sees whether the broker goes on without a restart.
func (t *trial) afterHealing(s *session) error {
	s.retries, s.noAck = retriesAfterOneError, never
	for name := range t.world.names {
		tp, n := t.world.current(name)
		if tp == nil {
			continue
		}
		for p := range n {
			ok, err := s.again(func(bool) (bool, error) {
				items := s.newItems([]target{{name, p, false}})
				if len(items) == 0 {
					return true, nil
				}
				_, err := s.send(items)
				return items[0].batch.acked, err
			})
			if err != nil {
				return err
			}
			if !ok {
				t.outcome.stuck = append(t.outcome.stuck, fmt.Sprintf("%s-%d", name, p))
			}
		}
	}
	t.outcome.healed = len(t.outcome.stuck) == 0
	return nil
}

// afterwards starts the broker without trace, compares, goes on with it, stops it and has the files verified.
func (t *trial) afterwards() error {
	b, err := t.place.start(t.bin, nil)
	if b == nil {
		return err
	}
	if err != nil {
		t.problem("restart: %v: %s", err, t.place.said())
		return nil
	}
	if err := t.examine(b); err != nil {
		t.problem("after the restart: %v", err)
	}
	if !b.stop() {
		t.problem("after the restart: still running %v after SIGTERM", stopTime)
	} else if b.code() != 0 {
		t.problem("after the restart: status %d after SIGTERM: %s", b.code(), t.place.said())
	}
	if t.verify {
		if err := t.place.verify(t.bin); err != nil {
			t.problem("%v", err)
		}
	}
	return nil
}

func (t *trial) examine(b *process) error {
	s, err := t.connect(b, false)
	if err != nil {
		return err
	}
	defer s.conn.Close()
	defer func() { t.outcome.problems = append(t.outcome.problems, s.problems...) }()
	for _, do := range []func() error{s.checkAll, s.goOn, s.checkAll} {
		err := do()
		if errors.Is(err, errHung) {
			b.dump() // while the connection is open
		}
		if err != nil || len(s.problems) > 0 {
			return err
		}
	}
	return nil
}

// hint is how to do a point again.
func (p point) hint(seed uint64, times int) string {
	words := []string{"-calls", p.call, "-only", fmt.Sprint(p.n), "-seed", fmt.Sprint(seed)}
	if p.action != actionKill {
		words = append(words, "-inject", p.action)
	}
	if p.sticky {
		words = append(words, "-sticky")
	}
	if times > 1 {
		words = append(words, "-times", fmt.Sprint(times))
	}
	return strings.Join(words, " ")
}
