package group

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// commitBook keeps what fetches of offsets may find. The offsets that clients commit grow: each is larger than all before it.
type commitBook struct {
	counter  int64
	promises map[committed]*promise
	// held is the newest epoch in which each member of the consumer protocol was seen to hold a partition of a group.
	held map[committed]map[string]int32
}

type committed struct {
	group     string
	partition int32
}

// promise is what a fetch of an offset may find.
type promise struct {
	floor   int64 // the largest that was acknowledged or seen, -1: none, or it may have been deleted
	refused map[int64]bool
	newest  int64 // the largest that was tried
	lowered int   // how often it may have been deleted
}

func (b *commitBook) promise(group string, partition int32) *promise {
	if b.promises == nil {
		b.promises = map[committed]*promise{}
	}
	k := committed{group, partition}
	if b.promises[k] == nil {
		b.promises[k] = &promise{floor: -1, refused: map[int64]bool{}, newest: -1}
	}
	return b.promises[k]
}

// raise takes an offset for what will stay, unless it may have been deleted since it was asked for.
func (p *promise) raise(offset int64, lowered int) {
	if lowered == p.lowered {
		p.floor = max(p.floor, offset)
	}
}

// lower takes the promises back: the offsets may be deleted.
func (b *commitBook) lower() {
	for _, p := range b.promises {
		p.floor = -1
		p.lowered++
	}
}

// commit makes the next commit of a member, and keeps its outcome.
func (b *commitBook) commit(r *rig, group string, partition int32, memberID string, generation int32, instance *string) {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.MemberID, q.Generation, q.InstanceID = 9, group, memberID, generation, instance
	b.counter++
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, b.counter
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.Partitions = "t", append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	want := b.promise(group, partition)
	want.newest = p.Offset
	lowered := want.lowered
	allowed := b.mayCommit(r.m.groups[group], memberID, generation, partition)
	r.do(Commit{q}, func(v any, err error) {
		switch {
		case err != nil:
		case v.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode != kproto.NoError:
			want.refused[p.Offset] = true
		case !allowed:
			r.t.Fatalf("%s committed to %s in generation %d", memberID, group, generation)
		default:
			want.raise(p.Offset, lowered)
		}
	})
}

// mayCommit tells who may: members in the newest generation or epoch, and anybody as long as there are none. An earlier epoch will do for a
// partition that nobody else has been seen with since.
func (b *commitBook) mayCommit(g *group, memberID string, generation, partition int32) bool {
	switch {
	case g == nil, !g.hasMembers():
		return generation < 0
	case g.consumers == nil:
		return g.member(memberID) != nil && g.generation == generation
	}
	c := g.consumers.members[memberID]
	if c == nil || c.epoch == generation {
		return c != nil
	}
	for other, epoch := range b.held[committed{g.id, partition}] {
		if other != memberID && epoch > generation {
			return false
		}
	}
	return 0 < generation && generation < c.epoch && c.held().has(topicPartition{testTopicID("t"), partition})
}

// watch notes who holds what. The epochs of a group that is gone may come again.
func (b *commitBook) watch(g *group) {
	if g == nil || g.consumers == nil {
		clear(b.held)
		return
	}
	for _, c := range g.consumers.members {
		for _, p := range c.held() {
			if p.topic != testTopicID("t") {
				continue
			}
			k := committed{g.id, p.partition}
			if b.held[k] == nil {
				b.held[k] = map[string]int32{}
			}
			b.held[k][c.id] = max(b.held[k][c.id], c.epoch)
		}
	}
}

// rewatch begins anew after a restart: what was seen need not have been durable.
func (b *commitBook) rewatch(g *group) {
	b.held = map[committed]map[string]int32{}
	b.watch(g)
}

// fetch asks for a group's offsets, and compares. They never go back: no commit is lost, and none is from the future.
func (b *commitBook) fetch(t testing.TB, r *rig, group string) {
	req := FetchOffsets{Group: group, MemberEpoch: -1, Topics: []FetchOffsetsTopic{{Name: "t"}}}
	var lowered []int
	for p := range int32(lifePartitions) {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
		lowered = append(lowered, b.promise(group, p).lowered)
	}
	r.do(Fetch{req}, func(v any, err error) {
		if err != nil {
			return
		}
		for i, p := range v.(FetchedOffsets).Topics[0].Partitions {
			want := b.promise(group, p.Partition)
			if p.Offset > want.newest || p.Offset < want.floor || want.refused[p.Offset] {
				t.Fatalf("fetched %d, and acknowledged or seen was %d, tried up to %d", p.Offset, want.floor, want.newest)
			}
			want.raise(p.Offset, lowered[i])
		}
	})
}
