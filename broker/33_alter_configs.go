package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
)

// alterConfigs answers AlterConfigs, v0-2: what a resource has is replaced by what is given, once durable.
func (b *Broker) alterConfigs(c *call, q *kmsg.AlterConfigsRequest) {
	resp := kmsg.NewPtrAlterConfigsResponse()
	resp.Resources = make([]kmsg.AlterConfigsResponseResource, len(q.Resources))
	set := func(place int, err error) {
		x := &resp.Resources[place]
		x.ErrorCode, x.ErrorMessage = c.fail(err)
	}
	a := &alteration{c: c}
	for i := range q.Resources {
		a.seen(int8(q.Resources[i].ResourceType), q.Resources[i].ResourceName)
	}
	for i := range q.Resources {
		rr := &q.Resources[i]
		resp.Resources[i].ResourceType, resp.Resources[i].ResourceName = rr.ResourceType, rr.ResourceName
		ops := make([]op, len(rr.Configs))
		for j, rc := range rr.Configs {
			ops[j] = op{catalog.OpSet, rc.Name, rc.Value}
		}
		set(i, a.add(i, int8(rr.ResourceType), rr.ResourceName, true, ops))
	}
	a.run(q.ValidateOnly, set, func() { c.answer(resp) })
}
