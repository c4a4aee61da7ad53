package group

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/machine"
)

// What the first two bytes of a key say it is a key of.
const (
	keyOffsetCommitOld = 0 // as 1; written by Kafka before 0.9, and read like it
	keyOffsetCommit    = 1
	keyGroupMetadata   = 2
)

// Versions of values. They are written as Kafka 4 does: in the newest form that is not flexible, which all tools read.
const (
	offsetCommitVersion       = 3
	offsetCommitExpireVersion = 1 // the only one with a time of expiry, and it has no leader epoch
	groupMetadataVersion      = 3
	newestOffsetCommit        = 4
	newestGroupMetadata       = 4
)

// offsetRecordOverhead is the bytes of an offset's record beside group, topic and metadata.
const offsetRecordOverhead = 2 + 2 + 2 + 4 + 2 + 8 + 4 + 2 + 8 + 8

// memberRecordOverhead is more than the bytes of a member in a group's record beside its strings and bytes.
const memberRecordOverhead = 64

// generation is what a GroupMetadata record says. It is immutable.
type generation struct {
	number       int32
	protocolType string
	protocol     *string // nil: no members
	leader       string
	since        int64 // when the state was entered, milliseconds; -1: unknown
	members      []recordedMember
}

type recordedMember struct {
	id                       string
	instance                 *string
	client                   Client
	session, rebalance       int32 // milliseconds
	subscription, assignment []byte
}

func offsetKey(group, topic string, partition int32) []byte {
	k := kmsg.OffsetCommitKey{Version: keyOffsetCommit, Group: group, Topic: topic, Partition: partition}
	return k.AppendTo(make([]byte, 0, 10+len(group)+len(topic)))
}

func offsetRecord(group, topic string, o offset) machine.Record {
	v := kmsg.OffsetCommitValue{
		Version:         offsetCommitVersion,
		Offset:          o.offset,
		LeaderEpoch:     o.leaderEpoch,
		Metadata:        o.metadata,
		CommitTimestamp: o.committed,
	}
	if o.expires >= 0 {
		v.Version = offsetCommitExpireVersion
		v.ExpireTimestamp = o.expires
	}
	return machine.Record{
		Key:   offsetKey(group, topic, o.partition),
		Value: v.AppendTo(make([]byte, 0, offsetRecordOverhead+len(o.metadata))),
	}
}

func offsetTombstone(group, topic string, partition int32) machine.Record {
	return machine.Record{Key: offsetKey(group, topic, partition)}
}

func groupKey(id string) []byte {
	k := kmsg.GroupMetadataKey{Version: keyGroupMetadata, Group: id}
	return k.AppendTo(make([]byte, 0, 4+len(id)))
}

func groupTombstone(id string) machine.Record { return machine.Record{Key: groupKey(id)} }

// record writes the group as it is now: at the end of a rebalance.
func (m *Machine) record(g *group) {
	v := kmsg.NewGroupMetadataValue()
	v.Version = groupMetadataVersion
	v.ProtocolType = g.protocolType
	v.Generation = g.generation
	v.CurrentStateTimestamp = g.since
	if len(g.members) > 0 {
		v.Protocol, v.Leader = &g.protocol, &g.leader
	}
	v.Members = make([]kmsg.GroupMetadataValueMember, len(g.members))
	for i, member := range g.members {
		v.Members[i] = kmsg.GroupMetadataValueMember{
			MemberID:               member.id,
			InstanceID:             member.instance,
			ClientID:               member.client.ID,
			ClientHost:             member.client.Host,
			RebalanceTimeoutMillis: int32(member.rebalance.Milliseconds()),
			SessionTimeoutMillis:   int32(member.session.Milliseconds()),
			Subscription:           member.metadata(g.protocol),
			Assignment:             member.assignment,
		}
	}
	m.write(g, machine.Record{Key: groupKey(g.id), Value: v.AppendTo(nil)})
}

// recordSize is about the bytes of the group's record, without assignments.
func (g *group) recordSize() (size int) {
	for _, m := range g.members {
		size += memberRecordOverhead + len(m.id) + len(m.client.ID) + len(m.client.Host) + len(m.metadata(g.protocol))
		if m.instance != nil {
			size += len(*m.instance)
		}
	}
	return size
}

// tombstonesSize is the bytes it takes to delete the group.
func (g *group) tombstonesSize() int {
	size := 4 + len(g.id)
	for _, t := range g.offsets {
		size += len(t.partitions) * (10 + len(g.id) + len(t.name))
	}
	for _, r := range g.consumerTombstones() {
		size += len(r.Key)
	}
	return size
}

// Apply implements machine.Machine. It keeps the record's bytes. Of kinds that this version does not know it takes no notice: they stay in the log for
// one that does.
func (m *Machine) Apply(r machine.Record) error {
	kind, err := version(r.Key)
	if err != nil {
		return fmt.Errorf("group record %q: key: %w", r.Key, err)
	}
	switch kind {
	case keyOffsetCommitOld, keyOffsetCommit:
		err = m.applyOffset(r)
	case keyGroupMetadata:
		err = m.applyGroup(r)
	case keyConsumerGroup, keyConsumerMember, keyConsumerTarget, keyConsumerTargetMember, keyConsumerCurrent:
		err = m.applyConsumer(kind, r)
	}
	if err != nil {
		return fmt.Errorf("group record %q: %w", r.Key, err)
	}
	return nil
}

func version(b []byte) (int16, error) {
	if len(b) < 2 {
		return 0, fmt.Errorf("%d bytes hold no version", len(b))
	}
	return int16(binary.BigEndian.Uint16(b)), nil
}

// checkVersion refuses a value that a newer broker has written.
func checkVersion(what string, value []byte, newest int16) error {
	v, err := version(value)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if v < 0 || v > newest {
		return fmt.Errorf("%s has version %d, and this broker reads versions 0 to %d", what, v, newest)
	}
	return nil
}

func (m *Machine) applyOffset(r machine.Record) error {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(r.Key); err != nil {
		return fmt.Errorf("OffsetCommitKey: %w", err)
	}
	if r.Value == nil {
		if g := m.groups[k.Group]; g != nil {
			g.writing = false
			g.offsets.remove(k.Topic, k.Partition)
			m.forgetIfNothing(g)
		}
		return nil
	}
	if err := checkVersion("OffsetCommitValue", r.Value, newestOffsetCommit); err != nil {
		return err
	}
	var v kmsg.OffsetCommitValue
	if err := v.ReadFrom(r.Value); err != nil {
		return fmt.Errorf("OffsetCommitValue: %w", err)
	}
	m.hard(k.Group).offsets.put(k.Topic, decodedOffset(k, v))
	return nil
}

func decodedOffset(k kmsg.OffsetCommitKey, v kmsg.OffsetCommitValue) offset {
	o := offset{
		partition:   k.Partition,
		leaderEpoch: -1,
		offset:      v.Offset,
		metadata:    v.Metadata,
		committed:   v.CommitTimestamp,
		expires:     -1,
	}
	if v.Version >= 3 {
		o.leaderEpoch = v.LeaderEpoch
	}
	if v.Version == offsetCommitExpireVersion {
		o.expires = v.ExpireTimestamp
	}
	return o
}

func (m *Machine) applyGroup(r machine.Record) error {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(r.Key); err != nil {
		return fmt.Errorf("GroupMetadataKey: %w", err)
	}
	if r.Value == nil {
		if g := m.groups[k.Group]; g != nil {
			g.writing = false
			g.recorded = nil
			m.forgetIfNothing(g)
		}
		return nil
	}
	if err := checkVersion("GroupMetadataValue", r.Value, newestGroupMetadata); err != nil {
		return err
	}
	v := kmsg.NewGroupMetadataValue()
	if err := v.UnsafeReadFrom(r.Value); err != nil {
		return fmt.Errorf("GroupMetadataValue: %w", err)
	}
	m.hard(k.Group).recorded = decodedGeneration(v)
	return nil
}

func decodedGeneration(v kmsg.GroupMetadataValue) *generation {
	g := &generation{
		number:       v.Generation,
		protocolType: v.ProtocolType,
		protocol:     v.Protocol,
		since:        v.CurrentStateTimestamp,
		members:      make([]recordedMember, len(v.Members)),
	}
	if v.Leader != nil {
		g.leader = *v.Leader
	}
	for i, r := range v.Members {
		if r.RebalanceTimeoutMillis < 0 {
			r.RebalanceTimeoutMillis = r.SessionTimeoutMillis // before KIP-62 there was one timeout
		}
		g.members[i] = recordedMember{
			id:           r.MemberID,
			instance:     r.InstanceID,
			client:       Client{ID: r.ClientID, Host: r.ClientHost},
			session:      r.SessionTimeoutMillis,
			rebalance:    r.RebalanceTimeoutMillis,
			subscription: r.Subscription,
			assignment:   r.Assignment,
		}
	}
	return g
}

// hard finds the group that a record is about.
func (m *Machine) hard(id string) *group {
	g := m.groups[id]
	if g == nil {
		g = newGroup(id)
		m.groups[id] = g
	}
	g.writing = false
	return g
}
