package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Bounds on what a stranger may send as a setting.
const (
	maxValueBytes  = 64 << 10 // bytes of one value: a list of throttled replicas of a few thousand partitions
	maxShortBytes  = 128      // bytes of a number or a switch, blanks included; the longest double has some 25
	maxQuotedBytes = 64       // bytes of a key or value repeated in a message
	maxNearBytes   = 128      // bytes of a misspelt key for which the nearest known one is looked for; no key is half as long
)

// Validate checks one key and value for a scope. The error is a sentence that names the key, the value, what is allowed
// and, for an unknown key, the nearest known one. Rules over two settings are checked by NewTopic.
func Validate(scope Scope, key, value string) error {
	r := find(scope, key)
	if r == nil {
		if _, known := foreignReason(key); known && (scope == ScopeBroker || scope == ScopeDefault) {
			return nil
		}
		return unknown(scope, key)
	}
	_, err := r.check(value)
	return err
}

// find gives the row of a key or alias in a scope, or nil.
func find(scope Scope, key string) *row {
	if scope == ScopeDefault {
		if r := namespaceRow(key); r != nil {
			return r
		}
		scope = ScopeBroker
	}
	return settings.find(scope, key)
}

// check parses a value and holds it against the limit.
func (r *row) check(raw string) (value, error) {
	if most := r.kind.maxBytes(); len(raw) > most {
		return value{}, fmt.Errorf("setting %s: the value has %d bytes; at most %d are allowed", r.name, len(raw), most)
	}
	v, err := r.kind.parse(raw)
	if err == nil && r.norm != nil {
		v = r.norm(v)
	}
	if err == nil && (r.allow.ok == nil || r.allow.ok(v)) {
		return v, nil
	}
	shown := quote(raw)
	if r.kind == kindPassword {
		shown = "the given value"
	}
	wants := r.wants()
	if err == errRange {
		wants += fmt.Sprintf(" that fits in %d bits", r.kind.bits())
	}
	return v, fmt.Errorf("setting %s cannot be %s: it must be %s", r.name, shown, wants)
}

// maxBytes is how long a value may be.
func (k kind) maxBytes() int {
	if k == kindString || k == kindList || k == kindPassword {
		return maxValueBytes
	}
	return maxShortBytes
}

// Canonical gives the canonical name of a key or alias.
func Canonical(scope Scope, key string) (string, bool) {
	r := find(scope, key)
	if r == nil {
		return "", false
	}
	return r.name, true
}

// ByName gives the broker's settings of a file, say, under their canonical names. One that stands there by two names is an error.
func ByName(values map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(values))
	from := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		name, ok := Canonical(ScopeBroker, key)
		if !ok {
			name = key
		}
		if other, twice := from[name]; twice {
			return nil, fmt.Errorf("%s and %s are one setting; give it once", other, key)
		}
		from[name], out[name] = key, values[key]
	}
	return out, nil
}

// IsList tells whether APPEND and SUBTRACT of IncrementalAlterConfigs make sense.
func IsList(scope Scope, key string) bool {
	r := find(scope, key)
	return r != nil && r.kind == kindList
}

// Live tells whether a setting may be changed while the broker runs. Of a topic or a group all may; the broker's others are
// read-only for AlterConfigs.
func Live(scope Scope, key string) bool {
	r := find(scope, key)
	return r != nil && r.live
}

// quote shortens text that came from outside, for a message.
func quote(s string) string {
	if len(s) <= maxQuotedBytes {
		return strconv.Quote(s)
	}
	cut := maxQuotedBytes
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "..."
}
