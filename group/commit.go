package group

import (
	"cmp"
	"math"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// commitUnknownGroup is the version of OffsetCommit from which on an unknown group is called so.
const commitUnknownGroup = 9

// commit records offsets. What is taken of one request is one batch: a crash leaves all of it or none.
func (m *Machine) commit(r *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	g, fence, code := m.committer(r)
	if code == kproto.NoError && commitSize(r) > maxStepBytes {
		code = kproto.InvalidCommitOffsetSize
	}
	resp := kmsg.NewPtrOffsetCommitResponse()
	for _, t := range r.Topics {
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			partition := kmsg.NewOffsetCommitResponseTopicPartition()
			partition.Partition = p.Partition
			partition.ErrorCode = cmp.Or(code, fence.check(t.Topic, p.Partition))
			if partition.ErrorCode == kproto.NoError {
				partition.ErrorCode = m.commitPartition(g, r, t.Topic, p)
			}
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	if g != nil {
		m.forgetIfNothing(g)
	}
	return resp
}

func (m *Machine) commitPartition(g *group, r *kmsg.OffsetCommitRequest, topic string, p kmsg.OffsetCommitRequestTopicPartition) int16 {
	metadata := ""
	if p.Metadata != nil {
		metadata = *p.Metadata
	}
	switch {
	case len(metadata) > maxMetadata || utf16Length(metadata) > m.settings.OffsetMetadataMaxBytes:
		return kproto.OffsetMetadataTooLarge
	case p.Offset < -1:
		return kproto.InvalidRequest
	}
	o := offset{
		partition:   p.Partition,
		leaderEpoch: p.LeaderEpoch,
		offset:      p.Offset,
		metadata:    metadata,
		committed:   m.millis,
		expires:     -1,
	}
	if r.Version <= 4 && r.RetentionTimeMillis >= 0 {
		o.expires = m.millis + min(r.RetentionTimeMillis, math.MaxInt64-m.millis)
	}
	m.write(g, offsetRecord(g.id, topic, o))
	return kproto.NoError
}

// committer finds the group, and tells whether this client may commit to it now, and what it may not commit. Who names neither member nor generation does not
// use group management, and may while nobody else does.
func (m *Machine) committer(r *kmsg.OffsetCommitRequest) (*group, fence, int16) {
	g := m.groups[r.Group]
	if g == nil {
		g, code := m.simpleGroup(r)
		return g, fence{}, code
	}
	if g.consumers != nil {
		f, code := m.fenceConsumer(g, r)
		return g, f, code
	}
	if r.Generation < 0 && g.state == Empty {
		return g, fence{}, kproto.NoError
	}
	if r.Generation < 0 && r.MemberID == "" && r.InstanceID == nil {
		return nil, fence{}, kproto.UnknownMemberID
	}
	member, code := g.checkMember(r.MemberID, r.InstanceID, r.Generation)
	switch {
	case code != kproto.NoError:
		return nil, fence{}, code
	case g.state == CompletingRebalance:
		return nil, fence{}, kproto.RebalanceInProgress
	}
	m.touch(member)
	return g, fence{}, kproto.NoError
}

func (m *Machine) simpleGroup(r *kmsg.OffsetCommitRequest) (*group, int16) {
	switch {
	case len(r.Group) > maxName:
		return nil, kproto.InvalidGroupID
	case r.Generation >= 0 && r.Version >= commitUnknownGroup:
		return nil, kproto.GroupIDNotFound
	case r.Generation >= 0:
		return nil, kproto.IllegalGeneration
	}
	g, ok := m.obtain(r.Group)
	if !ok {
		return nil, kproto.PolicyViolation
	}
	return g, kproto.NoError
}

// utf16Length is the length of a string as Kafka counts it, for its limit on "bytes".
func utf16Length(s string) (n int) {
	for _, r := range s {
		n += max(1, utf16.RuneLen(r))
	}
	return n
}

// commitSize is about the bytes of the records of a commit.
func commitSize(r *kmsg.OffsetCommitRequest) (size int) {
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			size += offsetRecordOverhead + len(r.Group) + len(t.Topic)
			if p.Metadata != nil {
				size += len(*p.Metadata)
			}
		}
	}
	return size
}
