package broker

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
	"sluice/kproto"
)

// listConfigResources answers ListConfigResources, v0-1 (KIP-1142): the names of what has settings.
//
//	v0  client metrics subscriptions only, of which there are none
//	v1  the asked types, none meaning all; of groups those that have settings of their own
func (b *Broker) listConfigResources(c *call, q *kmsg.ListConfigResourcesRequest) {
	resp := kmsg.NewPtrListConfigResourcesResponse()
	known := []catalog.ResourceType{catalog.ResourceTopic, catalog.ResourceBroker, resourceBrokerLogger, resourceClientMetrics, catalog.ResourceGroup}
	asked := known
	if c.Version == 0 {
		asked = []catalog.ResourceType{resourceClientMetrics}
	} else if len(q.ResourceTypes) > 0 {
		asked = nil
		for _, t := range q.ResourceTypes {
			asked = append(asked, catalog.ResourceType(t))
		}
		slices.Sort(asked)
		asked = slices.Compact(asked)
	}
	for _, t := range asked {
		if !slices.Contains(known, t) {
			resp.ConfigResources = nil
			resp.ErrorCode = c.code(kproto.Errorf(kproto.UnsupportedVersion, "The resource type %d is not known.", t))
			break
		}
		for _, name := range b.configResources(t) {
			x := kmsg.NewListConfigResourcesResponseConfigResource()
			x.Name, x.Type = name, int8(t)
			resp.ConfigResources = append(resp.ConfigResources, x)
		}
	}
	c.answer(resp)
}

func (b *Broker) configResources(t catalog.ResourceType) (names []string) {
	switch t {
	case catalog.ResourceTopic:
		b.topics.each(func(t *topic) bool {
			names = append(names, t.name)
			return true
		})
	case catalog.ResourceBroker, resourceBrokerLogger:
		names = []string{strconv.Itoa(NodeID)}
	case catalog.ResourceGroup:
		names = b.groupConfigs.names()
	}
	return names
}
