package broker

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/server"
	"sluice/throttle/quota"
)

// Client quotas at work. A request that comes while quotas are set is counted on the meters of its connection's client: a Produce by its
// size, a Fetch by its answer's (fetch_quota.go), a creation or deletion of topics by partitions (quota_mutations.go), and each by the
// processor's time that it took: the handler's, and that of writing on the connection. Who is over a quota is told so by throttle_time_ms in an answer that
// leaves at once, and its connection is not read until that time has passed (KIP-219), whether the client waits or not. The mute is a point in time, so one that waits is not held twice.
//
// As in Kafka a mute does not end early when its quota is raised or removed, and an acks=0 Produce does not pay for its time.

// connQuota is a connection's place under the quotas. It is there once a request came while there were any.
type connQuota struct {
	limits *quota.Limits
	conn   *server.Conn
	meters atomic.Pointer[quota.Client] // of the client id of the last request
	// refused is how many fetches in a row were answered without records, since they were over a quota.
	refused atomic.Int32

	clientID string // the reader's

	mu    sync.Mutex
	since time.Time     // when the request that is being handled began, or was last charged for; zero: none is, or none is counted
	wrote time.Duration // and was not charged
}

// quotaOf is the place of a request's connection, nil when no quota is set.
func quotaOf(r *server.Request) *connQuota {
	q, _ := r.Local.(*connQuota)
	return q
}

// handleMetered runs stage one of a request while quotas are set.
func (b *Broker) handleMetered(row *row, r *server.Request) {
	q := b.quotaFor(r)
	r.Local = q
	q.begin()
	defer q.end()
	row.handle(b, r)
}

// quotaFor finds the place of a request's connection, and its client's meters. It must be called on the connection's reader.
func (b *Broker) quotaFor(r *server.Request) *connQuota {
	c := b.resolver.connOf(r)
	q := c.quota
	if q == nil {
		q = &connQuota{limits: &b.quotas.limits, conn: r.Conn}
		c.change(func() { c.quota = q })
		r.Conn.OnWrite(q.noteWrite)
	}
	if m := q.meters.Load(); q.clientID != c.clientID || !q.limits.Current(m) {
		q.clientID = c.clientID
		q.meters.Store(q.limits.Client(userOf(c.principal), c.clientID, quotaNow()))
	}
	return q
}

// userOf is the name in a principal, which is what quotas go by: "User:alice" is alice.
func userOf(principal string) string {
	_, name, _ := strings.Cut(principal, ":")
	return name
}

func quotaNow() quota.Instant { return quota.Instant(stampOf(time.Now())) }

// meter is a meter of the client, or nil.
func (q *connQuota) meter(k quota.Kind) *quota.Meter {
	if q == nil {
		return nil
	}
	return q.meters.Load().Meter(k)
}

// begin starts the clock of a request, if its time is counted.
func (q *connQuota) begin() {
	if q.meter(quota.Request) == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.since = time.Now()
}

// end stops it. What was not charged with an answer is charged now; whoever comes next is told.
func (q *connQuota) end() {
	q.requestTime()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.since = time.Time{}
}

// requestTime charges the time since the last time, and tells how long the client is to be held. It may be called by other goroutines
// than the reader: then what is charged is of another request of the same connection.
func (q *connQuota) requestTime() time.Duration {
	m := q.meter(quota.Request)
	if m == nil {
		return 0
	}
	return m.Use(q.spent().Seconds(), quotaNow())
}

func (q *connQuota) spent() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := q.wrote
	q.wrote = 0
	if !q.since.IsZero() {
		now := time.Now()
		d += now.Sub(q.since)
		q.since = now
	}
	return d
}

// noteWrite takes the time that a write on the connection took; it is charged with the next request.
func (q *connQuota) noteWrite(d time.Duration) { q.noteWork(d) }

// noteWork takes time that was spent outside of the reader.
func (q *connQuota) noteWork(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wrote += d
}

// hold mutes the connection from now on, and gives the throttle_time_ms that goes with it.
func (q *connQuota) hold(wait time.Duration) int32 {
	if wait <= 0 {
		return 0
	}
	q.conn.Mute(wait)
	return int32(wait.Milliseconds())
}

// meter charges a call for its time, and tells its client if it is to be held.
func (c *call) meter(resp kmsg.Response) {
	q := quotaOf(c.Request)
	if q == nil {
		return
	}
	if ms := q.hold(max(q.requestTime(), c.mutations)); ms > 0 {
		if t, ok := resp.(kmsg.SetThrottleResponse); ok {
			t.SetThrottle(ms)
		}
	}
}

// held charges a Produce for its bytes and its time, and gives the throttle_time_ms of its answer.
func (c *produceCall) held() int32 {
	q := quotaOf(c.req)
	if q == nil {
		return 0
	}
	var wait time.Duration
	if m := q.meter(quota.Produce); m != nil {
		wait = m.Use(float64(c.req.Size()), quotaNow())
	}
	if c.head.acks != 0 {
		wait = max(wait, q.requestTime())
	}
	return q.hold(wait)
}
