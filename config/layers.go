package config

// Scope is where a setting may stand.
type Scope uint8

const (
	ScopeBroker Scope = 1 << iota
	ScopeTopic
	ScopeGroup
	// ScopeDefault is the default of all brokers: what a broker has, and the settings of namespaces.
	ScopeDefault
)

// String is the word for the scope in messages.
func (s Scope) String() string {
	switch s {
	case ScopeBroker, ScopeDefault:
		return "broker"
	case ScopeTopic:
		return "topic"
	case ScopeGroup:
		return "group"
	}
	return "unknown"
}

// Source is where a value came from, as in DescribeConfigs (wire values).
type Source int8

const (
	SourceTopic          Source = 1 // DYNAMIC_TOPIC_CONFIG
	SourceDynamicBroker  Source = 2 // DYNAMIC_BROKER_CONFIG
	SourceDynamicDefault Source = 3 // DYNAMIC_DEFAULT_BROKER_CONFIG
	SourceStatic         Source = 4 // STATIC_BROKER_CONFIG: file, environment, --set
	SourceDefault        Source = 5 // DEFAULT_CONFIG
	SourceGroup          Source = 8 // GROUP_CONFIG
)

// String says where a broker's value stands, in messages.
func (s Source) String() string {
	switch s {
	case SourceDynamicBroker:
		return "the broker's dynamic setting"
	case SourceDynamicDefault:
		return "the dynamic default of all brokers"
	case SourceStatic:
		return "the file, the environment or --set"
	}
	return "default"
}

// Layers are the raw values that stand over the defaults. For a broker a later field of the first three wins; Topic wins
// over all for a topic, and Group for a group. Keys that are no settings here are ignored.
type Layers struct {
	Static         map[string]string // file < environment < --set, merged by the caller
	DynamicDefault map[string]string // BROKER resource ""
	Dynamic        map[string]string // BROKER resource "1"
	Topic          map[string]string // TOPIC resource
	TopicName      string            // of that topic, for its namespaces
	Group          map[string]string // GROUP resource

	// Stated is what the running broker knows of itself: listeners, advertised.listeners, log.dirs. DescribeBroker shows
	// these values; nothing can set them.
	Stated map[string]string
}

// brokerLayers are the layers of a broker over the defaults, the strongest first.
func (l Layers) brokerLayers() [3]layer {
	return [3]layer{{SourceDynamicBroker, l.Dynamic}, {SourceDynamicDefault, l.DynamicDefault}, {SourceStatic, l.Static}}
}

type layer struct {
	source Source
	values map[string]string
}
