package group

import (
	"fmt"
	"slices"
)

// State is where a classic group stands. Its text is Kafka's, as DescribeGroups shows it.
//
// In every state OffsetFetch is answered, and an id or instance id that is no member's gets UNKNOWN_MEMBER_ID, a wrong generation
// ILLEGAL_GENERATION (or REBALANCE_IN_PROGRESS, see checkMember), an instance id under another member id FENCED_INSTANCE_ID.
type State string

const (
	// Empty: no member. The group is kept for its offsets; one that has never had members is a place for the offsets of
	// consumers without group management ("simple").
	//
	//	JoinGroup      of a new member: a rebalance begins. With a member id: UNKNOWN_MEMBER_ID, unless it was given out
	//	SyncGroup, Heartbeat, LeaveGroup   UNKNOWN_MEMBER_ID
	//	OffsetCommit   taken without member and generation; else UNKNOWN_MEMBER_ID
	//	leads to       PreparingRebalance: a member joins
	//	               Dead: deleted, or no offset is left at an expiry check
	Empty State = "Empty"

	// PreparingRebalance: the members are called to join.
	//
	//	JoinGroup      waits until every member and every id that was given out has joined, or the rebalance timeout is over;
	//	               the first rebalance of an empty group instead waits for more members (beginFirst)
	//	SyncGroup      REBALANCE_IN_PROGRESS
	//	Heartbeat      REBALANCE_IN_PROGRESS, and the session goes on
	//	LeaveGroup     removes; may complete the join
	//	OffsetCommit   taken from the generation that ends, and the session goes on
	//	leads to       CompletingRebalance: all that will join have joined; who has not is no longer a member, unless it is static
	//	               Empty: nobody is left
	PreparingRebalance State = "PreparingRebalance"

	// CompletingRebalance: a new generation exists, and its leader is to assign.
	//
	//	JoinGroup      of a member with unchanged protocols: the answer it may have missed; else a new rebalance
	//	SyncGroup      of a follower: waits. Of the leader: the group is recorded, and all that wait get their assignment
	//	Heartbeat      NONE
	//	LeaveGroup     removes; a new rebalance
	//	OffsetCommit   REBALANCE_IN_PROGRESS
	//	leads to       Stable: the leader's SyncGroup
	//	               PreparingRebalance: join, leave, an expired session, or members that do not sync within the rebalance
	//	               timeout, which then are no longer members; who waits in SyncGroup is told REBALANCE_IN_PROGRESS
	CompletingRebalance State = "CompletingRebalance"

	// Stable: every member can have its assignment.
	//
	//	JoinGroup      of a follower with unchanged protocols: the current generation. Of the leader, or with other protocols, or of a new
	//	               member: a rebalance. Of a static member that lost its id: a new id for the old member, which is fenced (KIP-345)
	//	SyncGroup      the member's assignment
	//	Heartbeat      NONE
	//	LeaveGroup     removes; a rebalance
	//	OffsetCommit   taken from members of this generation, and the session goes on
	//	leads to       PreparingRebalance: as above, an expired session, or members that never synced
	Stable State = "Stable"

	// Dead: the group is deleted. Nobody sees it in this state: a group that does not exist is described as Dead.
	Dead State = "Dead"
)

// came says from which states a state may be entered.
var came = map[State][]State{
	Empty:               {PreparingRebalance},
	PreparingRebalance:  {Empty, CompletingRebalance, Stable},
	CompletingRebalance: {PreparingRebalance},
	Stable:              {CompletingRebalance},
	Dead:                {Empty},
}

// enter moves the group to another state. A move that the table does not know is a mistake of this package; the
// driver then drops the machine, before anything of it is recorded.
func (g *group) enter(s State) {
	if !slices.Contains(came[s], g.state) {
		panic(fmt.Sprintf("group: a group cannot go from %s to %s", g.state, s))
	}
	g.state = s
}
