package catalog

import "sluice/kproto"

// Topic as the catalog knows it.
type Topic struct {
	Name       string
	ID         kproto.TopicID
	Partitions int32
	Internal   bool              // Kafka's own: not written by clients, not deleted, not grown
	Config     map[string]string // what was set for this topic; immutable, nil when empty
}

// Events. Ids and random values are made by the shell and passed in.
type (
	// Start is the first event of a run: it makes the cluster's id if there is none, and raises the broker epoch by one. The first epoch is 0.
	// Reply: Started.
	Start struct{ NewClusterID string }
	// CreateTopics makes each topic or refuses it, independently of the others. The shell checked what needs no state: the
	// name's characters, replication, each config value.
	// Reply: []TopicResult, one for each name, in the order of first mention.
	CreateTopics struct {
		Topics       []NewTopic
		ValidateOnly bool
	}
	// ImportTopics makes topics that bring records with them: all, or none if one is refused. The next broker epoch and the next producer id
	// will be higher than any in those records.
	// Reply: as of CreateTopics.
	ImportTopics struct {
		Topics         []NewTopic
		Epoch          int32 // highest leader epoch in the records, -1: none
		NextProducerID int64 // above all producer ids there
	}
	// DeleteTopics by name or id. Reply: []TopicResult, one for each distinct reference, in the order of first mention.
	DeleteTopics struct{ Topics []TopicRef }
	// TopicGone says that the files of a deleted topic are gone; the record of its deletion becomes a tombstone. Reply: nil.
	TopicGone struct{ ID kproto.TopicID }
	// CreatePartitions raises partition counts. Reply: []TopicResult, one for each name, in the order of first mention.
	CreatePartitions struct {
		Topics       []MorePartitions
		ValidateOnly bool
	}
	// AlterConfigs replaces (legacy) or edits (KIP-339) the configs of resources, each all or nothing. The shell checked
	// each key and value. Reply: []error, one for each resource, in order; *kproto.Error or nil.
	AlterConfigs struct {
		Resources    []ConfigChange
		ValidateOnly bool
	}
	// AlterQuotas edits client quotas (KIP-546), each entity all or nothing. Reply: []error, one for each change, in order; *kproto.Error
	// or nil.
	AlterQuotas struct {
		Changes      []QuotaChange
		ValidateOnly bool
	}
	// ReserveProducerIDs takes the next N ids for good. Reply: ProducerIDBlock, whose N is 0 if no N ids are left.
	ReserveProducerIDs struct{ N int64 }
)

// Started is the reply to Start.
type Started struct {
	ClusterID string
	Epoch     int32
}

// NewTopic is a topic to create. ID is fresh and random.
type NewTopic struct {
	Name       string
	ID         kproto.TopicID
	Partitions int32
	Internal   bool // the broker makes it for itself; Kafka's internal names are internal anyway
	Config     map[string]string
}

// TopicRef names a topic by name or by id (the other one zero).
type TopicRef struct {
	Name string
	ID   kproto.TopicID
}

// TopicResult is what became of a topic: the topic as it is now (or would be), or its reference and the error.
type TopicResult struct {
	Topic Topic
	Err   error // *kproto.Error or nil
}

// MorePartitions asks for a new total count.
type MorePartitions struct {
	Name  string
	Count int32
}

// ProducerIDBlock is the ids First to First+N-1.
type ProducerIDBlock struct{ First, N int64 }

// ResourceType has the wire values of ConfigResource.
type ResourceType int8

// The resources that have configs.
const (
	ResourceTopic  ResourceType = 2
	ResourceBroker ResourceType = 4
	ResourceGroup  ResourceType = 32
)

// ConfigChange is what is to become of one resource's config.
type ConfigChange struct {
	Type    ResourceType
	Name    string // of a broker: its id, or "" for the cluster's default
	Replace bool   // legacy AlterConfigs: Ops are the whole set, whatever their Op says
	Ops     []ConfigOp
}

// The values of ConfigOp.Op, as on the wire.
const (
	OpSet      int8 = 0
	OpDelete   int8 = 1
	OpAppend   int8 = 2 // to a list; the shell knows what is one
	OpSubtract int8 = 3
)

// ConfigOp is one edit of one key.
type ConfigOp struct {
	Op      int8
	Key     string
	Value   *string // nil only with OpDelete
	Default string  // where OpAppend and OpSubtract begin when the key is not set
}

// Orders are handed to the shell once durable, in order, live and after replay: they are how topics and configs reach the data path.
// After a replay there is one for each thing that exists: configs, then quotas, then deletions, then topics.
type (
	// TopicCreated gives the whole new value, also when partitions were added or the config changed.
	TopicCreated struct{ Topic Topic }
	// TopicDeleted gives the topic without its config. It comes again after each replay, until TopicGone.
	TopicDeleted struct{ Topic Topic }
	// ConfigChanged gives the whole new map of a broker or a group; nil when empty.
	ConfigChanged struct {
		Type   ResourceType
		Name   string
		Values map[string]string
	}
	// QuotaChanged gives the whole new map of an entity's quotas; nil when empty.
	QuotaChanged struct {
		Entity QuotaEntity
		Values map[string]float64
	}
)
