package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
	"sluice/internal/machine"
	"sluice/kproto"
)

// offsetFetch answers OffsetFetch, v1-10. What was never committed, be it in an unknown group or of an unknown topic, is
// offset -1 and no error.
//
//	v2   null topics mean all; an error code for the whole
//	v5   leader epochs (KIP-320)
//	v7   stable offsets only, if asked for (KIP-447)
//	v8   several groups (KIP-709)
//	v9   members of the consumer protocol, by their epoch (KIP-848)
//	v10  topic ids
func (b *Broker) offsetFetch(c *call, q *kmsg.OffsetFetchRequest) {
	s := c.conn()
	f := &offsetFetchCall{c: c, q: q, conn: s, who: s.identity, resp: kmsg.NewPtrOffsetFetchResponse(), groups: q.Groups}
	if q.Version < 8 {
		f.groups = []kmsg.OffsetFetchRequestGroup{oldOffsetFetch(q)}
	}
	f.resp.Groups = make([]kmsg.OffsetFetchResponseGroup, len(f.groups))
	ids := make([]string, len(f.groups))
	for i := range f.groups {
		ids[i] = f.groups[i].Group
		f.resp.Groups[i].Group = ids[i]
	}
	each(c, ids, func(i int) machine.Event { return f.ask(i) }, f.set, f.finish)
}

// offsetFetchCall is one request under way.
type offsetFetchCall struct {
	c      *call
	q      *kmsg.OffsetFetchRequest
	conn   *connState
	who    identity
	resp   *kmsg.OffsetFetchResponse
	groups []kmsg.OffsetFetchRequestGroup
}

// oldOffsetFetch gives a request before v8 the form of a later one. Before v2 no topics are none, not all.
func oldOffsetFetch(q *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = q.Group
	if q.Topics != nil || q.Version < 2 {
		g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(q.Topics))
	}
	for i, t := range q.Topics {
		g.Topics[i].Topic, g.Topics[i].Partitions = t.Topic, t.Partitions
	}
	return g
}

// ask makes the question to a group: of the topics whose names are known.
func (f *offsetFetchCall) ask(i int) group.Fetch {
	g := &f.groups[i]
	ask := group.FetchOffsets{Group: g.Group, MemberEpoch: g.MemberEpoch, RequireStable: f.q.RequireStable}
	if g.MemberID != nil {
		ask.MemberID = *g.MemberID
	}
	if g.Topics == nil {
		return group.Fetch{Req: ask}
	}
	ask.Topics = make([]group.FetchOffsetsTopic, 0, len(g.Topics))
	for j := range g.Topics {
		t := &g.Topics[j]
		if f.q.Version >= 10 {
			known := f.c.b.topics.byID(t.TopicID)
			if known == nil {
				f.unknown(i, t)
				continue
			}
			t.Topic = known.name
		}
		ask.Topics = append(ask.Topics, group.FetchOffsetsTopic{Name: t.Topic, Partitions: t.Partitions})
	}
	return group.Fetch{Req: ask}
}

// unknown answers for a topic whose id nobody has.
func (f *offsetFetchCall) unknown(i int, t *kmsg.OffsetFetchRequestGroupTopic) {
	x := kmsg.NewOffsetFetchResponseGroupTopic()
	x.TopicID = t.TopicID
	code := f.c.code(errUnknownTopicID)
	for _, p := range t.Partitions {
		y := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		y.Partition, y.Offset, y.ErrorCode, y.Metadata = p, -1, code, new(string)
		x.Partitions = append(x.Partitions, y)
	}
	f.resp.Groups[i].Topics = append(f.resp.Groups[i].Topics, x)
}

// set takes a group's answer.
func (f *offsetFetchCall) set(i int, v any, err error) {
	x := &f.resp.Groups[i]
	if err != nil {
		x.Topics, x.ErrorCode = nil, f.c.code(err)
		return
	}
	fetched := v.(group.FetchedOffsets)
	if fetched.Code != kproto.NoError {
		x.Topics, x.ErrorCode = nil, f.c.code(&kproto.Error{Code: fetched.Code})
		return
	}
	f.note(&f.groups[i], fetched)
	for _, t := range fetched.Topics {
		if y, ok := f.topic(t); ok {
			x.Topics = append(x.Topics, y)
		}
	}
}

// note tells the resolver what a client was told: it will fetch from there. Who asks for all that a group has is no
// consumer. Before version 9 members do not say that they are some, and the group tells.
func (f *offsetFetchCall) note(g *kmsg.OffsetFetchRequestGroup, fetched group.FetchedOffsets) {
	if g.Topics == nil {
		return
	}
	owners, now := f.c.b.groups.owners, stampOf(time.Now())
	alone := g.MemberID == nil && !owners.has(g.Group)
	for _, t := range fetched.Topics {
		for _, p := range t.Partitions {
			if alone {
				owners.noteSimple(g.Group, t.Name, p.Partition, f.who, f.conn.host, p.Offset, now)
			} else if m, _ := owners.markOf(g.Group, t.Name, p.Partition); m != nil {
				m.offset.Store(p.Offset)
			}
		}
	}
}

// topic leaves out a topic that is gone where only its id could tell which it was.
func (f *offsetFetchCall) topic(t group.FetchedTopic) (kmsg.OffsetFetchResponseGroupTopic, bool) {
	y := kmsg.NewOffsetFetchResponseGroupTopic()
	y.Topic = t.Name
	if f.q.Version >= 10 {
		known := f.c.b.topics.byName(t.Name)
		if known == nil {
			return y, false
		}
		y.TopicID = known.id
	}
	y.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		p, z := &t.Partitions[i], &y.Partitions[i]
		z.Partition, z.Offset, z.LeaderEpoch, z.Metadata, z.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, &p.Metadata, p.Code
	}
	return y, true
}

func (f *offsetFetchCall) finish() {
	if f.q.Version < 8 {
		f.oldForm()
	}
	f.c.answer(f.resp)
}

// oldForm gives the answer the form it has before v8; before v2 an error stands at each partition.
func (f *offsetFetchCall) oldForm() {
	g := &f.resp.Groups[0]
	f.resp.ErrorCode = g.ErrorCode
	if g.ErrorCode != 0 && f.q.Version < 2 {
		f.failEach(g)
	}
	f.resp.Topics = make([]kmsg.OffsetFetchResponseTopic, len(g.Topics))
	for i, t := range g.Topics {
		x := &f.resp.Topics[i]
		x.Topic = t.Topic
		x.Partitions = make([]kmsg.OffsetFetchResponseTopicPartition, len(t.Partitions))
		for j, p := range t.Partitions {
			y := &x.Partitions[j]
			y.Partition, y.Offset, y.LeaderEpoch, y.Metadata, y.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
		}
	}
}

func (f *offsetFetchCall) failEach(g *kmsg.OffsetFetchResponseGroup) {
	for _, t := range f.groups[0].Topics {
		x := kmsg.NewOffsetFetchResponseGroupTopic()
		x.Topic = t.Topic
		for _, p := range t.Partitions {
			y := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			y.Partition, y.Offset, y.Metadata, y.ErrorCode = p, -1, new(string), g.ErrorCode
			x.Partitions = append(x.Partitions, y)
		}
		g.Topics = append(g.Topics, x)
	}
}
