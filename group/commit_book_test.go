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
	allowed := mayCommit(r.m.groups[group], memberID, generation)
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

// mayCommit tells who may: members in the newest generation or epoch, and anybody as long as there are none.
func mayCommit(g *group, memberID string, generation int32) bool {
	switch {
	case g == nil, !g.hasMembers():
		return generation < 0
	case g.consumers != nil:
		c := g.consumers.members[memberID]
		return c != nil && c.epoch == generation
	}
	return g.member(memberID) != nil && g.generation == generation
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
