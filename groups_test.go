package sluice

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupTimeout ends a test that would hang; nothing is measured by it.
const groupTimeout = 60 * time.Second

// consumer is a member of a group that counts what it reads, until it is closed.
type consumer struct {
	client *kgo.Client
	cancel context.CancelFunc
	ended  chan struct{}

	mu   sync.Mutex
	owns map[int32]bool
	read map[string]int
}

func join(t *testing.T, addr, group string, opts ...kgo.Opt) *consumer {
	t.Helper()
	c := &consumer{owns: map[int32]bool{}, read: map[string]int{}, ended: make(chan struct{})}
	change := func(owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, p := range topics["t"] {
				if owns {
					c.owns[p] = true
				} else {
					delete(c.owns, p)
				}
			}
		}
	}
	var err error
	c.client, err = kgo.NewClient(append(opts, kgo.SeedBrokers(addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics("t"),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(100*time.Millisecond), kgo.DisableAutoCommit(),
		kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go c.run(ctx)
	return c
}

func (c *consumer) run(ctx context.Context) {
	defer close(c.ended)
	for ctx.Err() == nil {
		fetches := c.client.PollFetches(ctx)
		c.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) { c.read[string(r.Value)]++ })
		c.mu.Unlock()
		_ = c.client.CommitRecords(ctx, fetches.Records()...) // a member that was left behind by a rebalance reads again
	}
}

// close leaves the group, having committed what it read.
func (c *consumer) close() {
	c.cancel()
	<-c.ended
	c.client.Close()
}

func (c *consumer) owned() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.owns)
}

func (c *consumer) values() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.read)
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(groupTimeout); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// Two members share the partitions, one leaves, the broker starts again, and a new member goes on where they were.
func TestConsumerGroup(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{
		"eager":       {kgo.Balancers(kgo.RangeBalancer())},
		"cooperative": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
		"uniform":     {kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()}, // the consumer protocol, KIP-848
		"range":       {kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer()},
	} {
		t.Run(name, func(t *testing.T) { consumeInGroup(t, opts...) })
	}
}

// A group moves from the classic to the consumer protocol and back, one member at a time, and reads everything.
func TestGroupMigration(t *testing.T) {
	b, err := Start(Options{InMemory: true, Settings: map[string]string{"num.partitions": "4", "group.consumer.heartbeat.interval.ms": "500", "group.consumer.min.heartbeat.interval.ms": "500"}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	produceValues(t, b, 0, 100)
	classic := []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}
	modern := []kgo.Opt{kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()}

	first := join(t, b.Addr(), "g", classic...)
	until(t, "the classic member owns all and reads all", func() bool { return first.owned() == 4 && first.values() == 100 })
	second := join(t, b.Addr(), "g", modern...)
	until(t, "they share", func() bool { return first.owned() == 2 && second.owned() == 2 })
	produceValues(t, b, 100, 200)
	until(t, "they read all", func() bool { return caughtUp(t, b, 200) })
	first.close()
	until(t, "the consumer protocol's member owns all", func() bool { return second.owned() == 4 })
	produceValues(t, b, 200, 300)
	until(t, "it reads all", func() bool { return caughtUp(t, b, 300) })

	third := join(t, b.Addr(), "g", classic...)
	until(t, "they share", func() bool { return second.owned() == 2 && third.owned() == 2 })
	second.close()
	until(t, "the classic member owns all", func() bool { return third.owned() == 4 })
	produceValues(t, b, 300, 400)
	until(t, "it reads all", func() bool { return caughtUp(t, b, 400) })
	third.close()
}

func consumeInGroup(t *testing.T, opts ...kgo.Opt) {
	o := Options{DataDir: filepath.Join(t.TempDir(), "data"), Settings: map[string]string{"num.partitions": "4", "group.consumer.heartbeat.interval.ms": "500", "group.consumer.min.heartbeat.interval.ms": "500"}}
	b, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { b.Close() }()
	o.Listen = b.Addr()
	produceValues(t, b, 0, 100)

	first := join(t, b.Addr(), "g", opts...)
	until(t, "the first member owns all and reads all", func() bool { return first.owned() == 4 && first.values() == 100 })
	second := join(t, b.Addr(), "g", opts...)
	until(t, "they share", func() bool { return first.owned() == 2 && second.owned() == 2 })
	produceValues(t, b, 100, 200)
	until(t, "they read all", func() bool { return first.values()+second.values() >= 200 })
	second.close()
	until(t, "the first member owns all again", func() bool { return first.owned() == 4 })

	generation := describeGroup(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err = Start(o); err != nil {
		t.Fatal(err)
	}
	produceValues(t, b, 200, 300)
	until(t, "the first member goes on", func() bool { return first.values() >= 200 && first.owned() == 4 && caughtUp(t, b, 300) })
	if g := describeGroup(t, b); g != generation {
		t.Errorf("the group was %s and is %s", generation, g)
	}
	first.close()

	third := join(t, b.Addr(), "g", opts...)
	defer third.close()
	until(t, "a new member owns all", func() bool { return third.owned() == 4 })
	produceValues(t, b, 300, 310)
	until(t, "it reads what is new", func() bool { return third.values() >= 10 })
	if third.values() != 10 {
		t.Errorf("it read %d values, 10 are new", third.values())
	}
}

func produceValues(t *testing.T, b *Broker, from, to int) {
	t.Helper()
	c := client(t, b, kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	for i := from; i < to; i++ {
		c.Produce(context.Background(), kgo.StringRecord(fmt.Sprintf("value %d", i)), func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := c.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// describeGroup tells state and members of the group; a member's id changes when it has to join anew.
func describeGroup(t *testing.T, b *Broker) string {
	t.Helper()
	groups, err := kadm.NewClient(client(t, b)).DescribeGroups(context.Background(), "g")
	if err != nil {
		t.Fatal(err)
	}
	g := groups["g"]
	if g.State == "Dead" { // to the classic protocol
		return describeConsumers(t, b)
	}
	text := g.State
	for _, m := range g.Members {
		text += " " + m.MemberID
	}
	return text
}

// describeConsumers is describeGroup for a group of the consumer protocol.
func describeConsumers(t *testing.T, b *Broker) string {
	t.Helper()
	q := kmsg.NewPtrConsumerGroupDescribeRequest()
	q.Groups = []string{"g"}
	resp, err := q.RequestWith(context.Background(), client(t, b))
	if err != nil || resp.Groups[0].ErrorCode != 0 {
		t.Fatalf("%v, %+v", err, resp)
	}
	g := resp.Groups[0]
	text := fmt.Sprint(g.State, " ", g.Epoch, " by ", g.AssignorName)
	for _, m := range g.Members {
		text += fmt.Sprint(" ", m.MemberID, " in ", m.MemberEpoch)
	}
	return text
}

// caughtUp tells whether the group has committed n records.
func caughtUp(t *testing.T, b *Broker, n int64) bool {
	t.Helper()
	offsets, err := kadm.NewClient(client(t, b)).FetchOffsets(context.Background(), "g")
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
	return sum == n
}
