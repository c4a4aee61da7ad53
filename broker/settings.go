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

// with gives the settings after a change of a broker resource: "" is the default of all brokers.
func (s *settings) with(c catalog.ConfigChanged) (*settings, error) {
	l := s.layers
	if c.Name == "" {
		l.DynamicDefault = maps.Clone(c.Values)
	} else {
		l.Dynamic = maps.Clone(c.Values)
	}
	return newSettings(l)
}

// forTopic is the layers with a topic's settings on top.
func (s *settings) forTopic(own map[string]string) config.Layers {
	l := s.layers
	l.Topic = own
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
	c, err := config.NewTopic(s.forTopic(t.Config))
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
	return &log.Config{
		Durability:         durability,
		SyncInterval:       t.SyncInterval,
		SegmentBytes:       t.SegmentBytes,
		SegmentAge:         t.SegmentAge,
		IndexBytes:         t.SegmentIndexBytes,
		IndexInterval:      t.IndexInterval,
		LogAppendTime:      t.LogAppendTime,
		ProducerExpiration: s.broker.ProducerExpiration,
		Delete:             t.CleanupDelete,
		RetentionMs:        t.RetentionMs,
		RetentionBytes:     t.RetentionBytes,
		FileDeleteDelay:    t.FileDeleteDelay,
	}
}

// validateConfigs judges all settings that a resource is about to have together; each by itself was checked before.
func (b *Broker) validateConfigs(t catalog.ResourceType, name string, all map[string]string) error {
	s := b.settings.Load()
	switch t {
	case catalog.ResourceTopic:
		_, err := config.NewTopic(s.forTopic(all))
		return err
	case catalog.ResourceGroup:
		return config.CheckGroup(s.forGroup(all))
	case catalog.ResourceBroker:
		_, err := s.with(catalog.ConfigChanged{Type: t, Name: name, Values: all})
		return err
	}
	return nil
}
