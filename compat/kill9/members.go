package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The groups: one of each protocol, and one without members, whose only client commits what it likes.
const (
	classicGroup  = "kill9-classic"
	consumerGroup = "kill9-consumer"
	memberless    = "kill9-memberless"
)

var groups = []string{classicGroup, consumerGroup, memberless}

const (
	// steadyMembers stay in each group; one more comes and goes, so that kills meet rebalances.
	steadyMembers = 2
	// session is short, for a kill makes the broker forget that a member has left, and then it is missed when this is over.
	session   = 2 * time.Second
	heartbeat = 200 * time.Millisecond
	// groupsTimeout bounds the times that the groups have to begin, and to come to the end of the log.
	groupsTimeout = 3 * time.Minute
)

// groupFlags allow so short a session.
var groupFlags = []string{
	"--set", "group.min.session.timeout.ms=1000",
	"--set", "group.consumer.min.session.timeout.ms=1000", "--set", fmt.Sprint("group.consumer.session.timeout.ms=", session.Milliseconds()),
	"--set", "group.consumer.min.heartbeat.interval.ms=100", "--set", fmt.Sprint("group.consumer.heartbeat.interval.ms=", heartbeat.Milliseconds()),
}

// committers are the members of the groups, and the one that commits without a group's members.
type committers struct {
	address string
	book    *commitBook
	stop    context.CancelFunc
	running sync.WaitGroup
	admin   *kadm.Client
}

func startCommitters(address string, seed uint64, book *commitBook) (*committers, error) {
	client, err := kgo.NewClient(append(impatient(), kgo.SeedBrokers(address))...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &committers{address: address, book: book, stop: cancel, admin: kadm.NewClient(client)}
	for i, group := range []string{classicGroup, consumerGroup} {
		for range steadyMembers {
			c.running.Go(func() { c.member(ctx, group) })
		}
		random := rand.New(rand.NewPCG(seed, uint64(1000+i)))
		c.running.Go(func() { c.visit(ctx, group, random) })
	}
	c.running.Go(func() { c.commitAlone(ctx) })
	return c, nil
}

// visit is a member that comes and goes.
func (c *committers) visit(ctx context.Context, group string, random *rand.Rand) {
	for ctx.Err() == nil {
		stay, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(1500))*time.Millisecond)
		c.member(stay, group)
		cancel()
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
	}
}

// member reads and commits, in the protocol of its group, until its context ends; then it leaves.
func (c *committers) member(ctx context.Context, group string) {
	opts := append(impatient(),
		kgo.SeedBrokers(c.address), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(session), kgo.HeartbeatInterval(heartbeat),
	)
	if group == consumerGroup {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		panic(fmt.Sprintf("the options of a member are wrong: %v", err))
	}
	defer client.CloseAllowingRebalance()
	for ctx.Err() == nil {
		polled := client.PollRecords(ctx, 200)
		polled.EachRecord(func(r *kgo.Record) { c.book.read(group, r.Partition, r.Offset) })
		c.commit(ctx, client, group)
		client.AllowRebalance()
	}
}

// commit commits what was polled. It goes on in the member's own time when its context has ended: what it has tried is noted.
func (c *committers) commit(ctx context.Context, client *kgo.Client, group string) {
	uncommitted := client.UncommittedOffsets()
	tried := offsets{}
	for p, o := range uncommitted[topic] {
		tried[p] = o.Offset
	}
	if len(tried) == 0 {
		return
	}
	life := c.book.try(group, tried)
	client.CommitOffsetsSync(ctx, uncommitted, func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			return
		}
		acked := offsets{}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if kerr.ErrorForCode(p.ErrorCode) == nil {
					acked[p.Partition] = tried[p.Partition]
				}
			}
		}
		who := group
		if group == consumerGroup {
			who = req.MemberID
		}
		if len(acked) > 0 {
			c.book.ack(group, who, req.Generation, life, acked)
		}
	})
}

// commitAlone commits one offset after the other for all partitions.
func (c *committers) commitAlone(ctx context.Context) {
	for n := int64(1); ctx.Err() == nil; n++ {
		tried, request := offsets{}, kadm.Offsets{}
		for p := range int32(partitions) {
			tried[p] = n
			request.AddOffset(topic, p, n, -1)
		}
		life := c.book.try(memberless, tried)
		if responses, err := c.admin.CommitOffsets(ctx, memberless, request); err == nil && responses.Ok() {
			c.book.ack(memberless, memberless, -1, life, tried)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// begun waits until each group has had a commit acknowledged.
func (c *committers) begun() error {
	ctx, cancel := context.WithTimeout(context.Background(), groupsTimeout)
	defer cancel()
	for _, group := range groups {
		for c.book.count(group) == 0 {
			if ctx.Err() != nil {
				return fmt.Errorf("group %s has committed nothing within %v", group, groupsTimeout)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

// verify compares the commits of all groups with what was promised until now.
func (c *committers) verify(ctx context.Context) error {
	for _, group := range groups {
		promised := c.book.promised(group)
		got, err := c.fetch(ctx, group)
		if err != nil {
			return err
		}
		c.book.check(group, promised, got)
	}
	return nil
}

// fetch asks for the offsets of a group, again while the client still has a connection that a kill has closed.
func (c *committers) fetch(ctx context.Context, group string) (offsets, error) {
	responses, err := c.admin.FetchOffsets(ctx, group)
	for errors.Is(err, io.EOF) && ctx.Err() == nil {
		responses, err = c.admin.FetchOffsets(ctx, group)
	}
	if err == nil {
		err = responses.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("fetch the offsets of group %s: %w", group, err)
	}
	got := offsets{}
	responses.Each(func(r kadm.OffsetResponse) { got[r.Partition] = r.At })
	return got, nil
}

// errBehind says that a group did not come to the end of the log.
var errBehind = errors.New("a group is behind")

// arrived waits until the groups with members have committed everything.
func (c *committers) arrived(ends offsets) error {
	ctx, cancel := context.WithTimeout(context.Background(), groupsTimeout)
	defer cancel()
	for _, group := range []string{classicGroup, consumerGroup} {
		for {
			got, err := c.fetch(ctx, group)
			if err == nil && maps.Equal(got, ends) {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("%w: %s is at %v, the log ends at %v (error %v)", errBehind, group, got, ends, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

// close has everybody leave.
func (c *committers) close() {
	c.stop()
	c.running.Wait()
	c.admin.Close()
}
