package broker

import (
	"fmt"
	"reflect"

	"sluice/catalog"
	"sluice/config"
)

// follow takes the catalog's orders: in order, once durable, and before the reply of the change they belong to. It
// may take its time, as a deletion touches the disk; then later changes wait, and nothing else does. The first orders
// come while the catalog is being opened: they describe what exists.
func (b *Broker) follow(orders []any) {
	b.deletions.turn.Lock()
	defer b.deletions.turn.Unlock()
	b.tryDeletions() // those that failed: a topic that is made now may need the place
	b.brokersChanged(orders)
	b.groupsChanged(orders)
	b.quotas.changed(orders)
	for _, o := range orders {
		b.carryOut(o)
	}
	b.groups.topicsChanged()
	b.tryDeletions()
}

// retryDeletions is tryDeletions between the catalog's changes.
func (b *Broker) retryDeletions() {
	if !b.deletions.waiting() {
		return
	}
	b.deletions.turn.Lock()
	defer b.deletions.turn.Unlock()
	b.tryDeletions()
}

// tryDeletions does nothing before the requests begin: Start finishes deletions once for all.
func (b *Broker) tryDeletions() {
	if !b.ready.Load() {
		return
	}
	if err := b.finishDeletions(); err != nil {
		b.logger.Debug("deletions wait", "err", err)
	}
}

func (b *Broker) carryOut(order any) {
	var err error
	switch o := order.(type) {
	case catalog.TopicCreated:
		err = b.topicChanged(o.Topic)
	case catalog.TopicDeleted:
		b.topicDeleted(o.Topic)
	case catalog.ConfigChanged, catalog.QuotaChanged: // what is called above has seen to it
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
	var was *config.Policies // nil: the topic is new
	if x := b.topics.byID(t.ID); x != nil {
		was = &x.config().Dispatch
	}
	b.topics.put(t, conf, lc)
	if was == nil || *was != conf.Dispatch {
		b.dispatchChanged(b.topics.byID(t.ID))
	}
	return nil
}

// brokersChanged puts the new settings of brokers in force, for the logs that exist as well. Those of one step are taken together:
// one alone may contradict what stands.
func (b *Broker) brokersChanged(orders []any) {
	old := b.settings.Load()
	layers, changed := old.layers, false
	for _, o := range orders {
		if c, ok := o.(catalog.ConfigChanged); ok && c.Type == catalog.ResourceBroker {
			setBroker(&layers, c.Name, c.Values)
			changed = true
		}
	}
	if !changed {
		return
	}
	s, err := newSettings(layers)
	if err == nil {
		b.settings.Store(s)
		b.resolver.rulesChanged()
		err = b.renew()
	}
	if err != nil {
		err = fmt.Errorf("the broker's settings: %w", err)
		if !b.ready.Load() {
			b.refused = err
			return
		}
		b.logger.Error("the broker could not follow the catalog", "err", err)
		return
	}
	if !reflect.DeepEqual(old.broker.Dispatch, s.broker.Dispatch) {
		b.dispatchChanged(nil)
	}
}

// renew makes the snapshots of topics and groups anew, for which the broker's settings stand in.
func (b *Broker) renew() error {
	for _, t := range b.topics.list() {
		if err := b.topicChanged(t.raw()); err != nil {
			return err
		}
	}
	return b.groupConfigs.renew(b.settings.Load())
}

// groupsChanged puts the new settings of groups in force. A change of one group's limit makes the limits of all anew, so those of one step are
// taken together: thousands come at the start.
func (b *Broker) groupsChanged(orders []any) {
	limits := false
	for _, o := range orders {
		if c, ok := o.(catalog.ConfigChanged); ok && c.Type == catalog.ResourceGroup {
			limits = b.groupChanged(c) || limits
		}
	}
	if limits {
		b.dispatchChanged(nil)
	}
}

// groupChanged tells whether the limit of dispatch is another one.
func (b *Broker) groupChanged(c catalog.ConfigChanged) bool {
	s := b.settings.Load()
	if err := config.CheckGroup(s.forGroup(c.Values)); err != nil { // it was set before the broker's bounds became others
		b.logger.Warn("a group's setting is out of bounds, and counts as the nearest that is not", "group", c.Name, "err", err)
	}
	was := b.groupConfigs.policy(c.Name)
	if err := b.groupConfigs.put(s, c.Name, c.Values); err != nil {
		b.logger.Error("the broker could not follow the catalog", "err", err)
	}
	return b.groupConfigs.policy(c.Name) != was
}

// change hands an event to the catalog. done runs once everything that the change brought about has reached the data
// path; it must not wait.
func (b *Broker) change(c *call, event any, done func(value any, err error)) {
	b.catalog.Do(event, func(value any, err error) {
		c.guard(func() { done(value, err) })
	})
}
