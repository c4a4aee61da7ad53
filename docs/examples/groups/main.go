// Command groups shows how consumer groups share a topic: a topic of four partitions is read by a group of one, two,
// four and five consumers, and by a second group beside it, which gets every record again.
//
//	go run ./docs/examples/groups                             a broker in memory
//	go run ./docs/examples/groups -bootstrap 127.0.0.1:9092   any Kafka broker; the topic and the groups are deleted at the end
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice"
)

const (
	topic      = "T1"
	partitions = 4
	// perPartition is how many records each partition gets in each step.
	perPartition = 10
)

func main() {
	bootstrap := flag.String("bootstrap", "", "broker to use, as host:port (default: one in memory)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *bootstrap); err != nil {
		fmt.Fprintln(os.Stderr, "groups:", err)
		os.Exit(1)
	}
}

// run starts a broker if none is given, and shows the example on it.
func run(ctx context.Context, out io.Writer, bootstrap string) error {
	if bootstrap == "" {
		b, err := sluice.Start(sluice.Options{InMemory: true})
		if err != nil {
			return err
		}
		defer b.Close()
		bootstrap = b.Addr()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	created, err := admin.CreateTopic(ctx, partitions, 1, nil, topic)
	if err != nil {
		return fmt.Errorf("create topic %s: %w", created.Topic, err)
	}
	s := &show{out: out, bootstrap: bootstrap, client: client, admin: admin}
	return s.all(ctx)
}

// show is the state of the example.
type show struct {
	out       io.Writer
	bootstrap string
	client    *kgo.Client
	admin     *kadm.Client
	produced  int
}

// all grows G1 from one consumer to more than there are partitions, and then starts G2.
func (s *show) all(ctx context.Context) error {
	defer s.cleanUp()
	g1 := newGroup(s, "G1", "C")
	defer g1.close()
	for _, size := range []int{1, 2, 4, 5} {
		if err := g1.grow(ctx, size); err != nil {
			return err
		}
		if err := s.produce(ctx); err != nil {
			return err
		}
		if err := g1.report(ctx); err != nil {
			return err
		}
	}
	g2 := newGroup(s, "G2", "D")
	defer g2.close()
	if err := g2.grow(ctx, 1); err != nil {
		return err
	}
	return g2.report(ctx)
}

// produce writes the same number of records to each partition.
func (s *show) produce(ctx context.Context) error {
	var records []*kgo.Record
	for i := range partitions * perPartition {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: fmt.Append(nil, s.produced+i)})
	}
	s.produced += len(records)
	return s.client.ProduceSync(ctx, records...).FirstErr()
}

// cleanUp lets the example run again on the same broker.
func (s *show) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, _ = s.admin.DeleteGroups(ctx, "G1", "G2")
	_, _ = s.admin.DeleteTopics(ctx, topic)
}

// group is a consumer group whose members run in this process.
type group struct {
	show          *show
	name, initial string
	members       []*member
	counted       chan tally    // records that were read and committed
	closing       chan struct{} // closed when nobody listens to counted any more
	total         int           // received from counted
}

// tally says that a member has read some records.
type tally struct {
	member, records int
	err             error
}

func newGroup(s *show, name, initial string) *group {
	return &group{show: s, name: name, initial: initial, counted: make(chan tally), closing: make(chan struct{})}
}

// grow starts consumers until there are size, and waits until the partitions are shared among them.
func (g *group) grow(ctx context.Context, size int) error {
	for len(g.members) < size {
		if err := g.start(); err != nil {
			return err
		}
	}
	for {
		described, err := g.show.admin.DescribeGroups(ctx, g.name)
		if err != nil {
			return err
		}
		d := described[g.name]
		if d.State == "Stable" && len(d.Members) == size && len(d.AssignedPartitions()[topic]) == partitions {
			g.note(d)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// note keeps which partitions each member has, as the broker tells.
func (g *group) note(d kadm.DescribedGroup) {
	for _, m := range g.members {
		m.partitions, m.records = nil, 0
		for _, described := range d.Members {
			assigned, ok := described.Assigned.AsConsumer()
			if described.ClientID != m.name || !ok {
				continue
			}
			for _, t := range assigned.Topics {
				m.partitions = append(m.partitions, t.Partitions...)
			}
		}
		slices.Sort(m.partitions)
	}
}

// member is one consumer of a group.
type member struct {
	name       string
	client     *kgo.Client
	stopped    chan struct{}
	partitions []int32
	records    int // read since the group last grew
}

// start adds a consumer. A group without committed offsets begins at the start of the topic.
func (g *group) start() error {
	number := len(g.members)
	m := &member{name: fmt.Sprint(g.initial, number+1), stopped: make(chan struct{})}
	var err error
	m.client, err = kgo.NewClient(
		kgo.SeedBrokers(g.show.bootstrap), kgo.ClientID(m.name),
		kgo.ConsumerGroup(g.name), kgo.ConsumeTopics(topic),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(100*time.Millisecond), // rebalances are told with heartbeats: the example need not wait
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return err
	}
	g.members = append(g.members, m)
	go func() {
		defer close(m.stopped)
		g.consume(m, number)
	}()
	return nil
}

// consume reads until the client is closed, and commits what it has read.
func (g *group) consume(m *member, number int) {
	for {
		fetches := m.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		err := fetches.Err()
		if err == nil {
			err = m.client.CommitRecords(context.Background(), fetches.Records()...)
		}
		select {
		case g.counted <- tally{number, fetches.NumRecords(), err}:
		case <-g.closing:
			return
		}
	}
}

// report waits until the group has read everything, and tells who read how much since it last grew.
func (g *group) report(ctx context.Context) error {
	for g.total < g.show.produced {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case t := <-g.counted:
			if t.err != nil {
				return fmt.Errorf("consumer %s of group %s: %w", g.members[t.member].name, g.name, t.err)
			}
			g.total += t.records
			g.members[t.member].records += t.records
		}
	}
	fmt.Fprintf(g.show.out, "%d records in %s, consumers in %s: %d\n", g.show.produced, topic, g.name, len(g.members))
	for _, m := range g.members {
		fmt.Fprintf(g.show.out, "  %s  partitions %-8s  %3d records\n", m.name, m.owned(), m.records)
	}
	return nil
}

// owned lists the partitions of a member.
func (m *member) owned() string {
	if len(m.partitions) == 0 {
		return "none"
	}
	return strings.Trim(fmt.Sprint(m.partitions), "[]")
}

// close makes the members leave.
func (g *group) close() {
	close(g.closing)
	for _, m := range g.members {
		m.client.Close()
		<-m.stopped
	}
}
