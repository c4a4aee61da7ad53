package group

import "time"

// What a client may make this machine hold or write. What an operator may want to change is in Settings.
const (
	// maxProtocols is per JoinGroup. A consumer names two or three.
	maxProtocols = 64
	// maxMemberMetadata is bytes of all protocols of one JoinGroup: each member's share in what the leader is told and
	// in the group's record.
	maxMemberMetadata = 1 << 20
	// maxName is bytes of a group id, and of a member's other names: Kafka's records hold strings of up to 32,767 bytes, and a member id
	// is made from a client id.
	maxName = 16 << 10
	// maxMetadata is bytes of a commit's metadata, whatever offset.metadata.max.bytes allows, for the same reason.
	maxMetadata = 1<<15 - 1
	// maxGroupMetadata is bytes of all that the members of a group say for their protocols. Their leader is told it in one
	// response, and the part of one protocol goes into one record.
	maxGroupMetadata = 32 << 20
	// maxPendingMembers is per group: ids that were given out and have not joined yet. An id costs its client one request, and
	// lasts a session timeout.
	maxPendingMembers = 10_000
	// maxGroups is per machine. A group is made by one request of a client.
	maxGroups = 200_000
	// maxStepBytes is of the records of one step, keys and values: they are one batch, which must fit into a segment of the
	// log (offsets.topic.segment.bytes, 100 MiB). A log that refuses a batch costs everybody a replay, so it is not asked to.
	maxStepBytes = 64 << 20
	// sweepBytes is of the records of one Tick's expiries; the rest comes with the next Tick, so that others get their turn.
	sweepBytes = 1 << 20
)

// Times that are no settings.
const (
	// newMemberJoinTimeout, Kafka's, is how long a new member waits for its first rebalance. It has no session yet, and may be gone without
	// anybody noticing.
	newMemberJoinTimeout = 5 * time.Minute
	// maxGather is how long Settings.Gather can hold up a first rebalance while members keep coming: then all but a few are there, or they
	// come too slowly to be waited for.
	maxGather = 3 * time.Second
	// gatherShare divides the time since the first member came: if nobody has come for that part of it, nobody is likely to. A crowd on a
	// busy machine comes slowly, and is waited for longer than Settings.Gather says.
	gatherShare = 3
	// gatherPauses is how many times the longest pause between two that came is waited, if that is less: of a crowd that came for seconds in
	// steps of milliseconds all are there when there has been no step for a while.
	gatherPauses = 3
	// targetSpacing, times the members, is the time between two target assignments of a group of the consumer protocol that members keep
	// coming to, up to maxGather. To make one takes about a microsecond a member.
	targetSpacing = 500 * time.Microsecond
	// heartbeatSpacing, times the members, is the least heartbeat interval that they are told when they are to be heard of soon: a group sends
	// 5,000 heartbeats a second at most.
	heartbeatSpacing = 200 * time.Microsecond
	// minRebalanceRetry is how soon a rebalance that nobody joined is looked at again, whatever rebalance timeout its static
	// members claim.
	minRebalanceRetry = time.Second
	// defaultExpiryCheck is offsets.retention.check.interval.ms.
	defaultExpiryCheck = 10 * time.Minute
)
