package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// registry holds the rows by scope. It is made once and does not change.
type registry struct {
	rows   map[Scope][]*row          // as declared
	sorted map[Scope][]*row          // in order of name
	byName map[Scope]map[string]*row // names and aliases
}

var settings = newRegistry(
	slices.Concat(topicRows, topicPolicy.rows(), subscriptionPolicy.rows()),
	slices.Concat(groupRows, groupPolicy.rows()),
	slices.Concat(brokerRows, dispatchRows, subscriptionRows),
)

// newRegistry makes the broker rows of the fallbacks and indexes everything. A contradiction between rows is a mistake in
// the program, and panics.
func newRegistry(topic, group, broker []*row) *registry {
	g := &registry{rows: map[Scope][]*row{}, sorted: map[Scope][]*row{}, byName: map[Scope]map[string]*row{}}
	for _, r := range topic {
		g.addOverriding(r, ScopeTopic)
	}
	for _, r := range group {
		g.addOverriding(r, ScopeGroup)
	}
	for _, r := range broker {
		g.add(r, ScopeBroker)
		r.chain = []*row{r}
	}
	for _, r := range slices.Concat(topic, group) {
		if b := g.find(ScopeBroker, r.stands); b != nil {
			r.chain = []*row{b}
			if b.standsIn == nil {
				b.standsIn = r
			}
		}
		for _, name := range []string{r.lowest, r.highest} {
			if b := g.find(ScopeBroker, name); b != nil {
				b.isBound = true
			}
		}
	}
	for scope, rows := range g.rows {
		g.sorted[scope] = slices.SortedFunc(slices.Values(rows), func(a, b *row) int { return strings.Compare(a.name, b.name) })
	}
	return g
}

// addOverriding adds a topic's or group's row and the broker rows that it overrides.
func (g *registry) addOverriding(r *row, scope Scope) {
	r.live = true
	g.add(r, scope)
	for i, f := range r.fallback {
		b := f.row(r)
		if i < len(r.fallback)-1 {
			b.unset = true
		}
		r.chain = append(r.chain, b)
		g.add(b, ScopeBroker)
	}
	for _, b := range r.chain {
		b.chain = r.chain
	}
}

// row is the broker row of a fallback of r.
func (f fallback) row(r *row) *row {
	b := &row{name: f.name, kind: r.kind, def: r.def, unset: r.unset, allow: r.allow, live: !f.fixed, internal: r.internal, over: r, unit: 1}
	if f.kind != 0 {
		b.kind = f.kind
	}
	if f.allow.ok != nil {
		b.allow = f.allow
	}
	if f.unit > 1 {
		b.unit = f.unit
		b.def = strconv.FormatInt(r.parsedDef.whole/f.unit, 10)
	}
	b.doc = fmt.Sprintf("What topics without %s of their own get%s.", r.name, unitName(f.unit))
	if r.scope == ScopeGroup {
		b.doc = fmt.Sprintf("What groups without %s of their own get.", r.name)
	}
	return b
}

func unitName(unit int64) string {
	return map[int64]string{minuteMs: ", in minutes", hourMs: ", in hours"}[unit]
}

func (g *registry) add(r *row, scope Scope) {
	r.scope = scope
	if !r.unset {
		v, err := r.check(r.def)
		if err != nil {
			panic("config: default of " + err.Error())
		}
		r.parsedDef = v
	}
	if g.byName[scope] == nil {
		g.byName[scope] = map[string]*row{}
	}
	for _, name := range append([]string{r.name}, r.aliases...) {
		if g.byName[scope][name] != nil {
			panic("config: two settings are called " + name)
		}
		g.byName[scope][name] = r
	}
	g.rows[scope] = append(g.rows[scope], r)
}

// declared gives the rows of a scope in the order of their declaration, in which they are stored into snapshots.
func (g *registry) declared(scope Scope) []*row { return g.rows[scope] }

// inOrder gives the rows of a scope in order of name.
func (g *registry) inOrder(scope Scope) []*row { return g.sorted[scope] }

// find gives the row of a name or alias, or nil.
func (g *registry) find(scope Scope, key string) *row { return g.byName[scope][key] }
