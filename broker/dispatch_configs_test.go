package broker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/config"
)

// Keys of dispatch throttling that these tests set.
const (
	keyMsg       = "dispatch.throttling.rate.in.msg"
	keyByte      = "dispatch.throttling.rate.in.byte"
	keyPeriod    = "dispatch.throttling.rate.period.seconds"
	keySubMsg    = "subscription.dispatch.throttling.rate.in.msg"
	keyPrecise   = "dispatch.throttling.precise.flow.control"
	keyOnBatches = "dispatch.throttling.on.batch.message.enabled"
)

// value is what a resource's setting is described as, and from where.
func (c *client) value(typ kmsg.ConfigResourceType, name, key string) string {
	c.t.Helper()
	code, configs := c.described(4, typ, name, key)
	if code != 0 || len(configs) != 1 {
		c.t.Fatalf("describe %s of %q: %d, %v", key, name, code, configs)
	}
	for _, e := range configs {
		if e.Name != key && !strings.HasPrefix(key, "dispatchT") { // an alias is answered by the name
			c.t.Errorf("%s is described as %s", key, e.Name)
		}
		if deref(e.Documentation) == "" || e.ReadOnly {
			c.t.Errorf("%s: %+v", key, e)
		}
		return fmt.Sprintf("%s %v", deref(e.Value), e.Source)
	}
	return ""
}

// Every kind of resource takes the limits of dispatch, by name or alias, keeps them over a restart, and gives them to who throttles.
func TestDispatchConfigs(t *testing.T) {
	n := startNode(t, map[string]string{"dispatchThrottlingRatePerTopicInByte": "1000"})
	c := n.dial()
	c.mustCreate("made", "dispatchThrottlingRateInMsg", "3", "subscription.ratePeriodInSecond", "60")
	c.mustCreate("orders.eu.paid")
	c.set(typeBroker, "", "dispatchThrottlingRateInMsg", "100")
	c.set(typeBroker, "1", keyMsg, "200")
	c.set(typeBroker, "", "dispatch.throttling.rate.per.subscription.in.msg", "8")
	c.set(typeBroker, "", "namespace.orders.eu."+keySubMsg, "50")
	c.set(typeBroker, "", "namespace.orders.dispatchThrottlingRateInByte", " 0 ")
	c.set(typeGroup, "g", "dispatchThrottlingRateInByte", "77")
	check := func(when string) {
		t.Helper()
		for _, x := range []struct {
			typ             kmsg.ConfigResourceType
			name, key, want string
		}{
			{typeTopic, "made", keyMsg, "3 DYNAMIC_TOPIC_CONFIG"},
			{typeTopic, "made", "dispatchThrottlingRateInMsg", "3 DYNAMIC_TOPIC_CONFIG"},
			{typeTopic, "made", keyByte, "-1 DEFAULT_CONFIG"},
			{typeTopic, "made", keySubMsg, "-1 DEFAULT_CONFIG"},
			{typeTopic, "orders.eu.paid", keySubMsg, "50 DYNAMIC_DEFAULT_BROKER_CONFIG"},
			{typeTopic, "orders.eu.paid", keyByte, "-1 DYNAMIC_DEFAULT_BROKER_CONFIG"},
			{typeBroker, "", keyMsg, "100 DYNAMIC_DEFAULT_BROKER_CONFIG"},
			{typeBroker, "1", keyMsg, "200 DYNAMIC_BROKER_CONFIG"},
			{typeBroker, "1", "dispatch.throttling.rate.per.topic.in.byte", "1000 STATIC_BROKER_CONFIG"},
			{typeBroker, "1", "namespace.orders." + keyByte, "-1 DYNAMIC_DEFAULT_BROKER_CONFIG"},
			{typeBroker, "", "namespace.orders." + keyByte, "-1 DYNAMIC_DEFAULT_BROKER_CONFIG"},
			{typeGroup, "g", keyByte, "77 GROUP_CONFIG"},
			{typeGroup, "g", keyMsg, "-1 DEFAULT_CONFIG"},
		} {
			if got := c.value(x.typ, x.name, x.key); got != x.want {
				t.Errorf("%s: %s of %q is %s, want %s", when, x.key, x.name, got, x.want)
			}
		}
		const s = time.Second
		d := n.config().Dispatch
		want := []config.Policy{{Msgs: 200, Bytes: -1, Period: s, Set: true}, {Msgs: -1, Bytes: 1000, Period: s, Set: true}, {Msgs: 8, Bytes: -1, Period: s, Set: true}}
		if got := []config.Policy{d.Broker, d.PerTopic, d.PerSubscription}; !slices.Equal(got, want) {
			t.Errorf("%s: broker %+v", when, got)
		}
		if got := fmt.Sprint(d.Namespaces); got != "[{orders.eu {{0 0 0s false} {50 -1 1s true}}} {orders {{-1 -1 1s true} {0 0 0s false}}}]" {
			t.Errorf("%s: namespaces %s", when, got)
		}
		if got := fmt.Sprint(n.topics.byName("made").config().Dispatch); got != "{{3 -1 1s true} {-1 -1 1m0s true}}" {
			t.Errorf("%s: topic %s", when, got)
		}
		if got := fmt.Sprint(n.groupConfigs.policies()); got != "map[g:{-1 77 1s true}]" {
			t.Errorf("%s: groups %s", when, got)
		}
	}
	check("set")
	n.restart()
	c = n.dial()
	check("after a restart")
	c.set(typeBroker, "1", "ratePeriodInSecond", "30")
	if got := fmt.Sprint(n.topics.byName("made").config().Dispatch, n.groupConfigs.policies(), n.config().Dispatch.Namespaces[1].Topic); got != "{{3 -1 30s true} {-1 -1 1m0s true}} map[g:{-1 77 30s true}] {-1 -1 30s true}" {
		t.Errorf("another period of the broker: %s", got)
	}
	_, created := c.described(1, typeBroker, "")
	if len(created) != 4 {
		t.Errorf("set for all brokers: %v", created)
	}
}

func TestDispatchConfigErrors(t *testing.T) {
	c := startNode(t, nil).dial()
	c.mustCreate("a")
	for _, x := range []struct {
		what     string
		resource kmsg.IncrementalAlterConfigsRequestResource
		code     int16
	}{
		{"too large", incremental(typeTopic, "a", edit{0, keyMsg, "9223372036854775808"}), 40},
		{"no number", incremental(typeGroup, "g", edit{0, keyByte, "1MB"}), 40},
		{"no period", incremental(typeTopic, "a", edit{0, keyPeriod, "0"}), 40},
		{"too long a period", incremental(typeBroker, "1", edit{0, "ratePeriodInSecond", "86401"}), 40},
		{"by name and alias", incremental(typeBroker, "1", edit{0, "ratePeriodInSecond", "2"}, edit{0, keyPeriod, "2"}), 42},
		{"namespace on one broker", incremental(typeBroker, "1", edit{0, "namespace.x." + keyMsg, "2"}), 40},
		{"namespace on a topic", incremental(typeTopic, "a", edit{0, "namespace.x." + keyMsg, "2"}), 40},
		{"namespace without a name", incremental(typeBroker, "", edit{0, "namespace.." + keyMsg, "2"}), 40},
		{"namespace with another setting", incremental(typeBroker, "", edit{0, "namespace.x.retention.ms", "2"}), 40},
		{"append to a namespace", incremental(typeBroker, "", edit{2, "namespace.x." + keyMsg, "2"}), 40},
		{"unset what a namespace has not", incremental(typeBroker, "", edit{1, "namespace.x." + keyMsg, null}), 0},
		{"a broker's on a topic", incremental(typeTopic, "a", edit{0, keyPrecise, "true"}), 40},
		{"a list", incremental(typeBroker, "", edit{2, "dispatch.throttling.exempt.client.ids", "kcat"}), 0},
	} {
		if codes := c.edit(1, false, x.resource); codes[0] != x.code {
			t.Errorf("%s: %v, want %d", x.what, codes, x.code)
		}
	}
	if r := c.create(7, false, createEntry("bad", 1, 1, keyMsg, "x"))[0]; r.ErrorCode != 40 || !strings.Contains(deref(r.ErrorMessage), keyMsg) {
		t.Errorf("CreateTopics with no number: %d %s", r.ErrorCode, deref(r.ErrorMessage))
	}
}

// Messages of each batch or batches: whatever a request would lead to, the two ways of counting are not both on.
func TestCountingModesAtRunTime(t *testing.T) {
	n := startNode(t, map[string]string{keyPrecise: "true"})
	c := n.dial()
	on := func() string {
		d := n.config().Dispatch
		return fmt.Sprint(d.Precise, d.OnBatches)
	}
	type resource = kmsg.IncrementalAlterConfigsRequestResource
	for _, x := range []struct {
		what      string
		validate  bool
		resources []resource
		codes     []int16
		want      string // precise, on batches
	}{
		{"the other on", false, []resource{incremental(typeBroker, "1", edit{0, keyOnBatches, "true"})}, []int16{40}, "true false"},
		{"the other on, by its alias, with another setting", false,
			[]resource{incremental(typeBroker, "", edit{0, "dispatchThrottlingOnBatchMessageEnabled", "true"}, edit{0, keyMsg, "5"})}, []int16{40}, "true false"},
		{"one off and the other on, only asked", true,
			[]resource{incremental(typeBroker, "1", edit{0, keyPrecise, "false"}, edit{0, keyOnBatches, "true"})}, []int16{0}, "true false"},
		{"the other on, only asked", true, []resource{incremental(typeBroker, "1", edit{0, keyOnBatches, "true"})}, []int16{40}, "true false"},
		{"one off here and the other on there", false,
			[]resource{incremental(typeBroker, "", edit{0, keyOnBatches, "true"}), incremental(typeBroker, "1", edit{0, keyPrecise, "false"})}, []int16{0, 0}, "false true"},
		{"back to the file's", false, []resource{incremental(typeBroker, "1", edit{1, keyPrecise, null})}, []int16{40}, "false true"},
		{"back to the file's, only asked", true, []resource{incremental(typeBroker, "1", edit{1, keyPrecise, null})}, []int16{40}, "false true"},
		{"both off", false, []resource{incremental(typeBroker, "", edit{0, keyOnBatches, "false"})}, []int16{0}, "false false"},
		{"one off and the other on", false, []resource{incremental(typeBroker, "1", edit{0, keyPrecise, "true"}, edit{0, keyOnBatches, "false"})}, []int16{0}, "true false"},
		{"all gone", false, []resource{incremental(typeBroker, "1", edit{1, keyPrecise, null}, edit{1, keyOnBatches, null}), incremental(typeBroker, "", edit{1, keyOnBatches, null})}, []int16{0, 0}, "true false"},
	} {
		if codes := c.edit(1, x.validate, x.resources...); !slices.Equal(codes, x.codes) || on() != x.want {
			t.Errorf("%s: %v and %s, want %v and %s", x.what, codes, on(), x.codes, x.want)
		}
		if got := n.config().Dispatch.Broker.Msgs; got != -1 {
			t.Fatalf("%s: a refused request set the rate to %d", x.what, got)
		}
	}
	if code := c.replace(2, typeBroker, "1", keyOnBatches, "true"); code != 40 {
		t.Errorf("AlterConfigs: %d", code)
	}
	if code := c.replace(2, typeBroker, "1", keyOnBatches, "true", keyPrecise, "false"); code != 0 || on() != "false true" {
		t.Errorf("AlterConfigs of both: %d, %s", code, on())
	}
}

// A broker does not start with both, whichever layers they stand in, and starts if they only seem to meet while the layers are put
// together.
func TestStartWithCountingModes(t *testing.T) {
	o := startNode(t, nil).opts
	o.Static = map[string]string{keyPrecise: "true", "dispatchThrottlingOnBatchMessageEnabled": "true"}
	if b, err := Start(o); err == nil || b != nil || !strings.Contains(err.Error(), keyPrecise) || !strings.Contains(err.Error(), keyOnBatches) {
		t.Errorf("both in the file: %v", err)
	}

	n := startNode(t, nil)
	c := n.dial()
	c.set(typeBroker, "", keyOnBatches, "true")
	c.set(typeBroker, "1", keyPrecise, "false")
	n.opts.Static = map[string]string{keyPrecise: "true"}
	n.restart()
	if d := n.config().Dispatch; d.Precise || !d.OnBatches {
		t.Errorf("%+v", d)
	}
	n.opts.Static = nil
	n.restart()
	n.dial().edit(1, false, incremental(typeBroker, "1", edit{1, keyPrecise, null}))
	n.stop()
	n.opts.Static = map[string]string{keyPrecise: "true"}
	_, err := Start(n.opts)
	if err == nil || !strings.Contains(err.Error(), keyPrecise) || !strings.Contains(err.Error(), keyOnBatches) {
		t.Errorf("one in the file and one set before: %v", err)
	}
	n.opts.Static = nil
	n.start()
	if !n.config().Dispatch.OnBatches {
		t.Error("the refused start took a setting away")
	}
}

// As many namespaces as there may be, with names as long as they may be, fit into the catalog, and come back from it.
func TestMostNamespaces(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	const most = 1000
	prefix := strings.Repeat("n", maxTopicName-4)
	var edits []edit
	for i := range most {
		for _, key := range []string{keyMsg, keyByte, keyPeriod, "subscription." + keyMsg, "subscription." + keyByte, "subscription." + keyPeriod} {
			edits = append(edits, edit{0, fmt.Sprintf("namespace.%s%04d.%s", prefix, i, key), "86400"})
		}
	}
	if codes := c.edit(1, false, incremental(typeBroker, "", edits...)); codes[0] != 0 {
		t.Fatal(codes)
	}
	if codes := c.edit(1, false, incremental(typeBroker, "", edit{0, "namespace.more." + keyMsg, "1"})); codes[0] != 40 {
		t.Errorf("one more: %v", codes)
	}
	n.restart()
	if got := n.config().Dispatch.Namespaces; len(got) != most || got[most-1].Prefix != prefix+"0999" {
		t.Errorf("%d namespaces after a restart", len(got))
	}
	n.dial().mustCreate("t")
}

// Who throttles hears of every change that concerns it, and of no other.
func TestDispatchChanged(t *testing.T) {
	n := startNode(t, nil)
	var mu sync.Mutex
	var heard []string
	n.dispatchChanged = func(x *topic) {
		mu.Lock()
		defer mu.Unlock()
		if x == nil {
			heard = append(heard, "the rest")
			return
		}
		heard = append(heard, fmt.Sprint(x.name, x.config().Dispatch.Topic.Msgs))
	}
	c := n.dial()
	for _, x := range []struct {
		what string
		do   func()
		want []string
	}{
		{"a topic with a limit", func() { c.mustCreate("a", keyMsg, "3") }, []string{"a3"}},
		{"one without", func() { c.mustCreate("b") }, []string{"b0"}},
		{"another limit", func() { c.set(typeTopic, "a", keyMsg, "4") }, []string{"a4"}},
		{"something else of a topic", func() { c.set(typeTopic, "a", "retention.ms", "5") }, nil},
		{"the broker's limit", func() { c.set(typeBroker, "1", keyMsg, "5") }, []string{"the rest"}},
		{"something else of the broker", func() { c.set(typeBroker, "1", "log.retention.ms", "5") }, nil},
		{"a namespace", func() { c.set(typeBroker, "", "namespace.a."+keyMsg, "5") }, []string{"the rest"}},
		{"a group's limit", func() { c.set(typeGroup, "g", keyMsg, "5") }, []string{"the rest"}},
		{"something else of a group", func() { c.set(typeGroup, "g", "consumer.session.timeout.ms", "50000") }, nil},
		{"the group's limit gone", func() { c.edit(1, false, incremental(typeGroup, "g", edit{1, keyMsg, null})) }, []string{"the rest"}},
		{"the limits of two groups at once", func() {
			c.edit(1, false, incremental(typeGroup, "g", edit{0, keyMsg, "5"}), incremental(typeGroup, "h", edit{0, keyMsg, "6"}))
		}, []string{"the rest"}},
		{"a period, also of the topic's rate", func() { c.set(typeBroker, "1", keyPeriod, "5") }, []string{"a4", "the rest"}},
		{"the topic's limit gone", func() { c.edit(1, false, incremental(typeTopic, "a", edit{1, keyMsg, null})) }, []string{"a0"}},
	} {
		x.do()
		mu.Lock()
		if !slices.Equal(heard, x.want) {
			t.Errorf("%s: heard %q, want %q", x.what, heard, x.want)
		}
		heard = nil
		mu.Unlock()
	}
}

// Settings of no time in which shares are kept must not read as settings that are not there, which both zero do.
func TestNoFairHoldIsNotTheDefault(t *testing.T) {
	for _, d := range []config.Dispatch{{FairHoldMax: 2 * time.Second}, {FairHoldRatio: 0.5}, {}} {
		if s := limitsOf(&d, nil); s.FairHoldRatio == 0 && s.FairHoldMax == 0 || s.FairHoldRatio*float64(s.FairHoldMax) != 0 {
			t.Errorf("%v at most %v became %v at most %v", d.FairHoldRatio, d.FairHoldMax, s.FairHoldRatio, s.FairHoldMax)
		}
	}
}
