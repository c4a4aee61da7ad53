package throttle

import (
	"strings"
	"time"
)

// Policy is what one source says about one level. If it sets anything it is all that holds for the level: what it leaves unset is
// without limit, and has the broker's period.
type Policy struct {
	Messages Rate
	Bytes    Rate
	Period   time.Duration // zero: not set
}

// Rate is a number of units in a period that is set or not. Set to zero or less it means no limit. That is not the same as not
// set, which leaves the matter to a source further away.
type Rate struct {
	Set   bool
	Units int64
}

// Unlimited is how a rate without limit reads.
const Unlimited = -1

// PerPeriod is a rate that is set. Zero and less are Unlimited.
func PerPeriod(units int64) Rate {
	if units <= 0 {
		units = Unlimited
	}
	return Rate{true, units}
}

func (p Policy) set() bool { return p.Messages.Set || p.Bytes.Set || p.Period != 0 }

// Policies are what a topic or a namespace says.
type Policies struct {
	Topic        Policy // each partition, all subscriptions together
	Subscription Policy // each subscription on each partition
}

// Source is where a level's policy comes from, the closest last.
type Source uint8

const (
	NoSource Source = iota
	FromBroker
	FromNamespace
	FromTopic
	FromGroup
)

func (s Source) String() string {
	return [...]string{"none", "broker", "namespace", "topic", "group"}[s]
}

// limit is a policy as it is applied. It is immutable and shared by all buckets that follow it.
type limit struct {
	source    Source
	namespace string // the prefix, of one from a namespace
	period    time.Duration
	paces     [2]*pace // nil: no limit
}

var noLimits = &limit{}

func (l *limit) limits() bool { return l.paces[messages] != nil || l.paces[bytes] != nil }

// apply makes the limit of a policy that is set.
func (r *rules) apply(p Policy, from Source) *limit {
	l := &limit{source: from, period: p.Period}
	if l.period <= 0 {
		l.period = r.Period
	}
	for u, rate := range [2]Rate{p.Messages, p.Bytes} {
		if rate.Set && rate.Units > 0 {
			l.paces[u] = newPace(rate.Units, l.period, r.MaxDebtPeriods)
		}
	}
	return l
}

// closest is the limit of a policy, or the one further away when the policy says nothing.
func (r *rules) closest(p Policy, from Source, further *limit) *limit {
	if !p.set() {
		return further
	}
	return r.apply(p, from)
}

// levels are the limits on a topic: of its partitions, and of subscriptions whose group says nothing.
type levels struct{ topic, subscription *limit }

// resolve finds a topic's limits, each level for itself: what the topic says, or else the namespace with the longest prefix that
// says something, or else the broker.
func (r *rules) resolve(name string, own Policies) levels {
	far := r.levels
	for i := len(name); i >= 0; {
		if ns, ok := r.namespaces[name[:i]]; ok {
			far = far.underneath(ns)
		}
		i = strings.LastIndex(name[:min(len(name), i+len(r.Delimiter)-1)], r.Delimiter)
	}
	return levels{r.closest(own.Topic, FromTopic, far.topic), r.closest(own.Subscription, FromTopic, far.subscription)}
}

// underneath takes from a namespace what no longer prefix has given yet.
func (l levels) underneath(ns levels) levels {
	if ns.topic != nil && l.topic.source < FromNamespace {
		l.topic = ns.topic
	}
	if ns.subscription != nil && l.subscription.source < FromNamespace {
		l.subscription = ns.subscription
	}
	return l
}

// of is the limit of a subscription: its group's, or else the topic's. Without a name there is none.
func (r *resolved) of(subscription string) *limit {
	if subscription == "" {
		return noLimits
	}
	if g, ok := r.rules.groups[subscription]; ok {
		return g
	}
	return r.subscription
}
