package catalog

import (
	"sluice/internal/machine"
	"sluice/kproto"
)

// internalNames are the topics that Kafka's clients and tools treat as internal.
var internalNames = map[string]bool{
	"__consumer_offsets":  true,
	"__transaction_state": true,
	"__share_group_state": true,
}

// reservedNames are logs that exist and are no topics.
var reservedNames = map[string]bool{
	"__cluster_metadata": true, // Kafka's own catalog
	"__sluice_catalog":   true, // this one
}

// outcome collects what a request about several topics comes to.
type outcome struct {
	results []TopicResult
	effects machine.Effects
}

func (o *outcome) refuse(ref TopicRef, err error) {
	o.results = append(o.results, TopicResult{Topic{Name: ref.Name, ID: ref.ID}, err})
}

// change says that the topic is to be t from now on.
func (o *outcome) change(t Topic) {
	o.results = append(o.results, TopicResult{Topic: t})
	o.effects.Records = append(o.effects.Records, topicRecord(t))
	o.effects.Orders = append(o.effects.Orders, TopicCreated{t})
}

func (o *outcome) remove(t Topic) {
	t.Config = nil
	o.results = append(o.results, TopicResult{Topic: t})
	o.effects.Records = append(o.effects.Records, deletionRecord(t))
	o.effects.Orders = append(o.effects.Orders, TopicDeleted{t})
}

func (o *outcome) give(validateOnly bool) ([]TopicResult, machine.Effects) {
	if validateOnly {
		return o.results, machine.Effects{}
	}
	return o.results, o.effects
}

// creation is a CreateTopics under way: the topics that it has accepted count for those that follow.
type creation struct {
	m          *Machine
	byFolded   map[string]string
	ids        map[kproto.TopicID]bool
	partitions int
}

func (m *Machine) createTopics(ev CreateTopics) ([]TopicResult, machine.Effects) {
	c := creation{m, map[string]string{}, map[kproto.TopicID]bool{}, m.partitions}
	mentions := count(ev.Topics, func(t NewTopic) string { return t.Name })
	var o outcome
	for _, t := range ev.Topics {
		n := mentions.take(t.Name)
		if n == 0 {
			continue
		}
		err := c.check(t)
		if n > 1 {
			err = errMentioned("topic", t.Name)
		}
		if err != nil {
			o.refuse(TopicRef{Name: t.Name}, err)
			continue
		}
		c.accept(t)
		o.change(Topic{t.Name, t.ID, t.Partitions, t.Internal || internalNames[t.Name], copyOf(t.Config)})
	}
	return o.give(ev.ValidateOnly)
}

func (c *creation) check(t NewTopic) error {
	m := c.m
	switch {
	case t.Name == "":
		return kproto.Errorf(kproto.InvalidTopic, "A topic's name is not empty.")
	case reservedNames[t.Name]:
		return kproto.Errorf(kproto.InvalidRequest, "The name %s is reserved.", t.Name)
	}
	if _, ok := m.byName[t.Name]; ok {
		return kproto.Errorf(kproto.TopicAlreadyExists, "Topic %s exists.", t.Name)
	}
	if other := c.collision(t.Name); other != "" {
		return kproto.Errorf(kproto.InvalidTopic, "Topic name %s collides with %s: '.' and '_' count as the same.", t.Name, other)
	}
	if t.Partitions < 1 {
		return kproto.Errorf(kproto.InvalidPartitions, "A topic has at least one partition, not %d.", t.Partitions)
	}
	// The broker's own topics are few and of few partitions, and without them nothing works.
	if err := m.checkTotal(c.partitions, t.Partitions); err != nil && !t.Internal {
		return err
	}
	if c.taken(t.ID) {
		return kproto.Errorf(kproto.UnknownServerError, "The topic id %v is taken.", t.ID)
	}
	return m.validate(ResourceTopic, t.Name, t.Config)
}

func (c *creation) accept(t NewTopic) {
	c.partitions += int(t.Partitions)
	c.ids[t.ID] = true
	if folded, ok := fold(t.Name); ok {
		c.byFolded[folded] = t.Name
	}
}

func (c *creation) collision(name string) string {
	folded, ok := fold(name)
	if !ok {
		return ""
	}
	if other := c.m.byFolded[folded]; other != "" {
		return other
	}
	return c.byFolded[folded]
}

// taken guards the data of whoever has the id, should the shell's random source fail.
func (c *creation) taken(id kproto.TopicID) bool {
	_, lives := c.m.topics[id]
	_, died := c.m.deleted[id]
	return id.IsZero() || lives || died || c.ids[id]
}

// checkTotal refuses a growth past the limit with the code that Kafka has for its own limit (10,000 in one request).
func (m *Machine) checkTotal(total int, more int32) error {
	if limit := m.opts.MaxPartitions(); total+int(more) > limit {
		return kproto.Errorf(kproto.PolicyViolation, "%d more partitions would make %d, and sluice.max.partitions is %d.",
			more, total+int(more), limit)
	}
	return nil
}

func (m *Machine) deleteTopics(ev DeleteTopics) ([]TopicResult, machine.Effects) {
	mentions := count(ev.Topics, func(r TopicRef) TopicRef { return r })
	aims := m.aims(mentions)
	var o outcome
	for _, ref := range ev.Topics {
		n := mentions.take(ref)
		if n == 0 {
			continue
		}
		t, err := m.find(ref)
		switch {
		case n > 1 || err == nil && aims[t.ID] > 1:
			o.refuse(ref, errMentioned("topic", ref.String()))
		case err != nil:
			o.refuse(ref, err)
		case t.Internal:
			o.refuse(ref, errInternal(t.Name, "deleted"))
		default:
			o.remove(t)
		}
	}
	return o.give(false)
}

// aims counts the references to each topic: one may be by name and one by id.
func (m *Machine) aims(refs counts[TopicRef]) map[kproto.TopicID]int {
	aims := map[kproto.TopicID]int{}
	for ref := range refs {
		if t, err := m.find(ref); err == nil {
			aims[t.ID]++
		}
	}
	return aims
}

func (m *Machine) find(ref TopicRef) (Topic, error) {
	switch {
	case ref.Name == "" && ref.ID.IsZero():
		return Topic{}, kproto.Errorf(kproto.InvalidRequest, "A topic is named by its name or its id; there is neither.")
	case ref.Name != "" && !ref.ID.IsZero():
		return Topic{}, kproto.Errorf(kproto.InvalidRequest, "A topic is named by its name or its id, not by both.")
	case ref.Name != "":
		return m.existing(ref.Name)
	}
	if t, ok := m.topics[ref.ID]; ok {
		return t, nil
	}
	return Topic{}, kproto.Errorf(kproto.UnknownTopicID, "There is no topic with the id %v.", ref.ID)
}

func (m *Machine) existing(name string) (Topic, error) {
	if t, ok := m.TopicByName(name); ok {
		return t, nil
	}
	return Topic{}, kproto.Errorf(kproto.UnknownTopicOrPartition, "There is no topic %s.", name)
}

// String is how a message names the topic.
func (r TopicRef) String() string {
	if r.Name != "" {
		return r.Name
	}
	return r.ID.String()
}

func (m *Machine) topicGone(ev TopicGone) machine.Effects {
	if _, ok := m.deleted[ev.ID]; !ok {
		return machine.Effects{}
	}
	return machine.Effects{Records: []machine.Record{topicTombstone(ev.ID)}}
}

func (m *Machine) createPartitions(ev CreatePartitions) ([]TopicResult, machine.Effects) {
	mentions := count(ev.Topics, func(p MorePartitions) string { return p.Name })
	total := m.partitions
	var o outcome
	for _, p := range ev.Topics {
		n := mentions.take(p.Name)
		if n == 0 {
			continue
		}
		t, err := m.grown(p, total)
		if n > 1 {
			err = errMentioned("topic", p.Name)
		}
		if err != nil {
			o.refuse(TopicRef{Name: p.Name}, err)
			continue
		}
		total += int(t.Partitions - m.topics[t.ID].Partitions)
		o.change(t)
	}
	return o.give(ev.ValidateOnly)
}

func (m *Machine) grown(p MorePartitions, total int) (Topic, error) {
	t, err := m.existing(p.Name)
	if err != nil {
		return t, err
	}
	if t.Internal {
		return t, errInternal(t.Name, "grown")
	}
	if p.Count <= t.Partitions {
		return t, kproto.Errorf(kproto.InvalidPartitions, "Topic %s has %d partitions; %d are not more.", t.Name, t.Partitions, p.Count)
	}
	if err := m.checkTotal(total, p.Count-t.Partitions); err != nil {
		return t, err
	}
	t.Partitions = p.Count
	return t, nil
}
