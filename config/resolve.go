package config

import "iter"

// found is a place where the value of a setting stands.
type found struct {
	row    *row // the setting that is set there
	raw    string
	source Source
}

// synonyms yields the places where a row's value may come from, in order of precedence: the first is in force. Kafka lists
// them so in DescribeConfigs. A broker setting is never told from a stronger one of its chain: log.retention.hours is
// described by its own value though log.retention.ms may win over it.
func (l Layers) synonyms(r *row) iter.Seq[found] {
	if r.policy != nil {
		return l.policySynonyms(r)
	}
	return func(yield func(found) bool) {
		if !l.own(r, yield) {
			return
		}
		seen := r.scope != ScopeBroker
		for f := range l.chain(r) {
			seen = seen || f.row == r
			if seen && !yield(f) {
				return
			}
		}
	}
}

// own yields the value in the setting's own resource.
func (l Layers) own(r *row, yield func(found) bool) bool {
	values, source := l.Topic, SourceTopic
	switch {
	case r.scope == ScopeGroup:
		values, source = l.Group, SourceGroup
	case r.stated != "":
		values, source = l.Stated, SourceStatic
	case r.scope == ScopeBroker:
		return true
	}
	raw, ok := lookup(values, r)
	return !ok || yield(found{r, raw, source})
}

// chain yields the values of the broker settings that a row falls back on, layer by layer, then their defaults.
func (l Layers) chain(r *row) iter.Seq[found] {
	return func(yield func(found) bool) {
		for _, layer := range l.brokerLayers() {
			for _, b := range r.chain {
				if raw, ok := lookup(layer.values, b); ok && b.stated == "" && !yield(found{b, raw, layer.source}) {
					return
				}
			}
		}
		for _, b := range r.chain {
			if !b.unset && !yield(found{b, b.def, SourceDefault}) {
				return
			}
		}
	}
}

// lookup finds a row's value under its name or an alias.
func lookup(values map[string]string, r *row) (string, bool) {
	raw, ok := values[r.name]
	for i := 0; !ok && i < len(r.aliases); i++ {
		raw, ok = values[r.aliases[i]]
	}
	return raw, ok
}

// effective is the value in force; set is false where nothing gives one.
func (l Layers) effective(r *row) (v value, set bool, err error) {
	for f := range l.synonyms(r) {
		v, err := f.valueOf(r)
		return v, true, err
	}
	return r.parsedDef, !r.unset, nil
}

// isSet tells whether a row's value is not a default.
func (l Layers) isSet(r *row) bool {
	for f := range l.synonyms(r) {
		return f.source != SourceDefault
	}
	return false
}

// valueOf is the value that the place gives to r, in the units of r.
func (f found) valueOf(r *row) (value, error) {
	v := f.row.parsedDef
	if f.source != SourceDefault {
		var err error
		if v, err = f.row.check(f.raw); err != nil {
			return v, err
		}
	}
	if f.row != r && f.row.unit > 1 {
		v = v.times(f.row.unit)
		v.kind = r.kind
	}
	return v, nil
}
