package broker

import "github.com/twmb/franz-go/pkg/kmsg"

// incrementalAlterConfigs answers IncrementalAlterConfigs, v0-1 (KIP-339): each entry sets, unsets, appends to a list or
// takes from it; all or nothing for a resource, once durable.
//
// Differs from Kafka: a bad value of a broker's setting is INVALID_CONFIG, as that of a topic's, and not INVALID_REQUEST, and so is an unknown
// setting of a broker, which Kafka keeps; an unknown operation is INVALID_REQUEST, where Kafka answers -1. Loggers and client metrics cannot be altered.
func (b *Broker) incrementalAlterConfigs(c *call, q *kmsg.IncrementalAlterConfigsRequest) {
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	resp.Resources = make([]kmsg.IncrementalAlterConfigsResponseResource, len(q.Resources))
	resources := make([]alterResource, len(q.Resources))
	for i, r := range q.Resources {
		resp.Resources[i].ResourceType, resp.Resources[i].ResourceName = r.ResourceType, r.ResourceName
		ops := make([]op, len(r.Configs))
		for j, rc := range r.Configs {
			ops[j] = op{int8(rc.Op), rc.Name, rc.Value}
		}
		resources[i] = resourceToAlter(r.ResourceType, r.ResourceName, ops)
	}
	c.alter(resources, false, q.ValidateOnly, func(i int, err error) {
		resp.Resources[i].ErrorCode, resp.Resources[i].ErrorMessage = c.fail(err)
	}, func() { c.answer(resp) })
}
