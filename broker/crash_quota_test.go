package broker

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// quotaPage is the place of a client id's quota among the brokers' configs, which are promised in the same way.
func quotaPage(path string) string { return "quota/" + path }

// quotaContents adds the quotas that a broker has.
func quotaContents(b *Broker, to map[string]string) {
	for e, values := range b.quotas.list() {
		for _, v := range values { // the script sets one for each entity
			to[quotaPage(e.Path())] = strconv.FormatFloat(v, 'g', -1, 64)
		}
	}
}

// limit sets a client id's quota, or takes it away with 0.
func (w *world) limit(clientID string, rate int) {
	w.t.Helper()
	want, op := strconv.Itoa(rate), setQuota("producer_byte_rate", float64(rate))
	if rate == 0 {
		want, op = "", unsetQuota("producer_byte_rate")
	}
	name := quotaPage("clients/" + clientID)
	change := func(fn func(*possible[string])) func(*pages) {
		return func(p *pages) {
			s, ok := p.brokers[name]
			if !ok {
				s = possible[string]{""}
			}
			fn(&s)
			p.brokers[name] = s
		}
	}
	q := kmsg.NewPtrAlterClientQuotasRequest()
	q.Entries = []kmsg.AlterClientQuotasRequestEntry{quotaEntry("client-id="+clientID, op)}
	w.book.ask(change(func(s *possible[string]) { s.maybe(want) }))
	code := do[*kmsg.AlterClientQuotasResponse](w.c, q, 1).Entries[0].ErrorCode
	w.book.answer(func(p *pages) {
		if w.decided("quota of "+clientID, code) {
			change(func(s *possible[string]) { s.sure(want) })(p)
		}
	})
	w.resolve()
}
