package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCheckGroup(t *testing.T) {
	for _, c := range []struct {
		group, static string
		want          string // part of the error; "": accepted
	}{
		{"", "", ""},
		{"consumer.session.timeout.ms=45000 consumer.heartbeat.interval.ms=15000", "", ""},
		{"consumer.session.timeout.ms=60000", "", ""},
		{"consumer.session.timeout.ms=44999", "", "setting consumer.session.timeout.ms cannot be 44999: it must be from 45000 to 60000 (group.consumer.min.session.timeout.ms and group.consumer.max.session.timeout.ms)"},
		{"consumer.session.timeout.ms=60001", "", "from 45000 to 60000"},
		{"consumer.session.timeout.ms=60001", "group.consumer.max.session.timeout.ms=70000", ""},
		{"consumer.heartbeat.interval.ms=4999", "", "from 5000 to 15000"},
		{"consumer.heartbeat.interval.ms=4999", "group.consumer.min.heartbeat.interval.ms=1", ""},
		{"consumer.assignment.interval.ms=15001", "", "from 0 to 15000"},
		{"consumer.session.timeout.ms=x", "", "a whole number"},
		{"consumer.assignment.interval.ms=x", "", "a whole number"},
		{"consumer.session.timeout.ms=8000", "group.consumer.min.session.timeout.ms=1 group.consumer.heartbeat.interval.ms=8000", "consumer.session.timeout.ms (8000) must be more than consumer.heartbeat.interval.ms (8000)"},
	} {
		err := CheckGroup(Layers{Group: pairs(c.group), Static: pairs(c.static)})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q over %q: %v, want %q", c.group, c.static, err, c.want)
		}
	}
}

// What is not valid for a group is not valid for all of them.
func TestNewBrokerChecksTheGroupsDefaults(t *testing.T) {
	for static, want := range map[string]string{
		"group.consumer.session.timeout.ms=30000":                                                      "setting group.consumer.session.timeout.ms cannot be 30000: it must be from 45000",
		"group.consumer.min.session.timeout.ms=61000":                                                  "group.consumer.min.session.timeout.ms (61000) must not be more than group.consumer.max.session.timeout.ms (60000)",
		"group.consumer.max.heartbeat.interval.ms=1":                                                   "must not be more than",
		"group.consumer.assignors=":                                                                    "a list of uniform, range",
		"group.consumer.assignors=uniform,mine":                                                        "a list of uniform, range",
		"group.consumer.assignors=uniform,org.apache.kafka.coordinator.group.assignor.UniformAssignor": "each once",
		"group.coordinator.rebalance.protocols=consumer":                                               "with classic",
		"group.coordinator.rebalance.protocols=classic,new":                                            "a list of classic",
		"group.coordinator.rebalance.protocols=classic,share":                                          "",
		"group.consumer.migration.policy=sometimes":                                                    "one of disabled",
		"group.consumer.session.timeout.ms=50000 group.consumer.max.session.timeout.ms=50000":          "",
		"group.consumer.min.assignment.interval.ms=500":                                                "",
		"group.consumer.min.assignment.interval.ms=500 group.consumer.assignment.interval.ms=0":        "it must be from 500",
	} {
		_, err := NewBroker(Layers{Static: pairs(static)})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", static, err, want)
		}
	}
}

// A stored value is never a reason not to start: the broker's bounds may have become others since.
func TestNewGroupClamps(t *testing.T) {
	l := Layers{
		Group:  pairs("consumer.session.timeout.ms=50000 consumer.heartbeat.interval.ms=6000"),
		Static: pairs("group.consumer.max.session.timeout.ms=46000 group.consumer.min.heartbeat.interval.ms=7000 group.consumer.heartbeat.interval.ms=7000"),
	}
	g, err := NewGroup(l)
	if err != nil || g.SessionTimeout != 46*time.Second || g.HeartbeatInterval != 7*time.Second {
		t.Errorf("%+v, %v", g, err)
	}
	if err := CheckGroup(l); err == nil {
		t.Error("such values may be set")
	}
	g, err = NewGroup(Layers{Group: pairs("consumer.session.timeout.ms=50000")})
	if err != nil || g.SessionTimeout != 50*time.Second || g.HeartbeatInterval != 5*time.Second {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestGroupsSettings(t *testing.T) {
	for static, want := range map[string]Groups{
		"":                               {ConsumerAssignors: []string{"uniform", "range"}, Migration: Migration{true, true}},
		"group.consumer.assignors=range": {ConsumerAssignors: []string{"range"}, Migration: Migration{true, true}},
		"group.consumer.assignors=org.apache.kafka.coordinator.group.assignor.RangeAssignor,uniform": {ConsumerAssignors: []string{"range", "uniform"}, Migration: Migration{true, true}},
		"group.consumer.migration.policy=DISABLED":                                                   {ConsumerAssignors: []string{"uniform", "range"}},
		"group.consumer.migration.policy=upgrade":                                                    {ConsumerAssignors: []string{"uniform", "range"}, Migration: Migration{Up: true}},
		"group.consumer.migration.policy=downgrade":                                                  {ConsumerAssignors: []string{"uniform", "range"}, Migration: Migration{Down: true}},
	} {
		b, err := NewBroker(Layers{Static: pairs(static)})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Groups; !slices.Equal(got.ConsumerAssignors, want.ConsumerAssignors) || got.Migration != want.Migration {
			t.Errorf("%q: %+v", static, got)
		}
	}
}
