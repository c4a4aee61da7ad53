package throttle

import (
	"errors"
	"time"
)

// Settings are all settings but the topics' own. The zero value has no limits.
type Settings struct {
	Broker       Policy // all subscriptions together
	Topic        Policy // of every partition, unless something closer says otherwise
	Subscription Policy // of every subscription on a partition, likewise
	// Namespaces are policies by topic name prefix. A topic is in a namespace if its name is the prefix, or goes on after it with the
	// delimiter. There is no namespace form of the broker's policy.
	Namespaces map[string]Policies
	Delimiter  string            // "." if empty
	Groups     map[string]Policy // of subscriptions, by group; closer than the topic
	Period     time.Duration     // of policies that set none; DefaultPeriod if zero

	Mode           Mode
	MaxReadBatches int64 // in one approximate plan; DefaultMaxReadBatches if zero
	MaxDebtPeriods int64 // how much debt is carried over; zero or less: all of it. A bound forgives what is beyond and so breaks the average

	// In the first part of a window, FairHoldRatio of the period but no longer than FairHoldMax, the shares of those who are not there just now
	// are kept for them. Both zero: the defaults.
	FairHoldRatio float64
	FairHoldMax   time.Duration

	// Clients that are neither held up nor counted, by principal ("User:ann") or client id.
	ExemptPrincipals []string
	ExemptClients    []string

	ExemptTail    bool  // do not throttle subscriptions without backlog, see Topic.Arrived
	TailThreshold int64 // the lag in records that does not count as backlog
}

const (
	DefaultPeriod         = time.Second
	DefaultMaxReadBatches = 100
	DefaultFairHoldRatio  = 0.5
	DefaultFairHoldMax    = 2 * time.Second
)

// rules are settings as they are applied. They are immutable.
type rules struct {
	Settings
	levels           // of the broker's settings, for topics that nothing closer speaks of
	fairness         fairness
	broker           *limit
	brokerCounters   [2]*Counter
	namespaces       map[string]levels // nil where a namespace says nothing
	groups           map[string]*limit
	exemptPrincipals map[string]struct{}
	exemptClients    map[string]struct{}
}

func compile(s Settings) *rules {
	r := &rules{Settings: s.withDefaults()}
	r.fairness = fairness{r.FairHoldRatio, r.FairHoldMax}
	r.broker = r.closest(s.Broker, FromBroker, noLimits)
	r.levels = levels{r.closest(s.Topic, FromBroker, noLimits), r.closest(s.Subscription, FromBroker, noLimits)}
	r.namespaces = make(map[string]levels, len(s.Namespaces))
	for prefix, p := range s.Namespaces {
		r.namespaces[prefix] = r.namespace(prefix, p)
	}
	r.groups = make(map[string]*limit, len(s.Groups))
	for g, p := range s.Groups {
		if p.set() {
			r.groups[g] = r.apply(p, FromGroup)
		}
	}
	r.exemptPrincipals, r.exemptClients = setOf(s.ExemptPrincipals), setOf(s.ExemptClients)
	return r
}

func (r *rules) namespace(prefix string, p Policies) levels {
	ns := levels{r.closest(p.Topic, FromNamespace, nil), r.closest(p.Subscription, FromNamespace, nil)}
	for _, l := range []*limit{ns.topic, ns.subscription} {
		if l != nil {
			l.namespace = prefix
		}
	}
	return ns
}

func (s Settings) withDefaults() Settings {
	if s.Period <= 0 {
		s.Period = DefaultPeriod
	}
	if s.MaxReadBatches <= 0 {
		s.MaxReadBatches = DefaultMaxReadBatches
	}
	if s.MaxDebtPeriods <= 0 {
		s.MaxDebtPeriods = -1
	}
	if s.Delimiter == "" {
		s.Delimiter = "."
	}
	if s.FairHoldRatio == 0 && s.FairHoldMax == 0 {
		s.FairHoldRatio, s.FairHoldMax = DefaultFairHoldRatio, DefaultFairHoldMax
	}
	return s
}

func setOf(list []string) map[string]struct{} {
	set := make(map[string]struct{}, len(list))
	for _, x := range list {
		set[x] = struct{}{}
	}
	return set
}

// Exempt tells whether a client is neither held up nor counted.
func (t *Throttle) Exempt(principal, clientID string) bool {
	r := t.rules.Load()
	if len(r.exemptPrincipals)+len(r.exemptClients) == 0 {
		return false
	}
	_, user := r.exemptPrincipals[principal]
	_, client := r.exemptClients[clientID]
	return user || client
}

// Flags are the two settings that say how messages are counted, as one layer of the configuration has them; nil is unset.
type Flags struct {
	Precise *bool // preciseDispatcherFlowControl
	Batches *bool // dispatchThrottlingOnBatchMessageEnabled
}

// ErrBothModes is the answer to a configuration in which both flags would be true.
var ErrBothModes = errors.New("dispatch.throttling.precise.flow.control (preciseDispatcherFlowControl) and " +
	"dispatch.throttling.on.batch.message.enabled (dispatchThrottlingOnBatchMessageEnabled) exclude each other: at most one of them may be true")

// ModeOf is the mode that the layers of a configuration, the most specific first, come to together. The flags may come from
// different layers, so a change of any of them, or its removal, is to be checked with all.
func ModeOf(layers ...Flags) (Mode, error) {
	precise, batches := false, false
	for i := len(layers) - 1; i >= 0; i-- {
		if f := layers[i].Precise; f != nil {
			precise = *f
		}
		if f := layers[i].Batches; f != nil {
			batches = *f
		}
	}
	switch {
	case precise && batches:
		return Approximate, ErrBothModes
	case precise:
		return Precise, nil
	case batches:
		return Batches, nil
	}
	return Approximate, nil
}
