// Package config declares every setting once: name, aliases, type, default, bounds, scope, live or restart, documentation.
// From those rows come the typed snapshots that the program reads, DescribeConfigs, validation, docs/config.md and the
// suggestions for misspelt keys. It is pure: cmd/sluice reads files and the environment and passes maps in.
package config

import "time"

// SEAM FILE: what other rooms build on. The implementation replaces it (setting.go, registry.go, broker_settings.go, topic_settings.go, foreign.go, snapshot.go, docs.go ...).

// Scope is where a setting may stand.
type Scope uint8

const (
	ScopeBroker Scope = 1 << iota
	ScopeTopic
	ScopeGroup
)

// Source is where a value came from, as in DescribeConfigs (wire values).
type Source int8

const (
	SourceTopic          Source = 1 // DYNAMIC_TOPIC_CONFIG
	SourceDynamicBroker  Source = 2
	SourceDynamicDefault Source = 3 // DYNAMIC_DEFAULT_BROKER_CONFIG
	SourceStatic         Source = 4 // STATIC_BROKER_CONFIG: file, environment, --set
	SourceDefault        Source = 5
	SourceGroup          Source = 8 // GROUP_CONFIG
)

// Layers are the raw values that stand over the defaults; later fields win over earlier ones for a broker; Topic wins over all for a topic.
type Layers struct {
	Static         map[string]string // file < environment < --set, merged by the caller
	DynamicDefault map[string]string // BROKER resource ""
	Dynamic        map[string]string // BROKER resource "1"
	Topic          map[string]string // TOPIC resource
	Group          map[string]string // GROUP resource
}

// Broker is the typed snapshot of a broker's settings.
type Broker struct {
	AutoCreateTopics         bool  // auto.create.topics.enable, true
	NumPartitions            int32 // num.partitions, 1
	DefaultReplicationFactor int16 // 1
	ClampReplicationFactor   bool  // sluice.replication.factor.clamp
	DeleteTopicEnable        bool  // delete.topic.enable
	OffsetsTopicPartitions   int32 // offsets.topic.num.partitions, 50
	MaxPartitions            int   // sluice.max.partitions, 250000
	SocketRequestMaxBytes    int   // socket.request.max.bytes
	SocketSendBuffer         int   // socket.send.buffer.bytes (Kafka 102400; ours -1: the kernel tunes)
	SocketReceiveBuffer      int
	MaxConnections           int
	MaxConnectionsPerIP      int
	ConnectionsMaxIdle       time.Duration
	QueuedMaxRequestBytes    int64
	FetchMaxBytes            int  // fetch.max.bytes, 57671680
	FetchSessionSlots        int  // max.incremental.fetch.session.cache.slots
	ValidationStrict         bool // sluice.batch.validation=strict|relaxed
	TransactionMaxTimeout    time.Duration
	ProducerExpiration       time.Duration // producer.id.expiration.ms
	Topic                    Topic         // what a topic without settings of its own gets
}

// Topic is the typed snapshot of a topic's settings.
type Topic struct {
	CleanupCompact, CleanupDelete  bool
	Compression                    string // producer, none, gzip, snappy, lz4, zstd
	GzipLevel, Lz4Level, ZstdLevel int
	MaxMessageBytes                int
	SegmentBytes                   int64
	SegmentAge                     time.Duration
	SegmentIndexBytes              int64
	IndexInterval                  int64
	LogAppendTime                  bool
	TimestampBeforeMaxMs           int64
	TimestampAfterMaxMs            int64
	Durability                     string // fsync, interval, os
	SyncInterval                   time.Duration
	RetentionMs, RetentionBytes    int64 // -1: none
	MinInsyncReplicas              int
	FileDeleteDelay                time.Duration
}

// Entry is one setting of one resource as DescribeConfigs shows it.
type Entry struct {
	Name      string
	Value     *string // nil for sensitive values
	Source    Source
	ReadOnly  bool
	Sensitive bool
	Type      int8 // wire value: BOOLEAN 1 ... LONG 5, DOUBLE 6, LIST 7, CLASS 8, PASSWORD 9
	Doc       string
	Synonyms  []Synonym // in order of precedence, the effective one first
}
type Synonym struct {
	Name   string
	Value  *string
	Source Source
}

// NewBroker makes the snapshot; values in l were validated before (Validate).
func NewBroker(l Layers) (*Broker, error) { panic("seam") }

// NewTopic makes a topic's snapshot from the broker's layers and the topic's.
func NewTopic(l Layers) (*Topic, error) { panic("seam") }

// Validate checks one key and value for a scope. The error is a sentence that names the key, the value, what is allowed and, for an
// unknown key, the nearest known one. Canonical gives the canonical name of an alias.
func Validate(scope Scope, key, value string) error    { panic("seam") }
func Canonical(scope Scope, key string) (string, bool) { panic("seam") }

// Meaningless tells whether Kafka knows the broker key but it has no meaning here (accepted with one warning).
func Meaningless(key string) bool { panic("seam") }

// IsList tells whether APPEND and SUBTRACT of IncrementalAlterConfigs make sense; Default is what DELETE returns to.
func IsList(scope Scope, key string) bool { panic("seam") }

// DescribeTopic, DescribeBroker: all entries in order of name.
func DescribeTopic(l Layers) []Entry  { panic("seam") }
func DescribeBroker(l Layers) []Entry { panic("seam") }

// Live tells whether a broker setting may be changed while running; others are read-only for AlterConfigs (INVALID_REQUEST in Kafka's wording).
func Live(scope Scope, key string) bool { panic("seam") }

// ParseProperties parses a server.properties file's text into a flat map (magiconair/properties underneath, no ${} expansion).
func ParseProperties(text []byte) (map[string]string, error) { panic("seam") }

// FromEnviron picks SLUICE_LOG_SEGMENT_BYTES=... (log.segment.bytes) out of an environment; which names are not settings (SLUICE_BOOTSTRAP_SERVER, ...) is known here too.
func FromEnviron(environ []string) (map[string]string, error) { panic("seam") }
