package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
	"sluice/log"
)

// parkedFetch sends a fetch that waits an hour for n bytes.
func parkedFetch(w *wire, version int16, n int32, parts ...want) *kmsg.FetchRequest {
	q := fetchOf(parts...)
	q.MinBytes, q.MaxWaitMillis = n, 3_600_000
	w.send(version, q)
	return q
}

// A fetch is woken by data that is durable, not by data that is written.
func TestFetchWaitsForDurableData(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 2, nil)
	r.fill(x.partition(1), 1, 10)
	r.gate.close()
	w := r.dial()
	q := parkedFetch(w, 12, 1, at(x, 0, 0), at(x, 1, 1))
	_, err := x.partition(1).Append(recordBatch(1, 10), log.AppendOptions{})
	check(t, err)
	late := r.dial()
	if p := fetched(late.do(12, fetchOf(at(x, 1, 1))))[0]; p.HighWatermark != 1 || len(p.RecordBatches) > 0 {
		t.Errorf("before the sync: %+v", p)
	}
	r.gate.open()
	ps := fetched(w.receive(q))
	if len(ps[0].RecordBatches) > 0 || len(ps[1].RecordBatches) == 0 || ps[1].HighWatermark != 2 {
		t.Errorf("after the sync: %+v", ps)
	}
}

func TestFetchMinBytesOverPartitions(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 3, nil)
	r.fill(x.partition(0), 1, 10)
	size := int32(len(recordBatch(1, 10)))
	w := r.dial()
	q := parkedFetch(w, 12, 4*size, at(x, 0, 0), at(x, 1, 0), at(x, 2, 0))
	for _, i := range []int32{1, 2, 1} {
		r.fill(x.partition(i), 1, 10)
	}
	got := ""
	for _, p := range fetched(w.receive(q)) {
		got += fmt.Sprint(offsetsOf(t, p.RecordBatches))
	}
	if got != "[0][0 1][0]" {
		t.Error(got)
	}
}

func TestFetchIsWokenByDeletion(t *testing.T) {
	r := newRig(t, nil)
	for version, code := range map[int16]int16{12: 3, 13: 100} {
		x := r.topic(fmt.Sprint("t", version), 1, nil)
		r.fill(x.partition(0), 1, 10)
		w := r.dial()
		q := parkedFetch(w, version, 1, at(x, 0, 1))
		r.drop(x)
		if p := fetched(w.receive(q))[0]; p.ErrorCode != code {
			t.Errorf("v%d: %+v", version, p)
		}
	}
}

// An unknown topic is answered at once when it is alone, and with the others when there are others.
func TestFetchUnknownTopicWaits(t *testing.T) {
	r := newRig(t, nil)
	x, unknown := r.topic("a", 1, nil), &topic{name: "b", id: kproto.TopicID{1}}
	w := r.dial()
	for version, code := range map[int16]int16{12: 3, 13: 100} {
		if p := fetched(w.receive(parkedFetch(w, version, 1, at(unknown, 0, 0))))[0]; p.ErrorCode != code {
			t.Errorf("v%d alone: %+v", version, p)
		}
		o, err := x.partition(0).Offsets()
		check(t, err)
		q := parkedFetch(w, version, 1, at(unknown, 0, 0), at(x, 0, o.High))
		r.fill(x.partition(0), 1, 10)
		if ps := fetched(w.receive(q)); ps[0].ErrorCode != code || len(ps[1].RecordBatches) == 0 {
			t.Errorf("v%d with others: %+v", version, ps)
		}
	}
}

// A deadline in the past of min_bytes gives what is there.
func TestFetchDeadline(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 1, nil)
	r.fill(x.partition(0), 1, 10)
	q := fetchOf(at(x, 0, 0))
	q.MinBytes, q.MaxWaitMillis = 1_000, 10
	if p := fetched(r.dial().do(12, q))[0]; len(p.RecordBatches) == 0 {
		t.Errorf("%+v", p)
	}
}

// A parked fetch holds back neither the requests behind it nor, when its client is gone, anything at all.
func TestFetchParkedLetsOthersPass(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 1, nil)
	w := r.dial()
	q := parkedFetch(w, 12, 1, at(x, 0, 0))
	p := produceTo(x, 9, -1, recordBatch(1, 10))
	w.send(9, p)
	if got := fetched(w.receive(q))[0]; len(got.RecordBatches) == 0 {
		t.Errorf("the fetch: %+v", got)
	}
	if got := w.receive(p).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; got.ErrorCode != 0 {
		t.Errorf("the produce behind it: %+v", got)
	}
	parkedFetch(w, 12, 1, at(x, 0, 1))
	w.conn.Close() // Shutdown, at the end of the test, waits for requests in flight
}

// A server that stops lets parked fetches answer.
func TestFetchParkedWhenTheServerStops(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 2, nil)
	w := r.dial()
	q := parkedFetch(w, 12, 1, at(x, 0, 0))
	p := produceTo(x, 9, -1, recordBatch(1, 10)) // appended once the fetch is parked
	p.Topics[0].Partitions[0].Partition = 1
	w.send(9, p)
	waitFor(t, func() bool { o, err := x.partition(1).Offsets(); return err == nil && o.High == 1 })
	stopped := make(chan error, 1)
	go func() { stopped <- r.server.Shutdown(context.Background()) }()
	if got := fetched(w.receive(q))[0]; got.ErrorCode != 0 || len(got.RecordBatches) > 0 {
		t.Errorf("%+v", got)
	}
	if got := w.receive(p).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; got.ErrorCode != 0 {
		t.Errorf("%+v", got)
	}
	check(t, <-stopped)
}

// modelBatch is what the model knows of a batch.
type modelBatch struct{ base, next, size int64 }

// modelAnswer is the batches that a fetch must give of each partition, by the rules of KIP-74: partitions in order, whole
// batches, within both limits, but for the very first batch.
func modelAnswer(parts [][]modelBatch, asked []want, whole int64) (answer [][]int64) {
	empty := true
	for _, a := range asked {
		var bases []int64
		left := min(whole, int64(a.max))
		for _, b := range parts[a.partition] {
			if b.next <= a.offset {
				continue
			}
			if b.size > left && !empty {
				break
			}
			bases = append(bases, b.base)
			left, whole, empty = max(0, left-b.size), max(0, whole-b.size), false
		}
		answer = append(answer, bases)
	}
	return answer
}

func TestFetchAgainstModel(t *testing.T) {
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		r := newRig(t, map[string]string{"log.index.interval.bytes": fmt.Sprint(rnd.IntN(3000))})
		x := r.topic("a", 3, nil)
		w := r.dial()
		model := make([][]modelBatch, 3)
		for range 300 {
			i := rnd.IntN(3)
			if rnd.IntN(3) > 0 {
				b := recordBatch(1+rnd.IntN(5), rnd.IntN(3)*rnd.IntN(10_000))
				a, err := x.partition(int32(i)).Append(b, log.AppendOptions{})
				check(t, err)
				check(t, a.Ticket.Wait(context.Background()))
				model[i] = append(model[i], modelBatch{a.Base, a.Base + int64(b.Count()), int64(len(b))})
				continue
			}
			var asked []want
			for _, p := range rnd.Perm(3) {
				end := int64(0)
				if n := len(model[p]); n > 0 {
					end = model[p][n-1].next
				}
				asked = append(asked, want{x, int32(p), rnd.Int64N(end + 1), int32(rnd.IntN(50_000)), -1, -1})
			}
			q := fetchOf(asked...)
			q.MaxBytes = int32(rnd.IntN(100_000))
			wanted := modelAnswer(model, asked, int64(q.MaxBytes))
			for i, p := range fetched(w.do(int16(4+rnd.IntN(15)), q)) {
				if got := offsetsOf(t, p.RecordBatches); fmt.Sprint(got) != fmt.Sprint(wanted[i]) {
					t.Fatalf("seed %d: %+v of %d: batches %v, want %v", seed, asked[i], q.MaxBytes, got, wanted[i])
				}
			}
		}
	}
}

// A consumer that follows the offsets reads every batch once, in order, whatever the limits and wherever segments end.
func TestFetchFollowsSegments(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 1, map[string]string{"internal.segment.bytes": "30000", "index.interval.bytes": "500"})
	l := x.partition(0)
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		r.fill(l, 1, rnd.IntN(3000))
	}
	w := r.dial()
	next := int64(0)
	for requests := 0; next < 200; requests++ {
		if requests > 1000 {
			t.Fatalf("no progress at %d", next)
		}
		q := fetchOf(want{x, 0, next, int32(rnd.IntN(40_000)), -1, -1})
		q.MaxWaitMillis, q.MinBytes = int32(time.Hour/time.Millisecond), 1
		for _, base := range offsetsOf(t, fetched(w.do(12, q))[0].RecordBatches) {
			if base != next {
				t.Fatalf("batch at %d, want %d", base, next)
			}
			next++
		}
	}
	if o, err := l.Offsets(); err != nil || o.High != 200 {
		t.Errorf("%+v %v", o, err)
	}
}
