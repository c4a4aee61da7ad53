package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const offsetsTopicName = "__consumer_offsets"

// The kinds of keys of the topic, which a key begins with. Tools such as Burrow and kminion take the first three and pass
// over the others.
const (
	keyOffset       = 1 // 0 in the oldest records
	keyGroup        = 2
	keyFirstOfOther = 3 // of the consumer protocol
	keyLastOfOther  = 8
	keyPassedOver   = 4 // of Kafka up to 4.0
)

// Versions of values. Kafka writes offsets in version 4 since 4.1; the older one is what every tool knows.
const (
	offsetValueVersion = 3
	groupValueVersion  = 3
	otherValueVersion  = 0
)

// offsetsTopic reads the topic of the groups as monitoring tools do, as an ordinary consumer, and takes each record apart by Kafka's
// format. Written again, it must be the same bytes; and the records must say what happened.
func (s *scenario) offsetsTopic(ctx context.Context) error {
	if err := s.isInternal(ctx); err != nil {
		return err
	}
	book := offsetsBook{committed: map[int32]int64{}}
	err := s.eachRecord(ctx, func(r *kgo.Record) error {
		if err := book.take(r); err != nil {
			return fmt.Errorf("partition %d, offset %d, key %q, value %q: %w", r.Partition, r.Offset, r.Key, r.Value, err)
		}
		return nil
	})
	return errors.Join(err, book.check(s.known.ends()))
}

func (s *scenario) isInternal(ctx context.Context) error {
	topics, err := s.admin.ListTopicsWithInternal(ctx, offsetsTopicName)
	if err != nil {
		return err
	}
	if t := topics[offsetsTopicName]; t.Err != nil || !t.IsInternal {
		return fmt.Errorf("%s is not an internal topic (error %v)", offsetsTopicName, t.Err)
	}
	return nil
}

// eachRecord reads the topic from its beginning to the end that it has now.
func (s *scenario) eachRecord(ctx context.Context, take func(*kgo.Record) error) error {
	ends, err := s.admin.ListEndOffsets(ctx, offsetsTopicName)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	starts := map[int32]kgo.Offset{}
	missing := int64(0)
	for p, end := range ends[offsetsTopicName] {
		if end.Offset > 0 {
			starts[p] = kgo.NewOffset().At(0)
			missing += end.Offset
		}
	}
	s.writer.AddConsumePartitions(map[string]map[int32]kgo.Offset{offsetsTopicName: starts})
	for missing > 0 {
		fetches := s.writer.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("read %s, with %d records to come: %w", offsetsTopicName, missing, err)
		}
		for r := range fetches.RecordsAll() {
			missing--
			if err := take(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// offsetsBook is what the records of the topic say about the group.
type offsetsBook struct {
	committed   map[int32]int64 // the newest offsets
	generations int             // records with members
	others      int             // records of the consumer protocol
	newest      int32           // generation
}

func (b *offsetsBook) take(r *kgo.Record) error {
	if len(r.Key) < 2 {
		return errors.New("the key has no version")
	}
	switch version := binary.BigEndian.Uint16(r.Key); {
	case version <= keyOffset:
		return b.takeOffset(r)
	case version == keyGroup:
		return b.takeGroup(r)
	case version >= keyFirstOfOther && version <= keyLastOfOther && version != keyPassedOver:
		b.others++
		return sameVersion(r.Value, otherValueVersion)
	default:
		return fmt.Errorf("the key has version %d", version)
	}
}

func (b *offsetsBook) takeOffset(r *kgo.Record) error {
	var key kmsg.OffsetCommitKey
	if err := exactly(r.Key, &key); err != nil {
		return err
	}
	if key.Version != keyOffset || key.Group != group || key.Topic != topic {
		return fmt.Errorf("the key is %+v", key)
	}
	if r.Value == nil {
		delete(b.committed, key.Partition)
		return nil
	}
	var value kmsg.OffsetCommitValue
	if err := exactly(r.Value, &value); err != nil {
		return err
	}
	if value.CommitTimestamp <= 0 {
		return fmt.Errorf("the commit has the time %d", value.CommitTimestamp)
	}
	b.committed[key.Partition] = value.Offset
	return sameVersion(r.Value, offsetValueVersion)
}

func (b *offsetsBook) takeGroup(r *kgo.Record) error {
	var key kmsg.GroupMetadataKey
	if err := exactly(r.Key, &key); err != nil {
		return err
	}
	if key.Group != group {
		return fmt.Errorf("the key is %+v", key)
	}
	if r.Value == nil {
		return nil
	}
	var value kmsg.GroupMetadataValue
	if err := exactly(r.Value, &value); err != nil {
		return err
	}
	// Kafka records a group without a type before its first member.
	if len(value.Members) > 0 && value.ProtocolType != "consumer" || value.Generation < b.newest {
		return fmt.Errorf("protocol type %q, generation %d after %d", value.ProtocolType, value.Generation, b.newest)
	}
	b.newest = value.Generation
	if len(value.Members) > 0 {
		b.generations++
	}
	return errors.Join(sameVersion(r.Value, groupValueVersion), checkMembers(value))
}

// checkMembers reads what the members were given: each partition has one owner. What they say is not read: it is the clients' own,
// and kafka-go writes a subscription of version 1 without the owned partitions.
func checkMembers(value kmsg.GroupMetadataValue) error {
	owners := map[int32]string{}
	for _, m := range value.Members {
		var has kmsg.ConsumerMemberAssignment
		if err := has.ReadFrom(m.Assignment); err != nil {
			return fmt.Errorf("the assignment of member %s: %w", m.MemberID, err)
		}
		for _, t := range has.Topics {
			for _, p := range t.Partitions {
				if other, twice := owners[p]; twice {
					return fmt.Errorf("generation %d gives partition %d to %s and to %s", value.Generation, p, other, m.MemberID)
				}
				owners[p] = m.MemberID
			}
		}
	}
	return nil
}

// check compares what the records say with the ends that the group came to.
func (b *offsetsBook) check(ends []int64) error {
	for p, end := range ends {
		if got := b.committed[int32(p)]; got != end {
			return fmt.Errorf("the records say that %d is committed for partition %d; it is %d", got, p, end)
		}
	}
	if b.generations == 0 && b.others == 0 {
		return errors.New("there is no record of members")
	}
	return nil
}

// message is a key or a value of kmsg.
type message interface {
	ReadFrom([]byte) error
	AppendTo([]byte) []byte
}

// exactly reads a message that takes all bytes, in the only way to write it.
func exactly(b []byte, m message) error {
	if err := m.ReadFrom(b); err != nil {
		return err
	}
	if again := m.AppendTo(nil); !bytes.Equal(again, b) {
		return fmt.Errorf("written again it is %q", again)
	}
	return nil
}

// sameVersion checks the version that a value begins with. A tombstone has none.
func sameVersion(value []byte, want uint16) error {
	if value == nil {
		return nil
	}
	if len(value) < 2 || binary.BigEndian.Uint16(value) != want {
		return fmt.Errorf("the value is not of version %d", want)
	}
	return nil
}
