package config

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// A namespace is the topics whose names begin alike; it exists by having settings. They stand on the BROKER resource "", the
// default of all brokers, as namespace.<prefix>.<setting of a topic>, and are those of dispatch throttling. The setting is
// told by how the key ends, so a prefix may hold dots.

const (
	namespaceBegin = "namespace."
	// maxNamespaces bounds what one BROKER resource holds, which is one record: 1,000 namespaces with all their settings are about
	// 2 MB.
	maxNamespaces = 1000
	// maxNamespaceBytes is bytes of a prefix: of a topic's name.
	maxNamespaceBytes = 249
)

// namespaceKey is the key of a namespace's setting, or with no name what such keys begin with.
func namespaceKey(prefix, name string) string { return namespaceBegin + prefix + "." + name }

// cutNamespaceKey takes a key apart. r is the topic's row, nil if the key is none of a namespace.
func cutNamespaceKey(key string) (prefix string, r *row) {
	rest, ok := strings.CutPrefix(key, namespaceBegin)
	if !ok {
		return "", nil
	}
	least := len(rest) + 1 // subscription.x ends in x too: the longer name counts
	for _, p := range []*policy{topicPolicy, subscriptionPolicy} {
		for _, candidate := range p.rows() {
			for name := range candidate.names() {
				if before, ok := strings.CutSuffix("."+rest, "."+name); ok && before != "" && len(before) < least {
					least, prefix, r = len(before), strings.TrimPrefix(before, "."), candidate
				}
			}
		}
	}
	return prefix, r
}

// names yields what a setting may be called.
func (r *row) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		if !yield(r.name) {
			return
		}
		for _, alias := range r.aliases {
			if !yield(alias) {
				return
			}
		}
	}
}

// under is a topic's row as it stands on the broker for a namespace, whose keys begin so.
func (r *row) under(begin string) *row {
	n := *r
	n.name, n.aliases, n.scope, n.live = begin+r.name, nil, ScopeDefault, true
	n.doc = "For the topics of the namespace: " + strings.ToLower(r.doc[:1]) + r.doc[1:]
	return &n
}

// namespaceRow gives the row of a namespace's key, nil if it is none.
func namespaceRow(key string) *row {
	prefix, r := cutNamespaceKey(key)
	if r == nil || checkNamespace(prefix) != nil {
		return nil
	}
	return r.under(namespaceKey(prefix, ""))
}

func checkNamespace(prefix string) error {
	if len(prefix) > maxNamespaceBytes || !isTopicNamePart(prefix) {
		return fmt.Errorf("%s is no namespace: it must be the beginning of a topic's name, at most %d ASCII letters, digits, '.', '_' and '-'", quote(prefix), maxNamespaceBytes)
	}
	return nil
}

func isTopicNamePart(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-')
	})
}

func topicNamePart() limit {
	return limit{"ASCII letters, digits, '.', '_' and '-'", func(v value) bool { return len(v.text) <= maxNamespaceBytes && isTopicNamePart(v.text) }}
}

// unknownNamespaceKey explains a key that begins like a namespace's.
func unknownNamespaceKey(scope Scope, key string) error {
	prefix, r := cutNamespaceKey(key)
	switch {
	case r == nil:
		return fmt.Errorf("unknown setting %s of a namespace; it has the settings of dispatch that a topic has: %s and the like",
			quote(key), namespaceKey("PREFIX", topicPolicy.msgs.name))
	case checkNamespace(prefix) != nil:
		return checkNamespace(prefix)
	case scope == ScopeBroker:
		return fmt.Errorf("%s is a setting of all brokers: it is set on the BROKER resource with the empty name", quote(key))
	}
	return fmt.Errorf("%s is a setting of all brokers; here use %s", quote(key), r.name)
}

// namespaces are the prefixes that have settings, the longest first.
func (l Layers) namespaces() []string {
	seen := map[string]bool{}
	for key := range l.DynamicDefault {
		if prefix, r := cutNamespaceKey(key); r != nil {
			seen[prefix] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
}

// namespacesOf are the prefixes with settings that a topic is in, the longest first. It looks at the topic's name and not at all
// namespaces: to describe many topics must not cost as many times all of those.
func (l Layers) namespacesOf(topic string) (prefixes []string) {
	if len(l.DynamicDefault) == 0 || topic == "" {
		return nil
	}
	delimiter, _, err := l.effective(settings.find(ScopeBroker, keyDelimiter))
	if err != nil {
		return nil
	}
	for end := len(topic); end > 0; end-- {
		prefix := topic[:end]
		at := place{values: l.DynamicDefault, prefix: namespaceKey(prefix, "")}
		if InNamespace(topic, prefix, delimiter.text) && (at.sets(topicPolicy) || at.sets(subscriptionPolicy)) {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// storeNamespaces fills in the namespaces of a broker's snapshot.
func (l Layers) storeNamespaces(d *Dispatch) error {
	prefixes := l.namespaces()
	if len(prefixes) > maxNamespaces {
		return fmt.Errorf("there would be settings for %d namespaces; at most %d may have some", len(prefixes), maxNamespaces)
	}
	for _, prefix := range prefixes {
		p, err := l.policiesAt(place{l.DynamicDefault, namespaceKey(prefix, ""), SourceDynamicDefault})
		if err != nil {
			return err
		}
		d.Namespaces = append(d.Namespaces, Namespace{prefix, p})
	}
	return nil
}

// namespaceEntries describes the settings of namespaces.
func (l Layers) namespaceEntries() (entries []Entry) {
	for key, raw := range l.DynamicDefault {
		if r := namespaceRow(key); r != nil {
			e := r.entry()
			e.add(found{r, raw, SourceDynamicDefault}, r)
			entries = append(entries, e)
		}
	}
	return entries
}
