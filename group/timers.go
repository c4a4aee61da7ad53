package group

import (
	"container/heap"
	"time"
)

// timer is one thing to happen when nothing else has for a while. It is embedded in what it belongs to.
type timer struct {
	since   time.Duration // running time at its start
	timeout time.Duration
	ring    ringer

	// at is when the queue looks at it: never later than its end. Starting it again, which every heartbeat does, leaves
	// at alone; the queue finds out when it gets there.
	at    time.Duration
	place int // in the queue, counted from one; 0: it does not run
}

// ringer is what a timer does at its end.
type ringer interface{ ring(m *Machine) }

// end follows the rule that clock states.
func (t *timer) end(resumed time.Duration) time.Duration {
	return min(max(t.since, resumed)+t.timeout, t.since+2*t.timeout)
}

// timers is a heap by the time of the next look.
type timers []*timer

func (q timers) Len() int           { return len(q) }
func (q timers) Less(i, j int) bool { return q[i].at < q[j].at }
func (q timers) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i+1, j+1
}
func (q *timers) Push(x any) {
	t := x.(*timer)
	*q = append(*q, t)
	t.place = len(*q)
}
func (q *timers) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.place = 0
	return t
}

// start lets a timer run from now on, also if it runs already.
func (m *Machine) start(t *timer, timeout time.Duration, r ringer) {
	t.since, t.timeout, t.ring = m.clock.running, timeout, r
	end := t.end(m.clock.resumed)
	switch {
	case t.place == 0:
		t.at = end
		heap.Push(&m.timers, t)
	case end < t.at:
		t.at = end
		heap.Fix(&m.timers, t.place-1)
	}
}

func (m *Machine) stop(t *timer) {
	if t.place > 0 {
		heap.Remove(&m.timers, t.place-1)
	}
}

// ringTimers rings what has ended, in order, until the step has enough records.
func (m *Machine) ringTimers() {
	for len(m.timers) > 0 && m.written < sweepBytes {
		t := m.timers[0]
		if t.at > m.clock.running {
			return
		}
		if end := t.end(m.clock.resumed); end > m.clock.running {
			t.at = end
			heap.Fix(&m.timers, 0)
			continue
		}
		heap.Pop(&m.timers)
		t.ring.ring(m)
	}
}
