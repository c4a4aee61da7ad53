package kafkago

import (
	"context"
	"errors"
	"time"

	"sluice/compat/member"

	"github.com/segmentio/kafka-go"
)

// Member is a member.Library.
func Member(ctx context.Context, j *member.Job) error {
	if j.Consumer {
		return errors.New("the library has no consumer protocol")
	}
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers:           []string{j.Address},
		GroupID:           j.Group,
		Topic:             j.Topic,
		StartOffset:       kafka.FirstOffset,
		SessionTimeout:    member.SessionTimeout,
		HeartbeatInterval: member.HeartbeatInterval,
		MinBytes:          1,
		MaxBytes:          1 << 20,
		MaxWait:           100 * time.Millisecond, // the library waits for a fetch under way when it closes
		ReadBackoffMax:    100 * time.Millisecond, // after an answer without records, of which a short MaxWait brings many
	})
	defer r.Close() // leaves
	for {
		m, err := r.FetchMessage(ctx)
		if err != nil {
			return nil // the context has ended: the library tries again after any other error
		}
		j.Read(int32(m.Partition), m.Offset, m.Value)
		if err := r.CommitMessages(ctx, m); err == nil {
			j.Committed(int32(m.Partition), m.Offset+1)
		}
	}
}
