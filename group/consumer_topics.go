package group

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"time"

	"sluice/kproto"
)

// setTopics takes note of the topics that there are. What they mean for a group is looked at with its next heartbeat.
func (m *Machine) setTopics(topics map[string]Topic) {
	m.topics = topics
	m.topicNames = make(map[kproto.TopicID]string, len(topics))
	for name, t := range topics {
		m.topicNames[t.ID] = name
	}
	m.topicsChange++
}

// matches is what the patterns of a group's members match among the topics that there are: soft state, and looked at anew when
// topics change.
type matches struct {
	change   int64 // of the machine's topics; 0: never looked at
	patterns map[string]*match
}

type match struct {
	compiled *regexp.Regexp
	topics   []string // in order
}

// matching gives the topics that a pattern matches. One that no longer compiles matches nothing.
func (m *Machine) matching(g *group, pattern string) []string {
	if pattern == "" {
		return nil
	}
	if found := g.matches.patterns[pattern]; found != nil {
		return found.topics
	}
	found := &match{}
	found.compiled, _ = m.opts.CompileRegex(pattern)
	found.look(m.topics)
	if g.matches.patterns == nil {
		g.matches.patterns = map[string]*match{}
	}
	g.matches.patterns[pattern] = found
	return found.topics
}

func (f *match) look(topics map[string]Topic) {
	f.topics = nil
	if f.compiled == nil {
		return
	}
	for name := range topics {
		if f.compiled.MatchString(name) {
			f.topics = append(f.topics, name)
		}
	}
	slices.Sort(f.topics)
}

// lookAgain follows a change of topics, and forgets patterns that no member has any more.
func (m *Machine) lookAgain(d *consumerDraft) {
	used := map[string]*match{}
	for _, c := range d.members() {
		if f := d.g.matches.patterns[c.pattern]; f != nil {
			used[c.pattern] = f
		}
	}
	for _, f := range used {
		f.look(m.topics)
	}
	d.g.matches = matches{change: m.topicsChange, patterns: used}
}

// subscribed gives the topics of a member, in order; they need not exist.
func (m *Machine) subscribed(g *group, c *consumerMember) []string {
	more := m.matching(g, c.pattern)
	if len(more) == 0 {
		return c.topics
	}
	all := slices.Concat(c.topics, more)
	slices.Sort(all)
	return slices.Compact(all)
}

// consumerSubscription is what the members of a group of the consumer protocol are subscribed to.
func (m *Machine) consumerSubscription(g *group) topicSet {
	s := topicSet{names: map[string]bool{}}
	for _, c := range g.consumers.members {
		for _, t := range m.subscribed(g, c) {
			s.names[t] = true
		}
	}
	return s
}

// retarget makes a new target assignment when members, subscriptions or topics ask for one, and it is time. changed says that a
// subscription is new.
func (m *Machine) retarget(d *consumerDraft, changed bool) {
	if changed {
		d.bump()
	}
	asked := d.epoch != d.assigned
	if !asked && d.g.matches.change == m.topicsChange || asked && !m.isTime(d, changed) {
		return
	}
	m.lookAgain(d)
	members := d.members()
	hash := m.hashTopics(d.g, members)
	if hash != d.topicsHash {
		d.bump()
	}
	d.topicsHash = hash
	if d.epoch == d.assigned || !m.mayAssign(d) {
		return
	}
	targets := m.assignTargets(d.g, members)
	for i, c := range members {
		if !slices.Equal(targets[i], c.target) {
			next := c.copy()
			next.target = targets[i]
			d.set(next)
		}
	}
	d.assigned = d.epoch
	d.g.targeted = m.clock.running
	d.g.restless = m.clock.running + m.consumerSettings(d.g.id).ConsumerHeartbeatInterval
}

// isTime tells whether the target assignment that is asked for is made now, or with a later heartbeat: while one member comes after the other,
// not for each of them, since each would cost as much as for all, and move partitions about. The first change of a calm group is not
// kept waiting. Classic members cannot wait: they are told to join again until there is something for them.
func (m *Machine) isTime(d *consumerDraft, changed bool) bool {
	calm := m.clock.running-d.g.changed >= m.settings.Gather
	if changed {
		d.g.changed = m.clock.running
	}
	long := max(m.settings.Gather, min(time.Duration(d.size())*targetSpacing, maxGather))
	return m.mayAssign(d) && (calm || d.assigned == 0 || d.size() <= 1 || m.clock.running-d.g.targeted >= long || d.hasClassics())
}

// mayAssign tells whether the group's assignment interval allows another target assignment. The first one need not wait; classic members
// cannot.
func (m *Machine) mayAssign(d *consumerDraft) bool {
	interval := m.consumerSettings(d.g.id).ConsumerAssignmentInterval
	return d.assigned == 0 || d.hasClassics() || m.clock.running-d.g.targeted >= interval
}

// hashTopics is of everything about topics that an assignment depends on.
func (m *Machine) hashTopics(g *group, members []*consumerMember) int64 {
	names := map[string]bool{}
	for _, c := range members {
		for _, t := range m.subscribed(g, c) {
			if _, ok := m.topics[t]; ok {
				names[t] = true
			}
		}
	}
	h := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		t := m.topics[name]
		h.Write(binary.BigEndian.AppendUint32(t.ID[:len(t.ID):len(t.ID)], uint32(t.Partitions)))
	}
	return int64(h.Sum64())
}

// assignTargets runs the assignor that most members prefer, and gives what each is to have.
func (m *Machine) assignTargets(g *group, members []*consumerMember) []partitionSet {
	ask := assignorInput{partitions: map[kproto.TopicID]int32{}}
	for _, c := range members {
		am := assignorMember{id: c.id, instance: c.instance, had: c.target}
		for _, name := range m.subscribed(g, c) {
			if t, ok := m.topics[name]; ok {
				am.topics = append(am.topics, t.ID)
				ask.partitions[t.ID] = t.Partitions
			}
		}
		ask.members = append(ask.members, am)
	}
	return assignors[preferredAssignor(members, m.settings.ConsumerAssignors)](ask)
}
