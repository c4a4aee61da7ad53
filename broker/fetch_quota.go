package broker

import (
	"encoding/binary"
	"time"

	"sluice/internal/server"
	"sluice/throttle/quota"
)

// A Fetch under client quotas. Its answer is made as if there were none, and counted when it is whole. If that is more than the
// quota allows, nothing is counted, and an answer without records leaves instead, that names the same partitions and tells how long the
// client is held; what dispatch throttling had taken for the records goes back. A fetch that waits for data or for allowance is not
// counted until then, and its waiting is no request time.
//
// What is planned is no more than the quota ever allows at once, or a fetch with a large max_bytes would never get anything (KAFKA-9677).
// The first batch is given even if it is larger, as always, and is counted whole. Who was held for nothing, since others have used the
// quota meanwhile or there is more to be had than before, has the next fetch as soon as the quota is not exceeded, whatever it comes to.

// patience is how many fetches in a row are refused before the next is given more than is left of the quota, which goes into debt.
const patience = 2

// capByQuota bounds what is planned.
func (f *fetchCall) capByQuota() {
	f.quota = quotaOf(f.req)
	if m := f.quota.meter(quota.Fetch); m != nil {
		f.maxBytes = min(f.maxBytes, int64(min(max(1, m.AtOnce()), 1<<40)))
		f.minBytes = min(f.minBytes, f.maxBytes)
	}
}

// queue waits for the turn of a long plan. That is no request time.
func (f *fetchCall) queue() (leave func()) {
	if f.quota.meter(quota.Request) != nil {
		began := time.Now()
		defer func() { f.quota.noteWork(-time.Since(began)) }()
	}
	return f.broker.dispatch.queue()
}

// charge counts an answer of n bytes. It tells how long the client is to be held, and whether the answer may leave.
func (q *connQuota) charge(n int64) (wait time.Duration, ok bool) {
	patient := q.refused.Load() >= patience
	wait, ok = q.requestTime(), true
	if wait > 0 && !patient {
		q.refused.Add(1)
		return wait, false
	}
	if m := q.meter(quota.Fetch); m != nil {
		var more time.Duration
		more, ok = m.Take(float64(n), patient, quotaNow())
		wait = max(wait, more)
	}
	if ok {
		q.refused.Store(0)
	} else {
		q.refused.Add(1)
	}
	return wait, ok
}

// meter charges the answer, which is written, and writes another one if it may not leave.
func (a *fetchAnswer) meter() {
	if a.quota == nil {
		return
	}
	wait, ok := a.quota.charge(a.size())
	if !ok {
		a.withhold()
		a.w.b, a.ranges = a.w.b[:0], nil
		a.write()
	}
	if ms := a.quota.hold(wait); ms > 0 {
		binary.BigEndian.PutUint32(a.w.b[a.throttleAt():], uint32(ms))
	}
}

// size is how many bytes the answer has, without its size field.
func (a *fetchAnswer) size() int64 { return int64(binary.BigEndian.Uint32(a.w.b)) }

// throttleAt is where throttle_time_ms stands: behind the size, the correlation id and the header's tags.
func (a *fetchAnswer) throttleAt() int {
	if a.flexible() {
		return 9
	}
	return 8
}

// withhold takes the records out of the answer, and gives back what was taken for them.
func (f *fetchCall) withhold() {
	f.settle(server.SentNothing)
	f.release()
}
