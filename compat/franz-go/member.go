package franzgo

import (
	"context"

	"sluice/compat/member"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Member is a member.Library.
func Member(ctx context.Context, j *member.Job) error {
	opts := []kgo.Opt{
		kgo.SeedBrokers(j.Address),
		kgo.ConsumerGroup(j.Group),
		kgo.ConsumeTopics(j.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(member.SessionTimeout),
		kgo.HeartbeatInterval(member.HeartbeatInterval),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), // what was polled is committed before the partition is given up
	}
	if j.Consumer {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance() // leaves
	for ctx.Err() == nil {
		polled := client.PollRecords(ctx, 50)
		polled.EachRecord(func(r *kgo.Record) { j.Read(r.Partition, r.Offset, r.Value) })
		client.CommitOffsetsSync(context.WithoutCancel(ctx), client.UncommittedOffsets(), acknowledged(j))
		client.AllowRebalance()
	}
	return nil
}

// acknowledged tells of each offset of a commit that was taken.
func acknowledged(j *member.Job) func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error) {
	return func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			return
		}
		for t, topic := range resp.Topics {
			for p, partition := range topic.Partitions {
				if kerr.ErrorForCode(partition.ErrorCode) == nil {
					j.Committed(partition.Partition, req.Topics[t].Partitions[p].Offset)
				}
			}
		}
	}
}
