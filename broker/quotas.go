package broker

import (
	"maps"
	"sync"

	"sluice/catalog"
)

// quotas are the client quotas in force: what the catalog says, fed by follow.go.
type quotas struct {
	mu  sync.RWMutex // guards all; the values are immutable
	all map[catalog.QuotaEntity]map[string]float64
}

// changed takes the orders of one step.
func (q *quotas) changed(orders []any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range orders {
		c, ok := o.(catalog.QuotaChanged)
		switch {
		case !ok:
		case c.Values == nil:
			delete(q.all, c.Entity)
		case q.all == nil:
			q.all = map[catalog.QuotaEntity]map[string]float64{c.Entity: c.Values}
		default:
			q.all[c.Entity] = c.Values
		}
	}
}

// list gives all quotas, by entity.
func (q *quotas) list() map[catalog.QuotaEntity]map[string]float64 {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return maps.Clone(q.all)
}
