package broker

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
	"sluice/kproto"
)

// describeClientQuotas answers DescribeClientQuotas, v0-1 (KIP-546): the quotas of the entities that fit every component of the filter, and in
// a strict one have no other parts. No component fits all, or in a strict filter none.
func (b *Broker) describeClientQuotas(c *call, q *kmsg.DescribeClientQuotasRequest) {
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	filter, err := newQuotaFilter(q)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = c.fail(err)
		c.answer(resp)
		return
	}
	all := b.quotas.list()
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{} // null is for errors
	for _, e := range slices.SortedFunc(maps.Keys(all), func(a, b catalog.QuotaEntity) int { return strings.Compare(a.Path(), b.Path()) }) {
		if filter.fits(e) {
			resp.Entries = append(resp.Entries, describedQuota(e, all[e]))
		}
	}
	c.answer(resp)
}

func describedQuota(e catalog.QuotaEntity, values map[string]float64) (x kmsg.DescribeClientQuotasResponseEntry) {
	quotaParts(&e, func(typ string, name *string) {
		x.Entity = append(x.Entity, kmsg.DescribeClientQuotasResponseEntryEntity{Type: typ, Name: name})
	})
	for _, key := range slices.Sorted(maps.Keys(values)) {
		x.Values = append(x.Values, kmsg.DescribeClientQuotasResponseEntryValue{Key: key, Value: values[key]})
	}
	return x
}

// quotaFilter says for each type of entity what fits it; a type that it does not have fits anything.
type quotaFilter struct {
	parts  map[string]func(catalog.QuotaName) bool
	strict bool
}

func newQuotaFilter(q *kmsg.DescribeClientQuotasRequest) (f quotaFilter, err error) {
	f = quotaFilter{map[string]func(catalog.QuotaName) bool{}, q.Strict}
	for i := range q.Components {
		if err := f.add(&q.Components[i]); err != nil {
			return f, err
		}
	}
	if f.parts[quotaIP] != nil && len(f.parts) > 1 {
		return f, badQuota("Quotas of addresses have neither user nor client id.")
	}
	return f, nil
}

func (f *quotaFilter) add(c *kmsg.DescribeClientQuotasRequestComponent) error {
	switch {
	case c.EntityType == "":
		return badQuota("The entity type of a filter component is empty.")
	case f.parts[c.EntityType] != nil:
		return badQuota("The entity type %s is in the filter more than once.", c.EntityType)
	case quotaPart(new(catalog.QuotaEntity), c.EntityType) == nil:
		return kproto.Errorf(kproto.UnsupportedVersion, "There is no quota entity type %s.", c.EntityType)
	}
	switch {
	case c.MatchType < kmsg.QuotasMatchTypeExact || c.MatchType > kmsg.QuotasMatchTypeAny:
		return badQuota("There is no match type %d.", c.MatchType)
	case c.MatchType == kmsg.QuotasMatchTypeExact && c.Match == nil:
		return badQuota("An exact match needs a name.")
	case c.MatchType != kmsg.QuotasMatchTypeExact && c.Match != nil:
		return badQuota("Only an exact match has a name.")
	}
	f.parts[c.EntityType] = func(n catalog.QuotaName) bool {
		switch c.MatchType {
		case kmsg.QuotasMatchTypeExact:
			return n.Given && !n.Default && n.Name == *c.Match
		case kmsg.QuotasMatchTypeDefault:
			return n.Default
		}
		return n.Given
	}
	return nil
}

func (f *quotaFilter) fits(e catalog.QuotaEntity) bool {
	for typ, fits := range f.parts {
		if !fits(*quotaPart(&e, typ)) {
			return false
		}
	}
	n := 0
	quotaParts(&e, func(string, *string) { n++ })
	return !f.strict || n == len(f.parts)
}
