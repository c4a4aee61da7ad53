package broker

import (
	"context"
	"sync"
	"sync/atomic"

	"sluice/internal/server"
	"sluice/log"
	"sluice/throttle"
)

// The throttled side of Fetch. A partition to which limits apply is planned against what its counters have: as a whole if they have enough for all of it, and
// else batch by batch. The plans are taken from the counters when the answer is due and not before, so that a fetch that waits holds nothing. A
// partition whose counters have nothing counts as one without new data: it holds up no other, throttle_time_ms stays 0, and
// its fetch waits for allowance as it waits for data, until max_wait at the longest. min_bytes is waited for as long as data
// lack, not allowance: that would lapse.
//
// What was taken for an answer of which nothing could be sent is given back.

// allowance is how a partition stands with its counters. A fetchPart has one from the first look on that found limits.
type allowance struct {
	draft   *draft           // nil: nothing was planned
	refusal throttle.Refusal // until when, if refused
	watch   throttle.Watch   // waits for what refused
	refused bool             // the partition has data and the counters have nothing
	lapses  bool             // to wait for more data would waste what there is
}

// draft is what is planned to leave of a partition. It is apart, since those who wait have none; and what was taken for it is again, since many plan at the
// moment in which a window begins, but few can take. So the path is not kept, either, but found anew.
type draft struct {
	sub   string // the name of the subscription that is charged
	from  int64  // offset of the fetch
	plan  throttle.Plan
	grant *throttle.Grant // what was taken; nil: nothing
}

var (
	allowances = sync.Pool{New: func() any { return new(allowance) }}
	drafts     = sync.Pool{New: func() any { return new(draft) }}
	grants     = sync.Pool{New: func() any { return new(throttle.Grant) }}
)

// Admit implements log.Admitter.
func (d *draft) Admit(h log.Header) bool {
	return d.plan.Add(throttle.Visible(h.Records, h.Last, d.from, h.Control), int64(h.Size))
}

func (l *allowance) refuse(r throttle.Refusal) {
	l.drop()
	l.refused, l.refusal = true, r
}

// forget is called before each look.
func (l *allowance) forget() {
	l.drop()
	l.refused, l.lapses = false, false
}

// drop gives the draft back to the pool.
func (l *allowance) drop() {
	if d := l.draft; d != nil {
		l.draft = nil
		d.dropGrant()
		*d = draft{}
		drafts.Put(d)
	}
}

func (d *draft) dropGrant() {
	if g := d.grant; g != nil {
		d.grant = nil
		*g = throttle.Grant{}
		grants.Put(g)
	}
}

// clock is now, the same for all of a look.
func (f *fetchCall) clock() throttle.Instant {
	if f.now == 0 {
		f.now = instant()
	}
	return f.now
}

// throttled tells whether limits apply to a partition, whose data end for the fetch at end.
func (f *fetchCall) throttled(p *fetchPart, end int64) bool {
	x := f.topics[p.topic].topic.limits
	if x == nil || !x.Limited() {
		return false
	}
	if !p.arrived {
		p.arrived = true
		p.exempt = x.Arrived(p.partition, f.subscriptionOf(p, x), p.offset, end, f.clock())
	}
	return !p.exempt && !f.broker.dispatch.Exempt(f.who.principal, f.who.clientID)
}

// subscriptionOf is whose counters a partition is charged to. As long as it may be any of several groups' it is the strictest's.
func (f *fetchCall) subscriptionOf(p *fetchPart, x *throttle.Topic) string {
	k, _, rivals := p.sub.key()
	name := k.name
	if !k.group && name != "" {
		name = f.conn.marked(name)
	}
	if rivals == nil {
		return name
	}
	return x.Strictest(append([]string{name}, rivals...)...)
}

// allow asks for what the counters of a partition that has data let it have, and tells false if that is nothing.
func (f *fetchCall) allow(p *fetchPart) bool {
	if p.limit == nil {
		p.limit = allowances.Get().(*allowance)
	}
	l, x := p.limit, f.topics[p.topic].topic.limits
	if f.gone {
		l.refuse(throttle.Refusal{})
		return false
	}
	sub := f.subscriptionOf(p, x)
	path := x.Path(p.partition, sub, f.clock())
	p.sub.drawOn(sub, &path, f.clock())
	if !path.Limited() {
		return true
	}
	plan, refusal, ok := path.Plan(f.ahead, f.clock())
	if !ok {
		l.refuse(refusal)
		l.lapses = refusal.ReadyAt <= f.clock() // what there was is in this very answer
		return false
	}
	l.draft = drafts.Get().(*draft)
	*l.draft = draft{sub: sub, from: p.offset, plan: plan}
	return true
}

// trim plans which batches of a partition's range may leave, of those below limit, and ends the range behind them.
func (f *fetchCall) trim(p *fetchPart, limit int64) error {
	d := p.draft()
	if d == nil {
		return nil
	}
	if n, known := messages(&d.plan, &p.rng); !known || !d.plan.AddAll(n, p.rng.Len) {
		if err := p.log.Trim(&p.rng, d); err != nil {
			return err
		}
	}
	d.plan.More = d.plan.More || p.rng.Next < limit
	p.limit.lapses = d.plan.Cut() && p.rng.Len > 0
	f.ahead = f.ahead.Plus(d.plan.Cost())
	return nil
}

// messages is how many messages a range is for a plan, if that is known without reading all of its headers.
func messages(plan *throttle.Plan, r *log.Range) (n int64, known bool) {
	if plan.ByBatch() {
		return r.Batches()
	}
	return r.Records()
}

// draft is what is planned or taken for the partition, or nil.
func (p *fetchPart) draft() *draft {
	if p.limit == nil {
		return nil
	}
	return p.limit.draft
}

// lapses tells whether waiting for more data would waste allowance.
func (p *fetchPart) lapses() bool { return p.limit != nil && p.limit.lapses }

// refusedBy is what the partition waits for, or nil if that is not allowance.
func (p *fetchPart) refusedBy() *throttle.Refusal {
	if p.limit == nil || !p.limit.refused {
		return nil
	}
	return &p.limit.refusal
}

// reserve takes what was planned from the counters. What others have taken meanwhile is left out of the answer. It tells false if
// that is all there was: then there may be another plan.
func (f *fetchCall) reserve() bool {
	took, lost := false, false
	for i := range f.parts {
		p := &f.parts[i]
		d := p.draft()
		if d == nil || p.rng.Len == 0 {
			continue
		}
		path := f.topics[p.topic].topic.limits.Path(p.partition, d.sub, f.clock())
		grant, refusal, ok := path.Reserve(d.plan, f.clock())
		if ok {
			d.grant, took = grants.Get().(*throttle.Grant), true
			*d.grant = grant
			continue
		}
		p.limit.refuse(refusal)
		p.rng.Release()
		p.rng, lost = log.Range{}, true
	}
	return took || !lost
}

// draw notes what the answer takes along, for when the connection turns out to read for another group. It comes before the answer: the client's
// next fetch may be here before the server is told that the answer was sent.
func (f *fetchCall) draw() {
	for i := range f.parts {
		p := &f.parts[i]
		if d := p.draft(); d != nil && d.grant != nil {
			p.sub.drawn(d.sub, d.grant)
		}
	}
}

// settle ends the account of an answer: what was not sent is given back.
func (f *fetchCall) settle(sent server.Sent) {
	for i := range f.parts {
		p := &f.parts[i]
		switch d := p.draft(); {
		case d == nil || d.grant == nil:
		case sent == server.SentNothing && p.sub.undrawn(d.sub):
			f.refund(p)
		default:
			d.dropGrant()
			count(&f.broker.dispatch.charged, d.plan.Cost())
		}
	}
}

// refund gives back what was taken for a partition.
func (f *fetchCall) refund(p *fetchPart) {
	if d := p.draft(); d != nil && d.grant != nil {
		d.grant.Refund(instant())
		d.dropGrant()
		count(&f.broker.dispatch.refunded, d.plan.Cost())
	}
}

// count adds a cost to counters by unit.
func count(to *[2]atomic.Int64, c throttle.Cost) {
	for unit, n := range c {
		to[unit].Add(n)
	}
}

// charged tells whether anything was taken for the answer.
func (f *fetchCall) charged() bool {
	for i := range f.parts {
		if d := f.parts[i].draft(); d != nil && d.grant != nil {
			return true
		}
	}
	return false
}

// hold waits for allowance in each partition that was refused. It tells false if there is some by now; then it must be looked again.
func (f *fetchCall) hold() bool {
	ok := true
	for i := range f.parts {
		ok = f.holdPart(i) && ok
	}
	return ok
}

// holdPart is hold for one partition. Each look at one ends in it or in letGo.
func (f *fetchCall) holdPart(i int) bool {
	l := f.parts[i].limit
	switch {
	case l == nil || f.lines == nil:
		return true
	case l.refused:
		return l.watch.On(l.refusal, &f.lines[i], f.clock())
	}
	l.watch.Cancel(f.clock())
	return true
}

// letGo waits no more.
func (f *fetchCall) letGo() {
	if f.lines == nil {
		return
	}
	for i := range f.parts {
		if l := f.parts[i].limit; l != nil {
			l.watch.Cancel(f.clock())
		}
	}
}

// answered tells the limits how far consumers have come. They use it if those without backlog are exempt.
func (f *fetchCall) answered() {
	if !f.broker.dispatch.ExemptsTails() {
		return
	}
	for i := range f.parts {
		p := &f.parts[i]
		if !p.arrived || p.code != 0 || p.diverges {
			continue
		}
		next, x := p.offset, f.topics[p.topic].topic.limits
		if p.rng.Len > 0 {
			next = p.rng.Next
		}
		x.Answered(p.partition, f.subscriptionOf(p, x), next, f.end(p), f.clock())
	}
}

// dropLimits gives the partitions' allowances back to the pool.
func (f *fetchCall) dropLimits() {
	for i := range f.parts {
		if l := f.parts[i].limit; l != nil {
			f.parts[i].limit = nil
			l.drop()
			*l = allowance{}
			allowances.Put(l)
		}
	}
}

// abandoned tells whether the client of a parked fetch has hung up: then nothing is to be taken for it.
func (f *fetchCall) abandoned() bool {
	return f.lines != nil && f.context().Err() != nil && context.Cause(f.context()) != server.ErrStopping
}

// subscriptionUse is what a subscription took of its own counters in this window, in case it has to be moved to those of another group.
type subscriptionUse struct {
	mu  sync.Mutex // guards what follows
	sub string
	use throttle.Use
}

// drawOn is called before a subscription is planned for. What it took under another name in this window moves along, so that a new
// name is no new allowance.
func (s *subscription) drawOn(name string, path *throttle.Path, now throttle.Instant) {
	u := s.use.Load()
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sub != name {
		u.use.Move(path, now)
		u.sub = name
	}
}

// drawn notes what was taken under a name. What was not taken from the subscription's own counters need not move.
func (s *subscription) drawn(name string, g *throttle.Grant) {
	u := s.use.Load()
	if u == nil && !g.OfSubscription() {
		return
	}
	if u == nil {
		s.use.CompareAndSwap(nil, &subscriptionUse{sub: name})
		u = s.use.Load()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sub == name { // else it moved since the plan was made
		u.use.Add(g)
	}
}

// undrawn forgets what was taken under a name, since it is to be given back to where it was taken from. It tells false if it has moved to another
// name's counters: there it stays.
func (s *subscription) undrawn(name string) bool {
	u := s.use.Load()
	if u == nil {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sub != name {
		return false
	}
	u.use = throttle.Use{}
	return true
}
