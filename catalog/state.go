package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"sluice/internal/machine"
	"sluice/kproto"
)

// state is the hard state: Apply alone writes it.
type state struct {
	clusterID      string
	epoch          int32
	nextProducerID int64
	topics         map[kproto.TopicID]Topic
	deleted        map[kproto.TopicID]Topic
	configs        map[resource]map[string]string     // brokers and groups; no empty maps
	quotas         map[QuotaEntity]map[string]float64 // no empty maps

	// Derived from topics.
	byName     map[string]kproto.TopicID
	byFolded   map[string]string // folded name to name, for the names that have one of . and _
	partitions int               // of all topics together
}

func newState() state {
	return state{
		epoch:    -1,
		topics:   map[kproto.TopicID]Topic{},
		deleted:  map[kproto.TopicID]Topic{},
		configs:  map[resource]map[string]string{},
		quotas:   map[QuotaEntity]map[string]float64{},
		byName:   map[string]kproto.TopicID{},
		byFolded: map[string]string{},
	}
}

// resource is what a config belongs to, topics excepted: theirs is in the topic.
type resource struct {
	Type ResourceType
	Name string
}

// resourceWords are how resource types are written in keys.
var resourceWords = map[ResourceType]string{ResourceBroker: "broker", ResourceGroup: "group"}

func (r resource) key() string { return prefixConfig + resourceWords[r.Type] + "/" + r.Name }

func (r resource) compare(o resource) int {
	return cmp.Or(cmp.Compare(r.Type, o.Type), cmp.Compare(r.Name, o.Name))
}

// parseResource reads "broker/1", the part of a key that follows its prefix. A name may hold slashes.
func parseResource(s string) (resource, error) {
	word, name, ok := strings.Cut(s, "/")
	for t, w := range resourceWords {
		if ok && w == word {
			return resource{t, name}, nil
		}
	}
	return resource{}, fmt.Errorf("%q is no kind of resource", word)
}

// Apply implements machine.Machine.
func (s *state) Apply(r machine.Record) error {
	if err := s.apply(string(r.Key), r.Value); err != nil {
		return fmt.Errorf("catalog record %q: %w", r.Key, err)
	}
	return nil
}

func (s *state) apply(key string, value []byte) error {
	switch key {
	case keyCluster:
		return s.applyCluster(value)
	case keyEpoch:
		return s.applyEpoch(value)
	case keyProducerIDs:
		return s.applyProducerIDs(value)
	}
	if id, ok := strings.CutPrefix(key, prefixTopic); ok {
		return s.applyTopic(id, value)
	}
	if r, ok := strings.CutPrefix(key, prefixConfig); ok {
		return s.applyConfig(r, value)
	}
	if path, ok := strings.CutPrefix(key, prefixQuota); ok {
		return s.applyQuota(path, value)
	}
	return errors.New("this broker knows no such kind of record")
}

func (s *state) applyCluster(value []byte) error {
	var v clusterValue
	if err := decode(value, &v); err != nil {
		return err
	}
	if v.ID == "" || s.clusterID != "" && v.ID != s.clusterID {
		return fmt.Errorf("the cluster's id %q would become %q", s.clusterID, v.ID)
	}
	s.clusterID = v.ID
	return nil
}

func (s *state) applyEpoch(value []byte) error {
	var v epochValue
	if err := decode(value, &v); err != nil {
		return err
	}
	if v.Epoch <= s.epoch {
		return fmt.Errorf("the epoch %d would become %d", s.epoch, v.Epoch)
	}
	s.epoch = v.Epoch
	return nil
}

func (s *state) applyProducerIDs(value []byte) error {
	var v producerIDsValue
	if err := decode(value, &v); err != nil {
		return err
	}
	if v.Next < s.nextProducerID {
		return fmt.Errorf("the next producer id %d would become %d", s.nextProducerID, v.Next)
	}
	s.nextProducerID = v.Next
	return nil
}

func (s *state) applyTopic(idText string, value []byte) error {
	id, err := kproto.ParseTopicID(idText)
	if err != nil {
		return err
	}
	if value == nil {
		s.removeTopic(id)
		delete(s.deleted, id)
		return nil
	}
	var v topicValue
	if err := decode(value, &v); err != nil {
		return err
	}
	t := Topic{Name: v.Name, ID: id, Partitions: v.Partitions, Internal: v.Internal, Config: nilIfEmpty(v.Config)}
	if err := s.fits(t, v.Deleted); err != nil {
		return err
	}
	s.removeTopic(id)
	if v.Deleted {
		s.deleted[id] = t
	} else {
		s.addTopic(t)
	}
	return nil
}

// fits refuses what no catalog writes: a damaged catalog does not start.
func (s *state) fits(t Topic, deleted bool) error {
	if t.Name == "" || t.Partitions < 1 {
		return fmt.Errorf("topic %q has %d partitions", t.Name, t.Partitions)
	}
	if old, ok := s.topics[t.ID]; ok && old.Name != t.Name {
		return fmt.Errorf("topic %q would become %q", old.Name, t.Name)
	}
	if deleted {
		return nil
	}
	if _, ok := s.deleted[t.ID]; ok {
		return fmt.Errorf("the deleted topic %q would live again", t.Name)
	}
	if id, ok := s.byName[t.Name]; ok && id != t.ID {
		return fmt.Errorf("topic %q exists with the id %v", t.Name, id)
	}
	return nil
}

func (s *state) addTopic(t Topic) {
	s.topics[t.ID] = t
	s.byName[t.Name] = t.ID
	s.partitions += int(t.Partitions)
	if folded, ok := fold(t.Name); ok {
		s.byFolded[folded] = t.Name
	}
}

func (s *state) removeTopic(id kproto.TopicID) {
	t, ok := s.topics[id]
	if !ok {
		return
	}
	delete(s.topics, id)
	delete(s.byName, t.Name)
	s.partitions -= int(t.Partitions)
	if folded, ok := fold(t.Name); ok {
		delete(s.byFolded, folded)
	}
}

func (s *state) applyConfig(name string, value []byte) error {
	r, err := parseResource(name)
	if err != nil {
		return err
	}
	if value == nil {
		delete(s.configs, r)
		return nil
	}
	var v configValue
	if err := decode(value, &v); err != nil {
		return err
	}
	if len(v.Values) == 0 {
		return errors.New("it has no values, and is no tombstone")
	}
	s.configs[r] = v.Values
	return nil
}

// fold makes one name of those that differ in . and _ only, as Kafka's metrics do. It tells whether there is such a character.
func fold(name string) (string, bool) {
	return strings.ReplaceAll(name, ".", "_"), strings.ContainsAny(name, "._")
}

func nilIfEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}
