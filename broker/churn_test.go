package broker

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"sluice/group"
	"sluice/throttle"
)

// What comes and goes under limits that hold its fetches up: topics that are made, read and deleted, groups that join, read and leave, and connections.
// Nothing of it stays once what is remembered for a while has been forgotten. SLUICE_CHURN is how many of each come and go, twice.
func TestNothingStaysOfWhatIsGone(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 300
	}
	if s := os.Getenv("SLUICE_CHURN"); s != "" {
		var err error
		n, err = strconv.Atoi(s)
		check(t, err)
	}
	for kind, churn := range map[string]func(b *bubble, shared *topic, w *wire, i int){
		"topics": func(b *bubble, _ *topic, w *wire, i int) {
			x := b.topic(fmt.Sprintf("t%d", i), 1, nil)
			b.backlog(x, 2, 1, 10)
			b.held(w, x)
			b.drop(x)
		},
		"groups": func(b *bubble, shared *topic, w *wire, i int) {
			g := fmt.Sprintf("g%d", i)
			b.owns(g, "m", "member", shared)
			b.held(w, shared)
			b.b.groups.owners.set(0, group.Ownership{All: true, Group: g}, time.Now())
		},
		"connections": func(b *bubble, shared *topic, _ *wire, i int) {
			client, server := net.Pipe()
			b.l.conns <- server
			b.held(&wire{t: b.t, conn: client, id: fmt.Sprintf("c%d", i%10)}, shared)
			check(b.t, client.Close())
		},
	} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, throttle.Settings{Broker: msgs(2), Topic: msgs(1), Subscription: msgs(1), Mode: throttle.Precise}, func(b *bubble) {
				shared, w := b.topic("shared", 1, nil), b.dial("member")
				b.backlog(shared, 10, 1, 10)
				left := [2]int64{}
				for round := range left {
					for i := range n {
						churn(b, shared, w, round*n+i)
					}
					synctest.Wait()
					left[round] = b.forgets(w, shared)
				}
				if each := (left[1] - left[0]) / int64(n); each > 100 {
					t.Errorf("%d bytes stay of each", each)
				}
			})
		})
	}
}

// held reads a topic whose limit has nothing left after the first batch: three fetches, at least one of which waits in vain.
func (b *bubble) held(w *wire, x *topic) {
	for range 3 {
		q := fetchOf(at(x, 0, 0))
		q.MaxWaitMillis = 1
		w.do(12, q)
	}
}

// forgets lets the time pass in which all is forgotten that is not used, as the shared topic is on the lasting connection, looks at what is left by then, and
// tells how large the heap is.
func (b *bubble) forgets(w *wire, shared *topic) int64 {
	for range 5 {
		time.Sleep(subscriptionIdle / 4)
		b.held(w, shared)
	}
	now := time.Now()
	b.b.stalls.check(now, time.Hour)
	b.b.dispatch.Sweep(instant())
	b.b.dir.CloseIdle()
	b.b.groups.owners.set(0, group.Ownership{All: true, Group: "none"}, now) // as any group would have the past forgotten
	r := b.b.resolver
	if r.count != 1 || len(r.readers) != 1 || r.slots.Load() != 0 || len(r.conns) != 1 {
		b.t.Errorf("%d subscriptions of %d partitions, %d slots, %d connections are known", r.count, len(r.readers), r.slots.Load(), len(r.conns))
	}
	if o := b.b.groups.owners; len(o.groups) != 0 || len(o.ended) != 0 || o.past != 0 || len(o.topics) > 1 {
		b.t.Errorf("%d groups, %d past members of %d partitions and %d topics are known", len(o.groups), len(o.ended), o.past, len(o.topics))
	}
	if held := b.b.dispatch.holding.Load(); held != 0 {
		b.t.Errorf("%d fetches are held", held)
	}
	return heapInUse()
}
