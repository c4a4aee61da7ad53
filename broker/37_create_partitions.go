package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
	"sluice/kproto"
)

// createPartitions answers CreatePartitions, v0-3, once the partitions are durable and can be used. Counts only grow
// (37).
func (b *Broker) createPartitions(c *call, q *kmsg.CreatePartitionsRequest) {
	resp := kmsg.NewPtrCreatePartitionsResponse()
	times := map[string]int{}
	for i := range q.Topics {
		times[q.Topics[i].Topic]++
	}
	var more []catalog.MorePartitions
	var at []int
	for i := range q.Topics {
		rt := &q.Topics[i]
		n := times[rt.Topic]
		if n == 0 {
			continue // answered as a duplicate
		}
		err := error(errDuplicateTopic)
		if n == 1 {
			if err = b.checkMorePartitions(rt); err == nil {
				err = c.mutate(rt.Count-b.topics.byName(rt.Topic).partitions(), strictCreatePartitions)
			}
		}
		times[rt.Topic] = 0
		x := kmsg.NewCreatePartitionsResponseTopic()
		x.Topic = rt.Topic
		x.ErrorCode, x.ErrorMessage = c.fail(err)
		if err == nil {
			more, at = append(more, catalog.MorePartitions{Name: rt.Topic, Count: rt.Count}), append(at, len(resp.Topics))
		}
		resp.Topics = append(resp.Topics, x)
	}
	if len(more) == 0 {
		c.answer(resp)
		return
	}
	b.change(c, catalog.CreatePartitions{Topics: more, ValidateOnly: q.ValidateOnly}, func(v any, err error) {
		results, _ := v.([]catalog.TopicResult)
		for i, at := range at {
			topicErr := err
			if err == nil {
				topicErr = results[i].Err
			}
			x := &resp.Topics[at]
			x.ErrorCode, x.ErrorMessage = c.fail(topicErr)
		}
		c.answer(resp)
	})
}

// checkMorePartitions checks what needs no decision of the catalog, which looks at the counts again.
func (b *Broker) checkMorePartitions(rt *kmsg.CreatePartitionsRequestTopic) error {
	t := b.topics.byName(rt.Topic)
	if t == nil {
		return errUnknownTopic
	}
	have := t.partitions()
	switch {
	case rt.Count == have:
		return kproto.Errorf(kproto.InvalidPartitions, "The topic has %d partitions already.", have)
	case rt.Count < have:
		return kproto.Errorf(kproto.InvalidPartitions, "%d partitions would be fewer than the topic's %d.", rt.Count, have)
	case rt.Assignment == nil:
		return nil
	case len(rt.Assignment) != int(rt.Count-have):
		return kproto.Errorf(kproto.InvalidReplicaAssignment, "There are %d new partitions and %d assignments.",
			rt.Count-have, len(rt.Assignment))
	}
	for _, a := range rt.Assignment {
		if err := b.checkReplicas(a.Replicas); err != nil {
			return err
		}
	}
	return nil
}
