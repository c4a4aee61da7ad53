package broker

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
	"sluice/config"
	"sluice/kproto"
)

// describeConfigs answers DescribeConfigs, v1-4: the settings of topics, groups, this broker ("1") and all brokers ("",
// only what is set there), with their sources. Named keys filter; null or no keys mean all.
//
// Groups need not exist. Of the broker's loggers there is one, root, and its level is not changed through Kafka's protocol.
// Client metrics subscriptions have no settings.
//
// A resource that is named twice is refused, and an answer holds maxDescribedConfigs settings, so that a small
// request cannot ask for gigabytes.
//
//	v3  types and documentation
func (b *Broker) describeConfigs(c *call, q *kmsg.DescribeConfigsRequest) {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	resp.Resources = make([]kmsg.DescribeConfigsResponseResource, len(q.Resources))
	d := description{b: b, q: q, left: maxDescribedConfigs, seen: map[resourceKey]bool{}}
	for i := range q.Resources {
		rr, x := &q.Resources[i], &resp.Resources[i]
		x.ResourceType, x.ResourceName = rr.ResourceType, rr.ResourceName
		var err error
		x.Configs, err = d.resource(rr)
		x.ErrorCode, x.ErrorMessage = c.fail(err)
	}
	c.answer(resp)
}

// maxDescribedConfigs is how many settings one answer tells, at some hundred bytes each: those of 20,000 topics.
const maxDescribedConfigs = 1_000_000

var errTooManyConfigs = kproto.Errorf(kproto.PolicyViolation, "One request can describe at most %d configs.", maxDescribedConfigs)

// description is one DescribeConfigs request under way.
type description struct {
	b    *Broker
	q    *kmsg.DescribeConfigsRequest
	left int // settings that the answer still has room for
	seen map[resourceKey]bool
}

func (d *description) resource(rr *kmsg.DescribeConfigsRequestResource) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	key := resourceKey{catalog.ResourceType(rr.ResourceType), rr.ResourceName}
	if d.seen[key] {
		return nil, errResourceTwice
	}
	d.seen[key] = true
	if d.left == 0 {
		return nil, errTooManyConfigs
	}
	entries, err := d.b.describeResource(key.typ, key.name)
	if len(rr.ConfigNames) > 0 {
		asked := canonicalNames(key, rr.ConfigNames)
		entries = slices.DeleteFunc(entries, func(e config.Entry) bool { return !asked[e.Name] })
	}
	if len(entries) > d.left {
		d.left = 0
		return nil, errTooManyConfigs
	}
	d.left -= len(entries)
	configs := make([]kmsg.DescribeConfigsResponseResourceConfig, len(entries))
	for i, e := range entries {
		configs[i] = describedConfig(e, d.q)
	}
	return configs, err
}

// canonicalNames are the names of the settings that a request asks for, perhaps by other names.
func canonicalNames(r resourceKey, keys []string) map[string]bool {
	scopes := map[catalog.ResourceType]config.Scope{
		catalog.ResourceTopic: config.ScopeTopic, catalog.ResourceBroker: config.ScopeDefault, catalog.ResourceGroup: config.ScopeGroup,
	}
	names := make(map[string]bool, len(keys))
	for _, key := range keys {
		if name, ok := config.Canonical(scopes[r.typ], key); ok {
			key = name
		}
		names[key] = true
	}
	return names
}

func (b *Broker) describeResource(typ catalog.ResourceType, name string) ([]config.Entry, error) {
	switch typ {
	case catalog.ResourceTopic:
		return b.describeTopic(name)
	case catalog.ResourceBroker:
		return b.describeBroker(name)
	case resourceBrokerLogger:
		return b.describeLoggers(name)
	case catalog.ResourceGroup:
		if err := checkGroupName(name); err != nil {
			return nil, err
		}
		return config.DescribeGroup(b.settings.Load().forGroup(b.groupConfigs.own(name))), nil
	case resourceClientMetrics:
		if name == "" {
			return nil, kproto.Errorf(kproto.InvalidRequest, "The resource name is empty.")
		}
		return nil, nil
	}
	return nil, kproto.Errorf(kproto.InvalidRequest, "There is no resource type %d.", typ)
}

func (b *Broker) describeTopic(name string) ([]config.Entry, error) {
	if err := checkTopicName(name); err != nil {
		return nil, err
	}
	t := b.topics.byName(name)
	if t == nil {
		return nil, errUnknownTopic
	}
	return config.DescribeTopic(b.settings.Load().forTopic(name, t.raw().Config)), nil
}

func (b *Broker) describeBroker(name string) ([]config.Entry, error) {
	if err := checkBrokerName(name); err != nil {
		return nil, err
	}
	layers := b.settings.Load().layers
	if name == "" {
		return config.DescribeBrokerDefault(layers), nil
	}
	return config.DescribeBroker(layers), nil
}

// checkBrokerName allows this broker's id and "", the default of all brokers.
func checkBrokerName(name string) error {
	if name == "" {
		return nil
	}
	if id, err := strconv.ParseInt(name, 10, 32); err != nil {
		return kproto.Errorf(kproto.InvalidRequest, "A broker is named by its number, not %q.", name)
	} else if id != NodeID {
		return kproto.Errorf(kproto.InvalidRequest, "The only broker is %d, or the empty name for the default of all; there is no %s.", NodeID, name)
	}
	return nil
}

// sourceBrokerLogger is DYNAMIC_BROKER_LOGGER_CONFIG of DescribeConfigs.
const sourceBrokerLogger config.Source = 6

func (b *Broker) describeLoggers(name string) ([]config.Entry, error) {
	if name == "" {
		return nil, kproto.Errorf(kproto.InvalidRequest, "The broker id is empty.")
	}
	if err := checkBrokerName(name); err != nil {
		return nil, err
	}
	return []config.Entry{{Name: "root", Value: kmsg.StringPtr(b.logLevel()), Source: sourceBrokerLogger, ReadOnly: true,
		Type: int8(kmsg.ConfigTypeString), Doc: "The level of the broker's log."}}, nil
}

func describedConfig(e config.Entry, q *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	x := kmsg.NewDescribeConfigsResponseResourceConfig()
	x.Name, x.Value = e.Name, e.Value
	x.ReadOnly, x.IsSensitive = e.ReadOnly, e.Sensitive
	x.IsDefault = e.Source == config.SourceDefault
	x.Source, x.ConfigType = kmsg.ConfigSource(e.Source), kmsg.ConfigType(e.Type)
	if q.IncludeDocumentation && e.Doc != "" {
		x.Documentation = &e.Doc
	}
	if q.IncludeSynonyms {
		for _, s := range e.Synonyms {
			y := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			y.Name, y.Value, y.Source = s.Name, s.Value, kmsg.ConfigSource(s.Source)
			x.ConfigSynonyms = append(x.ConfigSynonyms, y)
		}
	}
	return x
}
