package broker

import "github.com/twmb/franz-go/pkg/kmsg"

// listGroups answers ListGroups, v0-5: there are no groups.
func (b *Broker) listGroups(c *call, _ *kmsg.ListGroupsRequest) {
	c.answer(kmsg.NewPtrListGroupsResponse())
}
