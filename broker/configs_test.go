package broker

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/log"
)

const (
	typeTopic  = kmsg.ConfigResourceTypeTopic
	typeBroker = kmsg.ConfigResourceTypeBroker
	typeLogger = kmsg.ConfigResourceTypeBrokerLogger
	typeGroup  = kmsg.ConfigResourceTypeGroupConfig
)

// edit is an entry of IncrementalAlterConfigs; null stands for no value.
type edit struct {
	op         int8
	key, value string
}

const null = "\x00null"

func nullable(s string) *string {
	if s == null {
		return nil
	}
	return &s
}

func incremental(typ kmsg.ConfigResourceType, name string, edits ...edit) kmsg.IncrementalAlterConfigsRequestResource {
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = typ, name
	for _, e := range edits {
		x := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		x.Op, x.Name, x.Value = kmsg.IncrementalAlterConfigOp(e.op), e.key, nullable(e.value)
		r.Configs = append(r.Configs, x)
	}
	return r
}

func (c *client) edit(version int16, validateOnly bool, resources ...kmsg.IncrementalAlterConfigsRequestResource) (codes []int16) {
	c.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources, req.ValidateOnly = resources, validateOnly
	for i, r := range do[*kmsg.IncrementalAlterConfigsResponse](c, req, version).Resources {
		if r.ResourceType != resources[i].ResourceType || r.ResourceName != resources[i].ResourceName || (r.ErrorMessage != nil) != (r.ErrorCode != 0) {
			c.t.Errorf("answer %d is %+v", i, r)
		}
		codes = append(codes, r.ErrorCode)
	}
	return codes
}

// set sets one value and fails the test if that is refused.
func (c *client) set(typ kmsg.ConfigResourceType, name, key, value string) {
	c.t.Helper()
	if codes := c.edit(1, false, incremental(typ, name, edit{0, key, value})); codes[0] != 0 {
		c.t.Fatalf("set %s=%s: %d", key, value, codes[0])
	}
}

// replace is AlterConfigs for one resource; kv are keys and values.
func (c *client) replace(version int16, typ kmsg.ConfigResourceType, name string, kv ...string) int16 {
	c.t.Helper()
	req := kmsg.NewPtrAlterConfigsRequest()
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = typ, name
	for i := 0; i < len(kv); i += 2 {
		x := kmsg.NewAlterConfigsRequestResourceConfig()
		x.Name, x.Value = kv[i], nullable(kv[i+1])
		r.Configs = append(r.Configs, x)
	}
	req.Resources = append(req.Resources, r)
	return do[*kmsg.AlterConfigsResponse](c, req, version).Resources[0].ErrorCode
}

// described is the answer for one resource, by name of the setting.
func (c *client) described(version int16, typ kmsg.ConfigResourceType, name string, keys ...string) (int16, map[string]kmsg.DescribeConfigsResponseResourceConfig) {
	c.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = typ, name, keys
	req.Resources = append(req.Resources, r)
	x := do[*kmsg.DescribeConfigsResponse](c, req, version).Resources[0]
	configs := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, e := range x.Configs {
		configs[e.Name] = e
	}
	return x.ErrorCode, configs
}

func TestAlterConfigsErrors(t *testing.T) {
	c := startNode(t, nil).dial()
	c.mustCreate("a")
	for _, x := range []struct {
		what     string
		resource kmsg.IncrementalAlterConfigsRequestResource
		code     int16
	}{
		{"nothing", incremental(typeTopic, "a"), 0},
		{"set", incremental(typeTopic, "a", edit{0, "retention.ms", "1"}), 0},
		{"unknown topic", incremental(typeTopic, "x", edit{0, "retention.ms", "1"}), 3},
		{"bad topic name", incremental(typeTopic, "x/", edit{0, "retention.ms", "1"}), 17},
		{"topic without a name", incremental(typeTopic, "", edit{0, "retention.ms", "1"}), 42},
		{"the catalog", incremental(typeTopic, catalogTopic, edit{0, "retention.ms", "1"}), 3},
		{"unknown key", incremental(typeTopic, "a", edit{0, "no.such", "1"}), 40},
		{"bad value", incremental(typeTopic, "a", edit{0, "retention.ms", "soon"}), 40},
		{"empty value", incremental(typeTopic, "a", edit{0, "retention.ms", ""}), 40},
		{"null value", incremental(typeTopic, "a", edit{0, "retention.ms", null}), 42},
		{"same key twice", incremental(typeTopic, "a", edit{0, "retention.ms", "1"}, edit{1, "retention.ms", null}), 42},
		{"unknown operation", incremental(typeTopic, "a", edit{4, "retention.ms", "1"}), 42},
		{"negative operation", incremental(typeTopic, "a", edit{-1, "retention.ms", "1"}), 42},
		{"unset", incremental(typeTopic, "a", edit{1, "retention.ms", null}), 0},
		{"unset with a value", incremental(typeTopic, "a", edit{1, "retention.ms", "1"}), 0},
		{"unset unknown", incremental(typeTopic, "a", edit{1, "no.such", null}), 0},
		{"append", incremental(typeTopic, "a", edit{2, "cleanup.policy", "compact"}), 0},
		{"append null", incremental(typeTopic, "a", edit{2, "cleanup.policy", null}), 42},
		{"append what is no list", incremental(typeTopic, "a", edit{2, "retention.ms", "1"}), 40},
		{"append a bad element", incremental(typeTopic, "a", edit{2, "cleanup.policy", "burn"}), 40},
		{"append to unknown", incremental(typeTopic, "a", edit{2, "no.such", "1"}), 40},
		{"subtract", incremental(typeTopic, "a", edit{3, "cleanup.policy", "compact"}), 0},
		{"subtract from what is no list", incremental(typeTopic, "a", edit{3, "retention.ms", "1"}), 40},
		{"contradiction", incremental(typeTopic, "a", edit{0, "min.compaction.lag.ms", "2"}, edit{0, "max.compaction.lag.ms", "1"}), 40},
		{"broker", incremental(typeBroker, "1", edit{0, "log.retention.ms", "1"}), 0},
		{"all brokers", incremental(typeBroker, "", edit{0, "log.retention.ms", "1"}), 0},
		{"other broker", incremental(typeBroker, "2", edit{0, "log.retention.ms", "1"}), 42},
		{"broker by name", incremental(typeBroker, "one", edit{0, "log.retention.ms", "1"}), 42},
		{"broker setting that needs a restart", incremental(typeBroker, "1", edit{0, "num.partitions", "2"}), 42},
		{"broker setting that only the command line makes", incremental(typeBroker, "1", edit{0, "log.dirs", "/x"}), 42},
		{"unknown broker key", incremental(typeBroker, "1", edit{0, "no.such", "2"}), 40},
		{"bad broker value", incremental(typeBroker, "1", edit{0, "log.retention.ms", "soon"}), 40},
		{"loggers", incremental(typeLogger, "1", edit{0, "root", "DEBUG"}), 42},
		{"group", incremental(typeGroup, "g", edit{0, "consumer.session.timeout.ms", "50000"}), 0},
		{"group without a name", incremental(typeGroup, "", edit{0, "consumer.session.timeout.ms", "50000"}), 42},
		{"group with a long name", incremental(typeGroup, strings.Repeat("g", maxGroupName+1), edit{0, "consumer.session.timeout.ms", "50000"}), 42},
		{"unknown group key", incremental(typeGroup, "g", edit{0, "no.such", "50000"}), 40},
		{"bad group value", incremental(typeGroup, "g", edit{0, "consumer.session.timeout.ms", "x"}), 40},
		{"group value below the broker's bound", incremental(typeGroup, "g", edit{0, "consumer.session.timeout.ms", "44999"}), 40},
		{"group value above the broker's bound", incremental(typeGroup, "g", edit{0, "consumer.heartbeat.interval.ms", "15001"}), 40},
		{"unknown resource", incremental(99, "a", edit{0, "retention.ms", "1"}), 42},
		{"unknown resource 0", incremental(0, "a", edit{0, "retention.ms", "1"}), 42},
	} {
		for version := int16(0); version <= 1; version++ {
			if codes := c.edit(version, true, x.resource); len(codes) != 1 || codes[0] != x.code {
				t.Errorf("%s, v%d: %v, want %d", x.what, version, codes, x.code)
			}
		}
	}
	_, configs := c.described(4, typeTopic, "a")
	for _, e := range configs {
		if e.Source == kmsg.ConfigSourceDynamicTopicConfig {
			t.Errorf("validate_only set %s", e.Name)
		}
	}
	for version := int16(0); version <= 2; version++ {
		for want, code := range map[int16]int16{
			0:  c.replace(version, typeTopic, "a", "retention.ms", "1"),
			3:  c.replace(version, typeTopic, "x", "retention.ms", "1"),
			40: c.replace(version, typeTopic, "a", "no.such", "1"),
			42: c.replace(version, typeTopic, "a", "retention.ms", null),
		} {
			if code != want {
				t.Errorf("AlterConfigs v%d: %d, want %d", version, code, want)
			}
		}
		if code := c.replace(version, typeTopic, "a", "retention.ms", "1", "retention.ms", "2"); code != 42 {
			t.Errorf("AlterConfigs v%d, same key twice: %d", version, code)
		}
	}
}

// H3: a resource is changed as a whole or not at all, and others do not suffer.
func TestAlterConfigsAllOrNothingEach(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.mustCreate("a")
	c.mustCreate("b")
	codes := c.edit(1, false,
		incremental(typeTopic, "a", edit{0, "retention.ms", "1000"}, edit{0, "segment.ms", "soon"}),
		incremental(typeTopic, "b", edit{0, "retention.ms", "2000"}))
	if codes[0] != 40 || codes[1] != 0 {
		t.Fatalf("%v", codes)
	}
	if a, b := n.topics.byName("a").raw().Config, n.topics.byName("b").raw().Config; a != nil || b["retention.ms"] != "2000" {
		t.Errorf("a %v, b %v", a, b)
	}
	codes = c.edit(1, false, incremental(typeTopic, "a", edit{0, "retention.ms", "1"}), incremental(typeTopic, "a", edit{0, "segment.ms", "1"}))
	if codes[0] != 42 || codes[1] != 42 || n.topics.byName("a").raw().Config != nil {
		t.Errorf("the same resource twice: %v", codes)
	}
}

func TestAlterConfigsReplaceAndLists(t *testing.T) {
	c := startNode(t, nil).dial()
	c.mustCreate("a", "retention.ms", "1000")
	value := func(key string) (string, kmsg.ConfigSource) {
		_, configs := c.described(4, typeTopic, "a", key)
		return deref(configs[key].Value), configs[key].Source
	}
	c.edit(1, false, incremental(typeTopic, "a", edit{2, "cleanup.policy", "compact"}))
	if v, _ := value("cleanup.policy"); v != "delete,compact" {
		t.Errorf("appended to the default: %s", v)
	}
	c.edit(1, false, incremental(typeTopic, "a", edit{3, "cleanup.policy", "delete"}))
	if v, _ := value("cleanup.policy"); v != "compact" {
		t.Errorf("subtracted: %s", v)
	}
	if v, _ := value("retention.ms"); v != "1000" {
		t.Errorf("incremental changes took away retention.ms: %s", v)
	}
	if code := c.replace(2, typeTopic, "a", "segment.ms", "5000"); code != 0 {
		t.Fatal(code)
	}
	if v, s := value("retention.ms"); v != "604800000" || s != kmsg.ConfigSourceDefaultConfig {
		t.Errorf("the replaced retention.ms is %s from %v", v, s)
	}
	c.edit(1, false, incremental(typeTopic, "a", edit{1, "segment.ms", null}))
	if _, s := value("segment.ms"); s != kmsg.ConfigSourceDefaultConfig {
		t.Errorf("the unset segment.ms comes from %v", s)
	}
}

func TestDescribeConfigsErrors(t *testing.T) {
	c := startNode(t, nil).dial()
	c.mustCreate("a")
	for _, x := range []struct {
		what string
		typ  kmsg.ConfigResourceType
		name string
		code int16
	}{
		{"topic", typeTopic, "a", 0},
		{"unknown topic", typeTopic, "x", 3},
		{"bad name", typeTopic, "x/", 17},
		{"the catalog", typeTopic, catalogTopic, 3},
		{"broker", typeBroker, "1", 0},
		{"all brokers", typeBroker, "", 0},
		{"other broker", typeBroker, "2", 42},
		{"broker by name", typeBroker, "one", 42},
		{"loggers", typeLogger, "1", 0},
		{"loggers of nobody", typeLogger, "", 42},
		{"loggers of another", typeLogger, "2", 42},
		{"group", typeGroup, "g", 0},
		{"group without a name", typeGroup, "", 42},
		{"client metrics", kmsg.ConfigResourceTypeClientMetrics, "m", 0},
		{"unknown type", 99, "a", 42},
	} {
		for version := int16(1); version <= 4; version++ {
			code, configs := c.described(version, x.typ, x.name)
			if code != x.code || code != 0 && len(configs) > 0 {
				t.Errorf("%s, v%d: %d with %d configs, want %d", x.what, version, code, len(configs), x.code)
			}
		}
	}
}

func TestDescribeConfigsKeysSourcesTypes(t *testing.T) {
	c := startNode(t, map[string]string{"log.retention.ms": "5000"}).dial()
	c.mustCreate("a", "segment.ms", "7000")
	_, configs := c.described(4, typeTopic, "a", "retention.ms", "segment.ms", "cleanup.policy", "no.such")
	if len(configs) != 3 {
		t.Fatalf("asked for three keys that exist, got %v", configs)
	}
	for key, want := range map[string]struct {
		value  string
		source kmsg.ConfigSource
	}{
		"retention.ms":   {"5000", kmsg.ConfigSourceStaticBrokerConfig},
		"segment.ms":     {"7000", kmsg.ConfigSourceDynamicTopicConfig},
		"cleanup.policy": {"delete", kmsg.ConfigSourceDefaultConfig},
	} {
		e := configs[key]
		if deref(e.Value) != want.value || e.Source != want.source || e.ConfigType == 0 || deref(e.Documentation) == "" {
			t.Errorf("%s: %+v", key, e)
		}
		if e.Source != kmsg.ConfigSourceDefaultConfig && (len(e.ConfigSynonyms) == 0 || e.ConfigSynonyms[0].Source != e.Source) {
			t.Errorf("%s: synonyms %+v", key, e.ConfigSynonyms)
		}
	}
	_, all := c.described(1, typeBroker, "1")
	for _, key := range []string{"num.partitions", "auto.create.topics.enable", "default.replication.factor", "message.max.bytes", "log.dirs", "node.id"} {
		if e, ok := all[key]; !ok || e.Value == nil {
			t.Errorf("broker: %s is missing or null", key)
		}
	}
	if _, loggers := c.described(4, typeLogger, "1"); deref(loggers["root"].Value) != "INFO" {
		t.Errorf("loggers: %v", loggers)
	}
}

// H5: a change takes effect on what is running, on topics without settings of their own as well, and survives a restart.
func TestConfigsTakeEffect(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.mustCreate("plain")
	c.mustCreate("own", "retention.ms", "1000")
	c.produce("plain", 0, "x") // the logs exist
	c.produce("own", 0, "x")
	expect := func(when string, plain, own log.Durability, plainBytes, ownBytes int) {
		t.Helper()
		p, o := n.topics.byName("plain"), n.topics.byName("own")
		if d := p.state.Load().log.Durability; d != plain {
			t.Errorf("%s: plain's durability is %v", when, d)
		}
		if d := o.state.Load().log.Durability; d != own {
			t.Errorf("%s: own's durability is %v", when, d)
		}
		if p.config().MaxMessageBytes != plainBytes || o.config().MaxMessageBytes != ownBytes {
			t.Errorf("%s: max.message.bytes %d and %d", when, p.config().MaxMessageBytes, o.config().MaxMessageBytes)
		}
		if o.config().RetentionMs != 1000 {
			t.Errorf("%s: own's retention is %d", when, o.config().RetentionMs)
		}
	}
	const def = 1048588
	expect("at first", log.Fsync, log.Fsync, def, def)
	c.set(typeTopic, "own", "sluice.durability", "os")
	expect("topic", log.Fsync, log.OS, def, def)
	c.set(typeBroker, "", "message.max.bytes", "2000")
	expect("all brokers", log.Fsync, log.OS, 2000, 2000)
	c.set(typeBroker, "1", "message.max.bytes", "3000")
	expect("this broker", log.Fsync, log.OS, 3000, 3000)
	c.set(typeTopic, "own", "max.message.bytes", "4000")
	expect("topic again", log.Fsync, log.OS, 3000, 4000)
	n.restart()
	expect("after a restart", log.Fsync, log.OS, 3000, 4000)
	c = n.dial()
	_, defaults := c.described(4, typeBroker, "")
	if len(defaults) != 1 || deref(defaults["message.max.bytes"].Value) != "2000" {
		t.Errorf("set for all brokers: %v", defaults)
	}
	c.edit(1, false, incremental(typeBroker, "1", edit{1, "message.max.bytes", null}), incremental(typeBroker, "", edit{1, "message.max.bytes", null}))
	expect("taken back", log.Fsync, log.OS, def, 4000)
}

// Kafka's own topics are fsynced whatever anybody says.
func TestInternalTopicsAreAlwaysFsynced(t *testing.T) {
	n := startNode(t, map[string]string{"sluice.durability": "os"})
	c := n.dial()
	c.create(7, false, createEntry("__consumer_offsets", 1, 1))
	c.create(7, false, createEntry("__transaction_state", 1, 1, "sluice.durability", "os"))
	c.mustCreate("a")
	for name, want := range map[string]log.Durability{"a": log.OS, "__consumer_offsets": log.Fsync, "__transaction_state": log.Fsync} {
		if got := n.topics.byName(name).state.Load().log.Durability; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// A small request cannot ask for the same thing a million times.
func TestDescribeConfigsIsBounded(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.mustCreate("a")
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = typeTopic, "a"
	req.Resources = append(req.Resources, r, r)
	got := do[*kmsg.DescribeConfigsResponse](c, req, 4).Resources
	if len(got) != 2 || got[0].ErrorCode != 0 || got[1].ErrorCode != 42 || len(got[1].Configs) != 0 {
		t.Errorf("named twice: %+v", got)
	}
	d := description{b: n.Broker, q: req, left: len(got[0].Configs), seen: map[resourceKey]bool{}}
	if configs, err := d.resource(&r); err != nil || len(configs) != len(got[0].Configs) {
		t.Errorf("as many as there is room for: %d, %v", len(configs), err)
	}
	r.ResourceType, r.ResourceName = typeBroker, "1"
	if configs, err := d.resource(&r); err != errTooManyConfigs || configs != nil {
		t.Errorf("no room: %d, %v", len(configs), err)
	}
}
