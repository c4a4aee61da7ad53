package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// configResources reads and writes the settings of limits through Kafka's protocol.
type configResources struct{ client *kgo.Client }

// resource is where a policy's settings are changed. Namespaces' are on the BROKER resource without a name, the default of all brokers.
func (p *limitPolicy) resource() (kmsg.ConfigResourceType, string) {
	switch p.Scope {
	case "topic":
		return kmsg.ConfigResourceTypeTopic, p.Name
	case "group":
		return kmsg.ConfigResourceTypeGroupConfig, p.Name
	}
	return kmsg.ConfigResourceTypeBroker, ""
}

func (r configResources) alter(ctx context.Context, p limitPolicy, changes []keyValue) error {
	var configs []kmsg.IncrementalAlterConfigsRequestResourceConfig
	for _, kv := range changes {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value, c.Op = kv.key, &kv.value, kmsg.IncrementalAlterConfigOpSet
		configs = append(configs, c)
	}
	return r.incremental(ctx, p, configs)
}

func (r configResources) unset(ctx context.Context, p limitPolicy, keys []string) error {
	var configs []kmsg.IncrementalAlterConfigsRequestResourceConfig
	for _, key := range keys {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = key, kmsg.IncrementalAlterConfigOpDelete
		configs = append(configs, c)
	}
	return r.incremental(ctx, p, configs)
}

func (r configResources) incremental(ctx context.Context, p limitPolicy, configs []kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = p.resource()
	resource.Configs = configs
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, r.client)
	if err != nil {
		return explain(p.subject(), err, "")
	}
	for _, res := range resp.Resources {
		if err := kerr.ErrorForCode(res.ErrorCode); err != nil {
			return explain(p.subject(), err, text(res.ErrorMessage))
		}
	}
	return nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// setting is one setting as described.
type setting struct {
	value  int64
	source kmsg.ConfigSource
}

// read gives what holds for a policy.
func (r configResources) read(ctx context.Context, p limitPolicy) (limitPolicy, error) {
	filled, err := r.fill(ctx, []limitPolicy{p})
	if err != nil {
		return p, err
	}
	return filled[0], nil
}

// fill asks for the settings of all policies in one request and takes them over. What is gone meanwhile stays unset.
func (r configResources) fill(ctx context.Context, policies []limitPolicy) ([]limitPolicy, error) {
	var req kmsg.DescribeConfigsRequest
	at := map[resourceName]int{}
	ask := func(res resourceName, keys ...string) {
		i, ok := at[res]
		if !ok {
			i = len(req.Resources)
			at[res] = i
			req.Resources = append(req.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: res.kind, ResourceName: res.name})
		}
		req.Resources[i].ConfigNames = append(req.Resources[i].ConfigNames, keys...)
	}
	broker, err := r.broker(ctx)
	if err != nil {
		return nil, err
	}
	ask(broker, brokerPeriod)
	for _, p := range policies {
		keys := p.keys()
		ask(p.readFrom(broker), keys.messages, keys.bytes, keys.period)
	}
	described, err := r.describe(ctx, &req)
	if err != nil {
		return nil, err
	}
	period := described[broker][brokerPeriod].value
	for i := range policies {
		policies[i].take(described[policies[i].readFrom(broker)], period)
	}
	return policies, nil
}

// resourceName is what has settings.
type resourceName struct {
	kind kmsg.ConfigResourceType
	name string
}

// broker is the resource that shows what holds for a broker, wherever it is set. The one that answers stands for all.
func (r configResources) broker(ctx context.Context) (resourceName, error) {
	brokers, err := kadm.NewClient(r.client).ListBrokers(ctx)
	if err != nil || len(brokers) == 0 {
		return resourceName{}, explain("brokers", err, "")
	}
	return resourceName{kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(brokers[0].NodeID))}, nil
}

// readFrom is where what holds for a policy is told.
func (p *limitPolicy) readFrom(broker resourceName) resourceName {
	if p.Scope == "broker" {
		return broker
	}
	kind, name := p.resource()
	return resourceName{kind, name}
}

// describe reads the numbers among the settings of resources.
func (r configResources) describe(ctx context.Context, req *kmsg.DescribeConfigsRequest) (map[resourceName]map[string]setting, error) {
	resp, err := req.RequestWith(ctx, r.client)
	if err != nil {
		return nil, explain("settings", err, "")
	}
	described := map[resourceName]map[string]setting{}
	for _, res := range resp.Resources {
		settings := map[string]setting{}
		for _, c := range res.Configs {
			if n, err := strconv.ParseInt(text(c.Value), 10, 64); err == nil {
				settings[c.Name] = setting{n, c.Source}
			}
		}
		described[resourceName{res.ResourceType, res.ResourceName}] = settings
	}
	return described, nil
}

// take fills in the rates and the period, and whether the policy's own source sets one of them.
func (p *limitPolicy) take(settings map[string]setting, brokerPeriod int64) {
	keys := p.keys()
	p.Messages, p.Bytes, p.PeriodSeconds = unlimited, unlimited, brokerPeriod
	for key, field := range map[string]*int64{keys.messages: &p.Messages, keys.bytes: &p.Bytes, keys.period: &p.PeriodSeconds} {
		s, ok := settings[key]
		if !ok {
			continue
		}
		*field = s.value
		// The broker's period is of all its levels: it alone makes no limit.
		p.set = p.set || p.owns(s.source) && (p.Scope != "broker" || key != keys.period)
	}
}

// owns tells whether a source is the policy's own and not one that stands in for it.
func (p *limitPolicy) owns(source kmsg.ConfigSource) bool {
	switch p.Scope {
	case "topic":
		return source == kmsg.ConfigSourceDynamicTopicConfig
	case "group":
		return source == kmsg.ConfigSourceGroupConfig
	}
	return source != kmsg.ConfigSourceDefaultConfig
}

// tellElsewhere says which settings of a limit of the broker's are from other places than the default of all brokers, which is what `throttle
// set` and `throttle unset` change: those of the broker alone count before it, and those that it was started with after it.
func (r configResources) tellElsewhere(ctx context.Context, w io.Writer, p limitPolicy) error {
	broker, err := r.broker(ctx)
	if err != nil {
		return err
	}
	keys := p.keys()
	names := []string{keys.messages, keys.bytes, keys.period}
	described, err := r.describe(ctx, &kmsg.DescribeConfigsRequest{Resources: []kmsg.DescribeConfigsRequestResource{
		{ResourceType: broker.kind, ResourceName: broker.name, ConfigNames: names},
	}})
	if err != nil {
		return err
	}
	for _, name := range names {
		switch s := described[broker][name]; s.source {
		case kmsg.ConfigSourceDynamicBrokerConfig:
			fmt.Fprintf(w, "%s=%d is set for broker %s alone, which counts before; `kafka-configs --entity-type brokers --entity-name %s` changes it\n", name, s.value, broker.name, broker.name)
		case kmsg.ConfigSourceStaticBrokerConfig:
			fmt.Fprintf(w, "%s=%d is what the broker was started with, by its file, its environment or --set\n", name, s.value)
		}
	}
	return nil
}

// namespaces are the prefixes that have settings.
func (r configResources) namespaces(ctx context.Context) ([]string, error) {
	kind, name := (&limitPolicy{Scope: "namespace"}).resource()
	described, err := r.describe(ctx, &kmsg.DescribeConfigsRequest{Resources: []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name}}})
	if err != nil {
		return nil, err
	}
	var prefixes []string
	for key := range described[resourceName{kind, name}] {
		if prefix, ok := namespaceOf(key); ok {
			prefixes = append(prefixes, prefix)
		}
	}
	slices.Sort(prefixes)
	return slices.Compact(prefixes), nil
}

// groups are those with settings.
func (r configResources) groups(ctx context.Context) ([]string, error) {
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = []int8{int8(kmsg.ConfigResourceTypeGroupConfig)}
	resp, err := req.RequestWith(ctx, r.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, explain("groups with settings", err, "")
	}
	var names []string
	for _, res := range resp.ConfigResources {
		names = append(names, res.Name)
	}
	return names, nil
}
