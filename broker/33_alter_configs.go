package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
)

// alterConfigs answers AlterConfigs, v0-2: what a resource has is replaced by what is given, once durable.
func (b *Broker) alterConfigs(c *call, q *kmsg.AlterConfigsRequest) {
	resp := kmsg.NewPtrAlterConfigsResponse()
	resp.Resources = make([]kmsg.AlterConfigsResponseResource, len(q.Resources))
	resources := make([]alterResource, len(q.Resources))
	for i, r := range q.Resources {
		resp.Resources[i].ResourceType, resp.Resources[i].ResourceName = r.ResourceType, r.ResourceName
		ops := make([]op, len(r.Configs))
		for j, rc := range r.Configs {
			ops[j] = op{catalog.OpSet, rc.Name, rc.Value}
		}
		resources[i] = resourceToAlter(r.ResourceType, r.ResourceName, ops)
	}
	c.alter(resources, true, q.ValidateOnly, func(i int, err error) {
		resp.Resources[i].ErrorCode, resp.Resources[i].ErrorMessage = c.fail(err)
	}, func() { c.answer(resp) })
}
