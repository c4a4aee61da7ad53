package catalog

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice/internal/machine"
	"sluice/kproto"
)

// Bounds of what quotas can have us keep: entities need not exist to have one.
const (
	// maxQuotas is how many entities may have quotas.
	maxQuotas = 100_000
	// maxQuotaName is the longest name of an entity's part, in bytes: no user, client id or address in use comes near it.
	maxQuotaName = 1024
)

// QuotaEntity is whom a client quota is for (KIP-546): a user, a client id, the two together, or an IP address. Each part is absent,
// the default, or a name; the zero value is nobody.
type QuotaEntity struct{ User, ClientID, IP QuotaName }

// QuotaName is a part of a quota's entity.
type QuotaName struct {
	Given   bool
	Default bool   // for all that have no quota of their own
	Name    string // if Given and not Default
}

// QuotaChange is what is to become of the quotas of one entity. The shell checked names, keys and values.
type QuotaChange struct {
	Entity QuotaEntity
	Set    map[string]float64
	Remove []string
}

// The parts of an entity in the keys of records, in the order in which they stand there. They are those of Kafka's paths in
// ZooKeeper, where the quotas of a user's client were at users/<user>/clients/<client-id>.
const (
	quotaUsers   = "users"
	quotaClients = "clients"
	quotaIPs     = "ips"
	quotaDefault = "<default>" // no escaped name has these characters
)

func (e *QuotaEntity) part(word string) *QuotaName {
	switch word {
	case quotaUsers:
		return &e.User
	case quotaClients:
		return &e.ClientID
	case quotaIPs:
		return &e.IP
	}
	return nil
}

// Path is the entity as its record's key has it, such as users/alice/clients/<default>.
func (e QuotaEntity) Path() string {
	var words []string
	for _, word := range []string{quotaUsers, quotaClients, quotaIPs} {
		switch n := e.part(word); {
		case !n.Given:
		case n.Default:
			words = append(words, word, quotaDefault)
		default:
			words = append(words, word, url.QueryEscape(n.Name))
		}
	}
	return strings.Join(words, "/")
}

// parseQuotaEntity reads what Path wrote.
func parseQuotaEntity(path string) (e QuotaEntity, err error) {
	words := strings.Split(path, "/")
	for i := 0; i+1 < len(words); i += 2 {
		n := e.part(words[i])
		if n == nil {
			return e, fmt.Errorf("%q is no kind of quota entity", words[i])
		}
		*n = QuotaName{Given: true, Default: words[i+1] == quotaDefault}
		if n.Default {
			continue
		}
		if n.Name, err = url.QueryUnescape(words[i+1]); err != nil {
			return e, err
		}
	}
	if e.Path() != path || e == (QuotaEntity{}) {
		return e, fmt.Errorf("%q is no quota entity", path)
	}
	return e, nil
}

type quotaValue struct {
	V      int                `json:"v"`
	Values map[string]float64 `json:"values"`
}

func quotaRecord(e QuotaEntity, values map[string]float64) machine.Record {
	if len(values) == 0 {
		return tombstone(prefixQuota + e.Path())
	}
	return record(prefixQuota+e.Path(), quotaValue{version, values})
}

func (s *state) applyQuota(path string, value []byte) error {
	e, err := parseQuotaEntity(path)
	if err != nil {
		return err
	}
	if value == nil {
		delete(s.quotas, e)
		return nil
	}
	var v quotaValue
	if err := decode(value, &v); err != nil {
		return err
	}
	if len(v.Values) == 0 {
		return errors.New("it has no values, and is no tombstone")
	}
	s.quotas[e] = v.Values
	return nil
}

// alterQuotas edits the quotas of entities, each all or nothing. An entity that is mentioned twice is refused and not changed; Kafka
// answers the error too, and yet makes the first of the changes.
func (m *Machine) alterQuotas(ev AlterQuotas) ([]error, machine.Effects) {
	var e machine.Effects
	mentions := count(ev.Changes, func(c QuotaChange) QuotaEntity { return c.Entity })
	errs, entities := make([]error, len(ev.Changes)), len(m.quotas)
	for i, c := range ev.Changes {
		if mentions[c.Entity] > 1 {
			errs[i] = errMentioned("quota entity", c.Entity.Path())
			continue
		}
		old := m.quotas[c.Entity]
		values, err := c.edited(old)
		if err == nil && len(old) == 0 && len(values) > 0 {
			if entities++; entities > maxQuotas {
				entities--
				err = kproto.Errorf(kproto.PolicyViolation, "%d entities have quotas, and that is the limit.", maxQuotas)
			}
		}
		if errs[i] = err; err != nil || maps.Equal(old, values) {
			continue
		}
		e.Records = append(e.Records, quotaRecord(c.Entity, values))
		e.Orders = append(e.Orders, QuotaChanged{c.Entity, values})
	}
	if ev.ValidateOnly {
		return errs, machine.Effects{}
	}
	return errs, e
}

// edited gives all quotas of the entity after the change, nil when there is none.
func (c QuotaChange) edited(old map[string]float64) (map[string]float64, error) {
	for _, n := range []QuotaName{c.Entity.User, c.Entity.ClientID, c.Entity.IP} {
		if len(n.Name) > maxQuotaName || !utf8.ValidString(n.Name) {
			return nil, kproto.Errorf(kproto.InvalidRequest, "A name in a quota entity is at most %d bytes of UTF-8.", maxQuotaName)
		}
	}
	values := map[string]float64{}
	maps.Copy(values, old)
	for _, key := range c.Remove {
		delete(values, key)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Set)) {
		v := c.Set[key]
		if math.IsNaN(v) || math.IsInf(v, 0) { // JSON has no such number
			return nil, kproto.Errorf(kproto.InvalidRequest, "The quota %s is no finite number.", key)
		}
		values[key] = v
	}
	if len(values) == 0 {
		return nil, nil
	}
	return values, nil
}

func compareQuotas(a, b QuotaEntity) int { return strings.Compare(a.Path(), b.Path()) }
