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

// Rate is a number of units in a period that is set or not. Zero and less mean no limit; that is not the same as not
// set, which leaves the matter to a source further away.
type Rate struct {
	Set   bool
	Units int64
}

// PerPeriod is a set Rate.
func PerPeriod(units int64) Rate { return Rate{true, units} }

func (p Policy) set() bool { return p.Messages.Set || p.Bytes.Set || p.Period != 0 }

// Policies are what a topic or a namespace says.
type Policies struct {
	Topic        Policy // each partition, all subscriptions together
	Subscription Policy // each subscription on each partition
}

// Source is where a level's policy comes from.
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

// limit is a policy as it is applied.
type limit struct {
	source          Source
	namespace       string
	messages, bytes int64 // -1: no limit
	period          time.Duration
	paces           [2]*pace // nil: no limit
}

func (l *limit) limits() bool { return l.paces[messages] != nil || l.paces[bytes] != nil }

// rules are settings as they are applied. They are immutable.
type rules struct {
	Settings
	fairness       fairness
	broker         *limit
	topic          *limit
	subscription   *limit
	groups         map[string]*limit
	brokerCounters [2]*Counter
}

const (
	defaultPeriod         = time.Second
	defaultMaxReadBatches = 100
	defaultHoldRatio      = 0.5
	defaultHoldMax        = 2 * time.Second
)

func compile(s Settings) *rules {
	r := &rules{Settings: s}
	if r.Period <= 0 {
		r.Period = defaultPeriod
	}
	if r.MaxReadBatches <= 0 {
		r.MaxReadBatches = defaultMaxReadBatches
	}
	if r.MaxDebtPeriods <= 0 {
		r.MaxDebtPeriods = -1
	}
	if r.Delimiter == "" {
		r.Delimiter = "."
	}
	r.fairness = fairness{s.FairHoldRatio, s.FairHoldMax}
	if s.FairHoldRatio == 0 && s.FairHoldMax == 0 {
		r.fairness = fairness{defaultHoldRatio, defaultHoldMax}
	}
	r.broker = r.limit(s.Broker, FromBroker)
	r.topic = r.limit(s.Topic, FromBroker)
	r.subscription = r.limit(s.Subscription, FromBroker)
	r.groups = make(map[string]*limit, len(s.Groups))
	for g, p := range s.Groups {
		if p.set() {
			r.groups[g] = r.limit(p, FromGroup)
		}
	}
	return r
}

// limit is how a policy is applied.
func (r *rules) limit(p Policy, from Source) *limit {
	l := &limit{source: from, messages: -1, bytes: -1, period: p.Period}
	if l.period <= 0 {
		l.period = r.Period
	}
	if !p.set() {
		l.source = NoSource
	}
	if p.Messages.Set && p.Messages.Units > 0 {
		l.messages = p.Messages.Units
		l.paces[messages] = newPace(l.messages, l.period, r.MaxDebtPeriods)
	}
	if p.Bytes.Set && p.Bytes.Units > 0 {
		l.bytes = p.Bytes.Units
		l.paces[bytes] = newPace(l.bytes, l.period, r.MaxDebtPeriods)
	}
	return l
}

// topicLimits are what holds on a topic for its partitions and for subscriptions without a policy of their own.
type topicLimits struct {
	topic, subscription *limit
}

// resolve finds a topic's limits: what it says itself, or else its namespaces from the longest prefix on, or else the broker.
func (r *rules) resolve(name string, own Policies) topicLimits {
	t := topicLimits{r.topic, r.subscription}
	longestTopic, longestSub := -1, -1
	for prefix, p := range r.Namespaces {
		if !r.within(name, prefix) {
			continue
		}
		if p.Topic.set() && len(prefix) > longestTopic {
			longestTopic = len(prefix)
			t.topic = r.limit(p.Topic, FromNamespace)
			t.topic.namespace = prefix
		}
		if p.Subscription.set() && len(prefix) > longestSub {
			longestSub = len(prefix)
			t.subscription = r.limit(p.Subscription, FromNamespace)
			t.subscription.namespace = prefix
		}
	}
	if own.Topic.set() {
		t.topic = r.limit(own.Topic, FromTopic)
	}
	if own.Subscription.set() {
		t.subscription = r.limit(own.Subscription, FromTopic)
	}
	return t
}

// within tells whether a topic is in a namespace: its name is the prefix, or goes on after it with the delimiter.
func (r *rules) within(topic, prefix string) bool {
	rest, ok := strings.CutPrefix(topic, prefix)
	return ok && (rest == "" || strings.HasPrefix(rest, r.Delimiter))
}
