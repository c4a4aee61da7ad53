package broker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
	"sluice/throttle"
)

// owns has a group consist of one member, which owns partition 0 of topic x.
func (b *bubble) owns(groupID, member, clientID string, x *topic) {
	b.b.groups.owners.set(0, group.Ownership{All: true, Group: groupID, Members: []group.Owner{{
		MemberID: member, Client: group.Client{ID: clientID, Host: "/127.0.0.1"}, Epoch: 1,
		PollInterval: time.Minute, Partitions: map[string][]int32{x.name: {0}},
	}}}, time.Now())
}

// some fetches at most n batches and tells how many came.
func (b *bubble) some(w *wire, x *topic, n int) int {
	q := fetchOf(want{x, 0, 0, int32(n * len(recordBatch(1, 10))), -1, -1})
	return len(offsetsOf(b.t, fetched(w.do(12, q))[0].RecordBatches))
}

// When a partition goes to another member, what is left of the window is the group's, not the member's.
func TestGroupLimitOutlivesMembers(t *testing.T) {
	inBubble(t, throttle.Settings{Subscription: msgs(10)}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 100, 1, 10)
		one, two := b.dial("c1"), b.dial("c2")
		b.owns("g", "m1", "c1", x)
		first := b.some(one, x, 6)
		b.owns("g", "m2", "c2", x)
		if rest := b.some(two, x, 50); first != 6 || rest != 4 {
			t.Errorf("the old member got %d, the new one %d", first, rest)
		}
		time.Sleep(time.Second)
		if n := b.some(two, x, 50); n != 10 {
			t.Errorf("%d in the next window", n)
		}
	})
}

// A connection that turns out to read for a group takes along what it has used: another name is no other allowance.
func TestUseMovesWithTheName(t *testing.T) {
	inBubble(t, throttle.Settings{Subscription: msgs(10)}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 100, 1, 10)
		w := b.dial("c")
		first := b.some(w, x, 6)
		b.b.groups.owners.noteSimple("g", x.name, 0, identity{"c", anonymous}, "/127.0.0.1", 6, stampOf(time.Now()))
		if rest := b.some(w, x, 50); first != 6 || rest != 4 {
			t.Errorf("%d under the old name, %d under the new one", first, rest)
		}
		if got := x.limits.Subscriptions(0); !slices.Contains(got, "g") {
			t.Errorf("charged to %q", got)
		}
	})
}

// What was taken for an answer that never left is given back where it was taken, but not if it has moved since: it would come out of what
// others have used there.
func TestUseThatMovedIsNotGivenBack(t *testing.T) {
	inBubble(t, throttle.Settings{Subscription: msgs(10)}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		w := b.dial("c")
		held := fetchOf(at(x, 0, 0))
		held.MaxWaitMillis, held.MinBytes = 10_000, 1
		w.send(12, held)
		synctest.Wait()
		b.produceMany(x.partition(0), 1)
		synctest.Wait() // it is answered, and nobody reads the answer
		b.produceMany(x.partition(0), 20)
		if n := b.some(b.dial("c"), x, 3); n != 3 {
			t.Fatalf("%d messages", n)
		}
		b.b.groups.owners.noteSimple("g", x.name, 0, identity{"c", anonymous}, "/127.0.0.1", 1, stampOf(time.Now()))
		w.send(12, fetchOf(want{x, 0, 1, 1, -1, -1})) // one more, now for the group
		synctest.Wait()
		used := func(sub string) int64 {
			return x.limits.Explain(0, sub, instant()).Levels[throttle.SubscriptionLevel].Counters[throttle.Messages].Used
		}
		name := standIn + "client:" + anonymous + "/c"
		if a, g := used(name), used("g"); a != 3 || g != 2 {
			t.Fatalf("before: %d used under the old name and %d of the group's", a, g)
		}
		w.conn.Close()
		synctest.Wait()
		if a, g := used(name), used("g"); a != 3 || g != 1 {
			t.Errorf("after: %d used under the old name, and %d of the group's", a, g)
		}
	})
}

// Groups with one client id get what is theirs, each connection as one of them; while it may be the other's, the stricter limit
// holds.
func TestGroupsWithOneClientID(t *testing.T) {
	for name, c := range map[string]struct {
		s        throttle.Settings
		one, all int64 // in a minute
	}{
		"alike":     {throttle.Settings{Subscription: msgs(10)}, 600, 1200},
		"different": {throttle.Settings{Groups: map[string]throttle.Policy{"a": msgs(10), "b": msgs(4)}}, -1, 240},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.s, func(b *bubble) {
				x := b.topic("x", 1, nil)
				b.backlog(x, 700, 1, 10)
				b.owns("a", "m1", "kgo", x)
				b.owns("b", "m2", "kgo", x)
				one, two := b.read("kgo", time.Minute, nil, at(x, 0, 0)), b.read("kgo", time.Minute, nil, at(x, 0, 0))
				b.readers.Wait()
				if n := one.total(); c.one >= 0 && n != c.one || n+two.total() != c.all {
					t.Errorf("%d and %d messages in a minute", n, two.total())
				}
			})
		})
	}
}

// What the settings say holds at the next fetch, and wakes one that waits, over TCP.
func TestLimitsBySettings(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.mustCreate("t", keyMsg, "10", keyPeriod, "3600")
	for range 100 {
		c.produce("t", 0, "x")
	}
	r := n.dial()
	offset := int64(0)
	fetch := func(wait int32) (records int) {
		t.Helper()
		q := kmsg.NewPtrFetchRequest()
		q.MaxWaitMillis, q.MinBytes, q.MaxBytes = wait, 1, 1<<20
		p := kmsg.NewFetchRequestTopicPartition()
		p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = offset, 1<<20, -1, -1
		q.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{p}}}
		resp, err := r.try(q, 12)
		check(t, err)
		f := resp.(*kmsg.FetchResponse)
		if f.ThrottleMillis != 0 || f.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("%+v", f)
		}
		records = len(offsetsOf(t, f.Topics[0].Partitions[0].RecordBatches))
		offset += int64(records)
		return records
	}
	if a, b := fetch(0), fetch(0); a != 10 || b != 0 {
		t.Fatalf("%d, then %d messages, want 10 an hour", a, b)
	}
	for _, x := range []struct {
		what   string
		change func()
		want   int
	}{
		{"raised", func() { c.set(typeTopic, "t", keyMsg, "15") }, 5},
		{"counted in bytes", func() {
			c.edit(1, false, incremental(typeTopic, "t", edit{1, keyMsg, ""}, edit{0, keyByte, "1"}))
		}, 1},
		{"by namespace", func() {
			c.set(typeBroker, "", "namespace.t."+keyMsg, "7")
			c.edit(1, false, incremental(typeTopic, "t", edit{1, keyByte, ""}, edit{1, keyPeriod, ""}))
		}, 7},
	} {
		got := make(chan int)
		go func() { got <- fetch(60_000) }()
		waitFor(t, func() bool { return waiters(n, "t") == 1 })
		x.change()
		if records := <-got; records != x.want {
			t.Errorf("%s: %d messages, want %d", x.what, records, x.want)
		}
	}
}

// waiters counts the fetches that wait for the allowance of a topic's first partition.
func waiters(n *node, topic string) (count int) {
	for _, l := range n.topics.byName(topic).limits.Explain(0, "", instant()).Levels {
		for _, c := range l.Counters {
			count += c.Waiters
		}
	}
	return count
}

// The limits of the file hold from the start.
func TestLimitsOfTheFile(t *testing.T) {
	r := newRig(t, map[string]string{"dispatchThrottlingRatePerTopicInMsg": "4", "ratePeriodInSecond": "3600"})
	x := r.topic("x", 1, nil)
	r.fill(x.partition(0), 10, 10)
	if p := fetched(r.dial().do(12, fetchOf(at(x, 0, 0))))[0]; len(offsetsOf(t, p.RecordBatches)) != 4 {
		t.Errorf("%+v", p)
	}
}
