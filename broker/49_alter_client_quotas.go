package broker

import (
	"net/netip"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
	"sluice/throttle/quota"
)

// alterClientQuotas answers AlterClientQuotas, v0-1 (KIP-546), once the changes are durable and in force. Each entity is changed as a
// whole or not at all.
//
// Differs from Kafka: an address is an IP address and no host name, since the broker asks no name server; an entity that stands twice in a
// request is not changed, where Kafka answers the same error and makes the first change; the entries of the answer are in the order of the
// request.
func (b *Broker) alterClientQuotas(c *call, q *kmsg.AlterClientQuotasRequest) {
	resp := kmsg.NewPtrAlterClientQuotasResponse()
	ev := catalog.AlterQuotas{ValidateOnly: q.ValidateOnly}
	var at []int // where the answers go
	for i := range q.Entries {
		x := kmsg.NewAlterClientQuotasResponseEntry()
		for _, part := range q.Entries[i].Entity {
			x.Entity = append(x.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: part.Type, Name: part.Name})
		}
		change, err := quotaChange(&q.Entries[i])
		if x.ErrorCode, x.ErrorMessage = c.fail(err); err == nil {
			ev.Changes, at = append(ev.Changes, change), append(at, i)
		}
		resp.Entries = append(resp.Entries, x)
	}
	if len(at) == 0 {
		c.answer(resp)
		return
	}
	b.change(c, ev, func(v any, err error) {
		errs, _ := v.([]error)
		for n, i := range at {
			entryErr := err
			if err == nil {
				entryErr = errs[n]
			}
			resp.Entries[i].ErrorCode, resp.Entries[i].ErrorMessage = c.fail(entryErr)
		}
		c.answer(resp)
	})
}

// quotaChange checks one entry.
func quotaChange(e *kmsg.AlterClientQuotasRequestEntry) (change catalog.QuotaChange, err error) {
	if change.Entity, err = quotaEntity(e.Entity); err != nil {
		return change, err
	}
	change.Set = map[string]float64{}
	seen := map[string]bool{}
	for _, op := range e.Ops {
		if seen[op.Key] {
			return change, badQuota("The quota %s stands more than once in an entry.", op.Key)
		}
		seen[op.Key] = true
		if op.Remove { // of whatever key: what is not known is not set
			change.Remove = append(change.Remove, op.Key)
			continue
		}
		if err := checkQuota(op, change.Entity.IP.Given); err != nil {
			return change, err
		}
		change.Set[op.Key] = op.Value
	}
	return change, nil
}

func checkQuota(op kmsg.AlterClientQuotasRequestEntryOp, ofIP bool) error {
	kind, ok := quota.ParseKind(op.Key, ofIP)
	if !ok {
		return badQuota("An entity of this sort has no quota %s.", op.Key)
	}
	if err := kind.Check(op.Value); err != nil {
		return badQuota("%v", err)
	}
	if kind == quota.Connection {
		return badQuota("This broker does not limit the rate of connections, so %s cannot be set; max.connections.per.ip limits their number.", kind)
	}
	return nil
}

// quotaEntity reads an entity. Of parts of the same type the last counts, as in Kafka.
func quotaEntity(parts []kmsg.AlterClientQuotasRequestEntryEntity) (e catalog.QuotaEntity, err error) {
	for _, part := range parts {
		n := quotaPart(&e, part.Type)
		switch {
		case n == nil:
			return e, badQuota("There is no quota entity type %q.", part.Type)
		case part.Name == nil:
			*n = catalog.QuotaName{Given: true, Default: true}
		case *part.Name == "":
			return e, badQuota("The name of the %s is empty.", part.Type)
		default:
			*n = catalog.QuotaName{Given: true, Name: *part.Name}
		}
	}
	switch {
	case e == catalog.QuotaEntity{}:
		return e, badQuota("The quota entity is empty.")
	case e.IP.Given && (e.User.Given || e.ClientID.Given):
		return e, badQuota("An address cannot have a quota together with a user or client id.")
	case e.IP.Given && !e.IP.Default:
		if _, err := netip.ParseAddr(e.IP.Name); err != nil {
			return e, badQuota("%q is no IP address.", e.IP.Name)
		}
	}
	return e, nil
}
