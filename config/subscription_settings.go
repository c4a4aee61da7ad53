package config

import (
	"regexp"
	"time"
)

// subscriptionRows are the settings about who reads for which group: which group a Fetch belongs to, members that do not
// read, and lag.
var subscriptionRows = []*row{
	{
		name: "dispatch.throttling.unresolved.subscription", kind: kindString, def: "client-id", allow: oneOf("client-id", "connection", "shared", "none"), live: true,
		broker: text(func(b *Broker) *string { return &b.UnresolvedSubscription }),
		doc:    "Who shares an allowance where a consumer's group is not known: those with the same client id, each connection for itself, all of a partition; or none applies.",
	},
	{
		name: "dispatch.subscription.client.id.pattern", kind: kindString, def: "", allow: groupPattern(), live: true,
		broker: func(b *Broker, v value) { b.GroupOfClientID = compileGroupPattern(v.text) },
		doc:    "A regular expression (RE2) for client ids with one group of parentheses, which matches the name of the consumer group. Empty: client ids say nothing.",
	},
	{
		name: "group.stalled.member.action", kind: kindString, def: "report", allow: oneOf("report", "evict"), live: true,
		broker: func(b *Broker, v value) { b.Groups.EvictStalled = v.text == "evict" },
		doc:    "What is done about a group member that sends heartbeats but neither fetches nor commits a partition with records to read for longer than its poll interval: it is reported, or its membership ended as well.",
	},
	{
		name: "group.stalled.check.interval.ms", kind: kindLong, def: "5000", allow: atLeast(10), live: true,
		broker: millis(func(b *Broker) *time.Duration { return &b.Groups.StalledCheckInterval }),
		doc:    "How often stalled members are looked for.",
	},
	{
		name: "group.lag.metrics.max.partitions", kind: kindInt, def: "1000", allow: atLeast(0), live: true,
		broker: whole(func(b *Broker) *int { return &b.Groups.LagMetricsPartitions }),
		doc:    "The most pairs of a group and a partition that /metrics shows the lag of, four series each; the number left out is a metric too. 0 shows none.",
	},
}

// groupPattern allows expressions that pick one part of a client id.
func groupPattern() limit {
	return limit{"a regular expression with one group of parentheses, or nothing", func(v value) bool {
		return v.text == "" || compileGroupPattern(v.text) != nil
	}}
}

// compileGroupPattern gives nil for what groupPattern does not allow, and for "".
func compileGroupPattern(text string) *regexp.Regexp {
	re, err := regexp.Compile(text)
	if err != nil || re.NumSubexp() != 1 {
		return nil
	}
	return re
}
