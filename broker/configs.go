package broker

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
	"sluice/config"
	"sluice/kproto"
)

// checkConfig checks one setting and gives its canonical name.
func checkConfig(scope config.Scope, key, value string) (string, error) {
	if err := config.Validate(scope, key, value); err != nil {
		return "", kproto.Errorf(kproto.InvalidConfig, "%s", err)
	}
	if name, ok := config.Canonical(scope, key); ok {
		return name, nil
	}
	return key, nil
}

// resourceKey names a resource of configs.
type resourceKey struct {
	typ  catalog.ResourceType
	name string
}

var errResourceTwice = kproto.Errorf(kproto.InvalidRequest, "The resource is named more than once.")

// alteration is one AlterConfigs or IncrementalAlterConfigs request under way. Resources stand or fall by themselves.
type alteration struct {
	c       *call
	replace bool // what a resource has gives way to what it is given
	changes []catalog.ConfigChange
	at      []int                              // place in the answer of each change
	base    map[config.Scope]map[string]string // by name; see inherited
}

// op is one entry of a request, incremental or not.
type op struct {
	kind  int8 // as on the wire
	key   string
	value *string
}

// alterResource is what a request wants of one resource.
type alterResource struct {
	resourceKey
	ops []op
}

func resourceToAlter(typ kmsg.ConfigResourceType, name string, ops []op) alterResource {
	return alterResource{resourceKey{catalog.ResourceType(typ), name}, ops}
}

// alter gives the outcome for each resource to set, which knows its place in the answer, and then calls done.
func (c *call) alter(resources []alterResource, replace, validateOnly bool, set func(place int, err error), done func()) {
	a := &alteration{c: c, replace: replace}
	times := map[resourceKey]int{}
	for _, r := range resources {
		times[r.resourceKey]++
	}
	for i, r := range resources {
		if times[r.resourceKey] > 1 {
			set(i, errResourceTwice)
		} else if err := a.add(i, r); err != nil {
			set(i, err)
		}
	}
	a.run(validateOnly, set, done)
}

// add checks the changes to one resource; place says where its answer goes.
func (a *alteration) add(place int, r alterResource) error {
	scope, err := a.c.b.alterable(r.resourceKey)
	if err != nil {
		return err
	}
	change := catalog.ConfigChange{Type: r.typ, Name: r.name, Replace: a.replace}
	if change.Ops, err = a.checkOps(scope, r.ops); err != nil {
		return err
	}
	a.changes, a.at = append(a.changes, change), append(a.at, place)
	return nil
}

// run has the catalog decide, and gives each change's outcome to set.
func (a *alteration) run(validateOnly bool, set func(place int, err error), done func()) {
	if len(a.changes) == 0 {
		done()
		return
	}
	event := catalog.AlterConfigs{Resources: a.changes, ValidateOnly: validateOnly}
	a.c.b.change(a.c, event, func(v any, err error) {
		errs, _ := v.([]error)
		for i, place := range a.at {
			if err != nil {
				set(place, err)
			} else {
				set(place, errs[i])
			}
		}
		done()
	})
}

// alterable tells whether the resource exists and can be altered, and the scope of its settings.
func (b *Broker) alterable(r resourceKey) (config.Scope, error) {
	switch r.typ {
	case catalog.ResourceTopic:
		if r.name == "" {
			return 0, kproto.Errorf(kproto.InvalidRequest, "The name of the topic is empty; what all topics get is set on the broker.")
		}
		if err := checkTopicName(r.name); err != nil {
			return 0, err
		}
		if b.topics.byName(r.name) == nil {
			return 0, errUnknownTopic
		}
		return config.ScopeTopic, nil
	case catalog.ResourceBroker:
		if r.name == "" {
			return config.ScopeDefault, nil
		}
		return config.ScopeBroker, checkBrokerName(r.name)
	case catalog.ResourceGroup:
		return config.ScopeGroup, checkGroupName(r.name)
	}
	return 0, kproto.Errorf(kproto.InvalidRequest, "Configs of resource type %d cannot be altered.", r.typ)
}

// checkOps checks the operations on one resource, all or nothing.
func (a *alteration) checkOps(scope config.Scope, ops []op) ([]catalog.ConfigOp, error) {
	out := make([]catalog.ConfigOp, len(ops))
	seen := map[string]bool{}
	for i, o := range ops {
		name, err := checkOp(scope, o)
		if err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, kproto.Errorf(kproto.InvalidRequest, "The config key %s is given more than once.", name)
		}
		seen[name] = true
		out[i] = catalog.ConfigOp{Op: o.kind, Key: name, Value: o.value}
		if o.kind == catalog.OpAppend || o.kind == catalog.OpSubtract {
			out[i].Default = a.inherited(scope, name)
		}
	}
	return out, nil
}

// inherited is the value that a setting has while the resource itself does not set it.
func (a *alteration) inherited(scope config.Scope, name string) string {
	if a.base[scope] == nil {
		if a.base == nil {
			a.base = map[config.Scope]map[string]string{}
		}
		a.base[scope] = a.c.b.inherited(scope)
	}
	return a.base[scope][name]
}

func (b *Broker) inherited(scope config.Scope) map[string]string {
	layers := b.settings.Load().layers
	describe := config.DescribeTopic
	if scope == config.ScopeBroker || scope == config.ScopeDefault {
		describe = config.DescribeBroker
		layers.Dynamic, layers.DynamicDefault = nil, nil
	}
	values := map[string]string{}
	for _, e := range describe(layers) {
		if e.Value != nil {
			values[e.Name] = *e.Value
		}
	}
	return values
}

// checkOp gives the canonical name of the key. Broker settings that need a restart are refused, as in Kafka.
func checkOp(scope config.Scope, o op) (string, error) {
	if o.kind < catalog.OpSet || o.kind > catalog.OpSubtract {
		return "", kproto.Errorf(kproto.InvalidRequest, "There is no operation %d, asked for the config %s.", o.kind, o.key)
	}
	if o.kind != catalog.OpDelete && o.value == nil {
		return "", kproto.Errorf(kproto.InvalidRequest, "The config %s has no value.", o.key)
	}
	name, known := config.Canonical(scope, o.key)
	switch {
	case o.kind == catalog.OpSet:
		return checkLive(scope, o.key, *o.value)
	case o.kind == catalog.OpDelete && known:
		return name, nil
	case o.kind == catalog.OpDelete:
		return o.key, nil // as in Kafka: what is not known cannot be set, so it is not
	case !known:
		return "", kproto.Errorf(kproto.InvalidConfig, "There is no config %s.", o.key)
	case !config.IsList(scope, o.key):
		return "", kproto.Errorf(kproto.InvalidConfig, "The config %s is no list, so nothing can be added to it or taken from it.", o.key)
	}
	return checkLive(scope, o.key, *o.value)
}

func checkLive(scope config.Scope, key, value string) (string, error) {
	name, err := checkConfig(scope, key, value)
	if err == nil && !config.Live(scope, name) {
		return "", kproto.Errorf(kproto.InvalidRequest, "The config %s changes at a restart only.", name)
	}
	return name, err
}

// logLevel is the level of the broker's log, in Kafka's words.
func (b *Broker) logLevel() string {
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if b.logger.Enabled(context.Background(), l) {
			return l.String()
		}
	}
	return slog.LevelError.String()
}
