package sarama

import (
	"context"
	"errors"

	"sluice/compat/member"

	"github.com/IBM/sarama"
)

// Member is a member.Library. A commit of the library tells of no failure, so it does not tell of commits.
func Member(ctx context.Context, j *member.Job) error {
	if j.Consumer {
		return errors.New("the library has no consumer protocol")
	}
	config := newConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = member.SessionTimeout
	config.Consumer.Group.Heartbeat.Interval = member.HeartbeatInterval
	group, err := sarama.NewConsumerGroup([]string{j.Address}, j.Group, config)
	if err != nil {
		return err
	}
	go func() {
		for range group.Errors() { // the library goes on by itself
		}
	}()
	for ctx.Err() == nil {
		_ = group.Consume(ctx, []string{j.Topic}, handler{j}) // one generation
	}
	return group.Close() // leaves
}

type handler struct{ job *member.Job }

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case <-session.Context().Done():
			return nil
		case m, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			h.job.Read(m.Partition, m.Offset, m.Value)
			session.MarkMessage(m, "")
			if len(claim.Messages()) == 0 { // a commit waits behind a fetch on the same connection
				session.Commit()
			}
		}
	}
}
