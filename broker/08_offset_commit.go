package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
)

// offsetCommit answers OffsetCommit, v2-10, when the offsets are durable. Partitions are refused one by one; those that
// are accepted stand or fall together, since they are one batch.
//
//	v2   a retention time, until v4
//	v6   leader epochs (KIP-320)
//	v7   static members (KIP-345)
//	v9   members of the consumer protocol, by their epoch (KIP-848)
//	v10  topic ids
func (b *Broker) offsetCommit(c *call, q *kmsg.OffsetCommitRequest) {
	b.groups.commits.RLock()
	defer b.groups.commits.RUnlock()
	m := newCommit(c, q)
	if len(m.codes) == 0 {
		c.answer(m.resp)
		return
	}
	q.Topics, m.q, m.conn = m.topics, q, c.conn()
	if q.MemberID != "" {
		m.conn.carry(q.Group)
	}
	m.who = m.conn.identity
	c.toGroup(q.Group, group.Commit{Req: q}, m.finish)
}

// commit is one OffsetCommit under way.
type commit struct {
	c      *call
	q      *kmsg.OffsetCommitRequest
	conn   *connState
	who    identity
	resp   *kmsg.OffsetCommitResponse
	topics []kmsg.OffsetCommitRequestTopic // what the group decides on, by name
	codes  []*int16                        // where its answers go, partition by partition
}

func newCommit(c *call, q *kmsg.OffsetCommitRequest) *commit {
	m := &commit{c: c, resp: kmsg.NewPtrOffsetCommitResponse()}
	m.resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(q.Topics))
	for i := range q.Topics {
		m.add(q, &q.Topics[i], &m.resp.Topics[i])
	}
	return m
}

// add sorts a topic's partitions into those that the group decides on and those that are refused here.
func (m *commit) add(q *kmsg.OffsetCommitRequest, rt *kmsg.OffsetCommitRequestTopic, x *kmsg.OffsetCommitResponseTopic) {
	x.Topic, x.TopicID = rt.Topic, rt.TopicID
	x.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(rt.Partitions))
	t, unknown := m.c.b.commitTopic(q.Version, rt)
	known := kmsg.OffsetCommitRequestTopic{}
	if t != nil {
		known.Topic, known.TopicID = t.name, t.id
	}
	for i := range rt.Partitions {
		rp, y := &rt.Partitions[i], &x.Partitions[i]
		y.Partition = rp.Partition
		if err := checkCommit(t, unknown, rp.Partition); err != nil {
			y.ErrorCode = m.c.code(err)
			continue
		}
		known.Partitions = append(known.Partitions, *rp)
		m.codes = append(m.codes, &y.ErrorCode)
	}
	if len(known.Partitions) > 0 {
		m.topics = append(m.topics, known)
	}
}

func (b *Broker) commitTopic(version int16, rt *kmsg.OffsetCommitRequestTopic) (*topic, error) {
	if version >= 10 {
		return b.topics.byID(rt.TopicID), errUnknownTopicID
	}
	return b.topics.byName(rt.Topic), errUnknownTopic
}

func checkCommit(t *topic, unknown error, partition int32) error {
	switch {
	case t == nil:
		return unknown
	case partition < 0 || partition >= t.partitions():
		return errUnknownTopic
	}
	return nil
}

// note tells the resolver what a commit says of who reads what.
func (m *commit) note(topic string, p *kmsg.OffsetCommitRequestTopicPartition, now stamp) {
	if m.q.MemberID == "" && m.q.Generation < 0 {
		m.c.b.groups.owners.noteSimple(m.q.Group, topic, p.Partition, m.who, m.conn.host, p.Offset, now)
		return
	}
	m.c.b.resolver.committed(m.q.Group, topic, p.Partition, p.Offset, m.who, now)
}

// finish fills in what the group decided. err is for all that was asked of it.
func (m *commit) finish(v any, err error) {
	if err != nil {
		code := m.c.code(err)
		for _, p := range m.codes {
			*p = code
		}
		m.c.answer(m.resp)
		return
	}
	next, now := m.codes, stampOf(time.Now())
	for i, t := range v.(*kmsg.OffsetCommitResponse).Topics {
		for j, p := range t.Partitions {
			*next[0] = p.ErrorCode
			next = next[1:]
			if p.ErrorCode == 0 {
				m.c.b.metrics.groups.commits.Inc()
				m.note(m.topics[i].Topic, &m.topics[i].Partitions[j], now)
			}
		}
	}
	m.c.countCodes(m.codes)
	m.c.answer(m.resp)
}
