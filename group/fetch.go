package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// fetch tells what was committed. A group or a partition that nobody knows is no error: there is no commit.
func (m *Machine) fetch(r FetchOffsets) FetchedOffsets {
	var all offsets
	if g := m.groups[r.Group]; g != nil {
		if g.consumers != nil {
			if code := g.checkConsumerFetch(r); code != kproto.NoError {
				return FetchedOffsets{Code: code}
			}
		}
		all = g.offsets
	}
	if r.Topics == nil {
		return fetchAll(all)
	}
	out := FetchedOffsets{Topics: make([]FetchedTopic, len(r.Topics))}
	for i, t := range r.Topics {
		out.Topics[i] = FetchedTopic{t.Name, make([]FetchedPartition, len(t.Partitions))}
		for j, p := range t.Partitions {
			out.Topics[i].Partitions[j] = FetchedPartition{Partition: p, Offset: -1, LeaderEpoch: -1}
			if o, ok := all.get(t.Name, p); ok {
				out.Topics[i].Partitions[j] = o.fetched()
			}
		}
	}
	return out
}

func fetchAll(all offsets) (out FetchedOffsets) {
	for _, t := range all {
		topic := FetchedTopic{Name: t.name}
		for _, o := range t.partitions {
			topic.Partitions = append(topic.Partitions, o.fetched())
		}
		out.Topics = append(out.Topics, topic)
	}
	return out
}

func (o offset) fetched() FetchedPartition {
	return FetchedPartition{Partition: o.partition, Offset: o.offset, LeaderEpoch: o.leaderEpoch, Metadata: o.metadata}
}

// deleteOffsets forgets commits for topics that nobody in the group is subscribed to.
func (m *Machine) deleteOffsets(r *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	g := m.groups[r.Group]
	switch {
	case g == nil:
		resp.ErrorCode = kproto.GroupIDNotFound
		return resp
	case g.state != Empty && !g.isConsumers():
		resp.ErrorCode = kproto.NonEmptyGroup
		return resp
	}
	subscribed := m.subscription(g)
	for _, t := range r.Topics {
		topic := kmsg.NewOffsetDeleteResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			partition := kmsg.NewOffsetDeleteResponseTopicPartition()
			partition.Partition = p.Partition
			if subscribed.has(t.Topic) {
				partition.ErrorCode = kproto.GroupSubscribedToTopic
			} else if _, ok := g.offsets.get(t.Topic, p.Partition); ok {
				m.write(g, offsetTombstone(g.id, t.Topic, p.Partition))
			}
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}
