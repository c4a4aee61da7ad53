package broker

import (
	"maps"
	"sync"

	"sluice/catalog"
	"sluice/throttle/quota"
)

// quotas are the client quotas in force: what the catalog says, fed by follow.go.
type quotas struct {
	mu  sync.RWMutex // guards all; the values are immutable
	all map[catalog.QuotaEntity]map[string]float64

	limits   quota.Limits
	settings func() quota.Settings
}

// changed takes the orders of one step.
func (q *quotas) changed(orders []any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	changed := false
	for _, o := range orders {
		c, ok := o.(catalog.QuotaChanged)
		switch changed = changed || ok; {
		case !ok:
		case c.Values == nil:
			delete(q.all, c.Entity)
		case q.all == nil:
			q.all = map[catalog.QuotaEntity]map[string]float64{c.Entity: c.Values}
		default:
			q.all[c.Entity] = c.Values
		}
	}
	if changed {
		q.limits.Configure(byKind(q.all), q.settings(), quotaNow())
	}
}

// byKind turns the quotas round.
func byKind(all map[catalog.QuotaEntity]map[string]float64) (of [quota.Kinds]map[quota.Entity]float64) {
	for e, values := range all {
		for key, v := range values {
			k, ok := quota.ParseKind(key, false)
			if !ok {
				continue // of an address, or of a later version
			}
			if k == quota.Request {
				v /= 100 // percent of a processor to seconds in a second
			}
			if of[k] == nil {
				of[k] = map[quota.Entity]float64{}
			}
			of[k][quota.Entity{User: quota.Name(e.User), ClientID: quota.Name(e.ClientID)}] = v
		}
	}
	return of
}

// quotaSettings are the settings that quotas are measured by.
func (b *Broker) quotaSettings() quota.Settings {
	c := &b.config().Quotas
	return quota.Settings{Windows: c.Windows, Window: c.Window, MutationWindows: c.MutationWindows, MutationWindow: c.MutationWindow}
}

// list gives all quotas, by entity.
func (q *quotas) list() map[catalog.QuotaEntity]map[string]float64 {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return maps.Clone(q.all)
}
