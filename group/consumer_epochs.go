package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// assignmentEpochs says since which member epoch a member has each of its partitions (KIP-1251). A commit of an earlier member epoch is
// taken for a partition that the member has had since then or longer: nobody else can have had it in between. So a commit that crosses a
// heartbeat's answer on the way is not refused. It is never changed once made.
type assignmentEpochs map[topicPartition]int32

// hasSince gives the member epoch since which a member holds a partition; ok is false when it does not. What is not known, because an
// older broker wrote the record or a classic group was taken over, counts from the present epoch on.
func (c *consumerMember) hasSince(p topicPartition) (epoch int32, ok bool) {
	if epoch, ok = c.since[p]; ok {
		return epoch, true
	}
	return c.epoch, c.given.has(p) || c.revoking.has(p)
}

// holdSince gives the epochs of what the member holds now, of which it may have held some before. One that joins anew holds
// everything anew: it has dropped what it had read.
func (c *consumerMember) holdSince(before *consumerMember) assignmentEpochs {
	if len(c.given)+len(c.revoking) == 0 {
		return nil
	}
	since := make(assignmentEpochs, len(c.given)+len(c.revoking))
	for _, p := range c.held() {
		since[p] = c.epoch
		if before.given.has(p) && before.epoch > epochJoin {
			since[p], _ = before.hasSince(p)
		}
	}
	return since
}

// fence tells whether a member that names an earlier epoch than its own may commit for a partition.
type fence struct {
	member *consumerMember // nil: it named its own, or there is none, and it may for all
	epoch  int32
	topics map[string]Topic
}

func (f fence) check(topic string, partition int32) int16 {
	if f.member == nil {
		return kproto.NoError
	}
	if epoch, ok := f.member.hasSince(topicPartition{f.topics[topic].ID, partition}); ok && f.epoch >= epoch {
		return kproto.NoError
	}
	return f.member.staleEpoch()
}

// staleEpoch is how a commit with the wrong epoch is refused, in the member's protocol.
func (c *consumerMember) staleEpoch() int16 {
	if c.classic != nil {
		return kproto.IllegalGeneration
	}
	return kproto.StaleMemberEpoch
}

// commitMemberEpoch is the version of OffsetCommit from which on its generation is a member epoch.
const commitMemberEpoch = 9

// fenceConsumer tells whether a client may commit to a group of the consumer protocol, and for which partitions. Without a member
// epoch it may while nobody is a member.
func (m *Machine) fenceConsumer(g *group, r *kmsg.OffsetCommitRequest) (fence, int16) {
	c := g.consumers.members[r.MemberID]
	switch {
	case r.Generation < 0 && len(g.consumers.members) == 0:
		return fence{}, kproto.NoError
	case c == nil:
		return fence{}, kproto.UnknownMemberID
	case c.classic == nil && r.Version < commitMemberEpoch:
		return fence{}, kproto.UnsupportedVersion
	case r.Generation == c.epoch:
		return fence{}, kproto.NoError
	case r.Generation > c.epoch:
		return fence{}, c.staleEpoch()
	}
	return fence{c, r.Generation, m.topics}, kproto.NoError
}
