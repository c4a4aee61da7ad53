package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/group"
	"sluice/internal/machine"
	"sluice/kproto"
	"sluice/log"
)

// committedOffsets are the offsets that groups have committed, by group, topic and partition.
type committedOffsets map[offsetPlace]machine.Record

type offsetPlace struct {
	group, topic string
	partition    int32
}

// committed reads the offsets of the topics that are imported out of Kafka's logs. The members of the groups are not taken: they belong to Kafka.
func (m *importer) committed() (committedOffsets, error) {
	wanted := map[string]bool{}
	for _, t := range m.accepted() {
		wanted[t.Topic] = true
	}
	found := committedOffsets{}
	if !m.Offsets {
		return found, nil
	}
	now := time.Now().UnixMilli()
	for _, p := range m.offsets {
		s, err := p.Survey()
		if err == nil {
			err = s.EachRecord(func(r kproto.Record) error { return found.take(r, wanted, now) })
		}
		if err != nil {
			return nil, fmt.Errorf("the committed offsets (--no-offsets leaves them): %w", err)
		}
	}
	return found, nil
}

func (f committedOffsets) take(r kproto.Record, wanted map[string]bool, now int64) error {
	o, ok, err := group.ImportOffset(machine.Record{Key: r.Key, Value: r.Value}, now)
	if err != nil || !ok || !wanted[o.Topic] {
		return err
	}
	place := offsetPlace{o.Group, o.Topic, o.Partition}
	if o.Record.Value == nil {
		delete(f, place)
	} else {
		f[place] = o.Record
	}
	return nil
}

func (m *importer) countOffsets() error {
	found, err := m.committed()
	m.count(found)
	return err
}

func (m *importer) count(found committedOffsets) {
	groups := map[string]bool{}
	for place := range found {
		groups[place.group] = true
	}
	m.out.Offsets, m.out.Groups = len(found), len(groups)
}

// importOffsets writes the newest of each place into the partitions of __consumer_offsets that the groups have here. It comes before the topics exist:
// a crash then leaves offsets that nobody asks for, and not topics without their offsets.
func (m *importer) importOffsets(ctx context.Context) error {
	found, err := m.committed()
	if err != nil || len(found) == 0 {
		return err
	}
	m.count(found)
	t, err := m.broker.groups.topic(ctx)
	if err != nil {
		return fmt.Errorf("the committed offsets: %w", err)
	}
	byPartition := map[int32][]machine.Record{}
	for place, r := range found {
		p := partitionOf(place.group, t.partitions())
		byPartition[p] = append(byPartition[p], r)
	}
	for _, p := range slices.Sorted(maps.Keys(byPartition)) {
		if err := appendDurably(ctx, t.partition(p), byPartition[p]); err != nil {
			return fmt.Errorf("write committed offsets: %w", err)
		}
	}
	return nil
}

// topic gives the topic of the groups, which is made if it is missing.
func (g *groups) topic(ctx context.Context) (*topic, error) {
	if t := g.b.topics.byName(offsetsTopic); t != nil {
		return t, nil
	}
	type made struct {
		t   *topic
		err error
	}
	done := make(chan made, 1)
	g.create(func(t *topic, err error) { done <- made{t, err} })
	select {
	case m := <-done:
		return m.t, m.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// importBatch is how many records are written in one batch.
const importBatch = 1000

func appendDurably(ctx context.Context, l *log.Log, records []machine.Record) error {
	now := time.Now().UnixMilli()
	for chunk := range slices.Chunk(records, importBatch) {
		b := kproto.NewBuilder(kproto.None)
		for _, r := range chunk {
			b.Add(kproto.Record{Timestamp: now, Key: r.Key, Value: r.Value})
		}
		a, err := l.Append(b.Batch(), log.AppendOptions{Internal: true})
		if err == nil {
			err = a.Ticket.Wait(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
