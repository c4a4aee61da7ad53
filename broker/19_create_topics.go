package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
	"sluice/config"
	"sluice/kproto"
)

// createTopics answers CreateTopics, v2-7, once the topics are durable and can be used.
//
// Each topic stands for itself: a bad one does not hold back the others. The order of the checks is Kafka's:
// duplicate or reserved (42), name (17), existing (36), settings (40), then manual assignment (42, 39), replication
// factor (38), partitions (37). With validate_only all of them are made and nothing else happens.
//
// The one node can hold one replica. A larger factor gets INVALID_REPLICATION_FACTOR as in Kafka, unless
// sluice.replication.factor.clamp makes it 1.
//
// A request may name maxNewTopics; more are refused with POLICY_VIOLATION, as in Kafka.
//
//	v4  -1 for partitions and factor means the broker's defaults (KIP-464)
//	v5  counts and all settings in the answer (KIP-525)
//	v7  topic ids
func (b *Broker) createTopics(c *call, q *kmsg.CreateTopicsRequest) {
	m := &creation{b: b, c: c, resp: kmsg.NewPtrCreateTopicsResponse()}
	times := map[string]int{}
	for i := range q.Topics {
		times[q.Topics[i].Topic]++
	}
	for i := range q.Topics {
		rt := &q.Topics[i]
		switch n := times[rt.Topic]; {
		case len(times) > maxNewTopics && n > 0:
			m.fail(rt.Topic, errTooManyTopics)
			times[rt.Topic] = 0
		case n == 1:
			m.add(rt)
		case n > 1:
			m.fail(rt.Topic, errDuplicateTopic)
			times[rt.Topic] = 0 // one answer for all
		}
	}
	if len(m.topics) == 0 {
		c.answer(m.resp)
		return
	}
	b.change(c, catalog.CreateTopics{Topics: m.topics, ValidateOnly: q.ValidateOnly}, func(v any, err error) {
		results, _ := v.([]catalog.TopicResult)
		m.finish(q.ValidateOnly, results, err)
	})
}

// maxNewTopics is how many topics one request can make: each one's answer tells all its settings, some kilobytes. Kafka
// has the same limit, of partitions.
const maxNewTopics = 10_000

var errTooManyTopics = kproto.Errorf(kproto.PolicyViolation, "One request can make at most %d topics.", maxNewTopics)

// creation is one CreateTopics request under way.
type creation struct {
	b    *Broker
	c    *call
	resp *kmsg.CreateTopicsResponse
	// topics are those that the catalog decides on, and where their answers go.
	topics []catalog.NewTopic
	at     []int
	// plain is shared by the answers of all topics without settings of their own, if there are no namespaces.
	plain []kmsg.CreateTopicsResponseTopicConfig
}

func (m *creation) add(rt *kmsg.CreateTopicsRequestTopic) {
	t, err := m.b.newTopic(rt)
	if err == nil {
		err = m.c.mutate(t.Partitions, strictCreateTopics)
	}
	if err != nil {
		m.fail(rt.Topic, err)
		return
	}
	m.topics, m.at = append(m.topics, t), append(m.at, len(m.resp.Topics))
	m.resp.Topics = append(m.resp.Topics, newCreateTopicsAnswer(rt.Topic))
}

func newCreateTopicsAnswer(name string) kmsg.CreateTopicsResponseTopic {
	x := kmsg.NewCreateTopicsResponseTopic()
	x.Topic = name
	x.NumPartitions, x.ReplicationFactor = -1, -1
	return x
}

func (m *creation) fail(name string, err error) {
	x := newCreateTopicsAnswer(name)
	x.ErrorCode, x.ErrorMessage = m.c.fail(err)
	m.resp.Topics = append(m.resp.Topics, x)
}

// finish fills in what the catalog decided. err is for all of them.
func (m *creation) finish(validateOnly bool, results []catalog.TopicResult, err error) {
	for i, at := range m.at {
		x, topicErr := &m.resp.Topics[at], err
		if err == nil {
			topicErr = results[i].Err
		}
		if topicErr != nil {
			x.ErrorCode, x.ErrorMessage = m.c.fail(topicErr)
			continue
		}
		if !validateOnly {
			x.TopicID = m.topics[i].ID
		}
		if m.c.Version >= 5 {
			x.NumPartitions, x.ReplicationFactor = m.topics[i].Partitions, 1
			x.Configs = m.configs(m.topics[i])
		}
	}
	m.c.answer(m.resp)
}

func (m *creation) configs(t catalog.NewTopic) []kmsg.CreateTopicsResponseTopicConfig {
	if len(t.Config) > 0 || len(m.b.config().Dispatch.Namespaces) > 0 {
		return m.b.createdConfigs(t.Name, t.Config)
	}
	if m.plain == nil {
		m.plain = m.b.createdConfigs(t.Name, nil)
	}
	return m.plain
}

func (b *Broker) createdConfigs(name string, own map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	entries := config.DescribeTopic(b.settings.Load().forTopic(name, own))
	out := make([]kmsg.CreateTopicsResponseTopicConfig, len(entries))
	for i, e := range entries {
		c := &out[i]
		c.Default()
		c.Name, c.Value, c.ReadOnly, c.IsSensitive, c.Source = e.Name, e.Value, e.ReadOnly, e.Sensitive, int8(e.Source)
	}
	return out
}

// newTopic checks one topic of a request as far as that can be done without the catalog.
func (b *Broker) newTopic(rt *kmsg.CreateTopicsRequestTopic) (catalog.NewTopic, error) {
	t := catalog.NewTopic{Name: rt.Topic, ID: newUUID()}
	if reservedTopics[rt.Topic] {
		return t, errReservedTopic
	}
	if err := checkTopicName(rt.Topic); err != nil {
		return t, err
	}
	if b.topics.byName(rt.Topic) != nil { // the catalog looks again; here it keeps the order of the checks
		return t, kproto.Errorf(kproto.TopicAlreadyExists, "There is a topic %s already.", rt.Topic)
	}
	var err error
	if t.Config, err = newTopicConfigs(rt.Configs); err != nil {
		return t, err
	}
	t.Partitions, err = b.newTopicPartitions(rt)
	return t, err
}

// newTopicConfigs checks the settings of a topic to be made.
func newTopicConfigs(configs []kmsg.CreateTopicsRequestTopicConfig) (map[string]string, error) {
	if len(configs) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(configs))
	for _, c := range configs {
		if c.Value == nil {
			return nil, kproto.Errorf(kproto.InvalidConfig, "The config %s has no value.", c.Name)
		}
		name, err := checkConfig(config.ScopeTopic, c.Name, *c.Value)
		if err != nil {
			return nil, err
		}
		if _, dup := out[name]; dup {
			return nil, kproto.Errorf(kproto.InvalidRequest, "The config %s is given more than once.", name)
		}
		out[name] = *c.Value
	}
	return out, nil
}

// newTopicPartitions is how many partitions a topic is to have.
func (b *Broker) newTopicPartitions(rt *kmsg.CreateTopicsRequestTopic) (int32, error) {
	if len(rt.ReplicaAssignment) > 0 {
		return b.assignedPartitions(rt)
	}
	if err := b.checkReplicationFactor(rt.ReplicationFactor); err != nil {
		return 0, err
	}
	switch n := rt.NumPartitions; {
	case n == -1:
		return b.config().NumPartitions, nil
	case n <= 0:
		return 0, kproto.Errorf(kproto.InvalidPartitions, "A topic needs at least one partition, or -1 for the default.")
	default:
		return n, nil
	}
}

// checkReplicationFactor checks a factor; -1 means the default. The topic will have one replica.
func (b *Broker) checkReplicationFactor(n int16) error {
	conf := b.config()
	if n == -1 {
		n = conf.DefaultReplicationFactor
	}
	switch {
	case n <= 0:
		return kproto.Errorf(kproto.InvalidReplicationFactor, "A topic needs at least one replica, or -1 for the default.")
	case n > 1 && !conf.ClampReplicationFactor:
		return kproto.Errorf(kproto.InvalidReplicationFactor,
			"One broker cannot hold %d replicas. With sluice.replication.factor.clamp=true it makes the factor 1.", n)
	}
	return nil
}

// assignedPartitions checks a manual assignment: each partition from 0 on, once, to the only node.
func (b *Broker) assignedPartitions(rt *kmsg.CreateTopicsRequestTopic) (int32, error) {
	if rt.ReplicationFactor != -1 {
		return 0, kproto.Errorf(kproto.InvalidRequest, "With a manual assignment the replication factor must be -1.")
	}
	if rt.NumPartitions != -1 {
		return 0, kproto.Errorf(kproto.InvalidRequest, "With a manual assignment the number of partitions must be -1.")
	}
	n := len(rt.ReplicaAssignment)
	seen := make([]bool, n)
	for _, a := range rt.ReplicaAssignment {
		if a.Partition < 0 || int(a.Partition) >= n {
			return 0, kproto.Errorf(kproto.InvalidReplicaAssignment, "Assigned partitions are numbered from 0 on without a gap; %d is not in 0-%d.", a.Partition, n-1)
		}
		if seen[a.Partition] {
			return 0, kproto.Errorf(kproto.InvalidReplicaAssignment, "Partition %d is assigned more than once.", a.Partition)
		}
		seen[a.Partition] = true
		if err := b.checkReplicas(a.Replicas); err != nil {
			return 0, err
		}
	}
	return int32(n), nil
}

// checkReplicas checks the manual assignment of one partition. With the clamp any list that names this node will do.
func (b *Broker) checkReplicas(replicas []int32) error {
	if len(replicas) == 0 {
		return kproto.Errorf(kproto.InvalidReplicaAssignment, "A partition is assigned to no broker.")
	}
	seen := map[int32]bool{}
	for _, r := range replicas {
		if seen[r] {
			return kproto.Errorf(kproto.InvalidReplicaAssignment, "A partition is assigned to broker %d more than once.", r)
		}
		seen[r] = true
		if r != NodeID && !(b.config().ClampReplicationFactor && r >= 0) {
			return kproto.Errorf(kproto.InvalidReplicaAssignment, "A partition is assigned to broker %d, which does not exist.", r)
		}
	}
	return nil
}
