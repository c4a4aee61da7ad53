package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
	"sluice/kproto"
)

// metadata answers Metadata, v0-13.
//
// This node is every partition's leader and only replica, in this run's epoch. A topic that is not there is made if
// client and broker both allow it (auto.create.topics.enable); the answer waits until it is durable and can be used,
// where Kafka answers an error at once and has the client ask again. Internal topics are never made this way: they
// appear with their first use. The catalog is not shown.
//
//	v0   an empty list means all topics; from v1 on a null list does
//	v4   the client may forbid the creation of topics
//	v8   authorized operations, if asked for (KIP-430)
//	v10  topic ids; v12 topics may be asked for by id (KIP-516)
//	v13  an error for the whole (never set)
func (b *Broker) metadata(c *call, q *kmsg.MetadataRequest) {
	m := &metadataCall{b: b, c: c, q: q, resp: b.metadataHead(c, q)}
	if q.Topics == nil || c.Version == 0 && len(q.Topics) == 0 {
		m.all()
	} else {
		m.asked()
	}
	if len(m.missing) == 0 {
		c.answer(m.resp)
		return
	}
	b.autoCreate(c, m.missing, m.created)
}

type metadataCall struct {
	b    *Broker
	c    *call
	q    *kmsg.MetadataRequest
	resp *kmsg.MetadataResponse
	// missing are the names to be made, and where their answers go.
	missing []string
	at      []int
}

func (b *Broker) metadataHead(c *call, q *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	a := c.address()
	node := kmsg.NewMetadataResponseBroker()
	node.NodeID, node.Host, node.Port = NodeID, a.host, a.port
	resp.Brokers = []kmsg.MetadataResponseBroker{node}
	resp.ClusterID = kmsg.StringPtr(b.clusterID)
	resp.ControllerID = NodeID
	resp.AuthorizedOperations = operations(q.IncludeClusterAuthorizedOperations, clusterOperations)
	return resp
}

func (m *metadataCall) all() {
	topics := m.b.topics.list()
	m.resp.Topics = make([]kmsg.MetadataResponseTopic, len(topics))
	for i, t := range topics {
		m.resp.Topics[i] = m.topic(t)
	}
}

// asked answers each topic once, however often it is named.
func (m *metadataCall) asked() {
	names, ids := map[string]bool{}, map[kproto.TopicID]bool{}
	for _, rt := range m.q.Topics {
		id := kproto.TopicID(rt.TopicID)
		switch {
		case m.c.Version < 12 && (rt.Topic == nil || !id.IsZero()), rt.Topic == nil && id.IsZero():
			m.add(m.failure(rt.Topic, id, errTopicByName))
		case !id.IsZero():
			if !ids[id] {
				ids[id] = true
				m.byID(id)
			}
		case !names[*rt.Topic]:
			names[*rt.Topic] = true
			m.byName(*rt.Topic)
		}
	}
}

var errTopicByName = kproto.Errorf(kproto.InvalidRequest, "Topics are asked for by name, from version 12 on by name or id.")

func (m *metadataCall) byID(id kproto.TopicID) {
	if t := m.b.topics.byID(id); t != nil {
		m.add(m.topic(t))
		return
	}
	m.add(m.failure(nil, id, errUnknownTopicID))
}

func (m *metadataCall) byName(name string) {
	if t := m.b.topics.byName(name); t != nil {
		m.add(m.topic(t))
		return
	}
	if err := checkTopicName(name); err != nil {
		m.add(m.failure(&name, kproto.TopicID{}, err))
		return
	}
	allowed := (m.q.AllowAutoTopicCreation || m.c.Version < 4) && m.b.config().AutoCreateTopics
	if !allowed || internalTopics[name] || reservedTopics[name] {
		m.add(m.failure(&name, kproto.TopicID{}, errUnknownTopic))
		return
	}
	if len(m.missing) == maxNewTopics {
		m.add(m.failure(&name, kproto.TopicID{}, errTooManyTopics))
		return
	}
	m.missing, m.at = append(m.missing, name), append(m.at, len(m.resp.Topics))
	m.add(kmsg.NewMetadataResponseTopic()) // filled by created
}

// created fills in the topics that were made, or why they were not. One that somebody else made meanwhile is as good.
func (m *metadataCall) created(errs []error) {
	for i, name := range m.missing {
		t, err := m.b.topics.byName(name), errs[i]
		switch {
		case t != nil:
			m.resp.Topics[m.at[i]] = m.topic(t)
		case err == nil: // made, and gone again
			m.resp.Topics[m.at[i]] = m.failure(&name, kproto.TopicID{}, errUnknownTopic)
		default:
			m.resp.Topics[m.at[i]] = m.failure(&name, kproto.TopicID{}, err)
		}
	}
	m.c.answer(m.resp)
}

func (m *metadataCall) add(t kmsg.MetadataResponseTopic) { m.resp.Topics = append(m.resp.Topics, t) }

func (m *metadataCall) failure(name *string, id kproto.TopicID, err error) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.ErrorCode = m.c.code(err)
	t.Topic, t.TopicID = name, id
	if name == nil && m.c.Version < 12 {
		t.Topic = new(string) // not nullable before
	}
	return t
}

func (m *metadataCall) topic(t *topic) kmsg.MetadataResponseTopic {
	r := kmsg.NewMetadataResponseTopic()
	r.Topic, r.TopicID, r.IsInternal = &t.name, t.id, t.internal
	r.AuthorizedOperations = operations(m.q.IncludeTopicAuthorizedOperations, topicOperations)
	r.Partitions = make([]kmsg.MetadataResponseTopicPartition, t.partitions())
	for i := range r.Partitions {
		p := &r.Partitions[i]
		p.Default()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), NodeID, m.b.epoch
		p.Replicas, p.ISR = onlyNode, onlyNode
	}
	return r
}

// autoCreate makes topics with the broker's defaults and calls done with an error or nil for each.
func (b *Broker) autoCreate(c *call, names []string, done func([]error)) {
	errs := make([]error, len(names))
	if err := b.checkReplicationFactor(-1); err != nil {
		for i := range errs {
			errs[i] = err
		}
		done(errs)
		return
	}
	topics := make([]catalog.NewTopic, len(names))
	for i, name := range names {
		topics[i] = catalog.NewTopic{Name: name, ID: newUUID(), Partitions: b.config().NumPartitions}
	}
	b.change(c, catalog.CreateTopics{Topics: topics}, func(v any, err error) {
		for i := range errs {
			errs[i] = err
			if err == nil {
				errs[i] = v.([]catalog.TopicResult)[i].Err
			}
		}
		done(errs)
	})
}
