package config

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// samples are two valid values for every row: one of them is not the default.
func samples(r *row) []string {
	var list []string
	for _, s := range []string{
		"true", "false", "0.25", "1", "2", "3", "4194304", "262144", "compact", "delete", "0:1", "range", "classic",
		"gzip", "zstd", "CreateTime", "LogAppendTime", "os", "interval", "strict", "relaxed", "upgrade", "shared", "User:x", "disabled", "x", "y",
		"6000", "46000", // within the bounds of groups
		"shared", "app-(.*)", "evict",
	} {
		if _, err := r.check(s); err == nil {
			list = append(list, s)
		}
	}
	return list
}

// other makes the snapshot with a valid value that is not the default.
func other[S any](t *testing.T, r *row, with func(value string) (*S, error)) *S {
	t.Helper()
	for _, s := range samples(r) {
		if s == r.def {
			continue
		}
		if snapshot, err := with(s); err == nil {
			return snapshot
		}
	}
	t.Fatalf("no sample value fits %s", r.name)
	return nil
}

// fields gives the values of a snapshot by the paths of the fields that hold them: Broker.Dispatch.PerTopic.Msgs. Parts that rows
// are not stored in one by one stand as a whole.
func fields(snapshot any) map[string]any {
	all := map[string]any{}
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		switch v.Type() {
		case reflect.TypeFor[Broker](), reflect.TypeFor[Groups](), reflect.TypeFor[Cleaner](), reflect.TypeFor[Quotas](), reflect.TypeFor[Dispatch](), reflect.TypeFor[Policy]():
		case reflect.TypeFor[Topic](), reflect.TypeFor[Group]():
			if strings.Contains(path, ".") {
				all[path] = v.Interface()
				return
			}
		default:
			all[path] = v.Interface()
			return
		}
		for i := range v.NumField() {
			walk(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	}
	v := reflect.ValueOf(snapshot).Elem()
	walk(v, v.Type().Name())
	return all
}

// changed lists the fields that differ.
func changed(a, b any) (paths []string) {
	x, y := fields(a), fields(b)
	for path := range x {
		if !reflect.DeepEqual(x[path], y[path]) {
			paths = append(paths, path)
		}
	}
	return paths
}

// Each row is stored in one field of its own, and no field is forgotten.
func TestSnapshotFields(t *testing.T) {
	owner := map[string]string{}
	for _, r := range settings.declared(ScopeTopic) {
		if r.name == "remote.storage.enable" || r.policy != nil {
			continue // it has one value; it is a part of a whole
		}
		base, _ := NewTopic(Layers{})
		with := other(t, r, func(v string) (*Topic, error) { return NewTopic(Layers{Topic: map[string]string{r.name: v}}) })
		record(t, owner, r, r.topic != nil, changed(base, with))
	}
	for _, r := range settings.declared(ScopeBroker) {
		if r.over != nil || r.stated != "" || r.isBound {
			continue // it is stored by the row it stands in for; nowhere; in what it bounds, or nowhere
		}
		base, _ := NewBroker(Layers{})
		with := other(t, r, func(v string) (*Broker, error) { return NewBroker(Layers{Static: map[string]string{r.name: v}}) })
		record(t, owner, r, r.broker != nil, changed(base, with))
	}
	for _, r := range settings.declared(ScopeGroup) {
		if r.policy != nil {
			continue
		}
		base, _ := NewGroup(Layers{})
		with := other(t, r, func(v string) (*Group, error) {
			l := Layers{Group: map[string]string{r.name: v}}
			if err := CheckGroup(l); err != nil {
				return nil, err
			}
			return NewGroup(l)
		})
		record(t, owner, r, r.group != nil, changed(base, with))
	}
	for _, path := range []string{
		"Broker.Topic", "Broker.Group", "Topic.Dispatch", "Group.Dispatch.Msgs", "Group.Dispatch.Bytes", "Group.Dispatch.Period", "Group.Dispatch.Set",
		"Broker.Dispatch.Broker.Set", "Broker.Dispatch.PerTopic.Set", "Broker.Dispatch.PerSubscription.Set", "Broker.Dispatch.Namespaces",
	} {
		owner[path] = "more than one row"
	}
	for _, snapshot := range []any{new(Topic), new(Group), new(Broker)} {
		for path := range fields(snapshot) {
			if owner[path] == "" {
				t.Errorf("no row is stored in %s", path)
			}
		}
	}
}

func record(t *testing.T, owner map[string]string, r *row, stored bool, fields []string) {
	if stored != (len(fields) > 0) {
		t.Errorf("%s: stored is %v, and the fields %v change", r.name, stored, fields)
	}
	for _, f := range fields {
		was := owner[f]
		if was != "" && "internal."+was != r.name {
			t.Errorf("%s and %s are both stored in %s", was, r.name, f)
		}
		owner[f] = r.name
	}
}

func TestLayers(t *testing.T) {
	set := func(key, value string) map[string]string { return map[string]string{key: value} }
	l := Layers{}
	steps := []struct {
		name  string
		add   func()
		bytes int
	}{
		{"default", func() {}, 1048588},
		{"static", func() { l.Static = set("message.max.bytes", "1") }, 1},
		{"dynamic default", func() { l.DynamicDefault = set("message.max.bytes", "2") }, 2},
		{"dynamic", func() { l.Dynamic = set("message.max.bytes", "3") }, 3},
		{"topic", func() { l.Topic = set("max.message.bytes", "4") }, 4},
	}
	for _, s := range steps {
		s.add()
		topic, err := NewTopic(l)
		if err != nil || topic.MaxMessageBytes != s.bytes {
			t.Errorf("%s: %+v, %v; want %d", s.name, topic, err, s.bytes)
		}
		b, err := NewBroker(l)
		if want := min(s.bytes, 3); err != nil || s.name != "default" && b.Topic.MaxMessageBytes != want {
			t.Errorf("%s: the broker's topic default is %+v, %v; want %d", s.name, b, err, want)
		}
	}
}

// Settings that may be given in several units: the finest one that is set wins within a layer, and the layers win over units.
func TestUnits(t *testing.T) {
	const hour = int64(3600000)
	for _, c := range []struct {
		static, dynamic string
		want            int64
	}{
		{"", "", 168 * hour},
		{"log.retention.hours=1", "", hour},
		{"log.retention.hours=1 log.retention.minutes=2", "", 120000},
		{"log.retention.hours=1 log.retention.minutes=2 log.retention.ms=3", "", 3},
		{"log.retention.hours=1", "log.retention.ms=7", 7},
		{"log.retention.hours=-1", "", -1},
		{"log.retention.minutes=-1", "", -1},
		{"log.retention.ms=-1", "", -1},
		{"log.retention.hours=2147483647", "", 2147483647 * hour},
	} {
		l := Layers{Static: pairs(c.static), Dynamic: pairs(c.dynamic)}
		topic, err := NewTopic(l)
		if err != nil || topic.RetentionMs != c.want {
			t.Errorf("%v: %v, %v; want %d", c, topic, err, c.want)
		}
	}
}

func pairs(s string) map[string]string {
	m := map[string]string{}
	for _, p := range strings.Fields(s) {
		k, v, _ := strings.Cut(p, "=")
		m[k] = v
	}
	return m
}

func TestSnapshotValues(t *testing.T) {
	topic := func(s string) *Topic {
		t.Helper()
		got, err := NewTopic(Layers{Topic: pairs(s)})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for policy, want := range map[string][2]bool{
		"delete": {true, false}, "compact": {false, true}, "compact,delete": {true, true}, "": {false, false},
	} {
		if got := topic("cleanup.policy=" + policy); got.CleanupDelete != want[0] || got.CleanupCompact != want[1] {
			t.Errorf("policy %q: %+v", policy, got)
		}
	}
	if got := topic("compression.type=uncompressed").Compression; got != "none" {
		t.Errorf("uncompressed is %q", got)
	}
	if got := topic("segment.ms=" + never).SegmentAge; got != math.MaxInt64 {
		t.Errorf("the longest segment.ms is %v", got)
	}
	if got := topic("segment.bytes=2097152 internal.segment.bytes=4096").SegmentBytes; got != 4096 {
		t.Errorf("internal.segment.bytes does not win: %d", got)
	}
	if got := topic("sluice.durability.interval.ms=20").SyncInterval; got != 20*time.Millisecond {
		t.Errorf("interval %v", got)
	}
	b, err := NewBroker(Layers{Static: pairs("internal.segment.bytes=4096 connections.max.idle.ms=-1")})
	if err != nil || b.Topic.SegmentBytes != 4096 || b.ConnectionsMaxIdle >= 0 {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestSnapshotErrors(t *testing.T) {
	for _, c := range []struct {
		l    Layers
		want string
	}{
		{Layers{Topic: pairs("segment.bytes=1")}, "setting segment.bytes cannot be"},
		{Layers{Static: pairs("log.segment.bytes=x")}, "setting log.segment.bytes cannot be"},
		{Layers{Topic: pairs("min.compaction.lag.ms=9 max.compaction.lag.ms=8")}, "min.compaction.lag.ms (9) must not be more than max.compaction.lag.ms (8)"},
		{Layers{Dynamic: pairs("log.cleaner.min.compaction.lag.ms=9"), Topic: pairs("max.compaction.lag.ms=8")}, "must not be more"},
		{Layers{Topic: pairs("min.compaction.lag.ms=x")}, "setting min.compaction.lag.ms cannot be"},
		{Layers{Topic: pairs("max.compaction.lag.ms=x")}, "setting max.compaction.lag.ms cannot be"},
	} {
		if got, err := NewTopic(c.l); err == nil || got != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, %v", c.l, got, err)
		}
	}
	for _, s := range []string{"num.partitions=0", "log.roll.hours=0"} {
		if b, err := NewBroker(Layers{Static: pairs(s)}); err == nil || b != nil {
			t.Errorf("%s: %v, %v", s, b, err)
		}
	}
	if _, err := NewBroker(Layers{Topic: pairs("segment.bytes=1"), Static: pairs("no.such.key=1")}); err != nil {
		t.Error(fmt.Errorf("a topic's layer or an unknown key reaches the broker's snapshot: %w", err))
	}
}
