package broker

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"sluice/catalog"
	"sluice/config"
	"sluice/internal/vfs"
	"sluice/log"
)

// survey reads the topics that are meant, and decides about each.
func (m *importer) survey() error {
	byTopic := map[string][]log.KafkaPartition{}
	for _, d := range m.dirs {
		for _, p := range d.Partitions {
			switch {
			case p.Topic == offsetsTopic:
				m.offsets = append(m.offsets, p)
			case internalTopics[p.Topic] || reservedTopics[p.Topic]:
				m.out.Passed = append(m.out.Passed, filepath.Base(p.Path))
			case len(m.Topics) == 0 || slices.Contains(m.Topics, p.Topic):
				byTopic[p.Topic] = append(byTopic[p.Topic], p)
			}
		}
	}
	for _, name := range m.Topics {
		if byTopic[name] == nil {
			return fmt.Errorf("there is no topic %s to import in %v", name, m.Sources)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byTopic)) {
		t := ImportedTopic{Topic: name, Configs: map[string]string{}}
		if err := m.surveyTopic(&t, byTopic[name]); err != nil {
			if !refusal(err) {
				return err
			}
			t.Refused = err.Error()
		}
		m.out.Topics = append(m.out.Topics, t)
	}
	return nil
}

// refused is why a topic is not imported.
type refused struct{ error }

func refusef(format string, args ...any) error { return refused{fmt.Errorf(format, args...)} }

// refusal tells whether an error is about the topic and not about a disk.
func refusal(err error) bool {
	_, is := errors.AsType[refused](err)
	return is || errors.Is(err, log.ErrDamaged)
}

func (m *importer) surveyTopic(t *ImportedTopic, parts []log.KafkaPartition) error {
	slices.SortStableFunc(parts, func(a, b log.KafkaPartition) int { return cmp.Compare(a.Partition, b.Partition) })
	t.id = parts[0].ID
	t.ID = t.id.String()
	if err := m.checkTarget(t, parts); err != nil {
		return err
	}
	if err := m.checkComplete(t, parts); err != nil {
		return err
	}
	if err := m.settings(t); err != nil {
		return err
	}
	lost := int64(0)
	for _, p := range parts {
		s, err := p.Survey()
		if err != nil {
			return err
		}
		if s.Epoch >= maxImportedEpoch || s.ProducerID >= maxImportedProducerID {
			return refusef("%s: leader epoch %d or producer id %d is higher than any that Kafka gives", p.Path, s.Epoch, s.ProducerID)
		}
		t.surveys = append(t.surveys, s)
		t.Partitions = append(t.Partitions, ImportedPartition{p.Partition, p.Path, *s})
		lost += s.Aborted + s.Open
	}
	if lost > 0 && m.Lost == LostRefuse {
		return refusef("%d records belong to transactions that were aborted or have not ended, and consumers could not tell them from others: --lost=empty leaves them out, --lost=keep shows them", lost)
	}
	return nil
}

// Bounds that leave room for what the broker itself gives out afterwards.
const (
	maxImportedEpoch      = math.MaxInt32 - 1<<20
	maxImportedProducerID = math.MaxInt64 - 1<<40
)

// checkTarget refuses what has no place in the target.
func (m *importer) checkTarget(t *ImportedTopic, parts []log.KafkaPartition) error {
	if err := checkTopicName(t.Topic); err != nil {
		return refused{err}
	}
	if m.broker.topics.byName(t.Topic) != nil {
		return refusef("the topic exists already in %s", m.DataDir)
	}
	if x := m.broker.topics.byID(t.id); x != nil {
		return refusef("topic %s in %s has the same id", x.name, m.DataDir)
	}
	for _, p := range parts {
		there, err := vfs.Exists(m.FS, filepath.Join(m.DataDir, filepath.Base(p.Path)))
		if err != nil {
			return err
		}
		if there {
			return refusef("%s has a directory %s that belongs to no topic: move it away", m.DataDir, filepath.Base(p.Path))
		}
	}
	return nil
}

// checkComplete wants each partition once.
func (m *importer) checkComplete(t *ImportedTopic, parts []log.KafkaPartition) error {
	for i, p := range parts {
		switch {
		case i > 0 && parts[i-1].Partition == p.Partition:
			return refusef("partition %d is there twice, in %s and %s: name one replica's log directory", p.Partition, parts[i-1].Path, p.Path)
		case p.Partition != int32(i):
			return refusef("partition %d is in none of the log directories: name all of the log.dirs, or those of all brokers that have one", i)
		case p.ID != t.id:
			return refusef("%s has the topic id %v, and partition %d has %v", p.Path, p.ID, parts[0].Partition, t.id)
		}
	}
	if meta, known := m.meta[t.Topic]; known && meta.ID == t.id && meta.Partitions > int32(len(parts)) {
		return refusef("the topic has %d partitions, and there are %d in the log directories: name all of the log.dirs, or those of all brokers that have one", meta.Partitions, len(parts))
	}
	return nil
}

// settings are those that the topic had, if Kafka's metadata is there, under those that are given. Of a topic that nothing is known of nothing is deleted.
func (m *importer) settings(t *ImportedTopic) error {
	if meta, known := m.meta[t.Topic]; known && meta.ID == t.id {
		m.kafkaSettings(t, meta.Configs)
	} else {
		t.Configs = map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}
	}
	for key, value := range m.Configs {
		name, err := checkConfig(config.ScopeTopic, key, value)
		if err != nil {
			return refused{err}
		}
		t.Configs[name] = value
	}
	if err := m.broker.validateConfigs(catalog.ResourceTopic, t.Topic, t.Configs); err != nil {
		return refused{err}
	}
	return nil
}

// kafkaSettings takes those that mean something here.
func (m *importer) kafkaSettings(t *ImportedTopic, values map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		name, err := checkConfig(config.ScopeTopic, key, values[key])
		if err == nil {
			t.Configs[name] = values[key]
			continue
		}
		if t.Dropped == nil {
			t.Dropped = map[string]string{}
		}
		t.Dropped[key] = err.Error()
	}
}
