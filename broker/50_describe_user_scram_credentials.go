package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// describeUserScramCredentials answers DescribeUserScramCredentials, v0 (KIP-554): nobody has credentials here, so a list without names is of nobody and
// each named user is RESOURCE_NOT_FOUND, or DUPLICATE_RESOURCE if it is named more than once. It is there because `kafka-configs --describe
// --entity-type users` asks for quotas and credentials alike, and shows neither if one of the two cannot be had.
func (b *Broker) describeUserScramCredentials(c *call, q *kmsg.DescribeUserSCRAMCredentialsRequest) {
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	at := map[string]int{}
	for _, u := range q.Users {
		if i, again := at[u.Name]; again {
			resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = c.fail(kproto.Errorf(kproto.DuplicateResource, "The user is named more than once."))
			continue
		}
		at[u.Name] = len(resp.Results)
		x := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		x.User = u.Name
		x.ErrorCode, x.ErrorMessage = c.fail(kproto.Errorf(kproto.ResourceNotFound, "The user has no SCRAM credentials."))
		resp.Results = append(resp.Results, x)
	}
	c.answer(resp)
}
