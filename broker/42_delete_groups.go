package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
	"sluice/internal/machine"
	"sluice/kproto"
)

// deleteGroups answers DeleteGroups, v0-2: groups without members, with their offsets.
func (b *Broker) deleteGroups(c *call, q *kmsg.DeleteGroupsRequest) {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(q.Groups))
	each(c, q.Groups, func(i int) machine.Event { return group.Delete{Group: q.Groups[i]} },
		func(i int, v any, err error) {
			g := kmsg.NewDeleteGroupsResponseGroup()
			g.Group = q.Groups[i]
			if code, _ := v.(int16); err == nil && code != 0 {
				err = &kproto.Error{Code: code}
			}
			g.ErrorCode = c.code(err)
			resp.Groups[i] = g
		}, func() { c.answer(resp) })
}
