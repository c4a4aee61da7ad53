package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"sluice/internal/machine"
	"sluice/kproto"
)

// Options are the rules that come from outside. They are asked in Step only, so a replay does not depend on them.
type Options struct {
	// MaxPartitions is the limit of partitions of all topics together (sluice.max.partitions); nil: none.
	MaxPartitions func() int
	// ValidateConfig judges the whole set of values that a topic or a group is about to have; nil: all is well. An error that is no
	// *kproto.Error becomes INVALID_CONFIG with its text.
	ValidateConfig func(t ResourceType, name string, all map[string]string) error
	// ValidateBrokers judges what all brokers, by name, are about to have: their values stand in for each other, so what one request
	// changes is judged together. nil: all is well.
	ValidateBrokers func(all map[string]map[string]string) error
}

// Machine is the catalog. Its methods are called one at a time; what they give is immutable and may be kept.
type Machine struct {
	opts Options
	state
}

var _ machine.Machine = (*Machine)(nil)

// New gives an empty machine.
func New(o Options) *Machine {
	if o.MaxPartitions == nil {
		o.MaxPartitions = func() int { return math.MaxInt }
	}
	if o.ValidateConfig == nil {
		o.ValidateConfig = func(ResourceType, string, map[string]string) error { return nil }
	}
	if o.ValidateBrokers == nil {
		o.ValidateBrokers = func(map[string]map[string]string) error { return nil }
	}
	return &Machine{opts: o, state: newState()}
}

// Step implements machine.Machine. Every event is answered by the Step that sees it: the catalog has no soft state.
func (m *Machine) Step(_ machine.Time, ev machine.Event) machine.Effects {
	asked, ok := ev.(machine.Asked)
	if ok {
		ev = asked.Event
	}
	value, e := m.decide(ev)
	if ok {
		e.Replies = []machine.Reply{{Ticket: asked.Ticket, Value: value}}
	}
	return e
}

func (m *Machine) decide(ev machine.Event) (any, machine.Effects) {
	switch ev := ev.(type) {
	case Start:
		return m.start(ev)
	case CreateTopics:
		return m.createTopics(ev)
	case ImportTopics:
		return m.importTopics(ev)
	case DeleteTopics:
		return m.deleteTopics(ev)
	case TopicGone:
		return nil, m.topicGone(ev)
	case CreatePartitions:
		return m.createPartitions(ev)
	case AlterConfigs:
		return m.alterConfigs(ev)
	case AlterQuotas:
		return m.alterQuotas(ev)
	case ReserveProducerIDs:
		return m.reserveProducerIDs(ev)
	}
	panic(fmt.Sprintf("catalog: no such event: %T", ev))
}

// Loaded implements machine.Machine.
func (m *Machine) Loaded(machine.Time) (e machine.Effects) {
	for _, r := range slices.SortedFunc(maps.Keys(m.configs), resource.compare) {
		e.Orders = append(e.Orders, ConfigChanged{r.Type, r.Name, m.configs[r]})
	}
	for _, q := range slices.SortedFunc(maps.Keys(m.quotas), compareQuotas) {
		e.Orders = append(e.Orders, QuotaChanged{q, m.quotas[q]})
	}
	for _, t := range m.Deleted() {
		e.Orders = append(e.Orders, TopicDeleted{t})
	}
	for _, t := range m.Topics() {
		e.Orders = append(e.Orders, TopicCreated{t})
	}
	return e
}

// Deadline implements machine.Machine: the catalog waits for nothing.
func (m *Machine) Deadline() machine.Time { return machine.Time{} }

// ClusterID is "" before the first Start.
func (m *Machine) ClusterID() string { return m.clusterID }

// Epoch is the broker epoch of the latest Start, -1 before the first.
func (m *Machine) Epoch() int32 { return m.epoch }

// TopicByName finds a topic that exists.
func (m *Machine) TopicByName(name string) (Topic, bool) {
	id, ok := m.byName[name]
	return m.topics[id], ok
}

// TopicByID finds a topic that exists.
func (m *Machine) TopicByID(id kproto.TopicID) (Topic, bool) {
	t, ok := m.topics[id]
	return t, ok
}

// Topics gives the topics that exist, in order of name.
func (m *Machine) Topics() []Topic { return slices.SortedFunc(maps.Values(m.topics), compareTopics) }

// Deleted gives the topics whose deletion is recorded and whose files may still be there, in order of name and id.
func (m *Machine) Deleted() []Topic { return slices.SortedFunc(maps.Values(m.deleted), compareTopics) }

// Config gives what was set for a resource, nil for none or an unknown one.
func (m *Machine) Config(t ResourceType, name string) map[string]string {
	if t == ResourceTopic {
		return m.topics[m.byName[name]].Config
	}
	return m.configs[resource{t, name}]
}

func compareTopics(a, b Topic) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.ID[:], b.ID[:]))
}

func (m *Machine) start(ev Start) (Started, machine.Effects) {
	var e machine.Effects
	s := Started{ClusterID: m.clusterID, Epoch: m.epoch + 1}
	if s.ClusterID == "" {
		if ev.NewClusterID == "" {
			panic("catalog: Start brings no cluster id")
		}
		s.ClusterID = ev.NewClusterID
		e.Records = append(e.Records, clusterRecord(s.ClusterID))
	}
	e.Records = append(e.Records, epochRecord(s.Epoch))
	return s, e
}

func (m *Machine) reserveProducerIDs(ev ReserveProducerIDs) (ProducerIDBlock, machine.Effects) {
	first := m.nextProducerID
	if ev.N <= 0 || ev.N > math.MaxInt64-first {
		return ProducerIDBlock{First: first}, machine.Effects{}
	}
	return ProducerIDBlock{first, ev.N}, machine.Effects{Records: []machine.Record{producerIDsRecord(first + ev.N)}}
}
