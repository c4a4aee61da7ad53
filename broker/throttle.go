package broker

import (
	"sync"
	"sync/atomic"
	"time"

	"sluice/config"
	"sluice/throttle"
)

// sweepEvery is how often counters that nobody uses any more are dropped.
const sweepEvery = time.Minute

// dispatch is the broker's dispatch throttling: the limits, and the clock and the timers that they live by.
type dispatch struct {
	*throttle.Throttle
	waits       fetchWaits
	holding     atomic.Int64         // fetches that are held now
	throttledBy [causes]atomic.Int64 // how often a fetch began to wait for allowance
	rounds      atomic.Uint32        // of fetches that begin with another partition each
	planning    chan struct{}        // has room for who is the first in the queue of long plans

	// What left under limits, by unit as it was charged, and what was charged and given back.
	charged, refunded [2]atomic.Int64

	mu    sync.Mutex // guards what follows
	at    throttle.Instant
	alarm *time.Timer // for all that wait for allowance; set to at
	sweep *time.Timer
	over  bool

	swept func() // is called with each sweep
}

// newDispatch has swept called as often as it drops counters itself.
func newDispatch(swept func()) *dispatch {
	d := &dispatch{at: throttle.Never, planning: make(chan struct{}, 1), swept: swept}
	d.Throttle = throttle.New(d.arm)
	d.sweep = time.AfterFunc(sweepEvery, d.sweepIdle)
	return d
}

// instant is now on the clock of the limits.
func instant() throttle.Instant { return throttle.Instant(stampOf(time.Now())) }

// arm has the alarm ring no later than at.
func (d *dispatch) arm(at throttle.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at >= d.at || d.over {
		return
	}
	d.at = at
	wait := time.Duration(max(0, at-instant()))
	if d.alarm == nil {
		d.alarm = time.AfterFunc(wait, d.ring)
	} else {
		d.alarm.Reset(wait)
	}
}

func (d *dispatch) ring() {
	d.mu.Lock()
	d.at = throttle.Never
	d.mu.Unlock()
	if next := d.Wake(instant()); next != throttle.Never {
		d.arm(next)
	}
}

// turn is which of n partitions a fetch begins with. Under a limit that all partitions share it is another one each time, so that the first do not
// take it all; otherwise the first, as clients expect.
func (d *dispatch) turn(n int) int {
	if n < 2 || !d.Limited() {
		return 0
	}
	return int(d.rounds.Add(1) % uint32(n))
}

// queueAtMost bounds how long a long plan queues: the one before it may wait for the disk.
const queueAtMost = 100 * time.Millisecond

// queue lets one long plan be made at a time, of those that draw on the same allowance, until the func that it gives is called. Fetches of many partitions
// are woken together, and each may plan to take all that there is; those who look when it was taken need not read what they will not get. It is no
// lock: nothing is wrong when two plan at a time.
func (d *dispatch) queue() (leave func()) {
	wait := time.NewTimer(queueAtMost)
	defer wait.Stop()
	select {
	case d.planning <- struct{}{}:
		return func() { <-d.planning }
	case <-wait.C:
		return func() {}
	}
}

func (d *dispatch) sweepIdle() {
	d.Sweep(instant())
	d.swept()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		d.sweep.Reset(sweepEvery)
	}
}

// close stops the timers. Who waits then is answered at the end of its own wait.
func (d *dispatch) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	d.sweep.Stop()
	if d.alarm != nil {
		d.alarm.Stop()
	}
}

// throttled gives a new topic its limits; nil, which is none ever, for the broker's own topics.
func (d *dispatch) throttled(name string, internal bool) *throttle.Topic {
	if internal || d == nil {
		return nil
	}
	return d.Topic(name)
}

// forget takes a deleted topic out.
func (d *dispatch) forget(t *topic) {
	if t.limits != nil {
		t.limits.Close()
		d.waits.forget(t)
	}
}

// standIn begins what the limits know a subscription by that has no group, so that it is none's name: a group may well be called "shared".
const standIn = "\x00"

// marked is the name of what stands in for a group, as the limits know it. It is the same for all that a connection reads.
func (c *connState) marked(name string) string {
	if known := c.standIn.Load(); known != nil && (*known)[len(standIn):] == name {
		return *known
	}
	marked := standIn + name
	c.standIn.Store(&marked)
	return marked
}

// limitsChanged puts limits in force as Broker.dispatchChanged says.
func (b *Broker) limitsChanged(t *topic) {
	if t == nil {
		b.dispatch.Configure(limitsOf(&b.config().Dispatch, b.groupConfigs.policies()), instant())
	} else if t.limits != nil {
		own := t.config().Dispatch
		t.limits.Configure(throttle.Policies{Topic: policyOf(own.Topic), Subscription: policyOf(own.Subscription)}, instant())
	}
}

// limitsOf is all settings of dispatch throttling but the topics' own.
func limitsOf(d *config.Dispatch, groups map[string]config.Policy) throttle.Settings {
	s := throttle.Settings{
		Broker: policyOf(d.Broker), Topic: policyOf(d.PerTopic), Subscription: policyOf(d.PerSubscription),
		Namespaces: make(map[string]throttle.Policies, len(d.Namespaces)), Delimiter: d.Delimiter,
		Groups: make(map[string]throttle.Policy, len(groups)), Period: d.Broker.Period,
		MaxReadBatches: int64(d.MaxReadBatches), MaxDebtPeriods: int64(d.MaxDebtPeriods),
		FairHoldRatio: d.FairHoldRatio, FairHoldMax: d.FairHoldMax,
		ExemptPrincipals: d.ExemptPrincipals, ExemptClients: d.ExemptClientIDs,
		ExemptTail: !d.OnNonBacklog, TailThreshold: d.BacklogThreshold,
	}
	if s.FairHoldRatio == 0 {
		s.FairHoldMax = throttle.DefaultFairHoldMax // no part of a period; both zero would be the defaults
	}
	switch {
	case d.Precise:
		s.Mode = throttle.Precise
	case d.OnBatches:
		s.Mode = throttle.Batches
	}
	for _, n := range d.Namespaces {
		s.Namespaces[n.Prefix] = throttle.Policies{Topic: policyOf(n.Topic), Subscription: policyOf(n.Subscription)}
	}
	for name, p := range groups {
		s.Groups[name] = policyOf(p)
	}
	return s
}

func policyOf(p config.Policy) throttle.Policy {
	if !p.Set {
		return throttle.Policy{}
	}
	return throttle.Policy{Messages: throttle.PerPeriod(p.Msgs), Bytes: throttle.PerPeriod(p.Bytes), Period: p.Period}
}
