package broker

import (
	"fmt"

	"sluice/catalog"
)

// follow takes the catalog's orders: in order, once durable, and before the reply of the change they belong to. It
// may take its time, as a deletion touches the disk; then later changes wait, and nothing else does. The first orders
// come while the catalog is being opened: they describe what exists.
func (b *Broker) follow(orders []any) {
	b.tryDeletions() // those that failed: a topic that is made now may need the place
	for _, o := range orders {
		b.carryOut(o)
	}
	b.groups.topicsChanged()
	b.tryDeletions()
}

// tryDeletions does nothing before the requests begin: Start finishes deletions once for all.
func (b *Broker) tryDeletions() {
	if !b.ready.Load() {
		return
	}
	if err := b.finishDeletions(); err != nil {
		b.logger.Error("deletions wait for the next change of a topic", "err", err)
	}
}

func (b *Broker) carryOut(order any) {
	var err error
	switch o := order.(type) {
	case catalog.TopicCreated:
		err = b.topicChanged(o.Topic)
	case catalog.TopicDeleted:
		b.topicDeleted(o.Topic)
	case catalog.ConfigChanged:
		err = b.configChanged(o)
	default:
		err = fmt.Errorf("unknown order %T", order)
	}
	if err != nil {
		// What the catalog holds was validated before it went in, so this is a defect or an older version's data.
		b.logger.Error("the broker could not follow the catalog", "err", err)
	}
}

func (b *Broker) topicChanged(t catalog.Topic) error {
	conf, lc, err := b.settings.Load().topic(t)
	if err != nil {
		return fmt.Errorf("settings of topic %s: %w", t.Name, err)
	}
	b.topics.put(t, conf, lc)
	return nil
}

// configChanged puts a broker's or a group's new settings in force, for the logs that exist as well.
func (b *Broker) configChanged(c catalog.ConfigChanged) error {
	if c.Type == catalog.ResourceGroup {
		return b.groupConfigs.put(b.settings.Load(), c.Name, c.Values)
	}
	s, err := b.settings.Load().with(c)
	if err != nil {
		return fmt.Errorf("settings of broker %q: %w", c.Name, err)
	}
	b.settings.Store(s)
	for _, t := range b.topics.list() {
		if err := b.topicChanged(t.raw()); err != nil {
			return err
		}
	}
	return b.groupConfigs.renew(s)
}

// change hands an event to the catalog. done runs once everything that the change brought about has reached the data
// path; it must not wait.
func (b *Broker) change(c *call, event any, done func(value any, err error)) {
	b.catalog.Do(event, func(value any, err error) {
		c.guard(func() { done(value, err) })
	})
}
