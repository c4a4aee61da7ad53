package broker

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
	"sluice/throttle"
	"sluice/throttle/quota"
)

// quota sets one quota of a client id, or of all client ids without one.
func (b *bubble) quota(clientID string, key string, v float64) {
	e := catalog.QuotaEntity{ClientID: catalog.QuotaName{Given: true, Default: clientID == "", Name: clientID}}
	values := map[string]float64{key: v}
	if v == 0 {
		values = nil
	}
	b.b.quotas.changed([]any{catalog.QuotaChanged{Entity: e, Values: values}})
}

// quotaReader is a consumer that falls under a quota.
type quotaReader struct {
	w        *wire
	ask      want
	obeys    bool  // waits as long as it is told
	maxBytes int32 // of a request

	bytes     int
	records   int64
	throttled int
	answers   int
}

// poll reads once and gives the throttle time of the answer.
func (r *quotaReader) poll() time.Duration {
	q := fetchOf(r.ask)
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes = 500, 1, r.maxBytes
	resp := r.w.do(12, q).(*kmsg.FetchResponse)
	p := resp.Topics[0].Partitions[0]
	r.answers++
	if resp.ErrorCode != 0 || p.ErrorCode != 0 || p.HighWatermark < 0 {
		r.w.t.Errorf("code %d, %d, high watermark %d", resp.ErrorCode, p.ErrorCode, p.HighWatermark)
	}
	if resp.ThrottleMillis > 0 {
		r.throttled++
		if len(p.RecordBatches) > 0 {
			r.w.t.Errorf("%d bytes with a throttle time of %d ms", len(p.RecordBatches), resp.ThrottleMillis)
		}
	}
	r.bytes += len(p.RecordBatches)
	r.records += r.ask.count(r.w.t, p.RecordBatches)
	return time.Duration(resp.ThrottleMillis) * time.Millisecond
}

// readUntil reads until a time, and does not count what comes later.
func (r *quotaReader) readUntil(end time.Time) {
	for time.Now().Before(end) {
		before := r.bytes
		wait := r.poll()
		if time.Now().After(end) {
			r.bytes = before
		}
		if r.obeys {
			time.Sleep(wait)
		}
		time.Sleep(time.Millisecond)
	}
}

// window is what a client may have beyond its rate: it was idle before.
const window = 10

func (b *bubble) wantRate(what string, bytes int, rate, seconds float64) {
	b.t.Helper()
	if over := float64(bytes) - rate*seconds; math.Abs(over-rate*window) > 0.01*rate*seconds+rate {
		b.t.Errorf("%s: %d bytes in %v s at %v/s", what, bytes, seconds, rate)
	}
}

// A consumer gets what its quota allows, whether it waits as it is told or asks again at once, and is told by throttle_time_ms and an
// answer without records.
func TestFetchQuota(t *testing.T) {
	for _, obeys := range []bool{false, true} {
		inBubble(t, throttle.Settings{}, func(b *bubble) {
			x := b.topic("a", 1, nil)
			b.backlog(x, 5000, 1, 1000)
			b.quota("c", "consumer_byte_rate", 50_000)
			r := &quotaReader{w: b.dial("c"), ask: at(x, 0, 0), obeys: obeys, maxBytes: 1 << 20}
			r.readUntil(b.born.Add(time.Minute))
			b.wantRate("a consumer", r.bytes, 50_000, 60)
			if r.throttled == 0 || obeys && r.answers > 3*r.throttled+10 {
				t.Errorf("throttled %d times in %d answers", r.throttled, r.answers)
			}
			other := &quotaReader{w: b.dial("other"), ask: at(x, 0, 0), maxBytes: 1 << 20}
			if other.poll(); other.bytes < 900_000 || other.throttled > 0 {
				t.Errorf("who has no quota gets %d bytes", other.bytes)
			}
		})
	}
}

// A connection that is muted is read again when the time has come and not later: who has waited is not held once more.
func TestNotHeldTwice(t *testing.T) {
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		x := b.topic("a", 1, nil)
		b.backlog(x, 300, 1, 1000)
		b.quota("c", "consumer_byte_rate", 1000)
		r := &quotaReader{w: b.dial("c"), ask: at(x, 0, 0), maxBytes: 9000}
		if r.poll() != 0 {
			t.Fatal("throttled at once")
		}
		wait := r.poll()
		if wait == 0 {
			t.Fatal("not throttled")
		}
		for _, early := range []time.Duration{0, wait / 2, wait, wait + time.Second} {
			begin := time.Now()
			time.Sleep(early)
			if again := r.poll(); again != 0 || r.bytes == 0 {
				t.Fatalf("waited for %v of %v and held for %v more", early, wait, again)
			}
			if took := time.Since(begin); took != max(early, wait) {
				t.Errorf("after a wait of %v of %v the answer came after %v", early, wait, took)
			}
			for wait = 0; wait == 0; {
				wait = r.poll()
			}
		}
	})
}

// Who asks for more at least than its quota ever allows is not kept waiting for it (KAFKA-9677).
func TestFetchQuotaCapsMinBytes(t *testing.T) {
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		x := b.topic("a", 1, nil)
		b.backlog(x, 100, 1, 1000)
		b.quota("c", "consumer_byte_rate", 1000)
		q := fetchOf(at(x, 0, 0))
		q.MaxWaitMillis, q.MinBytes, q.MaxBytes = 300_000, 40_000, 1<<20
		resp := b.dial("c").do(12, q).(*kmsg.FetchResponse)
		if n, took := len(resp.Topics[0].Partitions[0].RecordBatches), time.Since(b.born); n < 9000 || n > 10_000 || took > time.Second {
			t.Errorf("%d bytes after %v", n, took)
		}
	})
}

// A batch that is larger than the quota ever admits gets through.
func TestFetchQuotaNeverStarves(t *testing.T) {
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		x := b.topic("a", 1, nil)
		b.backlog(x, 5, 1, 50_000)
		b.quota("c", "consumer_byte_rate", 1000)
		w := b.dial("c")
		offset := int64(0)
		for range 20 {
			q := fetchOf(at(x, 0, offset))
			q.MaxWaitMillis, q.MinBytes, q.MaxBytes = 300_000, 40_000, 1<<20
			resp := w.do(12, q).(*kmsg.FetchResponse)
			if offset += int64(len(offsetsOf(t, resp.Topics[0].Partitions[0].RecordBatches))); offset == 5 {
				break
			}
		}
		if took := time.Since(b.born); offset < 5 || took > 205*time.Second {
			t.Errorf("%d batches of 50,000 bytes at 1,000/s in %v", offset, took)
		}
	})
}

// A producer's bytes count, also where no answer is wanted; the connection is held whatever the client does.
func TestProduceQuota(t *testing.T) {
	for _, acks := range []int16{1, 0} {
		inBubble(t, throttle.Settings{}, func(b *bubble) {
			x := b.topic("a", 1, nil)
			b.quota("", "producer_byte_rate", 50_000)
			w, sent := b.dial("c"), 0
			batch := recordBatch(1, 10_000)
			for end := b.born.Add(time.Minute); time.Now().Before(end); {
				q := produceRequest(acks, x, batch)
				w.send(9, q)
				if acks != 0 {
					begin := time.Now()
					resp := w.receive(q).(*kmsg.ProduceResponse)
					if wait := time.Duration(resp.ThrottleMillis) * time.Millisecond; wait > 0 && time.Since(begin) > 2*time.Second+wait {
						t.Errorf("an answer came after %v", time.Since(begin))
					}
				}
				sent += len(batch)
			}
			if end := x.partition(0); acks != 0 {
				o, err := end.Offsets()
				check(t, err)
				b.wantRate("a producer", int(o.End)*len(batch), 50_000, 60)
			} else {
				b.wantRate("a producer without answers", sent, 50_000, 60)
			}
		})
	}
}

func produceRequest(acks int16, x *topic, batch []byte) *kmsg.ProduceRequest {
	q := kmsg.NewPtrProduceRequest()
	q.Acks, q.TimeoutMillis = acks, 10_000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batch
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.Partitions = x.name, []kmsg.ProduceRequestTopicPartition{p}
	q.Topics = []kmsg.ProduceRequestTopic{rt}
	return q
}

// An answer that leaves at once, and a connection that is then not read: others go on.
func TestMuteIsOfTheConnection(t *testing.T) {
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		x := b.topic("a", 1, nil)
		b.quota("c", "producer_byte_rate", 1000)
		w, other := b.dial("c"), b.dial("c")
		q := produceRequest(1, x, recordBatch(1, 40_000))
		resp := w.do(9, q).(*kmsg.ProduceResponse)
		if took := time.Since(b.born); resp.ThrottleMillis < 30_000 || resp.ThrottleMillis > 31_000 || took > time.Second {
			t.Fatalf("told to wait for %d ms, after %v", resp.ThrottleMillis, took)
		}
		heartbeat := kmsg.NewPtrHeartbeatRequest()
		if got := other.do(4, heartbeat).(*kmsg.HeartbeatResponse); got.ThrottleMillis != 0 || time.Since(b.born) > time.Second {
			t.Errorf("another connection waits for %v, is told %d ms", time.Since(b.born), got.ThrottleMillis)
		}
		b.quota("c", "producer_byte_rate", 0) // as in Kafka: a mute lasts
		if w.do(4, heartbeat); time.Since(b.born) < 30*time.Second {
			t.Errorf("the muted connection was read after %v", time.Since(b.born))
		}
		if resp := w.do(9, q).(*kmsg.ProduceResponse); resp.ThrottleMillis != 0 {
			t.Errorf("without a quota: %d ms", resp.ThrottleMillis)
		}
	})
}

// A quota and a limit of dispatch hold both: the smaller one shows, and only the quota sets a throttle time.
func TestQuotaAndDispatch(t *testing.T) {
	for _, tt := range []struct {
		quota, dispatch float64
		throttled       bool
	}{{50_000, 100_000, true}, {100_000, 50_000, false}} {
		limit := throttle.Settings{Topic: throttle.Policy{Bytes: throttle.PerPeriod(int64(tt.dispatch))}}
		inBubble(t, limit, func(b *bubble) {
			x := b.topic("a", 1, nil)
			b.backlog(x, 12_000, 1, 1000)
			b.quota("c", "consumer_byte_rate", tt.quota)
			r := &quotaReader{w: b.dial("c"), ask: at(x, 0, 0), maxBytes: 20_000}
			r.readUntil(b.born.Add(2 * time.Minute))
			before := r.bytes
			r.readUntil(b.born.Add(3 * time.Minute))
			if got := float64(r.bytes - before); math.Abs(got-50_000*60) > 60_000 {
				t.Errorf("%+v: %v bytes in a minute", tt, got)
			}
			if (r.throttled > 0) != tt.throttled {
				t.Errorf("%+v: throttled %d times", tt, r.throttled)
			}
		})
	}
}

// What a quota kept back is not charged to the limits of dispatch.
func TestQuotaRefundsDispatch(t *testing.T) {
	inBubble(t, throttle.Settings{Topic: msgs(100)}, func(b *bubble) {
		x := b.topic("a", 1, nil)
		b.backlog(x, 100, 1, 1000)
		b.quota("c", "consumer_byte_rate", 1000)
		r := &quotaReader{w: b.dial("c"), ask: at(x, 0, 0), maxBytes: 9000}
		r.poll()
		if wait := r.poll(); wait == 0 {
			t.Fatal("not throttled")
		}
		synctest.Wait()
		d := b.b.dispatch
		if charged, refunded := d.charged[0].Load(), d.refunded[0].Load(); charged != r.records || refunded == 0 {
			t.Errorf("%d messages charged for %d that left, %d refunded", charged, r.records, refunded)
		}
		left := &quotaReader{w: b.dial("other"), ask: at(x, 0, 0), maxBytes: 1 << 20}
		if left.poll(); left.records != 100-r.records {
			t.Errorf("another reader gets %d messages of the %d that are left", left.records, 100-r.records)
		}
	})
}

// Time on a processor counts, and that of a fetch that is held does not.
func TestRequestQuota(t *testing.T) {
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		x := b.topic("a", 1, nil)
		b.quota("c", "request_percentage", 1) // a tenth of a second at once
		w := b.dial("c")
		q := fetchOf(at(x, 0, 0))
		q.MaxWaitMillis, q.MinBytes = 60_000, 1
		if resp := w.do(12, q).(*kmsg.FetchResponse); resp.ThrottleMillis != 0 {
			t.Errorf("a fetch that waited is held for %d ms", resp.ThrottleMillis)
		}
		var place *connQuota
		for _, c := range b.b.resolver.connections() {
			place = c.quota
		}
		place.noteWork(400 * time.Millisecond) // virtual time does not pass in a handler
		heartbeat := kmsg.NewPtrHeartbeatRequest()
		if got := w.do(4, heartbeat).(*kmsg.HeartbeatResponse); got.ThrottleMillis != 1000 {
			t.Errorf("told to wait for %d ms, want a sample's", got.ThrottleMillis)
		}
		begin := time.Now()
		if w.do(4, heartbeat); time.Since(begin) != time.Second {
			t.Errorf("held for %v", time.Since(begin))
		}
	})
}

// The time in which a long plan waits for its turn does not count.
func TestRequestQuotaWithoutQueueing(t *testing.T) {
	inBubble(t, throttle.Settings{Broker: msgs(10)}, func(b *bubble) {
		x := b.topic("a", longPlan+1, nil)
		b.quota("c", "request_percentage", 1) // a tenth of a second at once
		b.b.dispatch.planning <- struct{}{}   // somebody plans for ever
		var parts []want
		for i := range x.partitions() {
			parts = append(parts, at(x, i, 0))
		}
		w, began := b.dial("c"), time.Now()
		q := fetchOf(parts...)
		q.MaxWaitMillis = 0
		for range 5 {
			if resp := w.do(12, q).(*kmsg.FetchResponse); resp.ThrottleMillis != 0 {
				t.Errorf("held for %d ms", resp.ThrottleMillis)
			}
		}
		if time.Since(began) < 5*queueAtMost {
			t.Error("nothing has queued")
		}
	})
}

// While no quota is set nothing is kept, and what was kept goes with the quotas.
func TestNoQuotaNoState(t *testing.T) {
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		x := b.topic("a", 1, nil)
		b.produce(x.partition(0), 1, 10)
		r := &quotaReader{w: b.dial("c"), ask: at(x, 0, 0), maxBytes: 1000}
		r.poll()
		for _, c := range b.b.resolver.connections() {
			if c.quota != nil {
				t.Error("a connection has a place under no quota")
			}
		}
		b.quota("", "consumer_byte_rate", 1000)
		r.ask = at(x, 0, 0)
		r.poll()
		meters := 0
		count := func(quota.State) { meters++ }
		if b.b.quotas.limits.Each(0, count); meters != 1 {
			t.Errorf("%d meters", meters)
		}
		b.quota("", "consumer_byte_rate", 0)
		if b.b.quotas.limits.Each(0, count); meters != 1 || b.b.quotas.limits.Active() {
			t.Error("meters without quotas")
		}
		r.ask = at(x, 0, 0)
		r.poll()
	})
}
