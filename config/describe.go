package config

import (
	"slices"
	"strings"
)

// Entry is one setting of one resource as DescribeConfigs shows it.
type Entry struct {
	Name      string
	Value     *string // nil: not set, or sensitive
	Source    Source
	ReadOnly  bool
	Sensitive bool
	Type      int8 // wire value: BOOLEAN 1 ... LONG 5, DOUBLE 6, LIST 7, CLASS 8, PASSWORD 9
	Doc       string
	Synonyms  []Synonym // in order of precedence, the effective one first
}

// Synonym is one place where the value of an Entry stands.
type Synonym struct {
	Name   string
	Value  *string // nil: sensitive
	Source Source
}

// DescribeTopic gives all settings of a topic in order of name.
func DescribeTopic(l Layers) []Entry { return l.describe(ScopeTopic) }

// DescribeGroup gives all settings of a consumer group in order of name.
func DescribeGroup(l Layers) []Entry { return l.describe(ScopeGroup) }

// DescribeBroker gives all settings of the broker in order of name, and those that namespaces have.
func DescribeBroker(l Layers) []Entry {
	return inOrder(append(l.describe(ScopeBroker), l.namespaceEntries()...))
}

// DescribeBrokerDefault gives what is set for all brokers, the BROKER resource "", in order of name; as in Kafka nothing
// else is shown there.
func DescribeBrokerDefault(l Layers) []Entry {
	var entries []Entry
	for _, r := range settings.inOrder(ScopeBroker) {
		if raw, ok := lookup(l.DynamicDefault, r); ok {
			e := r.entry()
			e.add(found{r, raw, SourceDynamicDefault}, r)
			entries = append(entries, e)
		}
	}
	return inOrder(append(entries, l.namespaceEntries()...))
}

func inOrder(entries []Entry) []Entry {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries
}

func (l Layers) describe(scope Scope) []Entry {
	rows := settings.inOrder(scope)
	entries := make([]Entry, 0, len(rows))
	for _, r := range rows {
		e := l.entry(r)
		if r.internal && e.Source == SourceDefault {
			continue
		}
		entries = append(entries, e)
	}
	return entries
}

func (l Layers) entry(r *row) Entry {
	e := r.entry()
	for f := range l.synonyms(r) {
		e.add(f, r)
	}
	if len(e.Synonyms) == 0 && !r.unset && !e.Sensitive {
		s := r.parsedDef.String()
		e.Value = &s
	}
	return e
}

// entry is the part of an entry that does not depend on values.
func (r *row) entry() Entry {
	return Entry{
		Name: r.name, Source: SourceDefault, ReadOnly: !r.live, Sensitive: r.kind == kindPassword,
		Type: int8(r.kind), Doc: r.doc,
	}
}

// add appends a synonym; the first one is the entry's value.
func (e *Entry) add(f found, r *row) {
	s := Synonym{Name: f.row.name, Source: f.source}
	if !e.Sensitive {
		s.Value = show(f, f.row)
	}
	if len(e.Synonyms) == 0 {
		e.Source = f.source
		if !e.Sensitive {
			e.Value = show(f, r)
		}
	}
	e.Synonyms = append(e.Synonyms, s)
}

// show writes a value in the units of r. A value that is no longer valid is shown as it stands.
func show(f found, r *row) *string {
	v, err := f.valueOf(r)
	s := v.String()
	if err != nil {
		s = f.raw
	}
	return &s
}
