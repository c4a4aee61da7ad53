package catalog

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/machine"
	"sluice/kproto"
)

const topicA, topicB = "topic/AAAAAAAAAAAAAAAAAAAAAQ", "topic/AAAAAAAAAAAAAAAAAAAAAg"

// apply applies records given as "key value" or "key" alone for a tombstone, and gives the first error.
func apply(m *Machine, records ...string) error {
	for _, text := range records {
		key, value, ok := strings.Cut(text, " ")
		r := machine.Record{Key: []byte(key)}
		if ok {
			r.Value = []byte(value)
		}
		if err := m.Apply(r); err != nil {
			return err
		}
	}
	return nil
}

// A damaged or a newer catalog does not start, and the error names the record.
func TestApplyRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []string // the last one is refused
		want    string
	}{
		{"a kind it does not know", []string{`acl/1 {"v":1}`}, `"acl/1": this broker knows no such kind`},
		{"an empty key", []string{` {"v":1}`}, `"": this broker knows no such kind`},
		{"a version it does not know", []string{`epoch {"v":2,"epoch":"two"}`}, `"epoch": it has version 2, and this broker reads version 1`},
		{"no version", []string{topicA + ` {"name":"a","partitions":1}`}, "it has version 0"},
		{"no JSON", []string{topicA + ` {"v":1`}, "unexpected end of JSON"},
		{"a value of another type", []string{topicA + ` {"v":1,"name":"a","partitions":"1"}`}, "cannot unmarshal"},
		{"a tombstone for the cluster", []string{`cluster`}, "it has no value"},
		{"a tombstone for the epoch", []string{`epoch`}, "it has no value"},
		{"a tombstone for the producer ids", []string{`producer-ids`}, "it has no value"},
		{"an empty cluster id", []string{`cluster {"v":1}`}, `the cluster's id "" would become ""`},
		{"another cluster id", []string{`cluster {"v":1,"id":"x"}`, `cluster {"v":1,"id":"y"}`}, `the cluster's id "x" would become "y"`},
		{"an epoch that stands", []string{`epoch {"v":1,"epoch":3}`, `epoch {"v":1,"epoch":3}`}, "the epoch 3 would become 3"},
		{"producer ids that go back", []string{`producer-ids {"v":1,"next":3}`, `producer-ids {"v":1,"next":2}`}, "the next producer id 3 would become 2"},
		{"a topic id that is none", []string{`topic/short {"v":1,"name":"a","partitions":1}`}, "parse topic id"},
		{"a topic without a name", []string{topicA + ` {"v":1,"partitions":1}`}, `topic "" has 1 partitions`},
		{"a topic without partitions", []string{topicA + ` {"v":1,"name":"a"}`}, `topic "a" has 0 partitions`},
		{"a topic that changes its name", []string{topicA + ` {"v":1,"name":"a","partitions":1}`, topicA + ` {"v":1,"name":"b","partitions":1}`}, `topic "a" would become "b"`},
		{"two topics of a name", []string{topicA + ` {"v":1,"name":"a","partitions":1}`, topicB + ` {"v":1,"name":"a","partitions":1}`}, `topic "a" exists with the id AAAAAAAAAAAAAAAAAAAAAQ`},
		{"a topic that lives again", []string{topicA + ` {"v":1,"name":"a","partitions":1,"deleted":true}`, topicA + ` {"v":1,"name":"a","partitions":1}`}, `the deleted topic "a" would live again`},
		{"a config of an unknown resource", []string{`config/client/x {"v":1,"values":{"a":"1"}}`}, `"client" is no kind of resource`},
		{"a config without a name", []string{`config/broker {"v":1,"values":{"a":"1"}}`}, `"broker" is no kind of resource`},
		{"a quota of an unknown kind", []string{`quota/hosts/x {"v":1,"values":{"a":1}}`}, `"hosts" is no kind of quota entity`},
		{"a quota of nobody", []string{`quota/ {"v":1,"values":{"a":1}}`}, `"" is no quota entity`},
		{"a quota whose parts are turned round", []string{`quota/clients/c/users/u {"v":1,"values":{"a":1}}`}, `"clients/c/users/u" is no quota entity`},
		{"a quota without a name", []string{`quota/users {"v":1,"values":{"a":1}}`}, `"users" is no quota entity`},
		{"a quota with a bad name", []string{`quota/users/%zz {"v":1,"values":{"a":1}}`}, `invalid URL escape`},
		{"a quota that is no number", []string{`quota/users/u {"v":1,"values":{"a":"1"}}`}, "cannot unmarshal"},
		{"quotas without values", []string{`quota/users/u {"v":1}`}, "it has no values"},
		{"a config without values", []string{`config/broker/1 {"v":1}`}, "it has no values"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := New(Options{})
			last := len(c.records) - 1
			if err := apply(m, c.records[:last]...); err != nil {
				t.Fatal(err)
			}
			err := apply(m, c.records[last])
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want …%s…", err, c.want)
			}
		})
	}
}

// A later minor version may say more than this one reads; names may hold anything.
func TestApplyReads(t *testing.T) {
	m := New(Options{})
	err := apply(m,
		topicA+` {"v":1,"name":"a","partitions":2,"internal":true,"config":{},"colour":"red"}`,
		`config/group/a/b {"v":1,"values":{"k":"v"}}`,
		topicB,           // the tombstone of what compaction has taken away
		`config/group/x`, // the same
	)
	if err != nil {
		t.Fatal(err)
	}
	want := Topic{Name: "a", ID: kproto.TopicID{15: 1}, Partitions: 2, Internal: true}
	if got, ok := m.TopicByName("a"); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("topic %+v", got)
	}
	if got := m.Config(ResourceGroup, "a/b"); got["k"] != "v" {
		t.Errorf("config %v", got)
	}
	if err := apply(m, topicA); err != nil || len(m.Topics()) != 0 || m.partitions != 0 {
		t.Errorf("after its tombstone: %v, %v", m.Topics(), err)
	}
}

func TestConfigsAreBounded(t *testing.T) {
	m := New(Options{})
	for i := range maxResources {
		m.configs[resource{ResourceGroup, fmt.Sprint(i)}] = map[string]string{"k": "v"}
	}
	v := "2"
	set := []ConfigOp{{Key: "k", Value: &v}}
	e := m.Step(time.Time{}, machine.Asked{Event: AlterConfigs{Resources: []ConfigChange{
		{ResourceGroup, "one more", false, set}, {ResourceGroup, "7", false, set},
	}}})
	errs := e.Replies[0].Value.([]error)
	if code, _ := kproto.CodeOf(errs[0]); code != kproto.PolicyViolation || errs[1] != nil || len(e.Records) != 1 {
		t.Errorf("%v, %d records", errs, len(e.Records))
	}
}

// A validator's own code is kept.
func TestValidatorsCode(t *testing.T) {
	m := New(Options{ValidateConfig: func(ResourceType, string, map[string]string) error {
		return kproto.Errorf(kproto.PolicyViolation, "no")
	}})
	e := m.Step(time.Time{}, machine.Asked{Event: AlterConfigs{Resources: []ConfigChange{{Type: ResourceGroup, Name: "g"}}}})
	if code, _ := kproto.CodeOf(e.Replies[0].Value.([]error)[0]); code != kproto.PolicyViolation {
		t.Errorf("code %d", code)
	}
}

// Brokers' values are judged as all of them will be after the request, with the others that it does not change; each of several
// that do not go together is refused, and what else the request asks for is done.
func TestBrokersAreJudgedTogether(t *testing.T) {
	m := New(Options{ValidateBrokers: func(all map[string]map[string]string) error {
		on := 0
		for _, values := range all {
			on += len(values)
		}
		if on > 1 {
			return fmt.Errorf("%d values are one too many", on)
		}
		return nil
	}})
	yes := "true"
	set := func(name, key string) ConfigChange {
		return ConfigChange{ResourceBroker, name, false, []ConfigOp{{Key: key, Value: &yes}}}
	}
	unset := func(name, key string) ConfigChange {
		return ConfigChange{ResourceBroker, name, false, []ConfigOp{{Op: OpDelete, Key: key}}}
	}
	group := ConfigChange{ResourceGroup, "g", false, []ConfigOp{{Key: "a", Value: &yes}}}
	invalid, ok := kproto.InvalidConfig, kproto.NoError
	for _, x := range []struct {
		what         string
		changes      []ConfigChange
		validateOnly bool
		want         []int16
		records      int
	}{
		{"one", []ConfigChange{set("", "a")}, false, []int16{ok}, 1},
		{"another beside it", []ConfigChange{set("1", "b")}, false, []int16{invalid}, 0},
		{"the two in one", []ConfigChange{set("", "b")}, false, []int16{invalid}, 0},
		{"one off and the other on", []ConfigChange{unset("", "a"), set("1", "b")}, true, []int16{ok, ok}, 0},
		{"the same for good", []ConfigChange{set("1", "b"), unset("", "a")}, false, []int16{ok, ok}, 2},
		{"all of the brokers' or none", []ConfigChange{set("", "a"), group, set("1", "c")}, false, []int16{invalid, ok, invalid}, 1},
		{"nothing", []ConfigChange{unset("", "x")}, false, []int16{ok}, 0},
	} {
		e := m.Step(time.Time{}, machine.Asked{Event: AlterConfigs{Resources: x.changes, ValidateOnly: x.validateOnly}})
		var codes []int16
		for _, err := range e.Replies[0].Value.([]error) {
			code, _ := kproto.CodeOf(err)
			codes = append(codes, code)
		}
		if !slices.Equal(codes, x.want) || len(e.Records) != x.records || len(e.Orders) != x.records {
			t.Errorf("%s: %v with %d records, want %v with %d", x.what, codes, len(e.Records), x.want, x.records)
		}
		for _, r := range e.Records {
			if err := m.Apply(r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What the shell must not do is loud, and leaves no record behind.
func TestShellsMistakes(t *testing.T) {
	for _, ev := range []any{Start{}, "no event", nil} {
		t.Run(fmt.Sprintf("%T", ev), func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			New(Options{}).Step(time.Time{}, ev)
		})
	}
}

// Whatever stands in the log, Apply takes it or refuses it; what it took can be replayed.
func FuzzApply(f *testing.F) {
	for _, s := range []string{topicA, "epoch", "cluster", "producer-ids", "config/broker/1", "config/group/"} {
		f.Add([]byte(s), []byte(`{"v":1,"name":"a","partitions":1,"epoch":1,"id":"x","next":5,"values":{"a":"1"}}`))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		m, again := New(Options{}), New(Options{})
		r := machine.Record{Key: key, Value: value}
		if m.Apply(r) != nil {
			return
		}
		if err := again.Apply(r); err != nil || !reflect.DeepEqual(m.state, again.state) {
			t.Errorf("%v, %+v, %+v", err, m.state, again.state)
		}
		m.Loaded(time.Time{})
	})
}
