package config

import "regexp"

// subscriptionRows are the settings that say which group a Fetch belongs to.
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
