package catalog

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice/internal/machine"
	"sluice/kproto"
)

// maxResources is how many brokers and groups together may have a config. Groups need not exist to have one, so nothing
// else bounds what a client can have us keep.
const maxResources = 100_000

// alteration is an AlterConfigs under way.
type alteration struct {
	m         *Machine
	effects   machine.Effects
	resources int // brokers and groups with a config
	brokers   []brokerEdit
}

// brokerEdit is what a broker is about to have.
type brokerEdit struct {
	at     int // place in the request
	r      resource
	values map[string]string
}

func (m *Machine) alterConfigs(ev AlterConfigs) ([]error, machine.Effects) {
	mentions := count(ev.Resources, ConfigChange.resource)
	errs := make([]error, len(ev.Resources))
	a := alteration{m: m, resources: len(m.configs)}
	for i, c := range ev.Resources {
		if mentions[c.resource()] > 1 {
			errs[i] = errMentioned("resource", c.Name)
			continue
		}
		errs[i] = a.alter(i, c)
	}
	if err := a.alterBrokers(); err != nil {
		for _, edit := range a.brokers {
			errs[edit.at] = err
		}
	}
	if ev.ValidateOnly {
		return errs, machine.Effects{}
	}
	return errs, a.effects
}

func (c ConfigChange) resource() resource { return resource{c.Type, c.Name} }

// alter adds what a change comes to, brokers' excepted.
func (a *alteration) alter(at int, c ConfigChange) error {
	if c.Type == ResourceTopic {
		return a.alterTopic(c)
	}
	r := c.resource()
	if resourceWords[r.Type] == "" {
		return kproto.Errorf(kproto.InvalidRequest, "Resources of type %d have no config.", r.Type)
	}
	values, err := edited(a.m.configs[r], c)
	if err != nil {
		return err
	}
	if r.Type == ResourceBroker {
		a.brokers = append(a.brokers, brokerEdit{at, r, values})
		return nil
	}
	if err := a.m.validate(r.Type, r.Name, values); err != nil {
		return err
	}
	return a.put(r, values)
}

// alterBrokers adds what the changes of brokers come to, all of them or none.
func (a *alteration) alterBrokers() error {
	if len(a.brokers) == 0 {
		return nil
	}
	all := map[string]map[string]string{}
	for r, values := range a.m.configs {
		if r.Type == ResourceBroker {
			all[r.Name] = values
		}
	}
	for _, edit := range a.brokers {
		all[edit.r.Name] = edit.values
	}
	if err := asInvalid(a.m.opts.ValidateBrokers(all)); err != nil {
		return err
	}
	for _, edit := range a.brokers {
		if err := a.put(edit.r, edit.values); err != nil {
			return err
		}
	}
	return nil
}

// put records a resource's new values. A change that changes nothing leaves no record.
func (a *alteration) put(r resource, values map[string]string) error {
	old := a.m.configs[r]
	if maps.Equal(old, values) {
		return nil
	}
	if old == nil {
		if a.resources >= maxResources && r.Type != ResourceBroker { // there are two of those
			return kproto.Errorf(kproto.PolicyViolation, "%d brokers and groups have a config, and that is the limit.", maxResources)
		}
		a.resources++
	}
	a.effects.Records = append(a.effects.Records, configRecord(r, values))
	a.effects.Orders = append(a.effects.Orders, ConfigChanged{r.Type, r.Name, values})
	return nil
}

func (a *alteration) alterTopic(c ConfigChange) error {
	t, err := a.m.existing(c.Name)
	if err != nil {
		return err
	}
	values, err := edited(t.Config, c)
	if err == nil {
		err = a.m.validate(c.Type, c.Name, values)
	}
	if err != nil || maps.Equal(t.Config, values) {
		return err
	}
	t.Config = values
	a.effects.Records = append(a.effects.Records, topicRecord(t))
	a.effects.Orders = append(a.effects.Orders, TopicCreated{t})
	return nil
}

// edited gives the whole set of values after a change, nil when it is empty. The old map stays as it is.
func edited(old map[string]string, c ConfigChange) (map[string]string, error) {
	values := map[string]string{}
	if !c.Replace {
		maps.Copy(values, old)
	}
	seen := map[string]bool{}
	for _, op := range c.Ops {
		if seen[op.Key] {
			return nil, errMentioned("config", op.Key)
		}
		seen[op.Key] = true
		if c.Replace {
			op.Op = OpSet
		}
		if err := op.edit(values); err != nil {
			return nil, err
		}
	}
	return nilIfEmpty(values), validText(values)
}

func (op ConfigOp) edit(values map[string]string) error {
	if op.Op == OpDelete {
		delete(values, op.Key)
		return nil
	}
	if op.Value == nil {
		return kproto.Errorf(kproto.InvalidRequest, "The value of %s is null.", op.Key)
	}
	switch op.Op {
	case OpSet:
		values[op.Key] = *op.Value
	case OpAppend:
		values[op.Key] = join(with(op.list(values), split(*op.Value)))
	case OpSubtract:
		values[op.Key] = join(without(op.list(values), split(*op.Value)))
	default:
		return kproto.Errorf(kproto.InvalidRequest, "There is no config operation %d.", op.Op)
	}
	return nil
}

// list is the value that OpAppend and OpSubtract work on. As in Kafka the default counts, so taking an element off it leaves the others set.
func (op ConfigOp) list(values map[string]string) []string {
	if v, ok := values[op.Key]; ok {
		return split(v)
	}
	return split(op.Default)
}

// split cuts a list at its commas. Kafka's edits leave blanks at the elements, which then cannot be subtracted; ours do not.
func split(list string) (out []string) {
	for s := range strings.SplitSeq(list, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func with(list, more []string) []string {
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

func without(list, gone []string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return slices.Contains(gone, s) })
}

func join(list []string) string { return strings.Join(list, ",") }

// validate judges the whole set that a topic or a group is about to have.
func (m *Machine) validate(t ResourceType, name string, values map[string]string) error {
	if err := validText(values); err != nil {
		return err
	}
	return asInvalid(m.opts.ValidateConfig(t, name, values))
}

func validText(values map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(values)) { // sorted: the same input gives the same message
		if !utf8.ValidString(k) || !utf8.ValidString(values[k]) {
			return kproto.Errorf(kproto.InvalidConfig, "The config %q is not UTF-8.", k) // JSON would not keep it
		}
	}
	return nil
}

func asInvalid(err error) error {
	var known *kproto.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return kproto.Errorf(kproto.InvalidConfig, "%v", err)
}

// copyOf makes a map that is ours; nil when empty.
func copyOf(values map[string]string) map[string]string { return nilIfEmpty(maps.Clone(values)) }
