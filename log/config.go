package log

import (
	"fmt"
	"math"
	"time"
)

// Durability says when an append is acknowledged and visible (docs/storage.md).
type Durability uint8

const (
	Fsync    Durability = iota // after fdatasync of the data
	Interval                   // after write(2); synced within Config.SyncInterval
	OS                         // after write(2); synced at every roll and close, else when the kernel likes
)

// ParseDurability reads the values of sluice.durability.
func ParseDurability(s string) (Durability, error) {
	switch s {
	case "fsync":
		return Fsync, nil
	case "interval":
		return Interval, nil
	case "os":
		return OS, nil
	}
	return Fsync, fmt.Errorf("durability %q is none of fsync, interval, os", s)
}

func (d Durability) String() string { return [...]string{"fsync", "interval", "os"}[d] }

// Config is what a partition must know of its settings. It is immutable; Log.SetConfig swaps it.
type Config struct {
	Durability         Durability
	SyncInterval       time.Duration // Interval mode
	SegmentBytes       int64         // roll when the next batch would pass it
	SegmentAge         time.Duration // roll when the segment's first timestamp is older (segment.ms)
	IndexBytes         int64         // roll when the offset or time index is full (segment.index.bytes)
	IndexInterval      int64         // bytes between index entries (index.interval.bytes)
	LogAppendTime      bool          // message.timestamp.type=LogAppendTime
	ProducerExpiration time.Duration // producer.id.expiration.ms
	Delete             bool          // cleanup.policy has delete: the next two count
	RetentionMs        int64         // retention.ms; below zero: no limit
	RetentionBytes     int64         // retention.bytes; below zero: no limit
	FileDeleteDelay    time.Duration // file.delete.delay.ms
	Compact            bool          // cleanup.policy has compact: the next four count
	DeleteRetention    time.Duration // delete.retention.ms
	MinCompactionLag   time.Duration // min.compaction.lag.ms
	MaxCompactionLag   time.Duration // max.compaction.lag.ms; 0: none
	MinDirtyRatio      float64       // min.cleanable.dirty.ratio
}

// DefaultConfig has Kafka's defaults, with durability fsync and without deletion. Internal logs use it as it is.
func DefaultConfig() *Config {
	return &Config{
		SyncInterval:       time.Second,
		SegmentBytes:       1 << 30,
		SegmentAge:         7 * 24 * time.Hour,
		IndexBytes:         10 << 20,
		IndexInterval:      4096,
		ProducerExpiration: 24 * time.Hour,
		DeleteRetention:    24 * time.Hour,
		MinDirtyRatio:      0.5,
	}
}

// maxSegmentBytes keeps positions within the 31 bits of Kafka's index files.
const maxSegmentBytes = math.MaxInt32
