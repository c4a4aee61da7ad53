package broker

import (
	"context"
	"sync"
	"time"

	"sluice/log"
)

// Waiting for data happens here and nowhere else. A request that is not due at once leaves its goroutine and becomes a
// parked object: a watch on each of its partitions, a timer, and a hook on its connection. It is answered exactly once,
// when
//
//	A  its partitions have the bytes it asked for;
//	B  a partition has an error or a divergence to report;
//	C  its deadline passed;
//	D  the client hung up;
//	E  the server stops.
//
// A and B are the plan's to find. After C, D and E the answer is what is there: at the deadline it is what the client
// asked for, a stopping server lets it leave, and after a hang-up it goes nowhere.
//
// The watches are set before the second look, so that no append falls between looking and waiting. A fire only marks
// its partition and sees to it that a goroutine looks; there is at most one for each parked request, and it is the only
// one to plan, to answer and to stop. It looks at the partitions that fired, and plans anew only when they promise
// enough: a thousand partitions of which one moves cost one look.

// parkable is a request that may wait for data in partitions.
type parkable interface {
	// sources are the partitions to watch; nil stands for one that has none. The list must not change.
	sources() int
	source(i int) watchable
	// park tells that the request waits from now on. A fire of watches[i] has the partition looked at again, as its own would.
	park(watches []watch)
	// plan looks at all partitions and says whether the answer is due (A, B). It is due always when last is set. When it
	// is due the plan's result is kept for answer; otherwise nothing is held.
	plan(last bool) bool
	// promise looks, as plan does, at the partitions that moved since they were last looked at, and tells whether a plan
	// of all would find the answer due. Nothing is held afterwards.
	promise(moved []int) bool
	// answer replies with what plan kept.
	answer()
	// context ends when the client hung up or the server stops.
	context() context.Context
	// guard runs fn; a panic in it costs the request's connection and not the process.
	guard(fn func())
}

// watchable is what a partition is to a parked request.
type watchable interface {
	Watch(*log.Watch)
	Unwatch(*log.Watch)
}

// await answers q now if it is due or may not wait, and parks it otherwise. It does not block.
func await(q parkable, wait time.Duration) {
	if q.plan(wait <= 0) {
		q.answer()
		return
	}
	p := &parked{request: q, running: true, watches: make([]watch, q.sources())}
	for i := range p.watches {
		w := &p.watches[i]
		w.parked, w.index, w.line.To = p, int32(i), w
		if s := q.source(i); s != nil {
			s.Watch(&w.line)
		}
	}
	q.park(p.watches)
	if q.plan(false) {
		p.finish()
		return
	}
	p.timer = time.AfterFunc(wait, p.end)            // C
	p.unhook = context.AfterFunc(q.context(), p.end) // D, E
	p.run()
}

// parked is a waiting request.
type parked struct {
	request parkable
	timer   *time.Timer
	unhook  func() bool

	watches []watch

	mu      sync.Mutex
	fired   []int // partitions that fired since the last look, each once
	ended   bool  // C, D or E
	running bool  // a goroutine looks, or the request was answered
}

// watch is one partition's line to a parked request.
type watch struct {
	line   log.Watch
	parked *parked
	index  int32
	fired  bool // index is in parked.fired; guarded by parked.mu
}

// Fire implements log.Watcher.
func (w *watch) Fire() {
	p := w.parked
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.fired {
		return
	}
	w.fired = true
	p.fired = append(p.fired, int(w.index))
	p.wakeLocked()
}

func (p *parked) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.wakeLocked()
}

func (p *parked) wakeLocked() {
	if !p.running {
		p.running = true
		go p.request.guard(p.run)
	}
}

// run looks until nothing is left to look at or the request is answered. After the answer running stays set: no other
// goroutine will start.
func (p *parked) run() {
	for {
		fired, ended, more := p.take()
		switch {
		case !more:
			return
		case !ended && !p.request.promise(fired):
		case p.request.plan(ended):
			p.finish()
			return
		}
	}
}

// take gives what happened since it was last called; if nothing did the goroutine's time is over.
func (p *parked) take() (fired []int, ended, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended && len(p.fired) == 0 {
		p.running = false
		return nil, false, false
	}
	for _, i := range p.fired {
		p.watches[i].fired = false
	}
	fired, p.fired = p.fired, nil
	return fired, p.ended, true
}

func (p *parked) finish() {
	for i := range p.watches {
		if s := p.request.source(i); s != nil {
			s.Unwatch(&p.watches[i].line)
		}
	}
	if p.timer != nil {
		p.timer.Stop()
		p.unhook()
	}
	p.request.answer()
}
