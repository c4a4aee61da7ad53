package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The quotas of users and client ids, by Kafka's names.
const (
	producerByteRate       = "producer_byte_rate"
	consumerByteRate       = "consumer_byte_rate"
	requestPercentage      = "request_percentage"
	controllerMutationRate = "controller_mutation_rate"
)

// settableQuotas are those that the commands set and take back, in the order of their flags.
var settableQuotas = []string{producerByteRate, consumerByteRate, requestPercentage, controllerMutationRate}

// quotaKind is a quota and what it does to clients; %s is its value.
type quotaKind struct{ key, does string }

// quotaKinds are the known quotas in the order in which they are printed. The last is of IP addresses, and only listed here.
var quotaKinds = []quotaKind{
	{producerByteRate, "produce at most %s bytes a second"},
	{consumerByteRate, "fetch at most %s bytes a second"},
	{requestPercentage, "use at most %s %% of a thread for their requests"},
	{controllerMutationRate, "create and delete at most %s partitions a second"},
	{"connection_creation_rate", "open at most %s connections a second"},
}

// quotaOf finds a kind by its key. One that is not known, a broker of the future's, says no more than its key.
func quotaOf(key string) quotaKind {
	if i := slices.IndexFunc(quotaKinds, func(k quotaKind) bool { return k.key == key }); i >= 0 {
		return quotaKinds[i]
	}
	return quotaKind{key, printable(key) + " at most %s"}
}

func (k quotaKind) flag() string { return strings.ReplaceAll(k.key, "_", "-") }

// quotaEntity is what has quotas (KIP-55, KIP-546, KIP-612): a user, a client id, both, or an IP address; each by its name or as the default of all that have
// no quota of their own. The fields are those of `quota list -o json`.
type quotaEntity struct {
	User            *string `json:"user,omitempty"`
	UserDefault     bool    `json:"user_default,omitempty"`
	ClientID        *string `json:"client_id,omitempty"`
	ClientIDDefault bool    `json:"client_id_default,omitempty"`
	IP              *string `json:"ip,omitempty"`
	IPDefault       bool    `json:"ip_default,omitempty"`
}

// quotaPart is one of the names of an entity.
type quotaPart struct {
	kind, title string // as Kafka names it, and for people
	name        *string
	isDefault   bool
}

// parts are what the entity consists of.
func (e quotaEntity) parts() []quotaPart {
	all := []quotaPart{
		{"user", "user", e.User, e.UserDefault},
		{"client-id", "client id", e.ClientID, e.ClientIDDefault},
		{"ip", "IP address", e.IP, e.IPDefault},
	}
	return slices.DeleteFunc(all, func(p quotaPart) bool { return p.name == nil && !p.isDefault })
}

func (e quotaEntity) components() (all kadm.ClientQuotaEntity) {
	for _, p := range e.parts() {
		all = append(all, kadm.ClientQuotaEntityComponent{Type: p.kind, Name: p.name})
	}
	return all
}

// matches are a filter for what has the same names.
func (e quotaEntity) matches() (all []kadm.DescribeClientQuotaComponent) {
	for _, p := range e.parts() {
		match := kmsg.QuotasMatchTypeExact
		if p.isDefault {
			match = kmsg.QuotasMatchTypeDefault
		}
		all = append(all, kadm.DescribeClientQuotaComponent{Type: p.kind, MatchName: p.name, MatchType: match})
	}
	return all
}

// String names the entity for people: "user alice, default client id".
func (e quotaEntity) String() string {
	var texts []string
	for _, p := range e.parts() {
		if p.isDefault {
			texts = append(texts, "default "+p.title)
		} else {
			texts = append(texts, p.title+" "+printable(*p.name))
		}
	}
	if texts == nil {
		return "client quotas"
	}
	return strings.Join(texts, ", ")
}

// who are the clients that share a quota of the entity.
func (e quotaEntity) who() string {
	const each = "each client id by itself, its clients together,"
	switch {
	case e.IP != nil, e.IPDefault:
		return "the clients at an address together"
	case e.UserDefault && e.ClientID == nil && !e.ClientIDDefault:
		return "each user without a quota of its own, all its clients together,"
	case e.UserDefault && e.ClientIDDefault:
		return "of each user, " + each
	case e.UserDefault:
		return "of each user, the clients with this id together"
	case e.ClientIDDefault:
		return each
	}
	return "all its clients together"
}

// entityQuotas are the quotas of an entity, as `quota list -o json` prints them.
type entityQuotas struct {
	quotaEntity
	Quotas map[string]float64 `json:"quotas"`
}

// sorted gives the quotas in the order of quotaKinds, then others by name.
func (q entityQuotas) sorted() (all []kadm.ClientQuotaValue) {
	for key, value := range q.Quotas {
		all = append(all, kadm.ClientQuotaValue{Key: key, Value: value})
	}
	place := func(key string) int {
		at := slices.IndexFunc(quotaKinds, func(k quotaKind) bool { return k.key == key })
		if at < 0 {
			at = len(quotaKinds)
		}
		return at
	}
	slices.SortFunc(all, func(a, b kadm.ClientQuotaValue) int {
		return cmp.Or(place(a.Key)-place(b.Key), strings.Compare(a.Key, b.Key))
	})
	return all
}

// sentence says what the quotas do.
func (q entityQuotas) sentence() string {
	var does []string
	for _, v := range q.sorted() {
		does = append(does, fmt.Sprintf(quotaOf(v.Key).does, number(v.Value)))
	}
	return fmt.Sprintf("%s: %s %s", q, q.who(), strings.Join(does, ", "))
}

// number prints a rate without an exponent and without a fraction that is none.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// sortedQuotas takes over what a broker described, the most exact entities of each user first, then those of client ids alone, then those of IP addresses.
func sortedQuotas(described kadm.DescribedClientQuotas) []entityQuotas {
	all := []entityQuotas{}
	for _, d := range described {
		q := entityQuotas{Quotas: map[string]float64{}}
		for i := range d.Entity {
			q.take(d.Entity[i])
		}
		for _, v := range d.Values {
			q.Quotas[v.Key] = v.Value
		}
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b entityQuotas) int { return a.compare(b.quotaEntity) })
	return all
}

// take adds a name to an entity.
func (e *quotaEntity) take(c kadm.ClientQuotaEntityComponent) {
	switch c.Type {
	case "user":
		e.User, e.UserDefault = c.Name, c.Name == nil
	case "client-id":
		e.ClientID, e.ClientIDDefault = c.Name, c.Name == nil
	case "ip":
		e.IP, e.IPDefault = c.Name, c.Name == nil
	}
}

func (e quotaEntity) compare(o quotaEntity) int {
	return cmp.Or(compareName(e.User, e.UserDefault, o.User, o.UserDefault),
		compareName(e.ClientID, e.ClientIDDefault, o.ClientID, o.ClientIDDefault),
		compareName(e.IP, e.IPDefault, o.IP, o.IPDefault))
}

// compareName puts names first, by themselves, then the default, then none.
func compareName(a *string, aDefault bool, b *string, bDefault bool) int {
	if a != nil && b != nil {
		return strings.Compare(*a, *b)
	}
	rank := func(name *string, isDefault bool) int {
		switch {
		case name != nil:
			return 0
		case isDefault:
			return 1
		}
		return 2
	}
	return rank(a, aDefault) - rank(b, bDefault)
}
