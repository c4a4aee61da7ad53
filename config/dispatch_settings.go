package config

import (
	"fmt"
	"time"
)

// Names that are written more than once: they exclude each other, or others stand on them.
const (
	keyPrecise    = "dispatch.throttling.precise.flow.control"
	keyOnBatches  = "dispatch.throttling.on.batch.message.enabled"
	keyPeriod     = "dispatch.throttling.rate.period.seconds"
	keyDelimiter  = "namespace.delimiter"
	aliasPeriod   = "ratePeriodInSecond"
	maxPeriodSecs = 24 * 3600
)

// dispatchRows are the broker's settings of dispatch throttling: how fast records leave for consumers. The aliases are the names
// that the specification of the throttle has for them.
var dispatchRows = []*row{
	brokerRate("dispatch.throttling.rate.in.msg", "dispatchThrottlingRateInMsg",
		func(d *Dispatch) *int64 { return &d.Broker.Msgs },
		"The most messages that this broker dispatches in a period, to all consumers together; -1: no limit."),
	brokerRate("dispatch.throttling.rate.in.byte", "dispatchThrottlingRateInByte",
		func(d *Dispatch) *int64 { return &d.Broker.Bytes },
		"The most bytes that this broker dispatches in a period, to all consumers together; -1: no limit."),
	brokerRate("dispatch.throttling.rate.per.topic.in.msg", "dispatchThrottlingRatePerTopicInMsg",
		func(d *Dispatch) *int64 { return &d.PerTopic.Msgs },
		"The most messages that each partition dispatches in a period to all groups together, where neither the topic nor its namespace says; -1: no limit."),
	brokerRate("dispatch.throttling.rate.per.topic.in.byte", "dispatchThrottlingRatePerTopicInByte",
		func(d *Dispatch) *int64 { return &d.PerTopic.Bytes },
		"The most bytes that each partition dispatches in a period to all groups together, where neither the topic nor its namespace says; -1: no limit."),
	brokerRate("dispatch.throttling.rate.per.subscription.in.msg", "dispatchThrottlingRatePerSubscriptionInMsg",
		func(d *Dispatch) *int64 { return &d.PerSubscription.Msgs },
		"The most messages that each partition dispatches in a period to each group, where neither the group nor the topic nor its namespace says; -1: no limit."),
	brokerRate("dispatch.throttling.rate.per.subscription.in.byte", "dispatchThrottlingRatePerSubscriptionInByte",
		func(d *Dispatch) *int64 { return &d.PerSubscription.Bytes },
		"The most bytes that each partition dispatches in a period to each group, where neither the group nor the topic nor its namespace says; -1: no limit."),
	{
		name: keyPeriod, aliases: []string{aliasPeriod}, kind: kindInt, def: "1", allow: between(1, maxPeriodSecs), live: true,
		broker: func(b *Broker, v value) {
			period := time.Duration(v.whole) * time.Second
			b.Dispatch.Broker.Period, b.Dispatch.PerTopic.Period, b.Dispatch.PerSubscription.Period = period, period, period
		},
		doc: "The period of all rates that come without one of their own. 10,000 messages a minute are a rate of 10000 and a period of 60.",
	},
	{
		name: keyPrecise, aliases: []string{"preciseDispatcherFlowControl"}, kind: kindBool, def: "false", live: true,
		broker: boolean(func(b *Broker) *bool { return &b.Dispatch.Precise }),
		doc:    "Whether the messages of a batch are counted before it is dispatched, so that a rate of messages is passed by less than one batch. Excludes " + keyOnBatches + ".",
	},
	{
		name: keyOnBatches, aliases: []string{"dispatchThrottlingOnBatchMessageEnabled"}, kind: kindBool, def: "false", live: true,
		broker: boolean(func(b *Broker) *bool { return &b.Dispatch.OnBatches }),
		doc:    "Whether rates of messages count batches instead, whatever is in them. Excludes " + keyPrecise + ".",
	},
	{
		name: "dispatch.throttling.on.non.backlog.consumer.enabled", aliases: []string{"dispatchThrottlingOnNonBacklogConsumerEnabled"}, kind: kindBool, def: "true", live: true,
		broker: boolean(func(b *Broker) *bool { return &b.Dispatch.OnNonBacklog }),
		doc:    "Whether groups that have read all there is on a partition are throttled there, too. With false they are neither held back nor charged.",
	},
	{
		name: "dispatch.throttling.backlog.threshold", kind: kindLong, def: "0", allow: atLeast(0), live: true,
		broker: whole(func(b *Broker) *int64 { return &b.Dispatch.BacklogThreshold }),
		doc:    "How many records a group may lag behind on a partition and still count as having read all there is.",
	},
	{
		name: "dispatch.max.read.batch.size", aliases: []string{"dispatcherMaxReadBatchSize"}, kind: kindInt, def: "100", allow: atLeast(1), live: true,
		broker: whole(func(b *Broker) *int { return &b.Dispatch.MaxReadBatches }),
		doc:    "The most batches that one read takes of a partition whose limit has not enough for all of them, when messages are counted approximately.",
	},
	{
		name: "dispatch.throttling.exempt.principals", kind: kindList, allow: listOf("User:name", ":"), live: true,
		broker: list(func(b *Broker) *[]string { return &b.Dispatch.ExemptPrincipals }),
		doc:    "Who is never held back and never charged.",
	},
	{
		name: "dispatch.throttling.exempt.client.ids", kind: kindList, allow: listOf("client ids", ""), live: true,
		broker: list(func(b *Broker) *[]string { return &b.Dispatch.ExemptClientIDs }),
		doc:    "The client ids that are never held back and never charged.",
	},
	{
		name: "dispatch.throttling.max.debt.periods", kind: kindInt, def: "-1", allow: orMinusOne(atLeast(1)), live: true,
		broker: whole(func(b *Broker) *int { return &b.Dispatch.MaxDebtPeriods }),
		doc:    "How many periods a limit may stay shut to pay for a large batch; -1: as many as it takes, so that the rate is kept in the long run.",
	},
	{
		name: "dispatch.throttling.fair.hold.ratio", kind: kindDouble, def: "0.5", allow: fraction(), live: true,
		broker: func(b *Broker, v value) { b.Dispatch.FairHoldRatio = v.number },
		doc:    "The part of each period in which those who share a limit are kept their fair share of it; what is left then is for whoever asks first.",
	},
	{
		name: "dispatch.throttling.fair.hold.max.ms", kind: kindLong, def: "2000", allow: atLeast(0), live: true,
		broker: millis(func(b *Broker) *time.Duration { return &b.Dispatch.FairHoldMax }),
		doc:    "The longest time of each period in which fair shares are kept.",
	},
	{
		name: keyDelimiter, kind: kindString, def: ".", allow: topicNamePart(), live: true,
		broker: text(func(b *Broker) *string { return &b.Dispatch.Delimiter }),
		doc:    "What ends the name of a namespace in the name of a topic: orders is the namespace of orders.eu and of orders itself, not of orders2.",
	},
}

func brokerRate(name, alias string, field func(*Dispatch) *int64, doc string) *row {
	return &row{
		name: name, aliases: []string{alias}, kind: kindLong, def: "-1", norm: orNoLimit, live: true,
		broker: whole(func(b *Broker) *int64 { return field(&b.Dispatch) }),
		doc:    doc,
	}
}

// orNoLimit makes -1 of all that is no rate. Zero is none, too.
func orNoLimit(v value) value {
	if v.whole <= 0 {
		v.whole = -1
	}
	return v
}

// The policies of the resources. A namespace has those of a topic.
var (
	topicPolicy = newPolicy("", "per.topic", "each partition of the topic dispatches in a period, to all groups together",
		"dispatch of each partition, to all groups together")
	subscriptionPolicy = newPolicy("subscription.", "per.subscription", "each partition of the topic dispatches in a period to each group",
		"dispatch of each partition to each group")
	groupPolicy = newPolicy("", "", "each partition of any topic dispatches in a period to the group",
		"dispatch of each partition to the group")
)

// newPolicy declares the three settings of a policy. broker names those that stand in: dispatch.throttling.rate.<broker>.in.msg;
// "": none do. what completes "The most messages that", level "The period of the rates of".
func newPolicy(prefix, broker, what, level string) *policy {
	p := new(policy)
	rate := func(unit, short string) *row {
		r := &row{
			name: prefix + "dispatch.throttling.rate.in." + unit, aliases: []string{prefix + "dispatchThrottlingRateIn" + short},
			kind: kindLong, def: "-1", norm: orNoLimit, policy: p,
			doc: fmt.Sprintf("The most %s that %s; -1: no limit.", map[string]string{"msg": "messages", "byte": "bytes"}[unit], what),
		}
		if broker != "" {
			r.stands = "dispatch.throttling.rate." + broker + ".in." + unit
		}
		return r
	}
	p.msgs, p.bytes = rate("msg", "Msg"), rate("byte", "Byte")
	p.period = &row{
		name: prefix + keyPeriod, aliases: []string{prefix + aliasPeriod}, kind: kindInt, def: "1", allow: between(1, maxPeriodSecs), policy: p,
		stands: keyPeriod, doc: "The period of the rates of " + level + ".",
	}
	return p
}
