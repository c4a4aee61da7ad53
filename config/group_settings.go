package config

import (
	"fmt"
	"slices"
	"time"
)

// groupRows are the settings of a consumer group (KIP-848), with the broker settings they fall back on.
var groupRows = []*row{
	{
		name: "consumer.session.timeout.ms", kind: kindInt, def: "45000", allow: atLeast(1),
		fallback: []fallback{{name: "group.consumer.session.timeout.ms", fixed: true}},
		lowest:   "group.consumer.min.session.timeout.ms", highest: "group.consumer.max.session.timeout.ms",
		group: millis(func(g *Group) *time.Duration { return &g.SessionTimeout }),
		doc:   "How long a silent member stays in the group. In force for a member from its next heartbeat on.",
	},
	{
		name: "consumer.heartbeat.interval.ms", kind: kindInt, def: "5000", allow: atLeast(1),
		fallback: []fallback{{name: "group.consumer.heartbeat.interval.ms", fixed: true}},
		lowest:   "group.consumer.min.heartbeat.interval.ms", highest: "group.consumer.max.heartbeat.interval.ms",
		group: millis(func(g *Group) *time.Duration { return &g.HeartbeatInterval }),
		doc:   "How often members are told to send a heartbeat. Less than consumer.session.timeout.ms. The default is the longest that they are told; where the broker has few members, it is less (docs/groups.md). A value that is set holds as it is.",
	},
	{
		name: "consumer.assignment.interval.ms", kind: kindInt, def: "0", allow: atLeast(0),
		kafka: "1000", why: "the first change of a calm group need not wait; while members keep coming, assignments are spaced by the size of the group",
		fallback: under("group.consumer.assignment.interval.ms"),
		lowest:   "group.consumer.min.assignment.interval.ms", highest: "group.consumer.max.assignment.interval.ms",
		group: millis(func(g *Group) *time.Duration { return &g.AssignmentInterval }),
		doc:   "The least time between two target assignments of a group (KIP-1263). A change that comes earlier waits; the first assignment does not, and none while classic members are in the group.",
	},
}

// NewGroup makes a group's snapshot from the broker's layers and the group's. As in Kafka, a value that the broker's bounds
// have left behind since it was set counts as the nearest that they allow; CheckGroup is for values that are being set.
func NewGroup(l Layers) (*Group, error) {
	g := new(Group)
	for _, r := range settings.declared(ScopeGroup) {
		if r.group == nil {
			continue
		}
		v, set, err := l.effective(r)
		if err != nil {
			return nil, err
		}
		if set {
			r.group(g, l.clamped(r, v))
		}
	}
	g.HeartbeatSet = l.isSet(settings.find(ScopeGroup, "consumer.heartbeat.interval.ms"))
	var err error
	g.Dispatch, err = l.policyAt(place{values: l.Group, source: SourceGroup}, groupPolicy)
	return g, err
}

// CheckGroup judges all settings that a group is about to have together.
func CheckGroup(l Layers) error {
	if _, err := NewGroup(l); err != nil {
		return err
	}
	return l.checkGroup()
}

// checkGroup holds a group's values, or the broker's where it has none, against the broker's bounds.
func (l Layers) checkGroup() error {
	for _, r := range settings.declared(ScopeGroup) {
		if r.lowest == "" {
			continue
		}
		low, high := l.bounds(r)
		if low > high {
			return fmt.Errorf("%s (%d) must not be more than %s (%d)", r.lowest, low, r.highest, high)
		}
		for f := range l.synonyms(r) {
			v, err := f.valueOf(r)
			if err != nil {
				return err
			}
			if f.source == SourceDefault && r.kafka != "" {
				break // our own default gives way to bounds that Kafka's would have kept to
			}
			if v.whole < low || v.whole > high {
				return fmt.Errorf("setting %s cannot be %d: it must be from %d to %d (%s and %s)", f.row.name, v.whole, low, high, r.lowest, r.highest)
			}
			break // the first is in force
		}
	}
	return l.checkHeartbeat()
}

// checkHeartbeat is the one rule over two group settings.
func (l Layers) checkHeartbeat() error {
	session, _, err := l.effective(settings.find(ScopeGroup, "consumer.session.timeout.ms"))
	if err != nil {
		return err
	}
	interval, _, err := l.effective(settings.find(ScopeGroup, "consumer.heartbeat.interval.ms"))
	if err != nil {
		return err
	}
	if session.whole <= interval.whole {
		return fmt.Errorf("consumer.session.timeout.ms (%d) must be more than consumer.heartbeat.interval.ms (%d)", session.whole, interval.whole)
	}
	return nil
}

// bounds are what the broker allows for a group's setting. A bound that is itself not valid stands at its default; NewBroker
// refuses it.
func (l Layers) bounds(r *row) (low, high int64) {
	bound := func(name string) int64 {
		b := settings.find(ScopeBroker, name)
		v, _, err := l.effective(b)
		if err != nil {
			return b.parsedDef.whole
		}
		return v.whole
	}
	return bound(r.lowest), bound(r.highest)
}

func (l Layers) clamped(r *row, v value) value {
	if r.lowest != "" {
		low, high := l.bounds(r)
		v.whole = min(max(v.whole, low), high)
	}
	return v
}

// groupProtocols allows lists of protocols with the classic one, which cannot be done without.
func groupProtocols() limit {
	l := someOf("classic", "consumer", "streams", "share")
	return limit{l.want + "; with classic", func(v value) bool { return l.ok(v) && slices.Contains(v.list, "classic") }}
}

// javaAssignors are the class names by which Kafka 4.0 knows the assignors.
var javaAssignors = map[string]string{
	"org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
	"org.apache.kafka.coordinator.group.assignor.RangeAssignor":   "range",
}

func shortAssignors(names []string) []string {
	short := make([]string, 0, len(names))
	for _, name := range names {
		if s, ok := javaAssignors[name]; ok {
			name = s
		}
		short = append(short, name)
	}
	return short
}

// assignorList allows the assignors that there are, each once.
func assignorList() limit {
	return limit{"a list of uniform, range, each once", func(v value) bool {
		short := shortAssignors(v.list)
		for i, name := range short {
			if name != "uniform" && name != "range" || slices.Contains(short[:i], name) {
				return false
			}
		}
		return len(short) > 0
	}}
}
