// Package checks is what every Go client library must be able to do with the broker, written once against a small
// interface. Each library has an adapter (the folders franz-go, sarama, kafka-go) that does nothing but translate.
package checks

import (
	"context"
	"errors"
	"time"
)

// Client is one client library. An adapter returns ErrUnsupported for what its library has no call for.
type Client interface {
	CreateTopic(ctx context.Context, topic string, partitions int, configs map[string]string) error
	DeleteTopic(ctx context.Context, topic string) error
	// Partitions counts the partitions of a topic; the error for a missing topic is UnknownTopic.
	Partitions(ctx context.Context, topic string) (int, error)
	AddPartitions(ctx context.Context, topic string, total int) error
	TopicConfig(ctx context.Context, topic, key string) (string, error)
	SetTopicConfig(ctx context.Context, topic, key, value string) error
	// DeleteRecords removes the records before an offset.
	DeleteRecords(ctx context.Context, topic string, partition int32, before int64) error
	// Offset finds the first record at or after a time in milliseconds since 1970, or an end: Earliest or Latest. It is
	// -1 or the end when no record is that late: libraries differ.
	Offset(ctx context.Context, topic string, partition int32, at int64) (int64, error)
	// Produce writes records to the partitions they name, and sets their offsets unless acks is 0.
	Produce(ctx context.Context, topic string, how Produce, records []*Record) error
	// Open begins to read a partition at an offset.
	Open(ctx context.Context, topic string, partition int32, offset int64) (Reader, error)
	Close()
}

// Reader reads one partition in order. Read waits for a record until its context ends.
type Reader interface {
	Read(ctx context.Context) (*Record, error)
	SeekTo(offset int64) error
	Close()
}

// The times that name an end of a partition, with Kafka's values.
const (
	Latest   = -1
	Earliest = -2
)

// Produce is how to write: a codec (none, gzip, snappy, lz4, zstd) and acks (0, 1, -1).
type Produce struct {
	Codec      string
	Acks       int
	Idempotent bool
}

// Record is what is written and read. A nil Key or Value is null. Timestamp has milliseconds.
type Record struct {
	Partition  int32
	Offset     int64
	Timestamp  time.Time
	Key, Value []byte
	Headers    []Header
}

// Header is a record header.
type Header struct {
	Key   string
	Value []byte
}

var (
	// ErrUnsupported says that the library has no call for this.
	ErrUnsupported = errors.New("the library cannot do this")
	// ErrUnknownTopic, ErrTopicExists, ErrTooLarge and ErrOutOfRange are the broker's answers that checks expect.
	ErrUnknownTopic = errors.New("unknown topic")
	ErrTopicExists  = errors.New("topic exists")
	ErrTooLarge     = errors.New("record too large")
	ErrOutOfRange   = errors.New("offset out of range")
)

// Map joins err with the sentinel that table has for the error it wraps, so that checks need not know a library's errors.
func Map(err error, table map[error]error) error {
	for theirs, ours := range table {
		if errors.Is(err, theirs) {
			return errors.Join(ours, err)
		}
	}
	return err
}
