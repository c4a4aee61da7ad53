package sluice

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// admin is a client that reads and changes settings.
type admin struct {
	t      *testing.T
	client *kgo.Client
	*kadm.Client
}

func newAdmin(t *testing.T, b *Broker) admin {
	c := client(t, b)
	return admin{t, c, kadm.NewClient(c)}
}

// alterBroker changes this broker, or the default of all, and gives the error of the answer.
func (a admin) alterBroker(broker []int32, alters ...kadm.AlterConfig) error {
	a.t.Helper()
	responses, err := a.AlterBrokerConfigs(context.Background(), alters, broker...)
	if err != nil {
		a.t.Fatal(err)
	}
	return responses[0].Err
}

func (a admin) alterTopic(topic string, alters ...kadm.AlterConfig) error {
	a.t.Helper()
	responses, err := a.AlterTopicConfigs(context.Background(), alters, topic)
	if err != nil {
		a.t.Fatal(err)
	}
	return responses[0].Err
}

// alterGroup sets one value; kadm knows no settings of groups.
func (a admin) alterGroup(group, key, value string) error {
	a.t.Helper()
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: group,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Value: &value}},
	}}
	r, err := q.RequestWith(context.Background(), a.client)
	if err != nil {
		a.t.Fatal(err)
	}
	return kerr.ErrorForCode(r.Resources[0].ErrorCode)
}

func setTo(key, value string) kadm.AlterConfig {
	return kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value}
}

func (a admin) expect(typ kmsg.ConfigResourceType, name, key, want string) {
	a.t.Helper()
	q := kmsg.NewPtrDescribeConfigsRequest()
	q.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: typ, ResourceName: name}}
	r, err := q.RequestWith(context.Background(), a.client)
	if err != nil || r.Resources[0].ErrorCode != 0 {
		a.t.Fatalf("describe %q: %v, %+v", name, err, r)
	}
	for _, c := range r.Resources[0].Configs {
		if c.Name == key {
			if c.Value == nil || *c.Value != want {
				a.t.Errorf("%s of %q is not %s: %+v", key, name, want, c)
			}
			return
		}
	}
	a.t.Errorf("%q has no %s", name, key)
}

// An admin client sets limits of dispatch on every kind of resource, is refused what contradicts itself, and finds all of it again after a
// restart.
func TestDispatchSettings(t *testing.T) {
	const (
		topic, broker, group = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeGroupConfig
		msg                  = "dispatch.throttling.rate.in.msg"
		precise, batches     = "dispatch.throttling.precise.flow.control", "dispatch.throttling.on.batch.message.enabled"
		ofNamespace          = "namespace.orders.eu.subscription.dispatch.throttling.rate.in.msg"
	)
	all, this := []int32(nil), []int32{1}
	o := Options{DataDir: filepath.Join(t.TempDir(), "data")}
	b, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	a := newAdmin(t, b)
	rate := "7"
	if r, err := a.CreateTopic(context.Background(), 1, 1, map[string]*string{"dispatchThrottlingRateInMsg": &rate}, "orders.eu"); err != nil || r.Err != nil {
		t.Fatal(err, r.Err)
	}
	for what, err := range map[string]error{
		"topic":         a.alterTopic("orders.eu", setTo("subscription.dispatch.throttling.rate.period.seconds", "60")),
		"all brokers":   a.alterBroker(all, setTo("dispatchThrottlingRateInMsg", "100"), setTo(ofNamespace, "50")),
		"this broker":   a.alterBroker(this, setTo(msg, "0"), setTo(precise, "true")),
		"group":         a.alterGroup("g", msg, "9"),
		"group session": a.alterGroup("g", "consumer.session.timeout.ms", "50000"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := a.alterBroker(all, setTo(batches, "true"), setTo(msg, "1")); !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("both ways of counting: %v", err)
	}
	if err := a.alterBroker(this, setTo(batches, "true"), setTo(precise, "false")); err != nil {
		t.Errorf("one way of counting for the other: %v", err)
	}
	for _, when := range []string{"at once", "after a restart"} {
		t.Run(when, func(t *testing.T) {
			a := newAdmin(t, b)
			a.expect(topic, "orders.eu", msg, "7")
			a.expect(topic, "orders.eu", "subscription.dispatch.throttling.rate.period.seconds", "60")
			a.expect(broker, "", msg, "100")
			a.expect(broker, "", ofNamespace, "50")
			a.expect(broker, "1", msg, "-1")
			a.expect(broker, "1", precise, "false")
			a.expect(broker, "1", batches, "true")
			a.expect(group, "g", msg, "9")
			a.expect(group, "g", "consumer.session.timeout.ms", "50000")
		})
		a.client.Close()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if b, err = Start(o); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	o.Settings = map[string]string{precise: "true"}
	if b, err = Start(o); err != nil { // the broker's own setting says otherwise
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
