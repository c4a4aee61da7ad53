package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
	"sluice/internal/machine"
	"sluice/kproto"
)

// describeGroups answers DescribeGroups, v0-6: the classic groups. An unknown group is Dead; from v6 on it is also an
// error (KIP-1043).
//
//	v3  authorized operations, if asked for (KIP-430)
//	v4  static members
//	v5  also a tagged field of ours at members that are stalled (kproto.StalledTag)
func (b *Broker) describeGroups(c *call, q *kmsg.DescribeGroupsRequest) {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(q.Groups))
	each(c, q.Groups, func(i int) machine.Event { return group.Describe{Group: q.Groups[i]} },
		func(i int, v any, err error) {
			g := kmsg.NewDescribeGroupsResponseGroup()
			if err == nil {
				g = v.(kmsg.DescribeGroupsResponseGroup)
				for j := range g.Members {
					b.tagStalled(q.Groups[i], g.Members[j].MemberID, &g.Members[j].UnknownTags)
				}
			}
			g.Group = q.Groups[i]
			if g.ErrorCode == kproto.GroupIDNotFound || err == nil && g.State == groupDead {
				g = deadGroup(q.Groups[i], q.Version)
			} else if err != nil {
				g.ErrorCode, g.ErrorMessage = c.fail(err)
			}
			g.AuthorizedOperations = operations(q.IncludeAuthorizedOperations && g.ErrorCode == 0, groupOperations)
			resp.Groups[i] = g
		}, func() { c.answer(resp) })
}

// groupDead is the state of a group that is not there.
const groupDead = "Dead"

func deadGroup(id string, version int16) kmsg.DescribeGroupsResponseGroup {
	g := kmsg.NewDescribeGroupsResponseGroup()
	g.Group, g.State = id, groupDead
	if version >= 6 {
		g.ErrorCode, g.ErrorMessage = kproto.GroupIDNotFound, &errGroupIDNotFound.Message
	}
	return g
}
