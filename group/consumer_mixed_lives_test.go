package group

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// A modernClient with old set speaks the classic protocol, with cooperative rebalancing: it joins with what it owns, and
// joins again when it has given something back.

// oldBeat does what comes next.
func (c *modernClient) oldBeat() {
	if c.asked > 0 {
		return
	}
	if !c.there {
		c.there, c.id, c.epoch, c.owns, c.told, c.stage = true, "", -1, nil, nil, oldOutside
		c.life++
	}
	switch {
	case c.stage == oldOutside || c.changed:
		c.oldJoin()
	case c.stage == oldJoined:
		c.oldSync()
	case c.slow > 0:
		c.slow--
		c.oldHeartbeat()
	case len(c.owns.minus(c.told)) > 0:
		c.owns = c.owns.and(c.told)
		c.oldJoin()
	default:
		c.oldHeartbeat()
	}
}

type oldStage int

const (
	oldOutside oldStage = iota
	oldJoined
	oldStable
)

func (c *modernClient) oldAsk(ev any, done func(v any)) {
	life := c.life
	c.asked++
	c.l.do(ev, func(v any, err error) {
		c.asked--
		switch {
		case life != c.life:
		case err != nil:
			c.stage = oldOutside
		default:
			done(v)
		}
	})
}

func (c *modernClient) oldJoin() {
	c.changed = false
	m := kmsg.ConsumerMemberMetadata{Version: 1, Topics: c.oldTopics()}
	byName := c.l.m.named(c.claims())
	for _, name := range slices.Sorted(slices.Values(c.l.topicNames())) {
		if len(byName[name]) > 0 {
			m.OwnedPartitions = append(m.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: name, Partitions: byName[name]})
		}
	}
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID = 9, "g", c.id, c.instance
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = int32(modernSession.Milliseconds()), int32(modernRebalance.Milliseconds())
	r.ProtocolType = "consumer"
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "cooperative-sticky", Metadata: m.AppendTo(nil)}}
	c.ids++
	c.oldAsk(Join{r, Client{ID: c.name, Host: "/h"}, fmt.Sprint(c.name, "-", c.ids)}, func(v any) {
		resp := v.(*kmsg.JoinGroupResponse)
		if resp.ErrorCode != kproto.NoError {
			c.oldRefused(resp.ErrorCode, resp.MemberID)
			return
		}
		c.id, c.epoch, c.stage, c.joined = resp.MemberID, resp.Generation, oldJoined, c.life
		c.roster = resp.Members
	})
}

// claims are those of its partitions that a client can say are its own. The classic protocol names topics, and a deleted one is
// nobody's: the group does not wait for its partitions to be given back (ownedByName), while the client may still be busy with that.
func (c *modernClient) claims() partitionSet {
	if !c.old {
		return c.owns
	}
	return c.owns.filter(func(p topicPartition) bool { _, exists := c.l.m.topicNames[p.topic]; return exists })
}

// oldTopics are names alone.
func (c *modernClient) oldTopics() []string {
	if len(c.topics) > 0 {
		return c.topics
	}
	return []string{"t"}
}

func (l *modernLife) topicNames() (names []string) {
	for name := range l.topics {
		names = append(names, name)
	}
	return names
}

func (c *modernClient) oldRefused(code int16, id string) {
	c.stage = oldOutside
	switch code {
	case kproto.MemberIDRequired:
		c.id = id
	case kproto.RebalanceInProgress:
	case kproto.UnknownMemberID, kproto.IllegalGeneration, kproto.FencedInstanceID, kproto.GroupMaxSizeReached, kproto.InconsistentGroupProtocol:
		if code != kproto.IllegalGeneration {
			c.id = ""
		}
		c.owns, c.told, c.slow = nil, nil, 0
	default:
		c.l.t.Fatalf("%s: %s", c.id, kproto.CodeName(code))
	}
}

func (c *modernClient) oldSync() {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version, r.Group, r.MemberID, r.Generation, r.InstanceID = 5, "g", c.id, c.epoch, c.instance
	r.GroupAssignment = c.oldAssign()
	named := &Machine{topics: c.l.topics} // a topic of that name that is made before the answer arrives is another one
	c.oldAsk(Sync{r}, func(v any) {
		resp := v.(*kmsg.SyncGroupResponse)
		if resp.ErrorCode != kproto.NoError {
			c.oldRefused(resp.ErrorCode, "")
			return
		}
		c.stage = oldStable
		c.told = named.partitionsOf(decodeAssignment(resp.MemberAssignment))
		if len(c.owns.minus(c.told)) > 0 {
			c.slow = c.l.rand.IntN(4)
		} else {
			c.owns = c.told
		}
	})
}

// oldAssign leaves everybody what it owns, and deals the rest out.
func (c *modernClient) oldAssign() (out []kmsg.SyncGroupRequestGroupAssignment) {
	taken := map[topicPartition]bool{}
	shares := make([]partitionSet, len(c.roster))
	for i, m := range c.roster {
		s, _ := decodeSubscription(m.ProtocolMetadata)
		shares[i] = c.l.m.ownedByName(s).filter(func(p topicPartition) bool {
			free := !taken[p] && p.partition < c.l.topics[c.l.m.topicNames[p.topic]].Partitions && slices.Contains(s.Topics, c.l.m.topicNames[p.topic])
			taken[p] = true
			return free
		})
	}
	for i, m := range c.roster {
		s, _ := decodeSubscription(m.ProtocolMetadata)
		for _, name := range s.Topics {
			for p := range c.l.topics[name].Partitions {
				if k := (topicPartition{c.l.topics[name].ID, p}); !taken[k] {
					taken[k] = true
					shares[i] = shares[i].or(partitionSet{k})
				}
			}
		}
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = m.MemberID, c.l.m.encodeAssignment(shares[i])
		out = append(out, a)
	}
	return out
}

func (c *modernClient) oldHeartbeat() {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group, r.MemberID, r.Generation, r.InstanceID = "g", c.id, c.epoch, c.instance
	c.oldAsk(Heartbeat{r}, func(v any) {
		switch code := v.(*kmsg.HeartbeatResponse).ErrorCode; {
		case code == kproto.RebalanceInProgress && len(c.owns.minus(c.told)) > 0:
			// it is busy giving back, and will join after that
		case code != kproto.NoError:
			c.oldRefused(code, "")
		}
	})
}

func (c *modernClient) oldLeave() {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group = 5, "g"
	r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: c.id, InstanceID: c.instance}}
	c.crash()
	c.l.do(Leave{r}, func(any, error) {})
}
