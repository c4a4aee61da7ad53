// Package catalog is the machine over catalog records: the cluster's id, one broker epoch per start, topics, configs, producer id blocks (later ACLs, users,
// quotas, throttle policies). It is pure: Step decides, Apply is the only writer of hard state, live and at replay.
// The driver is internal/coord; the shell is broker.
package catalog

import (
	"sluice/internal/machine"
	"sluice/kproto"
)

// SEAM FILE: what broker builds on.

// Topic as the catalog knows it.
type Topic struct {
	Name       string
	ID         kproto.TopicID
	Partitions int32
	Internal   bool
	Config     map[string]string // immutable
}

// Events. Ids and random values are made by the shell and passed in.
type (
	// Start is the first event of a run: makes the cluster id if there is none, and raises the broker epoch by one.
	// Reply: Started.
	Start struct{ NewClusterID string }
	// CreateTopics are validated names and counts (the shell checked what needs no state). Reply: []TopicResult in order, each with a *kproto.Error or nil.
	CreateTopics struct {
		Topics       []NewTopic
		ValidateOnly bool
	}
	// DeleteTopics by id (the shell resolved names against the same machine through View). Reply: []TopicResult.
	DeleteTopics struct{ Topics []TopicRef }
	// TopicGone: the deleted topic's files are gone; its deletion record becomes a tombstone. No reply needed.
	TopicGone struct{ ID kproto.TopicID }
	// CreatePartitions. Reply: []TopicResult.
	CreatePartitions struct {
		Topics       []MorePartitions
		ValidateOnly bool
	}
	// AlterConfigs replaces (legacy) or edits (incremental) the configs of resources, all-or-nothing per resource. Reply: []error (a *kproto.Error or nil), in order.
	AlterConfigs struct {
		Resources    []ConfigChange
		ValidateOnly bool
	}
	// ReserveProducerIDs takes the next block of N ids, durable before it is used. Reply: ProducerIDBlock.
	ReserveProducerIDs struct{ N int64 }
)

type Started struct {
	ClusterID string
	Epoch     int32
}
type NewTopic struct {
	Name       string
	ID         kproto.TopicID
	Partitions int32
	Internal   bool
	Config     map[string]string
}

// TopicRef names a topic by name or by id (the other one zero).
type TopicRef struct {
	Name string
	ID   kproto.TopicID
}
type TopicResult struct {
	Topic Topic
	Err   error // *kproto.Error
}
type MorePartitions struct {
	Name  string
	Count int32
}
type ProducerIDBlock struct{ First, N int64 }

// ResourceType has the wire values of ConfigResource: 2 topic, 4 broker, 32 group.
type ResourceType int8

type ConfigChange struct {
	Type    ResourceType
	Name    string
	Replace bool // legacy AlterConfigs: Ops are the whole set
	Ops     []ConfigOp
}
type ConfigOp struct {
	Op    int8 // 0 SET, 1 DELETE, 2 APPEND, 3 SUBTRACT
	Key   string
	Value *string
}

// Orders are handed to the shell once durable, in order, live and after replay (one of each thing that exists): they are how topics and configs reach the data path.
type (
	TopicCreated  struct{ Topic Topic } // also when partitions were added or its config changed: the whole new value
	TopicDeleted  struct{ Topic Topic }
	ConfigChanged struct { // broker and group resources: the whole new map
		Type   ResourceType
		Name   string
		Values map[string]string
	}
)

// Options are the bounds the machine enforces.
type Options struct {
	MaxPartitions func() int // of all topics together
}

// New gives an empty machine.
func New(o Options) *Machine { panic("seam") }

type Machine struct{}

var _ machine.Machine = (*Machine)(nil)

func (m *Machine) Step(now machine.Time, ev machine.Event) machine.Effects { panic("seam") }
func (m *Machine) Apply(r machine.Record) error                            { panic("seam") }
func (m *Machine) Loaded(now machine.Time) machine.Effects                 { panic("seam") }
func (m *Machine) Deadline() machine.Time                                  { panic("seam") }
