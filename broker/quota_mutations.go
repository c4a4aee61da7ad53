package broker

import (
	"sluice/kproto"
	"sluice/throttle/quota"
)

// From these versions on a client is told by an error that it changes topics too fast, and nothing is done; before, it is done and the client is held (KIP-599).
const (
	strictCreateTopics     = 6
	strictDeleteTopics     = 5
	strictCreatePartitions = 3
)

var errMutationQuota = kproto.Errorf(kproto.ThrottlingQuotaExceeded, "The quota of changes to topics is exceeded; the request may be repeated after throttle_time_ms.")

// mutate counts partitions that a request is about to make or delete, or refuses it for one topic.
func (c *call) mutate(partitions int32, strictSince int16) error {
	m := quotaOf(c.Request).meter(quota.Mutation)
	if m == nil {
		return nil
	}
	if c.Version < strictSince {
		c.mutations = max(c.mutations, m.Use(float64(partitions), quotaNow()))
		return nil
	}
	wait, ok := m.Admit(float64(partitions), quotaNow())
	if ok {
		return nil
	}
	c.mutations = max(c.mutations, wait)
	return errMutationQuota
}
