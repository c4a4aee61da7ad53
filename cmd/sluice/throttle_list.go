package main

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

type throttleListCmd struct {
	clientFlags `embed:""`
	outputFlag  `embed:""`
}

// Run prints the limits that are set, the broker's first, then by name.
func (c *throttleListCmd) Run(ctx context.Context, s *streams) error {
	client, err := c.connect(ctx, s)
	if err != nil {
		return err
	}
	defer client.Close()
	r := configResources{client}
	limits, err := r.limits(ctx)
	if err != nil {
		return err
	}
	return c.print(s.out, limits, func(w io.Writer) {
		row(w, "SCOPE", "NAME", "LEVEL", "MESSAGES", "BYTES", "PERIOD")
		for _, p := range limits {
			row(w, p.Scope, orDash(p.Name), p.Level, orUnlimited(p.Messages), orUnlimited(p.Bytes), p.period())
		}
	})
}

// limits gathers what all resources say.
func (r configResources) limits(ctx context.Context) ([]limitPolicy, error) {
	asked, err := r.limitPolicies(ctx)
	if err != nil {
		return nil, err
	}
	limits := []limitPolicy{}
	for batch := range slices.Chunk(asked, maxDescribed) {
		filled, err := r.fill(ctx, batch)
		if err != nil {
			return nil, err
		}
		limits = append(limits, slices.DeleteFunc(filled, func(p limitPolicy) bool { return !p.set })...)
	}
	return limits, nil
}

// maxDescribed bounds a request and its answer.
const maxDescribed = 500

// limitPolicies are those that there may be, in the order of the list.
func (r configResources) limitPolicies(ctx context.Context) ([]limitPolicy, error) {
	var all []limitPolicy
	add := func(scope string, names ...string) {
		slices.Sort(names)
		for _, name := range names {
			for _, level := range scopeLevels[scope] {
				all = append(all, limitPolicy{Scope: scope, Name: name, Level: level})
			}
		}
	}
	add("broker", "")
	namespaces, err := r.namespaces(ctx)
	if err != nil {
		return nil, err
	}
	add("namespace", namespaces...)
	topics, err := kadm.NewClient(r.client).ListTopics(ctx)
	if err != nil {
		return nil, explain("throttle list", err, "")
	}
	add("topic", topics.Names()...)
	groups, err := r.groups(ctx)
	if err != nil {
		return nil, err
	}
	add("group", groups...)
	return all, nil
}

// namespaceOf takes the prefix out of a key as limitPolicy.keys makes it. A prefix may hold dots, so the end tells.
func namespaceOf(key string) (prefix string, ok bool) {
	rest, ok := strings.CutPrefix(key, "namespace.")
	at := strings.LastIndex(rest, ".dispatch.throttling.rate.")
	if !ok || at < 1 {
		return "", false
	}
	return strings.TrimSuffix(rest[:at], ".subscription"), true
}
