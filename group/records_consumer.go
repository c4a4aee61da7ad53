package group

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kbin"

	"sluice/internal/machine"
	"sluice/kproto"
)

// Keys of the records of the consumer protocol. The keys are a version, the group id and perhaps a member id; the values are in
// version 0 of Kafka's schemas, which are flexible.
const (
	keyConsumerGroup        = 3  // group epoch
	keyConsumerPartitions   = 4  // topics as they were, by Kafka up to 4.0; passed over
	keyConsumerMember       = 5  // what a member says of itself
	keyConsumerTarget       = 6  // assignment epoch
	keyConsumerTargetMember = 7  // what a member is to have
	keyConsumerCurrent      = 8  // what a member has
	keyConsumerPattern      = 16 // what a pattern matched; passed over
)

// consumerValueVersion is of all these values.
const consumerValueVersion = 0

// Tags of optional fields.
const (
	tagTopicsHash       = 0 // of ConsumerGroupMetadataValue (KIP-1101)
	tagClassicMember    = 0 // of ConsumerGroupMemberMetadataValue
	tagAssignmentEpochs = 0 // of the TopicPartitions of ConsumerGroupCurrentMemberAssignmentValue (KIP-1251)
)

func consumerKey(kind int16, texts ...string) []byte {
	b := kbin.AppendInt16(nil, kind)
	for _, s := range texts {
		b = kbin.AppendString(b, s)
	}
	return b
}

func memberTombstone(kind int16, group, member string) machine.Record {
	return machine.Record{Key: consumerKey(kind, group, member)}
}

func consumerGroupRecord(group string, epoch int32, topicsHash int64) machine.Record {
	b := kbin.AppendInt16(nil, consumerValueVersion)
	b = kbin.AppendInt32(b, epoch)
	b = kbin.AppendUvarint(b, 1) // one tag
	b = kbin.AppendUvarint(b, tagTopicsHash)
	b = kbin.AppendUvarint(b, 8)
	b = kbin.AppendInt64(b, topicsHash)
	return machine.Record{Key: consumerKey(keyConsumerGroup, group), Value: b}
}

func consumerTargetRecord(group string, epoch int32) machine.Record {
	b := kbin.AppendInt16(nil, consumerValueVersion)
	b = kbin.AppendInt32(b, epoch)
	return machine.Record{Key: consumerKey(keyConsumerTarget, group), Value: appendNoTags(b)}
}

func consumerMemberRecord(group string, c *consumerMember) machine.Record {
	b := kbin.AppendInt16(nil, consumerValueVersion)
	b = kbin.AppendCompactNullableString(b, c.instance)
	b = kbin.AppendCompactNullableString(b, c.rack)
	b = kbin.AppendCompactString(b, c.client.ID)
	b = kbin.AppendCompactString(b, c.client.Host)
	b = kbin.AppendCompactArrayLen(b, len(c.topics))
	for _, t := range c.topics {
		b = kbin.AppendCompactString(b, t)
	}
	b = kbin.AppendCompactNullableString(b, nullable(c.pattern))
	b = kbin.AppendInt32(b, int32(c.rebalance.Milliseconds()))
	b = kbin.AppendCompactNullableString(b, nullable(c.assignor))
	if c.classic == nil {
		b = appendNoTags(b)
	} else {
		field := appendClassic(nil, c.classic)
		b = kbin.AppendUvarint(b, 1) // one tag
		b = kbin.AppendUvarint(b, tagClassicMember)
		b = kbin.AppendUvarint(b, uint32(len(field)))
		b = append(b, field...)
	}
	return machine.Record{Key: consumerKey(keyConsumerMember, group, c.id), Value: b}
}

// appendClassic writes a ClassicMemberMetadata, which could be null.
func appendClassic(b []byte, c *classicMember) []byte {
	b = kbin.AppendInt8(b, 1)
	b = kbin.AppendInt32(b, int32(c.session.Milliseconds()))
	b = kbin.AppendCompactArrayLen(b, len(c.protocols))
	for _, p := range c.protocols {
		b = kbin.AppendCompactString(b, p.name)
		b = kbin.AppendCompactBytes(b, p.metadata)
		b = appendNoTags(b)
	}
	return appendNoTags(b)
}

func readClassic(v *kbin.Reader) *classicMember {
	if v.Int8() < 0 {
		return nil
	}
	c := &classicMember{session: millis(v.Int32())}
	for range v.CompactArrayLen() {
		p := protocol{name: v.CompactString(), metadata: v.CompactBytes()}
		readTags(v, nil)
		if !v.Ok() {
			return nil
		}
		c.protocols = append(c.protocols, p)
	}
	readTags(v, nil)
	return c
}

func consumerTargetMemberRecord(group string, c *consumerMember) machine.Record {
	b := kbin.AppendInt16(nil, consumerValueVersion)
	b = appendPartitions(b, c.target, nil)
	return machine.Record{Key: consumerKey(keyConsumerTargetMember, group, c.id), Value: appendNoTags(b)}
}

func consumerCurrentRecord(group string, c *consumerMember) machine.Record {
	b := kbin.AppendInt16(nil, consumerValueVersion)
	b = kbin.AppendInt32(b, c.epoch)
	b = kbin.AppendInt32(b, c.previous)
	b = kbin.AppendInt8(b, int8(c.state))
	b = appendPartitions(b, c.given, c.hasSince)
	b = appendPartitions(b, c.revoking, c.hasSince)
	return machine.Record{Key: consumerKey(keyConsumerCurrent, group, c.id), Value: appendNoTags(b)}
}

func appendNoTags(b []byte) []byte { return kbin.AppendUvarint(b, 0) }

// appendPartitions writes a list of TopicPartitions, with assignment epochs if since gives them.
func appendPartitions(b []byte, s partitionSet, since func(topicPartition) (int32, bool)) []byte {
	b = kbin.AppendCompactArrayLen(b, s.topics())
	s.byTopic(func(topic kproto.TopicID, partitions []int32) {
		b = kbin.AppendUuid(b, topic)
		b = kbin.AppendCompactArrayLen(b, len(partitions))
		for _, p := range partitions {
			b = kbin.AppendInt32(b, p)
		}
		if since == nil {
			b = appendNoTags(b)
			return
		}
		field := kbin.AppendCompactArrayLen(nil, len(partitions))
		for _, p := range partitions {
			epoch, _ := since(topicPartition{topic, p})
			field = kbin.AppendInt32(field, epoch)
		}
		b = kbin.AppendUvarint(b, 1) // one tag
		b = kbin.AppendUvarint(b, tagAssignmentEpochs)
		b = kbin.AppendUvarint(b, uint32(len(field)))
		b = append(b, field...)
	})
	return b
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// consumerTombstones delete the records of a group of the consumer protocol without members.
func (g *group) consumerTombstones() []machine.Record {
	if g.consumers == nil {
		return nil
	}
	return []machine.Record{
		{Key: consumerKey(keyConsumerTarget, g.id)},
		{Key: consumerKey(keyConsumerGroup, g.id)},
	}
}

// applyConsumer takes a record of the consumer protocol.
func (m *Machine) applyConsumer(kind int16, r machine.Record) error {
	key := kbin.Reader{Src: r.Key[2:]}
	id, member := key.String(), ""
	if kind == keyConsumerMember || kind == keyConsumerTargetMember || kind == keyConsumerCurrent {
		member = key.String()
	}
	if err := key.Complete(); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if r.Value == nil {
		m.applyConsumerEnd(kind, id, member)
		return nil
	}
	if err := checkVersion("value", r.Value, consumerValueVersion); err != nil {
		return err
	}
	g := m.hard(id)
	g.writing = false
	if g.consumers == nil {
		g.consumers = newConsumerGroup()
	}
	value := kbin.Reader{Src: r.Value[2:]}
	if member == "" {
		g.consumers.applyEpoch(kind, &value)
	} else {
		g.consumers.applyMember(kind, member, &value)
	}
	return value.Complete()
}

func (g *consumerGroup) applyEpoch(kind int16, v *kbin.Reader) {
	if kind == keyConsumerTarget {
		g.assigned = v.Int32()
		readTags(v, nil)
		return
	}
	g.epoch = v.Int32()
	g.topicsHash = 0
	readTags(v, func(tag uint32, field *kbin.Reader) {
		if tag == tagTopicsHash {
			g.topicsHash = field.Int64()
		}
	})
}

func (g *consumerGroup) applyMember(kind int16, id string, v *kbin.Reader) {
	c := &consumerMember{id: id}
	if old := g.members[id]; old != nil {
		c = old.copy()
	}
	switch kind {
	case keyConsumerMember:
		c.readMember(v)
	case keyConsumerTargetMember:
		c.target = readPartitions(v, nil)
		readTags(v, nil)
	case keyConsumerCurrent:
		c.epoch, c.previous = v.Int32(), v.Int32()
		c.state = consumerMemberState(v.Int8())
		c.since = assignmentEpochs{}
		c.given, c.revoking = readPartitions(v, c.since), readPartitions(v, c.since)
		readTags(v, nil)
	}
	g.put(id, c)
}

func (c *consumerMember) readMember(v *kbin.Reader) {
	c.instance, c.rack = v.CompactNullableString(), v.CompactNullableString()
	c.client = Client{ID: v.CompactString(), Host: v.CompactString()}
	c.topics = nil
	for range v.CompactArrayLen() {
		c.topics = append(c.topics, v.CompactString())
		if !v.Ok() {
			return
		}
	}
	c.pattern = textOf(v.CompactNullableString())
	c.rebalance = millis(v.Int32())
	c.assignor = textOf(v.CompactNullableString())
	c.classic = nil
	readTags(v, func(tag uint32, field *kbin.Reader) {
		if tag == tagClassicMember {
			c.classic = readClassic(field)
		}
	})
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// readPartitions reads a list of TopicPartitions, and notes the assignment epochs that it has.
func readPartitions(v *kbin.Reader, since assignmentEpochs) partitionSet {
	var list []topicPartition
	for range v.CompactArrayLen() {
		topic := kproto.TopicID(v.Uuid())
		first := len(list)
		for range v.CompactArrayLen() {
			list = append(list, topicPartition{topic, v.Int32()})
			if !v.Ok() {
				return nil
			}
		}
		readTags(v, func(tag uint32, field *kbin.Reader) {
			if tag == tagAssignmentEpochs && since != nil {
				readEpochs(field, list[first:], since)
			}
		})
		if !v.Ok() {
			return nil
		}
	}
	return newPartitionSet(list)
}

// readEpochs reads one for each partition; a list of another length says nothing.
func readEpochs(v *kbin.Reader, partitions []topicPartition, since assignmentEpochs) {
	if int(v.CompactArrayLen()) != len(partitions) {
		return
	}
	for _, p := range partitions {
		since[p] = v.Int32()
	}
}

// readTags reads a section of tagged fields; those of newer brokers are passed over.
func readTags(v *kbin.Reader, known func(tag uint32, field *kbin.Reader)) {
	for range v.Uvarint() {
		tag, size := v.Uvarint(), v.Uvarint()
		field := v.Span(int(size))
		if !v.Ok() {
			return
		}
		if known == nil {
			continue
		}
		r := &kbin.Reader{Src: field}
		if known(tag, r); !r.Ok() {
			v.Span(math.MaxInt32) // there are never so many bytes: the whole is bad
		}
	}
}

// applyConsumerEnd takes a tombstone.
func (m *Machine) applyConsumerEnd(kind int16, id, member string) {
	g := m.groups[id]
	if g == nil || g.consumers == nil {
		return
	}
	g.writing = false
	switch c := g.consumers.members[member]; kind {
	case keyConsumerGroup:
		g.consumers = nil
		g.matches = matches{}
		m.forgetIfNothing(g)
	case keyConsumerTarget:
		g.consumers.assigned = 0
	case keyConsumerMember:
		g.consumers.put(member, nil)
	case keyConsumerTargetMember:
		if c != nil {
			c = c.copy()
			c.target = nil
			g.consumers.put(member, c)
		}
	case keyConsumerCurrent:
		if c != nil {
			c = c.copy()
			c.epoch, c.previous, c.state, c.given, c.revoking, c.since = 0, 0, memberSettled, nil, nil, nil
			g.consumers.put(member, c)
		}
	}
}
