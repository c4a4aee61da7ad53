package coord_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/coord"
	"sluice/internal/machine"
)

// life is a rig whose callers keep account of what they were promised.
type life struct {
	*rig
	t       *rapid.T
	next    uint64
	asked   int
	answers int
	told    []uint64 // by orders, since the machine was last loaded
	closed  bool
}

// heard is where all that leaves the shard passes: order by order, reply by reply.
func (l *life) heard(orders []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range orders {
		switch o := o.(type) {
		case loaded:
			l.told = append(l.told[:0], l.entries()[:o.n]...)
		case stored:
			l.told = append(l.told, o.n)
		case rang:
			l.told = append(l.told, 1000)
		}
	}
	l.checkTold()
}

// checkTold: the orders of a durable log's steps, in order, and never one that could be lost.
func (l *life) checkTold() {
	durable := l.entries()
	if len(l.told) > len(durable) || !slices.Equal(l.told, durable[:len(l.told)]) {
		l.t.Errorf("orders told of %v; durable is %v", l.told, durable)
	}
}

func (l *life) entries() []uint64 {
	m := &ledger{faults: &faults{}}
	for _, r := range l.log.Durable() {
		if err := m.Apply(r); err != nil {
			l.t.Errorf("%v", err)
		}
	}
	return m.entries
}

// answer checks a reply that counts entries: all it counts are durable, and were told before.
func (l *life) answer(v any, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers++
	switch {
	case err == nil:
		if n := v.(int); n > len(l.entries()) || n > len(l.told) {
			l.t.Errorf("a reply counts %d entries; %d are durable, and orders told of %d", n, len(l.entries()), len(l.told))
		}
	case errors.Is(err, coord.ErrClosed):
		if !l.closed {
			l.t.Errorf("%v before Close", err)
		}
	case !errors.Is(err, coord.ErrNotDurable) && !errors.Is(err, coord.ErrPanic):
		l.t.Errorf("an answer of %v", err)
	}
}

func (l *life) do(ev machine.Event) {
	l.asked++
	l.shard.Do(ev, l.answer)
}

func (l *life) put(*rapid.T) {
	l.next++
	l.do(put{l.next})
}

func (l *life) puts(*rapid.T) {
	l.next += 2
	l.do(puts{[]uint64{l.next - 1, l.next}})
}

func (l *life) wait(t *rapid.T) { l.do(wait{rapid.IntRange(0, 20).Draw(t, "for")}) }

func (l *life) view(*rapid.T) {
	l.asked++
	l.shard.View(func(m machine.Machine) any { return len(m.(*ledger).entries) }, l.answer)
}

// bubbled hides Deadline, which may not be asked in a synctest bubble.
type bubbled struct{ rapid.TB }

// No reply and no order ever tells of what could still be lost; all come in order; everybody is answered exactly once; and the
// machine is what the log says.
func TestNothingUndurableLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubbled{t}, func(t *rapid.T) {
			l := &life{rig: &rig{}, t: t}
			var err error
			l.shard, err = coord.Open(newLedger(&l.faults), &l.log, coord.Options{Logger: quiet, Orders: l.heard})
			if err != nil {
				t.Fatal(err)
			}
			defer l.finish()
			t.Repeat(map[string]func(*rapid.T){
				"put":        l.put,
				"puts":       l.puts,
				"read":       func(*rapid.T) { l.do(count{}) },
				"wait":       l.wait,
				"view":       l.view,
				"boom":       func(*rapid.T) { l.do(boom{}) },
				"alarm":      func(*rapid.T) { l.shard.Do(alarm{time.Now().Add(time.Second)}, nil) },
				"hold":       func(*rapid.T) { l.log.Hold() },
				"release":    func(*rapid.T) { l.log.Release() },
				"sync":       func(t *rapid.T) { l.log.Sync(rapid.IntRange(0, 3).Draw(t, "n")) },
				"fail sync":  func(*rapid.T) { l.log.FailSync(errDisk) },
				"fail":       func(*rapid.T) { l.log.FailAppends(errDisk) },
				"fail all":   func(*rapid.T) { l.log.FailAppends(errDisk); l.log.FailReplays(errDisk) },
				"heal":       func(*rapid.T) { l.log.FailAppends(nil); l.log.FailReplays(nil) },
				"quiet":      func(*rapid.T) { synctest.Wait() },
				"time flies": func(*rapid.T) { time.Sleep(time.Second) },
			})
		})
	})
}

// finish lets the log recover, looks whether the machine is what it says, and closes the shard with a request in it.
func (l *life) finish() {
	l.log.FailAppends(nil)
	l.log.FailReplays(nil)
	l.log.Release()
	time.Sleep(time.Minute)
	l.asked++
	l.shard.View(func(m machine.Machine) any {
		if e := m.(*ledger).entries; !slices.Equal(e, l.entries()) {
			l.t.Errorf("the machine has %v, the log %v", e, l.entries())
		}
		return 0
	}, l.answer)
	l.do(wait{1 << 30})
	synctest.Wait()
	l.mu.Lock()
	if !slices.Equal(l.told, l.entries()) {
		l.t.Errorf("orders told of %v; durable is %v", l.told, l.entries())
	}
	l.closed = true
	l.mu.Unlock()
	l.shard.Close()
	if l.answers != l.asked {
		l.t.Errorf("%d answers to %d requests", l.answers, l.asked)
	}
}
