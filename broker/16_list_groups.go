package broker

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
)

// listGroups answers ListGroups, v0-5, with the groups of all shards. A filter that names no known state or type
// matches no group.
//
//	v4  states, and a filter on them (KIP-518)
//	v5  types, and a filter on them (KIP-848)
func (b *Broker) listGroups(c *call, q *kmsg.ListGroupsRequest) {
	resp := kmsg.NewPtrListGroupsResponse()
	b.groups.list(func(all []kmsg.ListGroupsResponseGroup, err error) {
		c.guard(func() {
			if err != nil {
				resp.ErrorCode = c.code(groupError(err))
			}
			resp.Groups = slices.DeleteFunc(all, func(g kmsg.ListGroupsResponseGroup) bool {
				return !anyOf(q.StatesFilter, g.GroupState) || !anyOf(q.TypesFilter, g.GroupType)
			})
			c.answer(resp)
		})
	})
}

// anyOf tells whether a filter lets a value through: all do when it is empty. As in Kafka the case does not count.
func anyOf(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
}

// list gathers the groups of all shards. With an error it gives those of the shards that could answer.
func (g *groups) list(done func([]kmsg.ListGroupsResponseGroup, error)) {
	var all []kmsg.ListGroupsResponseGroup
	askAll(g.running(), group.List{}, func(v any) { some, _ := v.([]kmsg.ListGroupsResponseGroup); all = append(all, some...) },
		func(err error) { done(all, err) })
}
