package config

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// unknown is the error of a key that is no setting of the scope.
func unknown(scope Scope, key string) error {
	if strings.HasPrefix(key, namespaceBegin) && scope != ScopeGroup {
		return unknownNamespaceKey(scope, key)
	}
	if scope == ScopeDefault {
		scope = ScopeBroker
	}
	for _, kind := range []string{"share", "streams"} {
		if scope == ScopeGroup && strings.HasPrefix(key, kind+".") {
			return fmt.Errorf("unknown group setting %s: there are no %s groups", quote(key), kind)
		}
	}
	if hint := elsewhere(scope, key); hint != "" {
		return fmt.Errorf("%s is not a %s setting: %s", key, scope, hint)
	}
	if near := nearest(key, known(scope)); near != "" {
		return fmt.Errorf("unknown %s setting %s; the nearest known one is %s; correct or remove it (docs/config.md lists them all)", scope, quote(key), near)
	}
	return fmt.Errorf("unknown %s setting %s; remove it (docs/config.md lists them all)", scope, quote(key))
}

// elsewhere explains a key that is known in another scope.
func elsewhere(scope Scope, key string) string {
	for _, other := range []Scope{ScopeBroker, ScopeTopic, ScopeGroup} {
		r := settings.find(other, key)
		switch {
		case r == nil || other == scope:
		case scope == ScopeBroker && len(r.fallback) > 0:
			return fmt.Sprintf("it is a setting of a %s; for all of them use %s", other, r.fallback[0].name)
		case r.over != nil && r.over.scope == scope:
			return "use " + r.over.name
		case r.standsIn != nil && r.standsIn.scope == scope:
			return "use " + r.standsIn.name
		case scope == ScopeBroker && r.stands != "":
			return fmt.Sprintf("it is a setting of a %s; for all of them use %s", other, r.stands)
		default:
			return fmt.Sprintf("it is a setting of a %s", other)
		}
	}
	return ""
}

// known yields the keys that are accepted in a scope, in order of name.
func known(scope Scope) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, r := range settings.inOrder(scope) {
			if !yield(r.name) {
				return
			}
		}
		if scope != ScopeBroker {
			return
		}
		for _, f := range foreign {
			for _, key := range f.keys {
				if !yield(key) {
					return
				}
			}
		}
	}
}

// nearest is the candidate with the least edit distance to s, the first of several; "" if none is alike, that is, if more than half of s would have to
// change, or if s is too long to be compared.
func nearest(s string, candidates iter.Seq[string]) string {
	if len(s) > maxNearBytes {
		return ""
	}
	best, least := "", len(s)/2+1
	for c := range candidates {
		if d := distance(s, c, least); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b (bytes; keys are
// ASCII). It gives up with limit when there are no fewer.
func distance(a, b string, limit int) int {
	if max(len(a), len(b))-min(len(a), len(b)) >= limit {
		return limit
	}
	two, one, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range one {
		one[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(one[j]+1, row[j-1]+1, one[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], two[j-2]+1)
			}
		}
		if slices.Min(row) >= limit {
			return limit
		}
		two, one, row = one, row, two
	}
	return one[len(b)]
}
