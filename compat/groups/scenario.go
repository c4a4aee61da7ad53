package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/compat/members"
)

const (
	topic      = "groups"
	group      = "group"
	partitions = 6
	// writeInterval is the time between two records of a partition.
	writeInterval = 10 * time.Millisecond
	// stepTimeout bounds each step, for one round; the longest contains a session timeout of six seconds.
	stepTimeout = 90 * time.Second
	// pollInterval is the time between two looks whether a step is done.
	pollInterval = 20 * time.Millisecond
)

// scenario is one life of a group: members come, one is killed, all go, and one comes after them, while records are
// written.
type scenario struct {
	client  members.Client
	address string
	rounds  int // members that come and are killed
	known   *ledger
	writer  *kgo.Client
	admin   *kadm.Client
	members map[string]*process
	errors  strings.Builder // what members that have ended said last
	took    []string        // the seconds of each step

	stopWriting func() error
}

func newScenario(c members.Client, address string, rounds int) (*scenario, error) {
	writer, err := kgo.NewClient(
		kgo.SeedBrokers(address), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return nil, err
	}
	s := &scenario{
		client: c, address: address, rounds: rounds,
		known: newLedger(partitions), writer: writer, admin: kadm.NewClient(writer), members: map[string]*process{},
	}
	_, err = s.admin.CreateTopic(context.Background(), partitions, 1, nil, topic)
	return s, err
}

// step is a part of the scenario, and a check by itself.
type step struct {
	name string
	run  func(ctx context.Context) error
}

func (s *scenario) steps() []step {
	return []step{
		{"two members share the partitions", s.share},
		{"a third member gets its share", s.third},
		{"the others take over from a killed member", s.killed},
		{"a new member goes on at the committed offsets", s.resumed},
		{"no record is lost", s.nothingLost},
		{"__consumer_offsets holds records in Kafka's formats", s.offsetsTopic},
	}
}

// run runs all steps; those after one that failed are not tried. At the end it reports what was promised all the time.
func (s *scenario) run(report func(name string, err error)) {
	var failed error
	for _, step := range s.steps() {
		if failed != nil {
			report(step.name, errNotReached)
			continue
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout*time.Duration(s.rounds))
		failed = step.run(ctx)
		cancel()
		report(step.name, failed)
		s.took = append(s.took, fmt.Sprintf("%.1f", time.Since(began).Seconds()))
	}
	found := s.known.found()
	report("no committed record is read again", none(found.again))
	report("no offset from the future is committed", none(found.future))
	report("every record is what was written", none(found.strange))
}

var errNotReached = errors.New("an earlier step failed")

// close ends what still runs.
func (s *scenario) close() {
	if s.stopWriting != nil {
		_ = s.stopWriting()
	}
	for _, name := range slices.Collect(maps.Keys(s.members)) {
		s.kill(name)
	}
	s.writer.Close()
}

func (s *scenario) share(ctx context.Context) error {
	s.write()
	return errors.Join(s.join("A"), s.join("B"), s.wantOwners(ctx, "A", "B"))
}

func (s *scenario) third(ctx context.Context) error {
	return errors.Join(s.join("C"), s.wantOwners(ctx, "A", "B", "C"))
}

// killed kills a member while it reads: its partitions go to the others when its session is over.
func (s *scenario) killed(ctx context.Context) error {
	victim := "B"
	for round := range s.rounds {
		if s.client.Careless {
			if err := s.settle(ctx); err != nil {
				return err
			}
		}
		s.kill(victim)
		s.write()
		s.known.mark()
		if err := s.wantOwners(ctx, "A", "C"); err != nil {
			return err
		}
		if round+1 == s.rounds {
			break
		}
		victim = fmt.Sprintf("B%d", round+1)
		if err := errors.Join(s.join(victim), s.wantOwners(ctx, "A", victim, "C")); err != nil {
			return err
		}
	}
	return nil
}

// resumed has all members leave, and another one read what was written meanwhile, and nothing else.
func (s *scenario) resumed(ctx context.Context) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	if err := errors.Join(s.leave("A"), s.leave("C")); err != nil {
		return err
	}
	s.write()
	s.known.mark()
	return errors.Join(s.join("D"), s.wantOwners(ctx, "D"))
}

func (s *scenario) nothingLost(ctx context.Context) error {
	return errors.Join(s.settle(ctx), s.leave("D"))
}

// write has a record written to each partition again and again, if that is not done already.
func (s *scenario) write() {
	if s.stopWriting != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.writeUntil(ctx) }()
	s.stopWriting = func() error {
		cancel()
		s.stopWriting = nil
		return <-done
	}
}

func (s *scenario) writeUntil(ctx context.Context) error {
	next := s.known.ends()
	for ctx.Err() == nil {
		var records []*kgo.Record
		for p := range int32(partitions) {
			records = append(records, &kgo.Record{Partition: p, Value: []byte(valueOf(p, next[p]))})
			next[p]++
		}
		if err := s.writer.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		for _, r := range records {
			s.known.wrote(r.Partition, r.Offset)
		}
		time.Sleep(writeInterval)
	}
	return nil
}

func (s *scenario) join(name string) error {
	p, err := startMember(name, s.client.Argv(s.address, group, topic), s.known)
	if err == nil {
		s.members[name] = p
	}
	return err
}

func (s *scenario) kill(name string) {
	p := s.members[name]
	p.kill()
	s.bury(p)
}

func (s *scenario) leave(name string) error {
	p := s.members[name]
	err := p.leave()
	s.bury(p)
	return err
}

// bury keeps what a member said, in case that something fails.
func (s *scenario) bury(p *process) {
	delete(s.members, p.name)
	const tail = 3000
	said := p.errors.String()
	if said == "" {
		return
	}
	fmt.Fprintf(&s.errors, "--- %s of %s said:\n%s\n", p.name, s.client.Name, said[max(0, len(said)-tail):])
}

// wantOwners waits until the members, and nobody else, read all partitions.
func (s *scenario) wantOwners(ctx context.Context, names ...string) error {
	return s.await(ctx, func() error {
		for _, name := range names {
			if !s.members[name].alive() {
				return fmt.Errorf("%w: %s", errEnded, name)
			}
		}
		got := slices.Sorted(maps.Keys(s.known.owners()))
		if slices.Sort(names); !slices.Equal(got, names) {
			return fmt.Errorf("the partitions are read by %q, want %q", got, names)
		}
		return nil
	})
}

// settle stops writing and waits until everything is read and committed.
func (s *scenario) settle(ctx context.Context) error {
	if s.stopWriting != nil {
		if err := s.stopWriting(); err != nil {
			return err
		}
	}
	return s.await(ctx, func() error {
		if n := s.known.unread(); n > 0 {
			return fmt.Errorf("%d records were not read by anybody", n)
		}
		return s.allCommitted(ctx)
	})
}

// allCommitted asks the broker whether the group has come to the ends, and notes that.
func (s *scenario) allCommitted(ctx context.Context) error {
	offsets, err := s.admin.FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	for p, end := range s.known.ends() {
		if o, _ := offsets.Lookup(topic, int32(p)); o.At != end {
			return fmt.Errorf("%d is committed for partition %d, which ends at %d", o.At, p, end)
		}
		s.known.commit("the group", int32(p), end)
	}
	return nil
}

// errEnded ends a wait at once.
var errEnded = errors.New("a member ended by itself")

// await looks again and again until what it waits for is so.
func (s *scenario) await(ctx context.Context, look func() error) error {
	for {
		err := look()
		if err == nil || errors.Is(err, errEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pollInterval):
		}
	}
}

// none is an error if there are faults; it shows the first few.
func none(found []string) error {
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%d times: %s", len(found), strings.Join(found[:min(3, len(found))], "; "))
}
