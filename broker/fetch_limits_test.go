package broker

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
	"sluice/log"
	"sluice/throttle"
)

// msgs is a policy of so many messages in a second.
func msgs(n int64) throttle.Policy { return throttle.Policy{Messages: throttle.PerPeriod(n)} }

// A topic's limit holds for each partition by itself.
func TestTopicLimitIsPerPartition(t *testing.T) {
	inBubble(t, throttle.Settings{Topic: msgs(10)}, func(b *bubble) {
		x := b.topic("a", 2, nil)
		b.backlog(x, 700, 1, 10)
		r := b.read("a", time.Minute, nil, at(x, 0, 0), at(x, 1, 0))
		b.readers.Wait()
		if r.of(x, 0) != 600 || r.of(x, 1) != 600 {
			t.Errorf("%d and %d messages in a minute, want 600 each", r.of(x, 0), r.of(x, 1))
		}
	})
}

// So does a subscription's, whoever of it reads the partition.
func TestSubscriptionLimitIsPerPartition(t *testing.T) {
	inBubble(t, throttle.Settings{Subscription: msgs(10)}, func(b *bubble) {
		x := b.topic("a", 2, nil)
		b.backlog(x, 700, 1, 10)
		one, two := b.read("g", time.Minute, nil, at(x, 0, 0)), b.read("g", time.Minute, nil, at(x, 1, 0))
		b.readers.Wait()
		if one.total() != 600 || two.total() != 600 {
			t.Errorf("%d and %d messages in a minute, want 600 each", one.total(), two.total())
		}
	})
}

// All that a broker dispatches draws on its own limit, whoever reads.
func TestBrokerLimitIsShared(t *testing.T) {
	inBubble(t, throttle.Settings{Broker: msgs(10)}, func(b *bubble) {
		x, y := b.topic("x", 1, nil), b.topic("y", 1, nil)
		b.backlog(x, 700, 1, 10)
		b.backlog(y, 700, 1, 10)
		one := b.read("one", time.Minute, nil, at(x, 0, 0), at(y, 0, 0))
		two := b.read("two", time.Minute, nil, at(x, 0, 0), at(y, 0, 0))
		b.readers.Wait()
		if n := one.total() + two.total(); n != 600 {
			t.Errorf("%d messages in a minute, want 600", n)
		}
		for _, r := range []*reader{one, two} {
			for _, z := range []*topic{x, y} {
				if n := r.of(z, 0); n < 140 || n > 160 {
					t.Errorf("%s got %d messages of %s, want about 150", r.w.id, n, z.name)
				}
			}
		}
	})
}

// A topic's limit is shared by all who read a partition, a subscription's is not.
func TestTopicAndSubscriptionLimits(t *testing.T) {
	for name, c := range map[string]struct {
		s              throttle.Settings
		each, all, off int64
	}{
		"topic":        {throttle.Settings{Topic: msgs(10)}, 300, 600, 10},
		"subscription": {throttle.Settings{Subscription: msgs(10)}, 600, 1200, 0},
		"both":         {throttle.Settings{Topic: msgs(10), Subscription: msgs(4)}, 240, 480, 0},
		"all":          {throttle.Settings{Broker: msgs(6), Topic: msgs(10), Subscription: msgs(4)}, 180, 360, 10},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.s, func(b *bubble) {
				x := b.topic("x", 1, nil)
				b.backlog(x, 700, 1, 10)
				one, two := b.read("one", time.Minute, nil, at(x, 0, 0)), b.read("two", time.Minute, nil, at(x, 0, 0))
				b.readers.Wait()
				if n := one.total() + two.total(); n != c.all {
					t.Errorf("%d messages in a minute, want %d", n, c.all)
				}
				if n := one.total(); n < c.each-c.off || n > c.each+c.off {
					t.Errorf("one got %d messages, want about %d", n, c.each)
				}
			})
		})
	}
}

// What a period brings when batches hold several messages, by mode, and when bytes are limited.
func TestBatchesAndBytesByPeriod(t *testing.T) {
	size := func(value int) int64 { return int64(len(recordBatch(1, value))) }
	for name, c := range map[string]struct {
		s              throttle.Settings
		records, value int
		want           []int64 // records by second
	}{
		"precise":       {throttle.Settings{Topic: msgs(10), Mode: throttle.Precise}, 6, 10, []int64{12, 12, 6, 12, 12, 6}},
		"by fours":      {throttle.Settings{Topic: msgs(10), Mode: throttle.Precise}, 4, 10, []int64{12, 8, 12, 8}},
		"approximate":   {throttle.Settings{Topic: msgs(10)}, 6, 10, []int64{60, 0, 0, 0, 0, 0, 60}},
		"batches":       {throttle.Settings{Topic: msgs(10), Mode: throttle.Batches}, 6, 10, []int64{60, 60, 60}},
		"one large":     {throttle.Settings{Topic: msgs(10), Mode: throttle.Precise}, 50, 10, []int64{50, 0, 0, 0, 0, 50}},
		"bytes":         {throttle.Settings{Topic: throttle.Policy{Bytes: throttle.PerPeriod(3 * size(1000))}}, 1, 1000, []int64{3, 3, 3}},
		"bytes in debt": {throttle.Settings{Topic: throttle.Policy{Bytes: throttle.PerPeriod(size(1000)/2 + 1)}}, 1, 1000, []int64{1, 1, 0, 1, 0, 1}},
		"both, bytes":   {throttle.Settings{Topic: throttle.Policy{Messages: throttle.PerPeriod(10), Bytes: throttle.PerPeriod(4 * size(100))}}, 1, 100, []int64{4, 4}},
		"both, msgs":    {throttle.Settings{Topic: throttle.Policy{Messages: throttle.PerPeriod(3), Bytes: throttle.PerPeriod(4 * size(100))}}, 1, 100, []int64{3, 3}},
		"large batches": {throttle.Settings{Topic: throttle.Policy{Bytes: throttle.PerPeriod(100_000)}}, 1, 1_000_000 - int(size(0)), []int64{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.s, func(b *bubble) {
				x := b.topic("x", 1, nil)
				b.backlog(x, 100, c.records, c.value)
				r := b.read("r", time.Duration(len(c.want))*time.Second, nil, at(x, 0, 0))
				b.readers.Wait()
				got := r.windows(len(c.want), time.Second)
				if !slices.Equal(got, c.want) {
					t.Errorf("%v, want %v", got, c.want)
				}
			})
		})
	}
}

// What leaves beyond the limit is paid by the seconds that follow: 11 of 10 leave 9, 30 of 10 leave two seconds empty.
func TestOverDeliveryIsPaid(t *testing.T) {
	for first, want := range map[int][]int64{11: {11, 9, 10, 10}, 30: {30, 0, 0, 10}, 35: {35, 0, 0, 5, 10}} {
		inBubble(t, throttle.Settings{Topic: msgs(10), Mode: throttle.Precise}, func(b *bubble) {
			x := b.topic("x", 1, nil)
			b.produce(x.partition(0), first, 10)
			b.backlog(x, 60, 1, 10)
			r := b.read("r", time.Duration(len(want))*time.Second, nil, at(x, 0, 0))
			b.readers.Wait()
			if got := r.windows(len(want), time.Second); !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// Two thousand pairs of partition and group share the broker's limit: all of it leaves and no more, and nobody is left out.
func TestManyPartitionsShareOneLimit(t *testing.T) {
	const partitions, groups, rate = 200, 10, 4000
	seconds := int64(10)
	if testing.Short() {
		seconds = 3
	}
	inBubble(t, throttle.Settings{Broker: msgs(rate), Mode: throttle.Precise}, func(b *bubble) {
		x := b.topic("x", partitions, nil)
		b.backlog(x, 30, 1, 10)
		var asked []want
		for i := range int32(partitions) {
			asked = append(asked, at(x, i, 0))
		}
		var readers []*reader
		for g := range groups {
			readers = append(readers, b.read(fmt.Sprint("g", g), time.Duration(seconds)*time.Second, nil, slices.Clone(asked)...))
		}
		b.readers.Wait()
		total, left := int64(0), 0
		for _, r := range readers {
			total += r.total()
			for i := range int32(partitions) {
				if r.of(x, i) == 0 {
					left++
				}
			}
		}
		if total != rate*seconds || left > 0 {
			t.Errorf("%d messages in %d s, %d are allowed; %d of %d pairs got nothing", total, seconds, rate*seconds, left, partitions*groups)
		}
	})
}

// What a limit has enough for leaves at once, whatever the mode takes a batch for; records that nobody sees are not charged.
func TestWhatFitsLeavesAtOnce(t *testing.T) {
	for mode, want := range map[throttle.Mode]int64{throttle.Approximate: 899, throttle.Precise: 899, throttle.Batches: 300} {
		inBubble(t, throttle.Settings{Topic: msgs(10_000), MaxReadBatches: 7, Mode: mode}, func(b *bubble) {
			x := b.topic("x", 1, nil)
			b.backlog(x, 200, 3, 300)
			_, err := x.partition(0).Append(kproto.EndMarker{Commit: true}.Batch(7, 0, 0), log.AppendOptions{Internal: true})
			check(t, err)
			b.backlog(x, 100, 3, 300)
			r := b.read("r", time.Second, nil, at(x, 0, 1))
			b.readers.Wait()
			if len(r.got) == 0 || r.got[0].records < 899 {
				t.Errorf("%v: %+v", mode, r.got)
			}
			if n := b.b.dispatch.charged[throttle.Messages].Load(); n != want {
				t.Errorf("%v: %d messages were charged, want %d: 899 records in 300 batches were asked for", mode, n, want)
			}
		})
	}
}

// Reading again is charged again.
func TestSeekIsCharged(t *testing.T) {
	inBubble(t, throttle.Settings{Topic: msgs(10)}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 100, 1, 10)
		r := b.read("r", 2*time.Second, func(r *reader) {
			r.pause = func() time.Duration {
				r.ask[0].offset = 0
				return 0
			}
		}, at(x, 0, 0))
		b.readers.Wait()
		if got := r.windows(2, time.Second); got[0] != 10 || got[1] != 10 {
			t.Error(got)
		}
	})
}

// Exempt clients are neither held up nor counted.
func TestExemptClients(t *testing.T) {
	inBubble(t, throttle.Settings{Broker: msgs(10), ExemptClients: []string{"free"}}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 100, 1, 10)
		bound := b.read("bound", 5*time.Second, nil, at(x, 0, 0))
		free := b.read("free", 5*time.Second, nil, at(x, 0, 0))
		b.readers.Wait()
		if free.total() != 100 || bound.total() != 50 {
			t.Errorf("%d without a limit, %d with one", free.total(), bound.total())
		}
	})
}

// Who reads at the end is not throttled if the settings say so, until it falls behind.
func TestTailsMayBeExempt(t *testing.T) {
	for _, exempt := range []bool{true, false} {
		t.Run(fmt.Sprint(exempt), func(t *testing.T) {
			inBubble(t, throttle.Settings{Topic: msgs(10), ExemptTail: exempt}, func(b *bubble) {
				x := b.topic("x", 1, nil)
				b.feed(x.partition(0), 10*time.Millisecond, 20*time.Second)
				r := b.read("r", 150*time.Second, func(r *reader) {
					r.pause = func() (d time.Duration) {
						if now := time.Since(b.born); now > 9*time.Second && now < 10*time.Second {
							return 10*time.Second - now + 11*time.Second // for a thousand records and more
						}
						return 0
					}
				}, at(x, 0, 0))
				b.readers.Wait()
				by := r.windows(150, time.Second)
				if !exempt {
					if n := r.total(); n < 1380 || n > 1400 {
						t.Errorf("%d messages, want 10 a second but for some 11 seconds: %v", n, by)
					}
					return
				}
				if early := by[1:9]; slices.Min(early) < 98 || slices.Max(early) > 102 {
					t.Errorf("before the pause: %v", early)
				}
				if behind := by[22:120]; slices.Min(behind) != 10 || slices.Max(behind) != 10 {
					t.Errorf("after the pause: %v", behind)
				}
				if r.total() != 1999 {
					t.Errorf("%d messages in all", r.total())
				}
				b.produceMany(x.partition(0), 30)
				before := r.total()
				r.until = time.Hour
				r.poll()
				if n := r.total() - before; n != 30 {
					t.Errorf("%d messages at once when it had caught up again, want 30", n)
				}
			})
		})
	}
}

func (b *bubble) produceMany(l *log.Log, n int) {
	for range n {
		b.produce(l, 1, 10)
	}
}

// In a session a throttled partition is named when its high watermark moves, without records, and the session goes on.
func TestSessionWithThrottledPartition(t *testing.T) {
	inBubble(t, throttle.Settings{Topic: msgs(1)}, func(b *bubble) {
		x := b.topic("x", 2, nil)
		b.backlog(x, 3, 1, 10)
		w := b.dial("r")
		ask := func(epoch, id int32, parts ...want) *kmsg.FetchResponse {
			q := fetchOf(parts...)
			q.SessionEpoch, q.SessionID, q.MaxWaitMillis = epoch, id, 100
			resp := w.do(12, q).(*kmsg.FetchResponse)
			if resp.ErrorCode != 0 || resp.ThrottleMillis != 0 {
				t.Fatalf("epoch %d: %+v", epoch, resp)
			}
			return resp
		}
		first := ask(0, 0, at(x, 0, 0), at(x, 1, 0))
		if ps := fetched(first); len(ps) != 2 || len(ps[0].RecordBatches) == 0 || len(ps[1].RecordBatches) == 0 {
			t.Fatalf("%+v", ps)
		}
		id := first.SessionID
		if ps := fetched(ask(1, id, at(x, 0, 1), at(x, 1, 1))); len(ps) != 0 {
			t.Errorf("nothing has moved: %+v", ps)
		}
		b.produce(x.partition(0), 1, 10)
		if ps := fetched(ask(2, id)); len(ps) != 1 || ps[0].Partition != 0 || ps[0].HighWatermark != 4 || ps[0].RecordBatches == nil || len(ps[0].RecordBatches) != 0 {
			t.Errorf("the high watermark has moved: %+v", ps)
		}
		if ps := fetched(ask(3, id)); len(ps) != 0 {
			t.Errorf("nothing has moved since: %+v", ps)
		}
		time.Sleep(time.Second)
		if ps := fetched(ask(4, id)); len(ps) != 2 || len(ps[0].RecordBatches) == 0 || len(ps[1].RecordBatches) == 0 {
			t.Errorf("the next second: %+v", ps)
		}
	})
}

// Without a session a throttled partition is named too, empty.
func TestThrottledPartitionIsNamed(t *testing.T) {
	inBubble(t, throttle.Settings{Topic: msgs(1)}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 3, 1, 10)
		w := b.dial("r")
		for i, n := range []int{1, 0} {
			ps := fetched(w.do(12, fetchOf(at(x, 0, 0))))
			if len(ps) != 1 || ps[0].ErrorCode != 0 || ps[0].HighWatermark != 3 || len(offsetsOf(t, ps[0].RecordBatches)) != n {
				t.Errorf("fetch %d: %+v", i, ps)
			}
		}
	})
}

// Control batches count as no messages, and hold nobody up.
func TestControlBatchesAreFree(t *testing.T) {
	inBubble(t, throttle.Settings{Topic: msgs(10), Mode: throttle.Precise}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		for range 40 {
			b.produce(x.partition(0), 1, 10)
			for range 3 {
				_, err := x.partition(0).Append(kproto.EndMarker{}.Batch(5, 0, 0), internalAppend)
				check(t, err)
			}
		}
		r := b.read("r", 4*time.Second, func(r *reader) { r.isolation = 1 }, at(x, 0, 0))
		b.readers.Wait()
		if got := r.windows(4, time.Second); !slices.Equal(got, []int64{10, 10, 10, 10}) {
			t.Error(got)
		}
	})
}

// A fetch into the middle of a batch is charged for what the application sees of it.
func TestMiddleOfABatch(t *testing.T) {
	inBubble(t, throttle.Settings{Topic: msgs(10), Mode: throttle.Precise}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.produce(x.partition(0), 100, 10)
		b.backlog(x, 30, 1, 10)
		r := b.read("r", 2*time.Second, nil, at(x, 0, 95))
		b.readers.Wait()
		if got := r.windows(2, time.Second); !slices.Equal(got, []int64{10, 10}) {
			t.Error(got)
		}
	})
}

// What could not be sent is given back, what may have arrived is not.
func TestChargesOfLostConnections(t *testing.T) {
	for name, c := range map[string]struct {
		read func(t *testing.T, w *wire)
		left int
	}{
		"before a byte":       {func(t *testing.T, w *wire) { time.Sleep(time.Millisecond) }, 10},
		"after the first one": {func(t *testing.T, w *wire) { _, err := w.conn.Read(make([]byte, 1)); check(t, err) }, 0},
	} {
		for _, size := range []int{10, 20_000} { // copied into the answer, and sent from the file
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				inBubble(t, throttle.Settings{Topic: msgs(10), Subscription: msgs(10), Broker: msgs(10)}, func(b *bubble) {
					x := b.topic("x", 1, nil)
					b.backlog(x, 20, 1, size)
					w := b.dial("one")
					w.send(12, fetchOf(at(x, 0, 0)))
					c.read(t, w)
					w.conn.Close()
					time.Sleep(time.Millisecond)
					got := fetched(b.dial("one").do(12, fetchOf(at(x, 0, 0))))[0]
					if n := len(offsetsOf(t, got.RecordBatches)); n != c.left {
						t.Errorf("%d messages are left of 10, want %d", n, c.left)
					}
					synctest.Wait() // for the account of the last answer
					if charged, back := b.b.dispatch.charged[throttle.Messages].Load(), b.b.dispatch.refunded[throttle.Messages].Load(); charged != 10 || int(back) != c.left {
						t.Errorf("%d messages are counted as charged and %d as given back", charged, back)
					}
				})
			})
		}
	}
}

// A client that hangs up while its fetch is held costs nothing, and others wait no longer for it.
func TestHangUpWhileHeld(t *testing.T) {
	inBubble(t, throttle.Settings{Topic: msgs(1)}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 20, 1, 10)
		gone := b.dial("one")
		gone.do(12, fetchOf(at(x, 0, 0)))
		q := fetchOf(at(x, 0, 1))
		q.MaxWaitMillis, q.MinBytes = 10_000, 1
		gone.send(12, q)
		time.Sleep(500 * time.Millisecond)
		gone.conn.Close()
		time.Sleep(600 * time.Millisecond)
		if ps := fetched(b.dial("two").do(12, fetchOf(at(x, 0, 1)))); len(ps[0].RecordBatches) == 0 {
			t.Error("the next second's message was taken for a client that is gone")
		}
	})
}

// Nor does one that had allowance, and waited for more data: nothing is taken for it, not even for a moment.
func TestHangUpWhileWaitingForBytes(t *testing.T) {
	inBubble(t, throttle.Settings{Topic: msgs(10)}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 5, 1, 10)
		w := b.dial("one")
		q := fetchOf(at(x, 0, 0))
		q.MaxWaitMillis, q.MinBytes = 10_000, 100_000
		w.send(12, q)
		time.Sleep(500 * time.Millisecond)
		w.conn.Close()
		synctest.Wait()
		if charged, back := b.b.dispatch.charged[throttle.Messages].Load(), b.b.dispatch.refunded[throttle.Messages].Load(); charged != 0 || back != 0 {
			t.Errorf("%d messages are charged and %d given back", charged, back)
		}
	})
}

// A partition that a request names twice is no way around its limit.
func TestPartitionNamedTwice(t *testing.T) {
	inBubble(t, throttle.Settings{Topic: msgs(10)}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 100, 1, 10)
		n := 0
		for _, p := range fetched(b.dial("r").do(12, fetchOf(at(x, 0, 0), at(x, 0, 0), at(x, 0, 50)))) {
			n += len(offsetsOf(t, p.RecordBatches))
		}
		if n != 10 {
			t.Errorf("%d messages, want 10", n)
		}
	})
}

// Partitions that share the broker's limit get alike, whatever their place in the request.
func TestPartitionsShareAlike(t *testing.T) {
	inBubble(t, throttle.Settings{Broker: msgs(7)}, func(b *bubble) {
		x := b.topic("x", 5, nil)
		b.backlog(x, 200, 1, 10)
		parts := []want{at(x, 0, 0), at(x, 1, 0), at(x, 2, 0), at(x, 3, 0), at(x, 4, 0)}
		r := b.read("r", time.Minute, nil, parts...)
		b.readers.Wait()
		for i := range x.partitions() {
			if n := r.of(x, i); n < 80 || n > 88 {
				t.Errorf("partition %d gave %d of 420 messages", i, n)
			}
		}
		if r.total() != 420 {
			t.Errorf("%d messages in a minute, want 420", r.total())
		}
	})
}

// Without a limit there is nothing to count with.
func TestNoLimitsNoCounters(t *testing.T) {
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 10, 1, 10)
		r := b.read("r", time.Second, nil, at(x, 0, 0))
		b.readers.Wait()
		if r.total() != 10 || x.limits.Subscriptions(0) != nil {
			t.Errorf("%d messages; counters of %v", r.total(), x.limits.Subscriptions(0))
		}
	})
}

// No consumer may pass for a broker, under limits or without.
func TestFollowersAreRefused(t *testing.T) {
	inBubble(t, throttle.Settings{Broker: msgs(1)}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 10, 1, 10)
		for version := int16(12); version <= 17; version++ {
			q := fetchOf(at(x, 0, 0))
			q.ReplicaID, q.ReplicaState.ID = 2, 2
			if p := fetched(b.dial("r").do(version, q))[0]; p.ErrorCode != kproto.TopicAuthorizationFailed || len(p.RecordBatches) > 0 {
				t.Errorf("v%d: %+v", version, p)
			}
		}
	})
}

// Some clients ask for the offset behind the last record they got, and get a batch again whose last records compaction took. They are not charged for what they
// have had.
func TestBehindTheLastRecordOfABatch(t *testing.T) {
	for _, mode := range []throttle.Mode{throttle.Precise, throttle.Batches} {
		inBubble(t, throttle.Settings{Topic: msgs(12), Mode: mode}, func(b *bubble) {
			const offsets, left, seconds = 10, 3, 10
			x := b.topic("x", 1, nil)
			for range 200 {
				nb := kproto.NewBuilder(kproto.None)
				nb.SetOffsets(0, offsets-1)
				for o := range int64(left) {
					nb.Add(kproto.Record{Offset: o})
				}
				_, err := x.partition(0).Append(nb.Batch(), internalAppend)
				check(t, err)
			}
			w, ask, got := b.dial("c"), at(x, 0, 0), 0
			for {
				q := fetchOf(ask)
				q.MaxWaitMillis = 500
				raw := w.do(12, q).(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches
				if time.Since(b.born) >= seconds*time.Second {
					break
				}
				for from := ask.offset; len(raw) > 0; {
					batch, rest, err := kproto.SplitBatch(raw)
					check(t, err)
					check(t, batch.EachRecord(func(r kproto.Record) bool {
						if r.Offset >= from {
							got, ask.offset = got+1, r.Offset+1
						}
						return true
					}))
					raw = rest
				}
				time.Sleep(time.Millisecond)
			}
			want := 12 * seconds
			if mode == throttle.Batches {
				want *= left
			}
			if got != want {
				t.Errorf("mode %d: %d messages in %d s, want %d", mode, got, seconds, want)
			}
		})
	}
}
