package broker

import (
	"maps"

	"sluice/catalog"
	"sluice/config"
	"sluice/log"
)

// The resources of DescribeConfigs that the catalog keeps nothing for.
const (
	resourceBrokerLogger  catalog.ResourceType = 8
	resourceClientMetrics catalog.ResourceType = 16
)

// settings is what is in force now: the layers and the broker's snapshot of them. It is immutable; a change makes a
// new one.
type settings struct {
	layers config.Layers // Topic and Group stay empty here
	broker *config.Broker
	// What topics without settings of their own share.
	topicLog    *log.Config
	internalLog *log.Config
}

func newSettings(l config.Layers) (*settings, error) {
	b, err := config.NewBroker(l)
	if err != nil {
		return nil, err
	}
	s := &settings{layers: l, broker: b}
	s.topicLog = s.logConfig(&b.Topic, false)
	s.internalLog = s.logConfig(&b.Topic, true)
	return s, nil
}

// setBroker puts a BROKER resource into the layers: "" is the default of all brokers.
func setBroker(l *config.Layers, name string, values map[string]string) {
	if name == "" {
		l.DynamicDefault = maps.Clone(values)
	} else {
		l.Dynamic = maps.Clone(values)
	}
}

// forTopic is the layers with a topic's settings on top.
func (s *settings) forTopic(name string, own map[string]string) config.Layers {
	l := s.layers
	l.TopicName, l.Topic = name, own
	return l
}

// forGroup is the layers with a group's settings on top.
func (s *settings) forGroup(own map[string]string) config.Layers {
	l := s.layers
	l.Group = own
	return l
}

// topic makes a topic's snapshot, for the API and for its logs. Topics without settings of their own share one of each.
func (s *settings) topic(t catalog.Topic) (*config.Topic, *log.Config, error) {
	if len(t.Config) == 0 {
		if t.Internal {
			return &s.broker.Topic, s.internalLog, nil
		}
		return &s.broker.Topic, s.topicLog, nil
	}
	c, err := config.NewTopic(s.forTopic(t.Name, t.Config))
	if err != nil {
		return nil, nil, err
	}
	return c, s.logConfig(c, t.Internal), nil
}

// logConfig is what a partition must know of its settings. Internal topics are fsynced whatever sluice.durability says.
func (s *settings) logConfig(t *config.Topic, internal bool) *log.Config {
	durability, err := log.ParseDurability(t.Durability)
	if err != nil || internal {
		durability = log.Fsync // the safe one, should an unknown word ever come this far
	}
	age := t.SegmentAge
	if t.CleanupCompact && t.MaxCompactionLag > 0 {
		age = min(age, t.MaxCompactionLag) // else what is to be compacted would lie in the active segment (KIP-354)
	}
	return &log.Config{
		Durability:         durability,
		SyncInterval:       t.SyncInterval,
		SegmentBytes:       t.SegmentBytes,
		SegmentAge:         age,
		IndexBytes:         t.SegmentIndexBytes,
		IndexInterval:      t.IndexInterval,
		LogAppendTime:      t.LogAppendTime,
		ProducerExpiration: s.broker.ProducerExpiration,
		Delete:             t.CleanupDelete,
		RetentionMs:        t.RetentionMs,
		RetentionBytes:     t.RetentionBytes,
		FileDeleteDelay:    t.FileDeleteDelay,
		Compact:            t.CleanupCompact,
		DeleteRetention:    t.DeleteRetention,
		MinCompactionLag:   t.MinCompactionLag,
		MaxCompactionLag:   t.MaxCompactionLag,
		MinDirtyRatio:      t.MinDirtyRatio,
	}
}

// validateConfigs judges all settings that a topic or a group is about to have together; each by itself was checked before.
func (b *Broker) validateConfigs(t catalog.ResourceType, name string, all map[string]string) error {
	s := b.settings.Load()
	switch t {
	case catalog.ResourceTopic:
		_, err := config.NewTopic(s.forTopic(name, all))
		return err
	case catalog.ResourceGroup:
		return config.CheckGroup(s.forGroup(all))
	}
	return nil
}

// validateBrokers judges what the BROKER resources are about to have together.
func (b *Broker) validateBrokers(all map[string]map[string]string) error {
	l := b.settings.Load().layers
	l.Dynamic, l.DynamicDefault = nil, nil
	for name, values := range all {
		setBroker(&l, name, values)
	}
	_, err := newSettings(l)
	return err
}
