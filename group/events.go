package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// Client is who asks.
type Client struct {
	ID   string // client.id
	Host string // "/127.0.0.1", Kafka's form
	// Software is the client's name and version as ApiVersions told them (KIP-511). It is not recorded: "" after a restart.
	Software string
}

// same compares what is recorded.
func (c Client) same(d Client) bool { return c.ID == d.ID && c.Host == d.Host }

// Events. Requests arrive as kmsg structs that the shell has decoded, validated as far as no state is needed, and
// authorized, and in which it has put names for topic ids. Each is wrapped in machine.Asked; the Reply's value is what stands behind the event.
// Of a response, version and throttle time are the shell's. Ids are made by the shell and passed in. The reasons that clients
// give for joining and leaving (KIP-800) are not looked at.
type (
	// Join: *kmsg.JoinGroupResponse, now or when the rebalance is done. NewMemberID is the id that a member without one gets.
	Join struct {
		Req         *kmsg.JoinGroupRequest
		Client      Client
		NewMemberID string
	}
	// Sync: *kmsg.SyncGroupResponse, now or when the leader has assigned.
	Sync struct{ Req *kmsg.SyncGroupRequest }
	// Heartbeat: *kmsg.HeartbeatResponse.
	Heartbeat struct{ Req *kmsg.HeartbeatRequest }
	// Leave: *kmsg.LeaveGroupResponse.
	Leave struct{ Req *kmsg.LeaveGroupRequest }
	// Commit: *kmsg.OffsetCommitResponse. The shell took unknown topics and partitions out and adds their errors.
	Commit struct{ Req *kmsg.OffsetCommitRequest }
	// Fetch: FetchedOffsets.
	Fetch struct{ Req FetchOffsets }
	// Describe: kmsg.DescribeGroupsResponseGroup. An unknown group, and one of another type, has state Dead and no error
	// code: from version 6 on the shell answers GROUP_ID_NOT_FOUND.
	Describe struct{ Group string }
	// List: []kmsg.ListGroupsResponseGroup, all groups of this machine in order of id; the shell filters.
	List struct{}
	// Delete: int16, a Kafka error code.
	Delete struct{ Group string }
	// DeleteOffsets: *kmsg.OffsetDeleteResponse.
	DeleteOffsets struct{ Req *kmsg.OffsetDeleteRequest }
	// ConsumerHeartbeat (KIP-848): *kmsg.ConsumerGroupHeartbeatResponse.
	ConsumerHeartbeat struct {
		Req         *kmsg.ConsumerGroupHeartbeatRequest
		Client      Client
		NewMemberID string // for version 0, where the broker makes the id
	}
	// Evict ends a membership as the end of its session would, if the member is still in that epoch (Owner.Epoch) and could
	// read: bool, whether it was.
	Evict struct {
		Group, MemberID string
		Epoch           int32
	}
	// ConsumerDescribe: kmsg.ConsumerGroupDescribeResponseGroup.
	ConsumerDescribe struct{ Group string }
	// Topics replaces what the machine knows of the cluster's topics; sent when topics change (KIP-848 needs it). Answered with nil, if asked.
	Topics struct{ Topics map[string]Topic } // immutable
	// TopicDeleted forgets the offsets of a deleted topic. Answered with nil, if asked.
	TopicDeleted struct{ Name string }
)

// Topic is what assignment must know of a topic.
type Topic struct {
	ID         kproto.TopicID
	Partitions int32
}

// FetchOffsets is one group of an OffsetFetch, of any version. Topics nil: all.
type FetchOffsets struct {
	Group         string
	MemberID      string // v9+, "" otherwise
	MemberEpoch   int32  // v9+, -1 otherwise
	Topics        []FetchOffsetsTopic
	RequireStable bool
}

// FetchOffsetsTopic is the partitions asked of one topic.
type FetchOffsetsTopic struct {
	Name       string
	Partitions []int32
}

// FetchedOffsets: Code for the whole group; offsets -1 where there is no commit.
type FetchedOffsets struct {
	Code   int16
	Topics []FetchedTopic
}

// FetchedTopic is the offsets of one topic.
type FetchedTopic struct {
	Name       string
	Partitions []FetchedPartition
}

// FetchedPartition is one committed offset.
type FetchedPartition struct {
	Partition   int32
	Offset      int64
	LeaderEpoch int32
	Metadata    string
	Code        int16
}

// Ownership is an Order: who owns what in a group has changed (after a sync, a reconciliation, a leave). The shell keeps the
// index by partition. In a large group only a few members change at a time, so only they are told of, unless All is set.
type Ownership struct {
	Group   string
	All     bool // who is not in Members owns nothing
	Members []Owner
}

// Owner is a member with the partitions assigned to it; none: it owns nothing any more.
type Owner struct {
	MemberID   string
	Client     Client
	RackID     string
	Epoch      int32 // generation or member epoch of the assignment
	Partitions map[string][]int32
	// PollInterval is how long the member may take to join a rebalance: its max.poll.interval.ms.
	PollInterval time.Duration
}
