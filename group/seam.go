package group

import (
	"regexp"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/machine"
	"sluice/kproto"
)

// SEAM FILE: what broker builds on. One Machine holds the groups of one partition of __consumer_offsets (hash(group id) mod offsets.topic.num.partitions).
// Requests arrive as kmsg structs that the shell has decoded, validated as far as no state is needed, authorized, and in which it has resolved topic ids;
// replies are kmsg responses with throttle_time 0. Ids are made by the shell and passed in.

// Client is who asks.
type Client struct {
	ID   string // client.id
	Host string // "/127.0.0.1", Kafka's form
}

// Events. Each is wrapped in machine.Asked by the driver; the Reply's Value is the named response.
type (
	// Join: *kmsg.JoinGroupResponse, now or when the rebalance is done. NewMemberID is the id that a member without one gets.
	Join struct {
		Req         *kmsg.JoinGroupRequest
		Client      Client
		NewMemberID string
	}
	Sync          struct{ Req *kmsg.SyncGroupRequest }    // *kmsg.SyncGroupResponse, maybe later
	Heartbeat     struct{ Req *kmsg.HeartbeatRequest }    // *kmsg.HeartbeatResponse
	Leave         struct{ Req *kmsg.LeaveGroupRequest }   // *kmsg.LeaveGroupResponse
	Commit        struct{ Req *kmsg.OffsetCommitRequest } // *kmsg.OffsetCommitResponse; the shell took unknown topics and partitions out and adds their errors
	Fetch         struct{ Req FetchOffsets }              // FetchedOffsets
	Describe      struct{ Group string }                  // kmsg.DescribeGroupsResponseGroup
	List          struct{}                                // []kmsg.ListGroupsResponseGroup: all of this shard, the shell filters
	Delete        struct{ Group string }                  // int16, a Kafka error code
	DeleteOffsets struct{ Req *kmsg.OffsetDeleteRequest } // *kmsg.OffsetDeleteResponse
	// ConsumerHeartbeat (KIP-848): *kmsg.ConsumerGroupHeartbeatResponse.
	ConsumerHeartbeat struct {
		Req         *kmsg.ConsumerGroupHeartbeatRequest
		Client      Client
		NewMemberID string // for version 0, where the broker makes the id
	}
	ConsumerDescribe struct{ Group string } // kmsg.ConsumerGroupDescribeResponseGroup
	// Topics replaces what the machine knows of the cluster's topics; sent when topics change (KIP-848 needs it). No answer.
	Topics struct{ Topics map[string]Topic } // immutable
	// TopicDeleted forgets the offsets of a deleted topic. No answer.
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
type FetchOffsetsTopic struct {
	Name       string
	Partitions []int32
}

// FetchedOffsets: Code for the whole group; offsets -1 where there is no commit.
type FetchedOffsets struct {
	Code   int16
	Topics []FetchedTopic
}
type FetchedTopic struct {
	Name       string
	Partitions []FetchedPartition
}
type FetchedPartition struct {
	Partition   int32
	Offset      int64
	LeaderEpoch int32
	Metadata    string
	Code        int16
}

// Settings are read at each Step; live.
type Settings struct {
	MinSessionTimeout, MaxSessionTimeout time.Duration // group.min/max.session.timeout.ms
	InitialRebalanceDelay                time.Duration // group.initial.rebalance.delay.ms, 0 here
	MaxSize                              int           // group.max.size
	OffsetMetadataMaxBytes               int           // offset.metadata.max.bytes
	OffsetsRetention                     time.Duration // offsets.retention.minutes
	ConsumerSessionTimeout               time.Duration // group.consumer.session.timeout.ms
	ConsumerHeartbeatInterval            time.Duration // group.consumer.heartbeat.interval.ms
	ConsumerReconcileInterval            time.Duration // heartbeat interval told while a group reconciles, 200 ms
}

// Options of a Machine.
type Options struct {
	Settings func() Settings
	// CompileRegex compiles a KIP-848 subscription (RE2).
	CompileRegex func(string) (*regexp.Regexp, error)
}

// Ownership is an Order: who owns what in a group has changed (after a sync, a reconciliation, a leave). The shell keeps the index by partition.
type Ownership struct {
	Group   string
	Members []Owner // all members that own something; empty: nobody
}
type Owner struct {
	MemberID   string
	Client     Client
	RackID     string
	Epoch      int32 // generation or member epoch
	Partitions map[string][]int32
}

// New gives an empty machine.
func New(o Options) *Machine { panic("seam") }

type Machine struct{}

var _ machine.Machine = (*Machine)(nil)

func (m *Machine) Step(now machine.Time, ev machine.Event) machine.Effects { panic("seam") }
func (m *Machine) Apply(r machine.Record) error                            { panic("seam") }
func (m *Machine) Loaded(now machine.Time) machine.Effects                 { panic("seam") }
func (m *Machine) Deadline() machine.Time                                  { panic("seam") }
