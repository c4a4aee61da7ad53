package quota

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Instant is a moment on the caller's clock, in nanoseconds.
type Instant int64

// MaxWait is the longest that a client is held, since throttle_time_ms is an int32.
const MaxWait = math.MaxInt32 * time.Millisecond

// Meter says how much of one quota is used. It is Kafka's rate over a window of quota.window.num samples, without the samples: what is used
// raises a level, which falls by the quota's rate all the time, and the quota is exceeded while the level is above what the rate makes
// in the window. So a client that was idle may use a window's worth at once, as in Kafka, and the wait after a single request is Kafka's. It differs
// where samples forget: there what is larger than a window is lost from the account when its sample is, so that a client with such
// requests gets more than its quota for ever, and several requests that overlap in the window are waited for twice. A level pays each byte
// once.
//
// One lock guards all of a meter: what it does is a few additions.
type Meter struct {
	kind Kind
	key  meterKey
	gone atomic.Bool // it is not in the Limits any more; another one may have taken its place

	mu     sync.Mutex
	rate   float64 // units in a second: bytes, seconds of a processor, partitions
	window float64 // seconds
	most   time.Duration
	level  float64 // units used and not yet passed
	at     Instant // when level was right

	// Since the meter was made.
	used  float64
	waits int64
	wait  time.Duration
}

// set puts a rate, a window, and the longest wait in force. What is used stays used.
func (m *Meter) set(rate, window float64, most time.Duration, now Instant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass(now)
	m.rate, m.window, m.most = rate, window, most
}

// pass lowers the level by the time that has passed. The lock is held.
func (m *Meter) pass(now Instant) {
	if now > m.at {
		m.level = max(0, m.level-m.rate*time.Duration(now-m.at).Seconds())
		m.at = now
	}
}

// full is the level above which the quota is exceeded. The lock is held.
func (m *Meter) full() float64 { return m.rate * m.window }

// AtOnce is how much an idle client may use at once.
func (m *Meter) AtOnce() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.full()
}

// Use counts what has been used in any case, and tells how long the client is to be held for it.
func (m *Meter) Use(n float64, now Instant) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass(now)
	m.add(n)
	return m.held(m.level - m.full())
}

// Take counts n if the quota is not exceeded then, and else counts nothing and tells how long the client is to be held. What is larger than
// the quota admits at any time counts as the most that it does, so that it is not held for ever. A patient client has been held
// for nothing: it gets it as soon as the quota is not exceeded before, so that those who take little and share the
// quota do not keep it waiting for ever either.
func (m *Meter) Take(n float64, patient bool, now Instant) (wait time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass(now)
	full := m.full()
	over := m.level + min(n, full) - full
	if patient {
		over = min(over, m.level-full)
	}
	if over > 0 {
		return m.held(over), false
	}
	m.add(n)
	return 0, true
}

// Admit counts n unless the quota is exceeded already, and tells how long the client would have to wait if it is (KIP-599).
func (m *Meter) Admit(n float64, now Instant) (wait time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass(now)
	if over := m.level - m.full(); over > 0 {
		return m.held(over), false
	}
	m.add(n)
	return 0, true
}

// add raises the level. The lock is held.
func (m *Meter) add(n float64) {
	m.level += n
	m.used += n
}

// held is how long it takes until this much has passed, in whole milliseconds, as the client is told. The lock is held.
func (m *Meter) held(over float64) time.Duration {
	if over <= 0 {
		return 0
	}
	wait := m.most
	if ms := math.Ceil(over / m.rate * 1000); ms < float64(m.most.Milliseconds()) {
		wait = time.Duration(ms) * time.Millisecond
	}
	m.waits++
	m.wait += wait
	return wait
}

// retire tells true if the meter was not used for so long, and is not exceeded or used in part; then its place may be taken.
func (m *Meter) retire(idle time.Duration, now Instant) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.at
	if time.Duration(now-last) < idle || m.level > m.rate*time.Duration(now-last).Seconds() {
		return false
	}
	m.gone.Store(true)
	return true
}

// State is how a meter stands.
type State struct {
	Kind             Kind
	User, ClientID   string
	HasUser, HasID   bool
	Rest             bool // it stands for those that are too many to have one each
	Rate, Used, Left float64
	Waits            int64
	Wait             time.Duration
}

func (m *Meter) state(now Instant) State {
	m.mu.Lock()
	defer m.mu.Unlock()
	level := max(0, m.level-m.rate*time.Duration(max(0, now-m.at)).Seconds())
	return State{
		Kind: m.kind, User: m.key.user, ClientID: m.key.client, HasUser: m.key.hasUser, HasID: m.key.hasClient, Rest: m.key.rest,
		Rate: m.rate, Used: m.used, Left: m.full() - level, Waits: m.waits, Wait: m.wait,
	}
}
