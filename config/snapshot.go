package config

import (
	"fmt"
	"regexp"
	"time"
)

// Broker is the typed snapshot of a broker's settings. It does not change; a change of settings makes a new one.
type Broker struct {
	AutoCreateTopics         bool
	NumPartitions            int32
	DefaultReplicationFactor int16
	ClampReplicationFactor   bool
	DeleteTopicEnable        bool
	OffsetsTopicPartitions   int32
	OffsetsTopicSegmentBytes int
	MaxPartitions            int
	SocketRequestMaxBytes    int
	SocketSendBuffer         int // bytes; -1: the kernel's
	SocketReceiveBuffer      int // bytes; -1: the kernel's
	MaxConnections           int
	MaxConnectionsPerIP      int
	ConnectionsMaxIdle       time.Duration // below zero: for ever
	QueuedMaxRequestBytes    int64         // -1: the broker chooses
	FetchMaxBytes            int
	FetchSessionSlots        int
	ValidationStrict         bool
	RetentionCheckInterval   time.Duration
	BallastBytes             int64
	TransactionMaxTimeout    time.Duration
	ProducerExpiration       time.Duration
	Groups                   Groups
	Dispatch                 Dispatch
	Quotas                   Quotas
	Cleaner                  Cleaner
	ScrubBytesPerSecond      int64
	ScrubInterval            time.Duration
	Topic                    Topic // what a topic without settings of its own gets
	Group                    Group // what a group without settings of its own gets

	UnresolvedSubscription string         // client-id, connection, shared, none
	GroupOfClientID        *regexp.Regexp // its one submatch is the group; nil: client ids say nothing
}

// Groups is the part of a broker's settings that its groups go by.
type Groups struct {
	MinSessionTimeout, MaxSessionTimeout time.Duration
	InitialRebalanceDelay                time.Duration
	MaxSize                              int // members
	OffsetMetadataMaxBytes               int
	OffsetsRetention                     time.Duration
	OffsetsRetentionCheckInterval        time.Duration
	ConsumerProtocol                     bool     // is offered
	ConsumerMaxSize                      int      // members
	ConsumerAssignors                    []string // uniform, range; the first is the default
	Migration                            Migration
	EvictStalled                         bool // members, instead of only reporting them
	StalledCheckInterval                 time.Duration
	LagMetricsPartitions                 int
}

// Migration tells which way the members of a group may take it: up to the new protocol, down to the classic one.
type Migration struct{ Up, Down bool }

// Quotas is how client quotas are measured: the number of samples and the length of one, of rates and of changes to topics.
type Quotas struct {
	Windows, MutationWindows int
	Window, MutationWindow   time.Duration
}

// Cleaner is the part of a broker's settings that compaction goes by.
type Cleaner struct {
	Enable         bool
	Threads        int
	Backoff        time.Duration
	DedupeBuffer   int64   // bytes, of all threads together
	BytesPerSecond float64 // read and written, by all threads together
}

// Topic is the typed snapshot of a topic's settings. It does not change.
type Topic struct {
	CleanupCompact, CleanupDelete  bool   // neither: kept for ever
	Compression                    string // producer, none, gzip, snappy, lz4, zstd
	GzipLevel, Lz4Level, ZstdLevel int    // GzipLevel -1: the codec's own
	MaxMessageBytes                int
	SegmentBytes                   int64
	SegmentAge                     time.Duration
	SegmentIndexBytes              int64
	IndexInterval                  int64 // bytes
	LogAppendTime                  bool
	TimestampBeforeMaxMs           int64
	TimestampAfterMaxMs            int64
	Durability                     string // fsync, interval, os
	SyncInterval                   time.Duration
	RetentionMs                    int64 // -1: no limit
	RetentionBytes                 int64 // below zero: no limit
	MinInsyncReplicas              int
	FileDeleteDelay                time.Duration
	Dispatch                       Policies
	DeleteRetention                time.Duration
	MinCompactionLag               time.Duration
	MaxCompactionLag               time.Duration // 0: none
	MinDirtyRatio                  float64
}

// Group is the typed snapshot of the settings of a consumer group of the new protocol (KIP-848). It does not change.
type Group struct {
	SessionTimeout     time.Duration
	HeartbeatInterval  time.Duration
	HeartbeatSet       bool // HeartbeatInterval is somebody's wish, and not the default
	AssignmentInterval time.Duration
	Dispatch           Policy
}

// NewBroker makes the snapshot of a broker's settings; the topic and group layers play no part. The error names a value
// that Validate refuses too, or two settings that contradict each other.
func NewBroker(l Layers) (*Broker, error) {
	b := new(Broker)
	for _, r := range settings.declared(ScopeBroker) {
		if r.broker == nil {
			continue
		}
		v, set, err := l.effective(r)
		if err != nil {
			return nil, err
		}
		if set {
			r.broker(b, v)
		}
	}
	if err := l.checkDispatch(&b.Dispatch); err != nil {
		return nil, err
	}
	l.Topic, l.Group = nil, nil
	t, err := NewTopic(l)
	if err != nil {
		return nil, err
	}
	b.Topic = *t
	g, err := NewGroup(l)
	if err != nil {
		return nil, err
	}
	b.Group = *g
	if err := l.checkGroup(); err != nil {
		return nil, err
	}
	return b, nil
}

// NewTopic makes a topic's snapshot from the broker's layers and the topic's. The error names a value that Validate refuses
// too, or two settings that contradict each other.
func NewTopic(l Layers) (*Topic, error) {
	t := new(Topic)
	for _, r := range settings.declared(ScopeTopic) {
		if r.topic == nil {
			continue
		}
		v, set, err := l.effective(r)
		if err != nil {
			return nil, err
		}
		if set {
			r.topic(t, v)
		}
	}
	if err := l.checkCompactionLag(); err != nil {
		return nil, err
	}
	var err error
	t.Dispatch, err = l.policiesAt(place{values: l.Topic, source: SourceTopic})
	return t, err
}

// checkCompactionLag is the one rule over two topic settings (KIP-354).
func (l Layers) checkCompactionLag() error {
	low, _, err := l.effective(settings.find(ScopeTopic, "min.compaction.lag.ms"))
	if err != nil {
		return err
	}
	high, _, err := l.effective(settings.find(ScopeTopic, "max.compaction.lag.ms"))
	if err != nil {
		return err
	}
	if low.whole > high.whole {
		return fmt.Errorf("min.compaction.lag.ms (%d) must not be more than max.compaction.lag.ms (%d)", low.whole, high.whole)
	}
	return nil
}
