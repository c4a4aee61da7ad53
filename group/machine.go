package group

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"sluice/internal/machine"
	"sluice/kproto"
)

// Settings are read at each Step; live.
type Settings struct {
	MinSessionTimeout, MaxSessionTimeout time.Duration // group.min/max.session.timeout.ms
	InitialRebalanceDelay                time.Duration // group.initial.rebalance.delay.ms, 0 here
	Gather                               time.Duration // how long nobody must have come before a first rebalance ends, 20 ms
	MaxSize                              int           // group.max.size
	OffsetMetadataMaxBytes               int           // offset.metadata.max.bytes
	OffsetsRetention                     time.Duration // offsets.retention.minutes
	OffsetsRetentionCheck                time.Duration // offsets.retention.check.interval.ms; 0: 10 minutes
	ConsumerSettings                                   // of a group without settings of its own
	ConsumerReconcileInterval            time.Duration // heartbeat interval told while a group reconciles, 200 ms
	ConsumerMaxSize                      int           // group.consumer.max.size
	ConsumerAssignors                    []string      // group.consumer.assignors; the first is the default
	Upgrade, Downgrade                   bool          // group.consumer.migration.policy
}

// ConsumerSettings are those that each group of the consumer protocol may have of its own.
type ConsumerSettings struct {
	ConsumerSessionTimeout    time.Duration // consumer.session.timeout.ms
	ConsumerHeartbeatInterval time.Duration // consumer.heartbeat.interval.ms
	ConsumerCalmInterval      time.Duration // is told instead while all is calm; 0: the same
	// ConsumerAssignmentInterval is the least time between two target assignments (KIP-1263): consumer.assignment.interval.ms, 0 here.
	ConsumerAssignmentInterval time.Duration
}

// Options of a Machine.
type Options struct {
	Settings func() Settings
	// OfGroup gives the settings of one group that has its own; live. nil: no group has.
	OfGroup func(group string) (ConsumerSettings, bool)
	// CompileRegex compiles a KIP-848 subscription (RE2).
	CompileRegex func(string) (*regexp.Regexp, error)
}

// Machine holds the groups of one partition of __consumer_offsets.
type Machine struct {
	opts   Options
	groups map[string]*group
	topics map[string]Topic

	topicNames   map[kproto.TopicID]string
	topicsChange int64 // counts the changes of topics

	clock  clock
	timers timers
	expiry timer // to the next check for expired offsets; it runs while there are groups

	purges  []purge // deleted topics, the first one under way
	purging timer

	// Of the step that runs.
	settings Settings
	millis   int64 // the wall clock, since 1970
	effects  machine.Effects
	written  int // bytes of effects.Records
	drafts   []*consumerDraft
}

var _ machine.Machine = (*Machine)(nil)

// New gives an empty machine.
func New(o Options) *Machine {
	return &Machine{opts: o, groups: map[string]*group{}}
}

// Step implements machine.Machine.
func (m *Machine) Step(now machine.Time, ev machine.Event) machine.Effects {
	m.begin(now)
	var ticket uint64
	if asked, ok := ev.(machine.Asked); ok {
		ticket, ev = asked.Ticket, asked.Event
	}
	m.decide(ticket, ev)
	return m.finish()
}

// Loaded implements machine.Machine.
func (m *Machine) Loaded(now machine.Time) machine.Effects {
	m.begin(now)
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		m.revive(m.groups[id])
	}
	return m.finish()
}

// Deadline implements machine.Machine.
func (m *Machine) Deadline() machine.Time {
	if len(m.timers) == 0 {
		return machine.Time{}
	}
	return m.clock.wall(m.timers[0].at)
}

func (m *Machine) begin(now machine.Time) {
	m.clock.read(now, m.Deadline())
	m.settings = m.opts.Settings()
	m.millis = now.UnixMilli()
	m.written = 0
}

// consumerSettings are those in force for a group.
func (m *Machine) consumerSettings(group string) ConsumerSettings {
	if m.opts.OfGroup != nil {
		if own, ok := m.opts.OfGroup(group); ok {
			return own
		}
	}
	return m.settings.ConsumerSettings
}

func (m *Machine) finish() machine.Effects {
	m.writeDrafts()
	m.armExpiry()
	e := m.effects
	m.effects = machine.Effects{}
	return e
}

func (m *Machine) decide(ticket uint64, ev machine.Event) {
	switch ev := ev.(type) {
	case Heartbeat:
		m.reply(ticket, m.heartbeat(ev.Req))
	case Commit:
		m.reply(ticket, m.commit(ev.Req))
	case Fetch:
		m.reply(ticket, m.fetch(ev.Req))
	case Join:
		m.join(ticket, ev)
	case Sync:
		m.sync(ticket, ev.Req)
	case Leave:
		m.reply(ticket, m.leave(ev.Req))
	case Describe:
		m.reply(ticket, m.describe(ev.Group))
	case List:
		m.reply(ticket, m.list())
	case Delete:
		m.reply(ticket, m.delete(ev.Group))
	case DeleteOffsets:
		m.reply(ticket, m.deleteOffsets(ev.Req))
	case ConsumerHeartbeat:
		m.reply(ticket, m.consumerHeartbeat(ev))
	case Evict:
		m.reply(ticket, m.evict(ev))
	case ConsumerDescribe:
		m.reply(ticket, m.consumerDescribe(ev.Group))
	case Topics:
		m.setTopics(ev.Topics)
		m.reply(ticket, nil)
	case TopicDeleted:
		m.topicDeleted(ev.Name)
		m.reply(ticket, nil)
	case machine.Tick:
		m.ringTimers()
	default:
		panic(fmt.Sprintf("group: no such event: %T", ev))
	}
}

// reply answers a request; ticket 0 is nobody's.
func (m *Machine) reply(ticket uint64, value any) {
	if ticket != 0 {
		m.effects.Replies = append(m.effects.Replies, machine.Reply{Ticket: ticket, Value: value})
	}
}

// write records something of a group, which is not forgotten before Apply has seen it.
func (m *Machine) write(g *group, r machine.Record) {
	g.writing = true
	m.effects.Records = append(m.effects.Records, r)
	m.written += len(r.Key) + len(r.Value)
}

func (m *Machine) order(o any) { m.effects.Orders = append(m.effects.Orders, o) }

// obtain finds a group or makes one, which is forgotten again unless the step puts something into it. It fails when
// there are too many.
func (m *Machine) obtain(id string) (*group, bool) {
	g := m.groups[id]
	if g == nil {
		if len(m.groups) >= maxGroups {
			return nil, false
		}
		g = newGroup(id)
		m.groups[id] = g
	}
	return g, true
}

// forgetIfNothing drops a group of which nothing is recorded and nobody knows.
func (m *Machine) forgetIfNothing(g *group) {
	if !g.writing && g.recorded == nil && g.consumers == nil && len(g.offsets) == 0 && len(g.members) == 0 && len(g.pending) == 0 {
		m.stop(&g.phase)
		delete(m.groups, g.id)
	}
}
