package group

// reconcile takes a member one step towards its target, as far as it and the others allow. owned is what the member says
// that it has; nil when it does not say, and then nothing of what it was told to give back counts as given back.
//
// A partition goes from one member to another by three heartbeats: the first tells the old member to give it back, the
// second says that it has, and only then the new member's heartbeat is answered with it. So no two hold it at once.
func (d *consumerDraft) reconcile(c *consumerMember, owned *partitionSet) *consumerMember {
	if c.settledAt(d.assigned) || c.state == memberRevoking && stillOwns(owned, c.revoking) {
		return c
	}
	next := c.copy()
	next.previous = c.epoch
	next.given = c.given.and(c.target)
	next.revoking = c.given.minus(c.target)
	if len(next.revoking) > 0 && stillOwns(owned, next.revoking) {
		next.state = memberRevoking
		next.since = next.holdSince(c)
		return next
	}
	wanted := c.target.minus(next.given)
	free := wanted.filter(func(p topicPartition) bool { return d.free(p, c.id) })
	next.epoch, next.state = d.assigned, memberSettled
	next.given, next.revoking = next.given.or(free), nil
	if len(free) < len(wanted) {
		next.state = memberWaiting
	}
	if next.epoch == c.epoch && next.state == c.state && len(free) == 0 && len(c.given) == len(next.given) {
		return c
	}
	next.since = next.holdSince(c)
	return next
}

func stillOwns(owned *partitionSet, revoking partitionSet) bool {
	return owned == nil || len(owned.and(revoking)) > 0
}
