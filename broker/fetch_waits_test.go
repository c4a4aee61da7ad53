package broker

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/throttle"
)

// booked is what the held fetches have waited for: topic, group and cause.
func (b *bubble) booked() (by map[string]time.Duration, held int64) {
	by = map[string]time.Duration{}
	b.b.dispatch.waits.each(func(topic string, group groupKey, n int64, causes [causes]time.Duration) {
		held += n
		for c, d := range causes {
			if d > 0 {
				by[fmt.Sprintf("%s %s %v", topic, group.name, cause(c))] += d
			}
		}
	})
	return by, held
}

// All of the time that fetches are held is booked, to what they wait for at each moment.
func TestWaitsAreBooked(t *testing.T) {
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		x, y := b.topic("x", 1, nil), b.topic("y", 1, nil)
		x.limits.Configure(throttle.Policies{Topic: msgs(10)}, instant())
		b.backlog(x, 20, 1, 10)
		long := func(r *reader) { r.wait = 5 * time.Second }
		w := b.read("limited", 2*time.Second, long, at(x, 0, 0)) // 10 now, 10 after a second; then 5 s for data
		b.read("few bytes", time.Second, func(r *reader) {       // the first record after 1 s, the second after 2 s
			r.wait, r.minBytes = 5*time.Second, 100
		}, at(y, 0, 0))
		b.read("both", time.Second, long, at(x, 0, 20), at(y, 0, 0))
		b.feed(y.partition(0), time.Second, 2500*time.Millisecond)
		b.readers.Wait()
		if w.total() != 20 {
			t.Fatalf("%v", w.got)
		}
		got, held := b.booked()
		const ms = time.Millisecond
		want := map[string]time.Duration{
			"x client:User:ANONYMOUS/limited topic messages": 999 * ms,
			"x client:User:ANONYMOUS/limited no data":        5000 * ms,
			"y client:User:ANONYMOUS/few bytes no data":      1000 * ms,
			"y client:User:ANONYMOUS/few bytes min bytes":    1000 * ms,
			" client:User:ANONYMOUS/both no data":            1000 * ms,
		}
		if !maps.Equal(got, want) || held != 4 {
			t.Errorf("%d fetches were held: %v, want %v", held, got, want)
		}
	})
}

// A fetch that several things hold up waits at each moment for the one that ends first.
func TestWaitsOfSeveralCauses(t *testing.T) {
	const ms = time.Millisecond
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		x, y, z := b.topic("x", 1, nil), b.topic("y", 1, nil), b.topic("z", 1, nil)
		x.limits.Configure(throttle.Policies{Topic: throttle.Policy{Messages: throttle.PerPeriod(1), Period: 3 * time.Second}}, instant())
		y.limits.Configure(throttle.Policies{Subscription: throttle.Policy{Bytes: throttle.PerPeriod(1)}}, instant())
		b.backlog(x, 2, 1, 1)
		const size = 70 // bytes of a batch; each is owed for as many seconds less one
		b.produce(y.partition(0), 1, size-int(len(recordBatch(1, 0))))
		b.produce(y.partition(0), 1, 1)
		r := b.read("r", 72*time.Second, func(r *reader) { r.wait = 5 * time.Second }, at(x, 0, 0), at(y, 0, 0), at(z, 0, 0))
		b.readers.Wait()
		if r.total() != 4 {
			t.Fatalf("%+v", r.got)
		}
		got, _ := b.booked()
		// x opens after 3 s and has nothing afterwards. Then y is waited for, until the client has waited for 5 s, and again; it opens after 70 s.
		polls := time.Duration(0)
		for at := 3000*ms + ms; at < 70*time.Second; at += 5001 * ms {
			polls++
		}
		const who = "client:User:ANONYMOUS/r"
		want := map[string]time.Duration{
			"x " + who + " topic messages":     2999 * ms,
			"y " + who + " subscription bytes": 67000*ms - polls*ms,
			" " + who + " no data":             5000 * ms,
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// waiter is a client whose fetches are held by all there is, and that measures for how long. Some of its fetches end before they are answered.
type waiter struct {
	b      *bubble
	rnd    *rand.Rand
	id     string
	ask    []want
	waited time.Duration
	events [4]int // how fetches ended: answered, hung up, session closed, topic gone
}

// fetch sends one fetch, in a session or without, and waits until it is answered or the client has hung up.
func (w *waiter) fetch() {
	client := w.b.dial(w.id)
	q := fetchOf(w.ask...)
	if w.rnd.IntN(2) == 0 {
		q.SessionEpoch = 0
		opened := client.do(12, q).(*kmsg.FetchResponse)
		q = fetchOf()
		q.SessionID, q.SessionEpoch = opened.SessionID, 1
	}
	q.MinBytes, q.MaxBytes = int32(1+w.rnd.IntN(2)*w.rnd.IntN(500)), 1<<20
	q.MaxWaitMillis = int32(w.rnd.IntN(3000))
	begin := time.Now()
	client.send(12, q)
	after := time.Duration(w.rnd.IntN(2000)) * time.Millisecond
	var stop *time.Timer
	end := 0
	switch w.rnd.IntN(3) {
	case 0:
		end = 1
		stop = time.AfterFunc(after, func() { client.conn.Close() })
	case 1:
		end = 2
		stop = time.AfterFunc(after, func() { w.closeSession(q.SessionID) })
	}
	resp, err := client.read(q)
	if stop == nil || stop.Stop() {
		end = 0
	}
	w.waited += time.Since(begin)
	if err == nil {
		w.take(resp.(*kmsg.FetchResponse), &end)
	}
	w.events[end]++
	client.conn.Close()
}

// closeSession ends a session by a full request that opens none.
func (w *waiter) closeSession(id int32) {
	q := fetchOf(w.ask...)
	q.SessionID, q.SessionEpoch = id, -1
	w.b.dial("another").do(12, q)
}

func (w *waiter) take(resp *kmsg.FetchResponse, end *int) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			for i := range w.ask {
				if a := &w.ask[i]; a.x.name == t.Topic && a.partition == p.Partition && len(p.RecordBatches) > 0 {
					a.count(w.b.t, p.RecordBatches)
				}
			}
			if p.ErrorCode != 0 {
				*end = 3
			}
		}
	}
}

// However many things fetches wait for, and however they end: what is booked is what was waited, for each client. In virtual time that is so to the
// nanosecond.
func TestWaitsAddUp(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	var ends [4]int
	seen := map[cause]bool{}
	for seed := range seeds {
		inBubble(t, throttle.Settings{}, func(b *bubble) {
			rnd := rand.New(rand.NewPCG(seed, 13))
			policy := func() (p throttle.Policy) {
				return throttle.Policy{Messages: throttle.PerPeriod(rnd.Int64N(9) - 2), Bytes: throttle.PerPeriod(rnd.Int64N(700) - 100), Period: time.Duration(1+rnd.IntN(3)) * time.Second}
			}
			limit := func() {
				b.limit(throttle.Settings{Broker: policy(), Topic: policy(), Subscription: policy(), Mode: throttle.Mode(rnd.IntN(3))})
			}
			limit()
			x, y, gone := b.topic("x", 2, nil), b.topic("y", 1, nil), b.topic("gone", 1, nil)
			b.backlog(x, 60, 1, 10)
			b.backlog(gone, 60, 2, 10)
			b.feed(y.partition(0), 700*time.Millisecond, 30*time.Second)
			var waiters []*waiter
			for i := range 5 {
				w := &waiter{b: b, rnd: rand.New(rand.NewPCG(seed, uint64(20+i))), id: fmt.Sprint("w", i)}
				for _, p := range [...]want{at(x, 0, 0), at(x, 1, 0), at(y, 0, 0), at(gone, 0, 0)} {
					if w.rnd.IntN(3) > 0 {
						w.ask = append(w.ask, p)
					}
				}
				waiters = append(waiters, w)
				b.readers.Go(func() {
					for time.Since(b.born) < 30*time.Second {
						w.fetch()
						time.Sleep(time.Duration(w.rnd.IntN(100)) * time.Millisecond)
					}
				})
			}
			for i := range 6 {
				time.Sleep(4500 * time.Millisecond)
				limit()
				if i == 3 {
					b.drop(gone)
				}
			}
			b.readers.Wait()
			synctest.Wait()
			booked := map[string]time.Duration{}
			b.b.dispatch.waits.each(func(_ string, group groupKey, _ int64, by [causes]time.Duration) {
				for c, d := range by {
					booked[group.name] += d
					seen[cause(c)] = seen[cause(c)] || d > 0
				}
			})
			waited := time.Duration(0)
			for _, w := range waiters {
				waited += w.waited
				for i, n := range w.events {
					ends[i] += n
				}
			}
			sum := time.Duration(0)
			for _, d := range booked {
				sum += d
			}
			if sum != waited {
				t.Errorf("seed %d: %v booked, %v waited: %v", seed, sum, waited, booked)
			}
			for _, w := range waiters { // what waited for a topic that is gone is nobody's
				if d := booked["client:"+anonymous+"/"+w.id]; d > w.waited {
					t.Errorf("seed %d: %v booked for %s, which waited %v", seed, d, w.id, w.waited)
				}
			}
		})
	}
	if !testing.Short() && (len(seen) < int(causes) || min(ends[0], ends[1], ends[2], ends[3]) == 0) {
		t.Errorf("seen: %v, ends %v", seen, ends)
	}
}
