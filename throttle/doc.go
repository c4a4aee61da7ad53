// Package throttle holds dispatch throttling: how many messages and bytes may leave in each period, for the broker, for a
// partition of a topic, and for a subscription on a partition. It decides and counts; it reads no log, no clock and no
// configuration. The meaning of the settings is that of Pulsar's message dispatch throttling.
//
// All limits that apply hold at once. A fetch of a partition takes from up to six counters (path.go), and nothing leaves the
// broker that was not taken from each of them:
//
//	path := topic.Path(partition, group, now)        the counters between this partition and this group
//	plan, refusal, ok := path.Plan(ahead, now)       what they have; if nothing: which one, and until when
//	for plan.Add(records, bytes) { … }               the batches that come next, by their headers, until one is refused
//	grant, refusal, ok := path.Reserve(plan, now)    takes their exact cost from all counters or from none
//	grant.Refund(now)                                if nothing of them was sent
//	watch.On(refusal, waiter, now)                   waits; the waiter is fired when it makes sense to look again
//
// A counter is one integer that is lowered by compare-and-swap and needs nobody to refill it (tape.go). Those who are refused
// share what comes next (crowd.go). Who waits costs no goroutine and no timer of his own (watch.go, timers.go).
//
// Debts live in memory: a restart forgives them.
package throttle
