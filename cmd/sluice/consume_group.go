package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// caughtUpInterval is how often a member that is to end when it is caught up looks whether it is, while it gets no records.
	caughtUpInterval = 250 * time.Millisecond
	// leaveTimeout bounds the farewell to the group's coordinator. A member that cannot say it is missed after its session timeout.
	leaveTimeout = 5 * time.Second
	// staleCommits is how often a commit is tried whose member epoch is behind the group's, staleWait apart: the next heartbeat
	// brings the new epoch (KIP-848), and takes less than a second while partitions move.
	staleCommits = 10
	staleWait    = 100 * time.Millisecond
)

// checkGroup refuses what contradicts that the group decides which partitions to read and from where.
func (c *consumeCmd) checkGroup() error {
	switch {
	case c.Group == "":
		return nil
	case len(c.Partition) > 0:
		return errors.New("--group and --partition exclude each other: the group's members share the partitions")
	case c.From.kind != fromBeginning && c.From.kind != fromEnd:
		return errors.New("with --group, reading begins at the group's offsets; --from beginning or end is for partitions that have none\n" +
			"`sluice group reset-offsets` moves a group to any offset or time")
	case c.Until.kind == untilOffset:
		return errors.New("with --group, --until is forever or end")
	}
	return nil
}

// membership reads a topic as a member of a group: it prints records and commits those that it has printed.
type membership struct {
	cmd    *consumeCmd
	s      *streams
	admin  *kadm.Client
	client *kgo.Client
	bounds map[int32]bounds // as they were at the start

	mu   sync.Mutex
	next map[int32]int64 // by assigned partition, the offset to be read next; guarded by mu
}

// runMember prints records until the stop, the count or an interrupt, and leaves the group.
func (c *consumeCmd) runMember(ctx context.Context, s *streams) error {
	m := &membership{cmd: c, s: s, next: map[int32]int64{}}
	var err error
	if m.admin, err = c.connectAdmin(ctx, s); err != nil {
		return err
	}
	defer m.admin.Close()
	if _, err := topicDetail(ctx, m.admin, c.Topic); err != nil {
		return err
	}
	if m.bounds, err = c.bounds(ctx, m.admin); err != nil {
		return explain("topic "+c.Topic, err, "")
	}
	if m.client, err = c.connect(ctx, s, append(c.options(), m.options()...)...); err != nil {
		return err
	}
	defer m.client.CloseAllowingRebalance()
	out := bufio.NewWriter(s.out)
	err = m.read(ctx, out)
	return errors.Join(err, out.Flush(), m.leave())
}

// options join the group. Rebalances wait while records are in hand, so that what was printed can be committed. The
// balancers are those of the Java client and of librdkafka, so that members of both can share a group.
func (m *membership) options() []kgo.Opt {
	reset := kgo.NewOffset().AtStart()
	if m.cmd.From.kind == fromEnd {
		reset = kgo.NewOffset().AtEnd()
	}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(m.cmd.Group), kgo.ConsumeTopics(m.cmd.Topic), kgo.ConsumeResetOffset(reset),
		kgo.Balancers(kgo.RangeBalancer(), kgo.RoundRobinBalancer(), kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.AdjustFetchOffsetsFn(m.assigned), kgo.OnPartitionsRevoked(m.revoked), kgo.OnPartitionsLost(m.revoked),
	}
	if m.cmd.Protocol == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer()) // the assignor is named after the first balancer
	}
	return opts
}

// assigned notes where reading begins in new partitions, and changes nothing about it.
func (m *membership) assigned(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, offset := range offsets[m.cmd.Topic] {
		m.next[p] = beginning(offset.EpochOffset().Offset, m.bounds[p])
	}
	return offsets, nil
}

// beginning is the offset that a partition is read from. The client has negative numbers for start and end.
func beginning(at int64, b bounds) int64 {
	const atEnd = -1
	if at == atEnd {
		return b.end
	}
	return max(at, b.start)
}

func (m *membership) revoked(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range lost[m.cmd.Topic] {
		delete(m.next, p)
	}
}

// read prints and commits. An interrupt is how one stops reading.
func (m *membership) read(ctx context.Context, out *bufio.Writer) error {
	printer := recordPrinter{cmd: m.cmd, out: out}
	for ctx.Err() == nil {
		if done, err := m.done(ctx); done || err != nil {
			return err
		}
		fetches := m.poll(ctx)
		if err := m.pollError(ctx, fetches); err != nil {
			return err
		}
		printed, full, err := m.print(&printer, fetches)
		if err = errors.Join(err, m.commit(printed)); full || err != nil {
			return err
		}
		m.client.AllowRebalance()
	}
	return nil
}

// poll waits for records, or, when there is an end to be seen, until it is time to look for it.
func (m *membership) poll(ctx context.Context) kgo.Fetches {
	if m.cmd.Until.kind != untilEnd {
		return m.client.PollFetches(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, caughtUpInterval)
	defer cancel()
	return m.client.PollFetches(ctx)
}

// pollError is the error of a poll that ends the command. The client itself goes on after those of the group that pass.
func (m *membership) pollError(ctx context.Context, fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		switch session, is := errors.AsType[*kgo.ErrGroupSession](e.Err); {
		case ctx.Err() != nil || errors.Is(e.Err, context.DeadlineExceeded):
		case !is:
			return explain("topic "+m.cmd.Topic, e.Err, "")
		case !passes(session.Err):
			return explain("group "+m.cmd.Group, session.Err, "")
		default:
			m.warn("trying again", session.Err)
		}
	}
	return nil
}

// passes tells whether a member can go on after an error: it joins again.
func passes(err error) bool {
	code, is := errors.AsType[*kerr.Error](err)
	return !is || code.Retriable || outOfGroup(err)
}

// outOfGroup tells whether an error says that the group has gone on without this member.
func outOfGroup(err error) bool {
	code, is := errors.AsType[*kerr.Error](err)
	return is && slices.Contains([]*kerr.Error{
		kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.FencedMemberEpoch, kerr.StaleMemberEpoch,
	}, code)
}

func (m *membership) warn(what string, err error) {
	fmt.Fprintf(m.s.err, "sluice: %v; %s\n", explain("group "+m.cmd.Group, err, ""), what)
}

// print prints the records of a poll, up to the count, and returns them.
func (m *membership) print(printer *recordPrinter, fetches kgo.Fetches) (printed []*kgo.Record, full bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for records := fetches.RecordIter(); !records.Done() && !full; {
		r := records.Next()
		if err := printer.print(r); err != nil {
			return printed, false, err
		}
		printed = append(printed, r)
		m.next[r.Partition] = r.Offset + 1
		full = m.cmd.Count > 0 && printer.printed == m.cmd.Count
	}
	if err := printer.out.Flush(); err != nil {
		return nil, false, fmt.Errorf("write records: %w", err)
	}
	return printed, full, nil
}

// commit makes the printed records the group's past. An interrupt does not stop it.
func (m *membership) commit(printed []*kgo.Record) error {
	if len(printed) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	err := m.client.CommitRecords(ctx, printed...)
	for range staleCommits - 1 {
		if !errors.Is(err, kerr.StaleMemberEpoch) {
			break
		}
		time.Sleep(staleWait)
		err = m.client.CommitRecords(ctx, printed...)
	}
	if outOfGroup(err) {
		m.warn("records that were printed just now will be read again", err)
		return nil
	}
	return explain("group "+m.cmd.Group, err, "")
}

// done tells whether everything is read that was there at the start: by this member of the partitions it has, or, while
// it has none, by the group.
func (m *membership) done(ctx context.Context) (bool, error) {
	if m.cmd.Until.kind != untilEnd {
		return false, nil
	}
	m.mu.Lock()
	idle := len(m.next) == 0
	done := true
	for p, next := range m.next {
		done = done && next >= m.bounds[p].end
	}
	m.mu.Unlock()
	if !idle {
		return done, nil
	}
	committed, err := committedOffsets(ctx, m.admin, m.cmd.Group)
	if err != nil {
		return false, err
	}
	return m.groupDone(committed), nil
}

// groupDone tells whether the group has committed everything that was there at the start.
func (m *membership) groupDone(committed kadm.OffsetResponses) bool {
	for p, b := range m.bounds {
		o, ok := committed.Lookup(m.cmd.Topic, p)
		if !ok && m.cmd.From.kind == fromEnd {
			continue
		}
		if !ok && b.start < b.end || ok && max(o.At, b.start) < b.end {
			return false
		}
	}
	return true
}

// leave tells the group, which then gives the partitions to other members at once.
func (m *membership) leave() error {
	m.client.AllowRebalance()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := m.client.LeaveGroupContext(ctx); err != nil {
		return explain("leave group "+m.cmd.Group, err, "")
	}
	return nil
}
