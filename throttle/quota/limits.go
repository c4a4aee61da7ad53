package quota

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxMeters is how many meters there may be under quotas that are defaults, where each client id has one, at about 300 bytes and a name. Beyond it
	// those that come new under such a quota share one meter of it: they may get less than their quota, but nobody gets more by changing its name.
	MaxMeters = 50_000
	// IdleDrop is how long a meter stays that is not used, as in Kafka.
	IdleDrop = time.Hour
	// crowdedDrop is that for when there are MaxMeters; longer than a fetch may wait, so that no request counts on a meter that was dropped.
	crowdedDrop = 10 * time.Minute
	// sweepPause is between two looks for meters to drop because there are too many: a look costs as much as there are.
	sweepPause = 10 * time.Second
	// maxName is as much of a client id as counts, in bytes; no quota can be set for a longer one.
	maxName = 1024
)

// Settings are how quotas are measured.
type Settings struct {
	Windows         int           // quota.window.num
	Window          time.Duration // quota.window.size.seconds
	MutationWindows int           // controller.quota.window.num
	MutationWindow  time.Duration // controller.quota.window.size.seconds
}

// window is the time in seconds whose quota may be used at once. Of the samples of a rate one is always in the making and does not count, as in Kafka.
func (s Settings) window(k Kind) float64 {
	if k == Mutation {
		return float64(s.MutationWindows) * s.MutationWindow.Seconds()
	}
	return float64(max(1, s.Windows-1)) * s.Window.Seconds()
}

// longest is the longest wait. A client is held for request time for one sample at most, as in Kafka, so that it can go on with its heartbeats.
func (s Settings) longest(k Kind) time.Duration {
	if k == Request {
		return min(s.Window, MaxWait)
	}
	return MaxWait
}

// Limits are all client quotas in force and their meters. The zero value has none.
type Limits struct {
	rules atomic.Pointer[rules] // nil: no quota is set

	mu      sync.Mutex // guards what follows
	meters  map[meterKey]*Meter
	crowd   int // meters under defaults
	swept   Instant
	retired [Kinds]struct { // what meters that are gone have counted
		waits int64
		wait  time.Duration
	}
}

// Active tells whether any quota is set. It costs one atomic load.
func (l *Limits) Active() bool { return l.rules.Load() != nil }

// Client are the meters of one client; nil where it has no quota.
type Client struct {
	rules *rules
	meter [Kinds]*Meter
}

// Meter is the client's meter of a kind, or nil. A nil client has none.
func (c *Client) Meter(k Kind) *Meter {
	if c == nil {
		return nil
	}
	return c.meter[k]
}

// Current tells whether the meters are still those that the client falls under.
func (l *Limits) Current(c *Client) bool {
	if c == nil || c.rules != l.rules.Load() {
		return false
	}
	for _, m := range c.meter {
		if m != nil && m.gone.Load() {
			return false
		}
	}
	return true
}

// Client finds the meters of a client, and makes those that are missing. It is nil if no quota is set at all.
func (l *Limits) Client(user, clientID string, now Instant) *Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rules.Load()
	if r == nil {
		return nil
	}
	if len(clientID) > maxName {
		clientID = strings.Clone(clientID[:maxName])
	}
	c := &Client{rules: r}
	for k := range Kinds {
		if rate, key, rule, ok := r.find(k, user, clientID); ok {
			c.meter[k] = l.meterOf(key, rule, rate, now)
		}
	}
	return c
}

// meterOf finds or makes a meter. The lock is held.
func (l *Limits) meterOf(key meterKey, rule Entity, rate float64, now Instant) *Meter {
	if m := l.meters[key]; m != nil {
		return m
	}
	if !rule.shares() {
		if l.crowd >= MaxMeters {
			l.sweepCrowd(now)
		}
		if l.crowd >= MaxMeters {
			key.client, key.rest = rest(rule.ClientID), true
			key.user = rest(rule.User)
			if m := l.meters[key]; m != nil {
				return m
			}
		} else {
			l.crowd++
		}
	}
	s := l.rules.Load().settings
	m := &Meter{kind: key.kind, key: key, at: now}
	m.set(rate, s.window(key.kind), s.longest(key.kind), now)
	if l.meters == nil {
		l.meters = map[meterKey]*Meter{}
	}
	l.meters[key] = m
	return m
}

// rest is the part of the key of the meter for those that are too many: what the quota names stays apart.
func rest(n Name) string {
	if n.Default {
		return ""
	}
	return n.Name
}

// Configure puts quotas in force, of each kind by entity. What was used stays used where a meter goes on under its new rate.
func (l *Limits) Configure(of [Kinds]map[Entity]float64, s Settings, now Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var r *rules
	for _, m := range of {
		if len(m) > 0 {
			r = &rules{of, s}
		}
	}
	l.rules.Store(r)
	for key, m := range l.meters {
		if r != nil {
			if rate, ok := r.rateOf(key); ok {
				m.set(rate, s.window(key.kind), s.longest(key.kind), now)
				continue
			}
		}
		m.gone.Store(true)
		l.drop(m)
	}
	l.count()
}

// count counts the meters under defaults anew. The lock is held.
func (l *Limits) count() {
	l.crowd = 0
	for key := range l.meters {
		if !key.rest && !l.shared(key) {
			l.crowd++
		}
	}
}

// shared tells whether a meter's quota has just that one. The lock is held.
func (l *Limits) shared(key meterKey) bool {
	r := l.rules.Load()
	var rule Entity
	if key.hasUser {
		rule.User = Named(key.user)
	}
	if key.hasClient {
		rule.ClientID = Named(key.client)
	}
	_, ok := r.of[key.kind][rule]
	return ok
}

// drop takes a meter out, which is gone already. The lock is held.
func (l *Limits) drop(m *Meter) {
	delete(l.meters, m.key)
	m.mu.Lock()
	defer m.mu.Unlock()
	l.retired[m.kind].waits += m.waits
	l.retired[m.kind].wait += m.wait
}

// Sweep drops the meters that were not used for an hour.
func (l *Limits) Sweep(now Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(IdleDrop, now)
}

func (l *Limits) sweepCrowd(now Instant) {
	if time.Duration(now-l.swept) >= sweepPause {
		l.sweep(crowdedDrop, now)
	}
}

func (l *Limits) sweep(idle time.Duration, now Instant) {
	if len(l.meters) == 0 {
		return
	}
	l.swept = now
	for _, m := range l.meters {
		if m.retire(idle, now) {
			l.drop(m)
		}
	}
	l.count()
}

// Each shows the meters, in no order.
func (l *Limits) Each(now Instant, fn func(State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.meters {
		fn(m.state(now))
	}
}

// Retired is how often, and for how long, clients were held by meters that are gone.
func (l *Limits) Retired(k Kind) (waits int64, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.retired[k].waits, l.retired[k].wait
}
