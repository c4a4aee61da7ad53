package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
	"sluice/kproto"
)

// deleteTopics answers DeleteTopics, v1-6, once the deletion is durable and the topics are out of the data path.
//
//	v6  topics may be given by id; exactly one of name and id
func (b *Broker) deleteTopics(c *call, q *kmsg.DeleteTopicsRequest) {
	asked := q.Topics
	if c.Version < 6 {
		asked = make([]kmsg.DeleteTopicsRequestTopic, len(q.TopicNames))
		for i := range asked {
			asked[i].Topic = &q.TopicNames[i]
		}
	}
	d := &deletion{c: c, resp: kmsg.NewPtrDeleteTopicsResponse(), targets: map[kproto.TopicID]int{}}
	for _, rt := range asked {
		d.add(rt)
	}
	if len(d.refs) == 0 {
		c.answer(d.resp)
		return
	}
	b.change(c, catalog.DeleteTopics{Topics: d.refs}, func(v any, err error) {
		results, _ := v.([]catalog.TopicResult)
		d.finish(results, err)
	})
}

// deletion is one DeleteTopics request under way.
type deletion struct {
	c    *call
	resp *kmsg.DeleteTopicsResponse
	// refs are what the catalog is to delete, at says where the answers go.
	refs    []catalog.TopicRef
	at      []int
	targets map[kproto.TopicID]int // place of the answer by topic, to find one that is named twice
}

func (d *deletion) add(rt kmsg.DeleteTopicsRequestTopic) {
	x := kmsg.NewDeleteTopicsResponseTopic()
	x.Topic, x.TopicID = rt.Topic, rt.TopicID
	t, err := d.find(rt)
	if err == nil {
		if _, dup := d.targets[t.id]; dup {
			err = errDuplicateTopic
			d.refuseTwin(t.id)
		} else {
			err = d.c.mutate(t.partitions(), strictDeleteTopics)
		}
	}
	if err != nil {
		x.ErrorCode, x.ErrorMessage = d.c.fail(err)
		d.resp.Topics = append(d.resp.Topics, x)
		return
	}
	d.targets[t.id] = len(d.resp.Topics)
	d.refs, d.at = append(d.refs, catalog.TopicRef{ID: t.id}), append(d.at, len(d.resp.Topics))
	x.Topic, x.TopicID = &t.name, t.id
	d.resp.Topics = append(d.resp.Topics, x)
}

// find resolves a topic. A name stands for the topic that has it now: deleting goes by id, so that it cannot hit a
// later one.
func (d *deletion) find(rt kmsg.DeleteTopicsRequestTopic) (*topic, error) {
	b, id := d.c.b, kproto.TopicID(rt.TopicID)
	switch {
	case !b.config().DeleteTopicEnable:
		if d.c.Version < 3 { // before the code existed
			return nil, kproto.Errorf(kproto.InvalidRequest, "delete.topic.enable is false.")
		}
		return nil, kproto.Errorf(kproto.TopicDeletionDisabled, "delete.topic.enable is false.")
	case rt.Topic != nil && !id.IsZero():
		return nil, kproto.Errorf(kproto.InvalidRequest, "A topic is deleted by its name or by its id, not by both.")
	case rt.Topic == nil && id.IsZero():
		return nil, kproto.Errorf(kproto.InvalidRequest, "The topic to delete has neither name nor id.")
	case rt.Topic == nil:
		if t := b.topics.byID(id); t != nil {
			return t, nil
		}
		return nil, errUnknownTopicID
	}
	if t := b.topics.byName(*rt.Topic); t != nil {
		return t, nil
	}
	return nil, errUnknownTopic
}

// refuseTwin takes back the first entry of a topic that is named twice: it is not clear what the client wants.
func (d *deletion) refuseTwin(id kproto.TopicID) {
	place := d.targets[id]
	x := &d.resp.Topics[place]
	if x.ErrorCode != 0 {
		return
	}
	x.ErrorCode, x.ErrorMessage = d.c.fail(errDuplicateTopic)
	for i, at := range d.at {
		if at == place {
			d.refs, d.at = append(d.refs[:i], d.refs[i+1:]...), append(d.at[:i], d.at[i+1:]...)
			return
		}
	}
}

func (d *deletion) finish(results []catalog.TopicResult, err error) {
	for i, at := range d.at {
		topicErr := err
		if err == nil {
			topicErr = results[i].Err
		}
		x := &d.resp.Topics[at]
		x.ErrorCode, x.ErrorMessage = d.c.fail(topicErr)
	}
	d.c.answer(d.resp)
}
