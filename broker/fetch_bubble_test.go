package broker

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
	"sluice/log"
	"sluice/throttle"
)

// bubble is a rig in virtual time: the broker's data path, logs in memory and clients on pipes. Rates come out exact.
type bubble struct {
	*rig
	l       *pipeListener
	born    time.Time
	readers sync.WaitGroup
}

// inBubble runs a test in a bubble with limits.
func inBubble(t *testing.T, s throttle.Settings, fn func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour - time.Duration(stampOf(time.Now()))) // a bubble begins in the year 2000, when there were no stamps
		b := &bubble{rig: openRig(t, map[string]string{"sluice.durability": "os"}), l: newPipeListener(), born: time.Now()}
		b.serve(b.l)
		b.limit(s)
		fn(b)
	})
}

// limit puts other limits in force.
func (b *bubble) limit(s throttle.Settings) { b.b.dispatch.Configure(s, instant()) }

func (b *bubble) dial(clientID string) *wire {
	client, server := net.Pipe()
	b.l.conns <- server
	b.t.Cleanup(func() { client.Close() })
	return &wire{t: b.t, conn: client, id: clientID}
}

// produce appends a batch of so many records of so many bytes each.
func (b *bubble) produce(l *log.Log, records, size int) {
	_, err := l.Append(recordBatch(records, size), log.AppendOptions{})
	check(b.t, err)
}

// backlog appends so many batches to each partition of a topic.
func (b *bubble) backlog(x *topic, batches, records, size int) {
	for i := range x.partitions() {
		for range batches {
			b.produce(x.partition(i), records, size)
		}
	}
}

// feed appends a batch of one record in each interval until the time is over.
func (b *bubble) feed(l *log.Log, interval, until time.Duration) {
	b.readers.Go(func() {
		for time.Sleep(interval); time.Since(b.born) < until; time.Sleep(interval) {
			b.produce(l, 1, 10)
		}
	})
}

// reader is a consumer without a group. Its client id stands for one.
type reader struct {
	b         *bubble
	w         *wire
	ask       []want
	gap       time.Duration // between an answer and the next poll
	wait      time.Duration // max_wait_ms
	minBytes  int32
	maxBytes  int32
	isolation int8
	pause     func() time.Duration // another gap, for once

	begin time.Duration // when it comes

	until time.Duration // what comes later does not count
	got   []readerGot
	polls int
}

// readerGot is what an answer brought of a partition.
type readerGot struct {
	at        time.Duration // since the bubble began
	topic     string
	partition int32
	records   int64
	batches   int
	bytes     int
}

// read starts a reader, which polls until the time is over, as changed by set.
func (b *bubble) read(clientID string, until time.Duration, set func(*reader), parts ...want) *reader {
	r := &reader{b: b, w: b.dial(clientID), ask: parts, gap: time.Millisecond, wait: 500 * time.Millisecond, minBytes: 1, maxBytes: 1 << 20, until: until}
	if set != nil {
		set(r)
	}
	b.readers.Go(func() {
		for time.Sleep(r.begin - time.Since(b.born)); time.Since(b.born) < until; {
			r.poll()
			gap := r.gap
			if r.pause != nil {
				gap += r.pause()
			}
			time.Sleep(gap)
		}
	})
	return r
}

func (r *reader) poll() {
	q := fetchOf(r.ask...)
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.IsolationLevel = int32(r.wait.Milliseconds()), r.minBytes, r.maxBytes, r.isolation
	r.take(r.w.do(12, q).(*kmsg.FetchResponse))
}

// take goes through an answer and moves the reader's offsets.
func (r *reader) take(resp *kmsg.FetchResponse) {
	r.polls++
	if resp.ThrottleMillis != 0 || resp.ErrorCode != 0 {
		r.b.t.Errorf("error %d, throttle_time_ms %d", resp.ErrorCode, resp.ThrottleMillis)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				r.b.t.Errorf("%s-%d: error %d", t.Topic, p.Partition, p.ErrorCode)
			}
			if len(p.RecordBatches) > 0 {
				n := r.asked(t.Topic, p.Partition).count(r.b.t, p.RecordBatches)
				if at := time.Since(r.b.born); at < r.until {
					r.got = append(r.got, readerGot{at, t.Topic, p.Partition, n, len(offsetsOf(r.b.t, p.RecordBatches)), len(p.RecordBatches)})
				}
			}
		}
	}
}

func (r *reader) asked(topic string, partition int32) *want {
	for i := range r.ask {
		if a := &r.ask[(int(partition)+i)%len(r.ask)]; a.partition == partition && a.x.name == topic {
			return a
		}
	}
	r.b.t.Fatalf("%s-%d was not asked for", topic, partition)
	return nil
}

// count counts the records that the application sees and goes on behind them.
func (a *want) count(t testing.TB, records []byte) (n int64) {
	for len(records) > 0 {
		b, rest, err := kproto.SplitBatch(records)
		check(t, err)
		n += throttle.Visible(b.Count(), b.LastOffset(), a.offset, b.Control())
		a.offset, records = b.NextOffset(), rest
	}
	return n
}

// sum adds up what pick picks.
func (r *reader) sum(pick func(readerGot) bool) (n int64) {
	for _, g := range r.got {
		if pick(g) {
			n += g.records
		}
	}
	return n
}

func (r *reader) total() int64 { return r.sum(func(readerGot) bool { return true }) }

func (r *reader) of(x *topic, partition int32) int64 {
	return r.sum(func(g readerGot) bool { return g.topic == x.name && g.partition == partition })
}

// windows are the records in each of the first n periods.
func (r *reader) windows(n int, period time.Duration) []int64 {
	list := make([]int64, n)
	for _, g := range r.got {
		if k := int(g.at / period); k < n {
			list[k] += g.records
		}
	}
	return list
}
