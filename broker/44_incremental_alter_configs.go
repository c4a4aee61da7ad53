package broker

import "github.com/twmb/franz-go/pkg/kmsg"

// incrementalAlterConfigs answers IncrementalAlterConfigs, v0-1 (KIP-339): each entry sets, unsets, appends to a list or
// takes from it; all or nothing for a resource, once durable.
func (b *Broker) incrementalAlterConfigs(c *call, q *kmsg.IncrementalAlterConfigsRequest) {
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	resp.Resources = make([]kmsg.IncrementalAlterConfigsResponseResource, len(q.Resources))
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
			ops[j] = op{int8(rc.Op), rc.Name, rc.Value}
		}
		set(i, a.add(i, int8(rr.ResourceType), rr.ResourceName, false, ops))
	}
	a.run(q.ValidateOnly, set, func() { c.answer(resp) })
}
