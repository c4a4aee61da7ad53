package catalog

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/machine"
	"sluice/internal/machine/machinetest"
	"sluice/kproto"
)

// The names are few, so that histories meet themselves: two that collide, an internal one, an ordinary one, and a reserved one.
var names = []string{"a.b", "a_b", "plain", "__consumer_offsets", "__sluice_catalog", ""}

const partitionLimit = 12

// life is a live machine beside three that must always agree with it.
type life struct {
	t       *rapid.T
	live    *Machine
	replica *Machine         // only ever Applies
	log     []machine.Record // all of them
	path    datapath         // what the orders have told the data path
	ids     byte
	nextPID int64
}

// datapath is what a shell would make of the orders.
type datapath struct {
	topics  map[kproto.TopicID]Topic
	deleted map[kproto.TopicID]Topic
	configs map[resource]map[string]string
	quotas  map[QuotaEntity]map[string]float64
}

func newDatapath() datapath {
	return datapath{map[kproto.TopicID]Topic{}, map[kproto.TopicID]Topic{}, map[resource]map[string]string{}, map[QuotaEntity]map[string]float64{}}
}

func (d datapath) follow(orders []any) {
	for _, o := range orders {
		switch o := o.(type) {
		case TopicCreated:
			d.topics[o.Topic.ID] = o.Topic
		case TopicDeleted:
			delete(d.topics, o.Topic.ID)
			d.deleted[o.Topic.ID] = o.Topic
		case ConfigChanged:
			d.configs[resource{o.Type, o.Name}] = o.Values
			if o.Values == nil {
				delete(d.configs, resource{o.Type, o.Name})
			}
		case QuotaChanged:
			d.quotas[o.Entity] = o.Values
			if o.Values == nil {
				delete(d.quotas, o.Entity)
			}
		}
	}
}

func newTestMachine() *Machine {
	refuse := func(all map[string]string) error {
		if all["a"] == "bad" {
			return fmt.Errorf("a is bad")
		}
		return nil
	}
	return New(Options{
		MaxPartitions:  func() int { return partitionLimit },
		ValidateConfig: func(_ ResourceType, _ string, all map[string]string) error { return refuse(all) },
		ValidateBrokers: func(all map[string]map[string]string) error {
			for _, values := range all {
				if err := refuse(values); err != nil {
					return err
				}
			}
			return nil
		},
	})
}

// step runs an event as the driver does and checks all that must hold after any event.
func (l *life) step(ev any) any {
	e := l.live.Step(time.Time{}, machine.Asked{Ticket: 7, Event: ev})
	if !reflect.DeepEqual(l.live.state, l.replica.state) {
		l.t.Fatalf("Step changed hard state on %#v", ev)
	}
	for _, r := range e.Records {
		l.log = append(l.log, r)
		for _, m := range []*Machine{l.live, l.replica} {
			if err := m.Apply(r); err != nil {
				l.t.Fatal(err)
			}
		}
	}
	l.path.follow(e.Orders)
	if len(e.Replies) != 1 || e.Replies[0].Ticket != 7 {
		l.t.Fatalf("replies %v", e.Replies)
	}
	l.checkReplays()
	l.checkRules()
	return e.Replies[0].Value
}

func (l *life) checkReplays() {
	for what, log := range map[string][]machine.Record{
		"whole": l.log, "compacted": machinetest.Compacted(l.log, true), "compacted without tombstones": machinetest.Compacted(l.log, false),
		"compacted in part": machinetest.Partly(l.log, true), "compacted in part without tombstones": machinetest.Partly(l.log, false),
	} {
		m := newTestMachine()
		for _, r := range log {
			if err := m.Apply(r); err != nil {
				l.t.Fatalf("replay of the log, %s: %v", what, err)
			}
		}
		if !reflect.DeepEqual(m.state, l.live.state) {
			l.t.Fatalf("replay of the log, %s:\n%+v\nlive:\n%+v", what, m.state, l.live.state)
		}
		told := newDatapath()
		told.follow(m.Loaded(time.Time{}).Orders)
		if !reflect.DeepEqual(told, l.path) {
			l.t.Fatalf("after a replay, %s, the data path is told\n%+v\nand knew\n%+v", what, told, l.path)
		}
	}
}

func (l *life) checkRules() {
	total, folded := 0, map[string]bool{}
	for _, t := range l.live.Topics() {
		total += int(t.Partitions)
		f, _ := fold(t.Name)
		if folded[f] {
			l.t.Fatalf("%s collides", t.Name)
		}
		folded[f] = true
		if t.Config["a"] == "bad" {
			l.t.Fatalf("%s has a config that was refused", t.Name)
		}
		if byName, ok := l.live.TopicByName(t.Name); !ok || byName.ID != t.ID {
			l.t.Fatalf("%s leads to %v", t.Name, byName)
		}
		if byID, ok := l.live.TopicByID(t.ID); !ok || byID.Name != t.Name {
			l.t.Fatalf("%v leads to %v", t.ID, byID)
		}
		if _, ok := l.live.deleted[t.ID]; ok {
			l.t.Fatalf("%v lives and is deleted", t)
		}
	}
	if total != l.live.partitions || total > partitionLimit {
		l.t.Fatalf("%d partitions, counted as %d", total, l.live.partitions)
	}
}

func (l *life) name() string { return rapid.SampledFrom(names).Draw(l.t, "name") }

func (l *life) id() kproto.TopicID {
	return kproto.TopicID{15: byte(rapid.IntRange(0, int(l.ids)+1).Draw(l.t, "id"))}
}

func (l *life) values() map[string]string {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"", "1", "x,y", "bad", "\xff"}), 0, 2).Draw(l.t, "values")
}

func (l *life) newTopic() NewTopic {
	l.ids++
	t := NewTopic{Name: l.name(), ID: kproto.TopicID{15: l.ids}, Config: l.values()}
	t.Partitions = int32(rapid.IntRange(-1, 5).Draw(l.t, "partitions"))
	if rapid.IntRange(0, 9).Draw(l.t, "stale id") == 0 {
		t.ID = l.id()
	}
	return t
}

func (l *life) ref() (r TopicRef) {
	if rapid.Bool().Draw(l.t, "by name") {
		r.Name = l.name()
	} else {
		r.ID = l.id()
	}
	return r
}

func (l *life) change() ConfigChange {
	c := ConfigChange{
		Type:    rapid.SampledFrom([]ResourceType{ResourceTopic, ResourceBroker, ResourceGroup, 16}).Draw(l.t, "type"),
		Name:    l.name(),
		Replace: rapid.Bool().Draw(l.t, "replace"),
	}
	for range rapid.IntRange(0, 3).Draw(l.t, "ops") {
		op := ConfigOp{
			Op:      int8(rapid.IntRange(0, 4).Draw(l.t, "op")),
			Key:     rapid.SampledFrom([]string{"a", "b"}).Draw(l.t, "key"),
			Default: "x,y",
		}
		if rapid.IntRange(0, 9).Draw(l.t, "null") > 0 {
			v := rapid.SampledFrom([]string{"", "1", "x", "x,y", "bad"}).Draw(l.t, "value")
			op.Value = &v
		}
		c.Ops = append(c.Ops, op)
	}
	return c
}

func some[T any](l *life, one func() T) (out []T) {
	for range rapid.IntRange(0, 3).Draw(l.t, "how many") {
		out = append(out, one())
	}
	return out
}

// dryRun checks that asking changes nothing and that the answer is what doing gives.
func (l *life) dryRun(ask, do any) {
	records := len(l.log)
	asked := l.step(ask)
	if len(l.log) != records {
		l.t.Fatalf("%#v left records", ask)
	}
	if done := l.step(do); !reflect.DeepEqual(asked, done) {
		l.t.Fatalf("asked: %v\ndone: %v", asked, done)
	}
}

func (l *life) createTopics(*rapid.T) {
	topics := some(l, l.newTopic)
	l.dryRun(CreateTopics{topics, true}, CreateTopics{topics, false})
}

func (l *life) createPartitions(*rapid.T) {
	more := some(l, func() MorePartitions {
		return MorePartitions{l.name(), int32(rapid.IntRange(-1, 7).Draw(l.t, "count"))}
	})
	l.dryRun(CreatePartitions{more, true}, CreatePartitions{more, false})
}

func (l *life) alterConfigs(*rapid.T) {
	changes := some(l, l.change)
	l.dryRun(AlterConfigs{changes, true}, AlterConfigs{changes, false})
}

func (l *life) quotaName() QuotaName {
	switch rapid.IntRange(0, 2).Draw(l.t, "part") {
	case 0:
		return QuotaName{}
	case 1:
		return QuotaName{Given: true, Default: true}
	}
	return QuotaName{Given: true, Name: rapid.SampledFrom([]string{"a", "a/b", "<default>", "%", "\xff"}).Draw(l.t, "entity")}
}

func (l *life) quotaChange() QuotaChange {
	c := QuotaChange{Entity: QuotaEntity{User: l.quotaName(), ClientID: l.quotaName()}}
	if c.Entity == (QuotaEntity{}) {
		c.Entity.IP = QuotaName{Given: true, Name: "::1"}
	}
	key := rapid.SampledFrom([]string{"k", "l"})
	c.Set = rapid.MapOfN(key, rapid.Float64(), 0, 2).Draw(l.t, "set")
	c.Remove = rapid.SliceOfN(key, 0, 2).Draw(l.t, "remove")
	return c
}

func (l *life) alterQuotas(*rapid.T) {
	changes := some(l, l.quotaChange)
	l.dryRun(AlterQuotas{changes, true}, AlterQuotas{changes, false})
}

func (l *life) deleteTopics(*rapid.T) { l.step(DeleteTopics{some(l, l.ref)}) }

func (l *life) topicGone(*rapid.T) {
	id := l.id()
	delete(l.path.deleted, id) // the shell has removed the files
	l.step(TopicGone{id})
}

func (l *life) start(*rapid.T) {
	before := l.live.Epoch()
	s := l.step(Start{"cluster"}).(Started)
	if s.Epoch != before+1 || s.ClusterID != "cluster" || l.live.Epoch() != s.Epoch {
		l.t.Fatalf("started %v after epoch %d", s, before)
	}
}

func (l *life) reserve(*rapid.T) {
	n := rapid.Int64Range(-1, 3).Draw(l.t, "n")
	b := l.step(ReserveProducerIDs{n}).(ProducerIDBlock)
	if b.First < l.nextPID || b.N != max(n, 0) {
		l.t.Fatalf("asked for %d producer ids, got %v; below %d all are taken", n, b, l.nextPID)
	}
	l.nextPID = b.First + b.N
}

// After any history, a replay, also of the compacted log, gives the live state and tells the data path what it knew.
func TestReplayEqualsLive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{t: t, live: newTestMachine(), replica: newTestMachine(), path: newDatapath()}
		t.Repeat(map[string]func(*rapid.T){
			"create":  l.createTopics,
			"create+": l.createTopics,
			"delete":  l.deleteTopics,
			"gone":    l.topicGone,
			"grow":    l.createPartitions,
			"alter":   l.alterConfigs,
			"alter+":  l.alterConfigs,
			"quotas":  l.alterQuotas,
			"quotas+": l.alterQuotas,
			"start":   l.start,
			"reserve": l.reserve,
		})
	})
}

// What a machine gave away does not change when it goes on.
func TestWhatIsGivenIsImmutable(t *testing.T) {
	l := &life{live: newTestMachine(), replica: newTestMachine(), path: newDatapath()}
	v := "1"
	config := map[string]string{"a": v}
	l.step(CreateTopics{Topics: []NewTopic{{Name: "t", ID: kproto.TopicID{1}, Partitions: 1, Config: config}}})
	before, _ := l.live.TopicByName("t")
	kept := maps.Clone(before.Config)
	config["a"] = "changed by its owner"
	l.step(AlterConfigs{Resources: []ConfigChange{{ResourceTopic, "t", false, []ConfigOp{{Op: OpDelete, Key: "a"}, {Key: "b", Value: &v}}}}})
	if !maps.Equal(before.Config, kept) {
		t.Errorf("was %v, became %v", kept, before.Config)
	}
	if after := l.live.Config(ResourceTopic, "t"); !maps.Equal(after, map[string]string{"b": "1"}) {
		t.Errorf("after: %v", after)
	}
}

func TestLoadedTellsInOrder(t *testing.T) {
	l := &life{live: newTestMachine(), replica: newTestMachine(), path: newDatapath()}
	v := "1"
	for i, name := range []string{"b", "a", "c"} {
		l.step(CreateTopics{Topics: []NewTopic{{Name: name, ID: kproto.TopicID{15: byte(i + 1)}, Partitions: 1}}})
	}
	l.step(DeleteTopics{[]TopicRef{{Name: "c"}, {Name: "a"}}})
	for _, name := range []string{"1", ""} {
		l.step(AlterConfigs{Resources: []ConfigChange{{ResourceBroker, name, false, []ConfigOp{{Key: "k", Value: &v}}}}})
	}
	var got []string
	for _, o := range l.live.Loaded(time.Time{}).Orders {
		switch o := o.(type) {
		case ConfigChanged:
			got = append(got, "config "+o.Name)
		case TopicDeleted:
			got = append(got, "deleted "+o.Topic.Name)
		case TopicCreated:
			got = append(got, "topic "+o.Topic.Name)
		}
	}
	if want := []string{"config ", "config 1", "deleted a", "deleted c", "topic b"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}
