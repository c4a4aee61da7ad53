package config

import (
	"fmt"
	"iter"
	"strings"
	"time"
)

// Dispatch is the part of a broker's settings that throttles what is dispatched to consumers. Of the policies for a level the
// first that is Set counts, and the others do not:
//
//	topic         the topic's, its namespaces' from the longest prefix on, PerTopic
//	subscription  the group's, the topic's, its namespaces' from the longest prefix on, PerSubscription
type Dispatch struct {
	Broker          Policy // all that the broker dispatches
	PerTopic        Policy // each partition
	PerSubscription Policy // each group on each partition

	Namespaces []Namespace // the longest prefix first
	Delimiter  string      // see InNamespace

	Precise, OnBatches bool // not both
	OnNonBacklog       bool
	BacklogThreshold   int64 // records
	MaxReadBatches     int
	ExemptPrincipals   []string
	ExemptClientIDs    []string
	MaxDebtPeriods     int // -1: no bound
	FairHoldRatio      float64
	FairHoldMax        time.Duration
}

// Policy is what one source says about one level. The broker's own are always Set.
type Policy struct {
	Msgs, Bytes int64 // in a period; -1: no limit
	Period      time.Duration
	Set         bool // false: the source says nothing, and the rest is zero
}

// Policies are what a topic or a namespace says.
type Policies struct {
	Topic        Policy // each partition, to all groups together
	Subscription Policy // each partition, to each group
}

// Namespace is the topics whose names begin alike.
type Namespace struct {
	Prefix string
	Policies
}

// InNamespace tells whether a topic is in a namespace: its name is the prefix, or goes on after it with the delimiter.
func InNamespace(topic, prefix, delimiter string) bool {
	rest, ok := strings.CutPrefix(topic, prefix)
	return ok && (rest == "" || strings.HasPrefix(rest, delimiter))
}

// policy is the settings that make a Policy. They count as a whole: a source that sets one of them supplies all three, and
// what it does not set is no limit, or the broker's period.
type policy struct {
	msgs, bytes, period *row
}

func (p *policy) rows() []*row { return []*row{p.msgs, p.bytes, p.period} }

// place is where a policy's settings may stand: the values there, and what comes before the names.
type place struct {
	values map[string]string
	prefix string
	source Source
}

func (at place) raw(r *row) (string, bool) {
	if at.prefix == "" {
		return lookup(at.values, r)
	}
	raw, ok := at.values[at.prefix+r.name]
	return raw, ok
}

func (at place) sets(p *policy) bool {
	for _, r := range p.rows() {
		if _, ok := at.raw(r); ok {
			return true
		}
	}
	return false
}

// found gives the value of a setting in the place.
func (at place) found(r *row) (found, bool) {
	raw, ok := at.raw(r)
	if at.prefix != "" {
		r = r.under(at.prefix)
	}
	return found{r, raw, at.source}, ok
}

// places are where a policy of a topic or a group may stand beside the broker, the strongest first.
func (l Layers) places(scope Scope) []place {
	if scope == ScopeGroup {
		return []place{{values: l.Group, source: SourceGroup}}
	}
	places := []place{{values: l.Topic, source: SourceTopic}}
	for _, prefix := range l.namespacesOf(l.TopicName) {
		places = append(places, place{l.DynamicDefault, namespaceKey(prefix, ""), SourceDynamicDefault})
	}
	return places
}

// policySynonyms are the synonyms of a setting that belongs to a policy.
func (l Layers) policySynonyms(r *row) iter.Seq[found] {
	return func(yield func(found) bool) {
		for _, at := range l.places(r.scope) {
			if !at.sets(r.policy) {
				continue
			}
			f, ok := at.found(r)
			if !ok && r != r.policy.period {
				yield(found{r, r.def, SourceDefault})
				return
			}
			if !ok {
				break
			}
			if !yield(f) {
				return
			}
		}
		for f := range l.chain(r) {
			if !yield(f) {
				return
			}
		}
	}
}

// policyAt is what a place says.
func (l Layers) policyAt(at place, p *policy) (Policy, error) {
	if !at.sets(p) {
		return Policy{}, nil
	}
	var numbers [3]int64
	for i, r := range p.rows() {
		v, err := l.valueAt(at, r)
		if err != nil {
			return Policy{}, err
		}
		numbers[i] = v.whole
	}
	return Policy{Msgs: numbers[0], Bytes: numbers[1], Period: time.Duration(numbers[2]) * time.Second, Set: true}, nil
}

// valueAt is the value of a setting in a place that sets some of its policy.
func (l Layers) valueAt(at place, r *row) (value, error) {
	f, ok := at.found(r)
	switch {
	case ok:
		return f.valueOf(r)
	case r == r.policy.period:
		v, _, err := l.effective(r.chain[0])
		return v, err
	}
	return r.parsedDef, nil
}

func (l Layers) policiesAt(at place) (p Policies, err error) {
	if p.Topic, err = l.policyAt(at, topicPolicy); err != nil {
		return p, err
	}
	p.Subscription, err = l.policyAt(at, subscriptionPolicy)
	return p, err
}

// checkDispatch fills in what is not a setting by itself, and holds the two ways of counting against each other: the messages of
// each batch, or batches.
func (l Layers) checkDispatch(d *Dispatch) error {
	for _, p := range []*Policy{&d.Broker, &d.PerTopic, &d.PerSubscription} {
		p.Set = true
	}
	if d.Precise && d.OnBatches {
		return fmt.Errorf("%s and %s exclude each other: at most one of them may be true", l.told(keyPrecise), l.told(keyOnBatches))
	}
	return l.storeNamespaces(d)
}

// told is a broker setting with its alias and where its value comes from, for a message.
func (l Layers) told(key string) string {
	r := settings.find(ScopeBroker, key)
	for f := range l.synonyms(r) {
		return fmt.Sprintf("%s (%s, true by %s)", r.name, r.aliases[0], f.source)
	}
	return r.name
}
