package broker

import (
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"sluice/catalog"
	"sluice/group"
	"sluice/internal/coord"
	"sluice/internal/machine"
	"sluice/kproto"
)

// groups is the shell around the group machines: one shard for each partition of __consumer_offsets, begun at its first
// use, or at the start if its log has files. A shard that is still being replayed takes calls and answers them
// afterwards: to wait costs a client less than COORDINATOR_LOAD_IN_PROGRESS, after which it looks for the coordinator
// again. What waits is bounded by its connection's credit.
type groups struct {
	b      *Broker
	owners *owners
	pace   pace

	mu      sync.RWMutex
	shards  []*coord.Shard // by partition; nil until used
	closed  bool
	opened  bool     // the shards that hold groups have been begun
	deleted []func() // deletions of topics that wait for it

	// commits is held for reading from the look-up of a commit's topics until the commit is with its shard, and for
	// writing while the shards are told to forget a topic: no commit to a deleted topic comes after that.
	commits sync.RWMutex

	// The topics reach the machines only once a member of the next-generation protocol has come.
	feed    sync.Once
	feeding atomic.Bool
}

// groupReplays is how many shards are replayed at a time, which bounds the memory of a start with many groups.
var groupReplays = make(chan struct{}, 4)

func newGroups(b *Broker) *groups {
	return &groups{b: b, owners: newOwners(func(topic string) int32 {
		if t := b.topics.byName(topic); t != nil {
			return t.partitions()
		}
		return 0
	})}
}

// open begins the replay of every partition that holds groups.
func (g *groups) open() {
	if t := g.b.topics.byName(offsetsTopic); t != nil {
		for i := range t.partitions() {
			if t.used(i) != nil {
				g.resume(g.shard(t, i))
			}
		}
	}
	g.mu.Lock()
	g.opened = true
	waiting := g.deleted
	g.deleted = nil
	g.mu.Unlock()
	for _, forget := range waiting {
		forget()
	}
}

// resume has the machines told of topics again if members of the consumer protocol are in a group since before the start: there may be only
// classic ones among them, whose requests do not ask for it.
func (g *groups) resume(s *coord.Shard) {
	if s == nil {
		return
	}
	s.View(func(m machine.Machine) any { return m.(*group.Machine).ConsumerMembers() }, func(v any, _ error) {
		if n, _ := v.(int); n > 0 {
			g.wantTopics()
		}
	})
}

// close answers everybody who waits, and stops.
func (g *groups) close() {
	g.mu.Lock()
	g.closed = true
	open := g.shards
	g.shards = nil
	g.mu.Unlock()
	for _, s := range open {
		if s != nil {
			s.Close()
		}
	}
}

// do hands an event to the shard of a group. done gets the reply's value, once durable; it must not wait.
func (g *groups) do(groupID string, ev machine.Event, done func(value any, err error)) {
	if t := g.b.topics.byName(offsetsTopic); t != nil {
		g.doIn(t, groupID, ev, done)
		return
	}
	g.create(func(t *topic, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		g.doIn(t, groupID, ev, done)
	})
}

func (g *groups) doIn(t *topic, groupID string, ev machine.Event, done func(value any, err error)) {
	s := g.shard(t, partitionOf(groupID, t.partitions()))
	if s == nil {
		done(nil, coord.ErrClosed)
		return
	}
	s.Do(ev, done)
}

// create makes __consumer_offsets, with the settings that Kafka gives it, and calls done when it can be used.
func (g *groups) create(done func(t *topic, err error)) {
	conf := g.b.config()
	event := catalog.CreateTopics{Topics: []catalog.NewTopic{{
		Name: offsetsTopic, ID: newUUID(), Partitions: conf.OffsetsTopicPartitions, Internal: true,
		Config: map[string]string{
			"cleanup.policy":   "compact",
			"compression.type": "producer",
			"segment.bytes":    fmt.Sprint(conf.OffsetsTopicSegmentBytes),
		},
	}}}
	g.b.catalog.Do(event, func(v any, err error) {
		t := g.b.topics.byName(offsetsTopic) // it may be another call's, made at the same time
		if t != nil {
			done(t, nil)
			return
		}
		if err == nil {
			err = v.([]catalog.TopicResult)[0].Err
		}
		g.b.logger.Error("the topic of the groups could not be made", "topic", offsetsTopic, "err", err)
		done(nil, errNoGroups)
	})
}

var errNoGroups = kproto.Errorf(kproto.CoordinatorNotAvailable, "The topic of the groups, "+offsetsTopic+", could not be made.")

// shard gives the shard of a partition, and begins it if it is new. It is nil when the broker is being closed.
func (g *groups) shard(t *topic, partition int32) *coord.Shard {
	g.mu.RLock()
	var s *coord.Shard
	if int(partition) < len(g.shards) {
		s = g.shards[partition]
	}
	g.mu.RUnlock()
	if s != nil {
		return s
	}
	return g.begin(t, partition)
}

func (g *groups) begin(t *topic, partition int32) *coord.Shard {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := t.partition(partition)
	if g.closed || l == nil {
		return nil
	}
	if len(g.shards) == 0 {
		g.shards = make([]*coord.Shard, t.partitions())
	}
	if g.shards[partition] == nil {
		g.shards[partition] = coord.Start(
			func() machine.Machine { return g.newMachine(partition) }, &machineLog{l, groupReplays},
			coord.Options{Logger: g.b.logger.With("groups", partition), Orders: func(o []any) { g.follow(partition, o) }},
		)
	}
	return g.shards[partition]
}

// running gives the shards that were begun.
func (g *groups) running() []*coord.Shard {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var all []*coord.Shard
	for _, s := range g.shards {
		if s != nil {
			all = append(all, s)
		}
	}
	return all
}

// newMachine gives an empty machine for a partition; the replay that follows says again who owns what.
func (g *groups) newMachine(partition int32) machine.Machine {
	g.owners.forget(partition, time.Now())
	m := group.New(group.Options{Settings: g.settings, OfGroup: g.settingsOf, CompileRegex: compileSubscription})
	m.Step(time.Now(), g.b.topics.forGroups())
	return m
}

// settings are those in force now.
func (g *groups) settings() group.Settings {
	conf := g.b.config()
	c := conf.Groups
	return group.Settings{
		MinSessionTimeout:         c.MinSessionTimeout,
		MaxSessionTimeout:         c.MaxSessionTimeout,
		InitialRebalanceDelay:     c.InitialRebalanceDelay,
		Gather:                    gather,
		MaxSize:                   c.MaxSize,
		OffsetMetadataMaxBytes:    c.OffsetMetadataMaxBytes,
		OffsetsRetention:          c.OffsetsRetention,
		OffsetsRetentionCheck:     c.OffsetsRetentionCheckInterval,
		ConsumerSettings:          g.consumerSettings(&conf.Group),
		ConsumerReconcileInterval: g.pace.reconciling(),
		ConsumerMaxSize:           c.ConsumerMaxSize,
		ConsumerAssignors:         c.ConsumerAssignors,
		Upgrade:                   c.Migration.Up,
		Downgrade:                 c.Migration.Down,
	}
}

// gather is how long a group that begins waits for one more member. Consumers that are started together come closer to each other than
// that unless the machine is busy, and nobody notices that a lone one has to wait so long.
const gather = 20 * time.Millisecond

// follow takes the orders of a shard.
func (g *groups) follow(partition int32, orders []any) {
	for _, o := range orders {
		switch o := o.(type) {
		case group.Ownership:
			g.owners.set(partition, o, time.Now())
		default:
			g.b.logger.Error("the broker could not follow a group", "err", fmt.Sprintf("unknown order %T", o))
		}
	}
}

// wantTopics has the machines told of all topics from now on. When it returns they have been, or will be before the
// next event.
func (g *groups) wantTopics() {
	g.feed.Do(func() {
		g.feeding.Store(true)
		g.topicsChanged()
	})
}

// topicsChanged tells the machines, if any of them needs to know.
func (g *groups) topicsChanged() {
	if !g.feeding.Load() {
		return
	}
	topics := g.b.topics.forGroups()
	for _, s := range g.running() {
		s.Do(topics, nil)
	}
}

// topicDeleted has the offsets of a deleted topic forgotten, and calls done when that is durable, or with the error.
// Whatever is asked of a shard later finds it done.
func (g *groups) topicDeleted(name string, done func(error)) {
	g.owners.topicDeleted(name)
	g.mu.Lock()
	if !g.opened { // the shards that hold groups are yet to be begun
		g.deleted = append(g.deleted, func() { g.topicDeleted(name, done) })
		g.mu.Unlock()
		return
	}
	closed := g.closed
	g.mu.Unlock()
	if closed {
		done(coord.ErrClosed)
		return
	}
	g.commits.Lock()
	defer g.commits.Unlock()
	askAll(g.running(), group.TopicDeleted{Name: name}, func(any) {}, done)
}

// askAll asks several shards at once. take is called with one answer after the other, then done with the last error.
func askAll(shards []*coord.Shard, ev machine.Event, take func(value any), done func(error)) {
	var mu sync.Mutex // guards failed and left, and one take at a time
	var failed error
	left := len(shards)
	if left == 0 {
		done(nil)
		return
	}
	for _, s := range shards {
		s.Do(ev, func(v any, err error) {
			mu.Lock()
			if err != nil {
				failed = err
			} else {
				take(v)
			}
			left--
			last := left == 0
			mu.Unlock()
			if last {
				done(failed)
			}
		})
	}
}

// forGroups is what assignment must know of the topics.
func (t *topics) forGroups() group.Topics {
	all := t.list()
	out := make(map[string]group.Topic, len(all))
	for _, x := range all {
		out[x.name] = group.Topic{ID: x.id, Partitions: x.partitions()}
	}
	return group.Topics{Topics: out}
}

// maxSubscriptionRegex bounds the pattern of a subscription, in bytes.
const maxSubscriptionRegex = 1 << 10

// compileSubscription compiles a pattern of RE2, which takes time linear in what it matches. It must match whole names.
func compileSubscription(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxSubscriptionRegex {
		return nil, kproto.Errorf(kproto.InvalidRegularExpression, "The pattern has %d bytes; at most %d are allowed.", len(pattern), maxSubscriptionRegex)
	}
	// Compiled by itself first: "a)|(b" is no pattern, but would become one.
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, kproto.Errorf(kproto.InvalidRegularExpression, "The pattern is not valid: %v.", err)
	}
	return regexp.Compile("^(?:" + pattern + ")$")
}

// partitionOf is the partition of __consumer_offsets that holds a group: Kafka's, so that its tools look in the right
// place. It is String.hashCode of Java, without its sign, modulo the number of partitions.
func partitionOf(groupID string, partitions int32) int32 {
	return (javaHash(groupID) & 0x7fffffff) % partitions
}

// javaHash is String.hashCode: over UTF-16 code units.
func javaHash(s string) int32 {
	h := int32(0)
	for _, r := range s { // invalid UTF-8 comes as U+FFFD, as Java decodes it
		if r1, r2 := utf16.EncodeRune(r); r1 != utf8.RuneError {
			h = 31*(31*h+r1) + r2
			continue
		}
		h = 31*h + r
	}
	return h
}
