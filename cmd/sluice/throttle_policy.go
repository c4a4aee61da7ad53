package main

import (
	"fmt"
	"strings"
	"time"
)

// unlimited is the rate of a limit that is none.
const unlimited = -1

// limitPolicy is one limit of `throttle list -o json`: what one source says about one level. The settings of a policy
// count together; a rate that it does not give is no limit.
type limitPolicy struct {
	Scope         string `json:"scope"` // broker, topic, namespace, group
	Name          string `json:"name"`  // "" for the broker
	Level         string `json:"level"` // broker, topic, subscription
	Messages      int64  `json:"messages"`
	Bytes         int64  `json:"bytes"` // -1: no limit, as messages
	PeriodSeconds int64  `json:"period_seconds"`

	set bool // by this source
}

// scopeLevels is who may share a limit, the scope's own meaning first.
var scopeLevels = map[string][]string{
	"broker":    {"broker", "topic", "subscription"},
	"topic":     {"topic", "subscription"},
	"namespace": {"topic", "subscription"},
	"group":     {"subscription"},
}

// limitKeys are the names of a policy's three settings.
type limitKeys struct{ messages, bytes, period string }

// brokerPeriod is the period where a policy gives none.
const brokerPeriod = "dispatch.throttling.rate.period.seconds"

// keys are as docs/config.md has them.
func (p *limitPolicy) keys() limitKeys {
	const rate = "dispatch.throttling.rate."
	if p.Scope == "broker" {
		each := map[string]string{"broker": "", "topic": "per.topic.", "subscription": "per.subscription."}[p.Level]
		return limitKeys{rate + each + "in.msg", rate + each + "in.byte", brokerPeriod}
	}
	prefix := ""
	if p.Scope == "namespace" {
		prefix = "namespace." + p.Name + "."
	}
	if p.Scope != "group" && p.Level == "subscription" {
		prefix += "subscription."
	}
	return limitKeys{prefix + rate + "in.msg", prefix + rate + "in.byte", prefix + brokerPeriod}
}

// subject names what has the limit, for messages.
func (p *limitPolicy) subject() string { return strings.TrimSpace(p.Scope + " " + printable(p.Name)) }

// sentence says what the limit does.
func (p *limitPolicy) sentence() string {
	if p.Messages == unlimited && p.Bytes == unlimited {
		return fmt.Sprintf("%s: %s dispatches without limit", p.subject(), p.who())
	}
	return fmt.Sprintf("%s: %s dispatches at most %s in each period of %v", p.subject(), p.who(), p.rates(), p.period())
}

// noLimit says that the source says nothing.
func (p *limitPolicy) noLimit() string {
	return fmt.Sprintf("%s: no %s limit of its own", p.subject(), p.Level)
}

func (p *limitPolicy) who() string {
	switch {
	case p.Level == "broker":
		return "the broker"
	case p.Scope == "group":
		return "each partition, to this group,"
	case p.Level == "subscription":
		return "each partition, to each group,"
	}
	return "each partition, to all groups together,"
}

func (p *limitPolicy) rates() string {
	var parts []string
	if p.Messages != unlimited {
		parts = append(parts, counted(p.Messages, "message"))
	}
	if p.Bytes != unlimited {
		parts = append(parts, counted(p.Bytes, "byte"))
	}
	return strings.Join(parts, " and ")
}

// counted is a number of things.
func counted(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func (p *limitPolicy) period() time.Duration { return time.Duration(p.PeriodSeconds) * time.Second }

// orUnlimited prints a rate for a table.
func orUnlimited(rate int64) string {
	if rate == unlimited {
		return "-"
	}
	return fmt.Sprint(rate)
}
