package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

type throttleCmd struct {
	Set     throttleSetCmd     `cmd:"" help:"Limit how fast records are dispatched to consumers, from now on."`
	Unset   throttleUnsetCmd   `cmd:"" help:"Take a limit back; what a weaker source says counts again."`
	List    throttleListCmd    `cmd:"" aliases:"ls" help:"List the limits and where they are set."`
	Explain throttleExplainCmd `cmd:"" help:"Show the limits of a partition: which count, what is used, left and owed, who waits and until when."`
}

// limitTarget says whose limit is meant. Exactly one of the four is given.
type limitTarget struct {
	Broker    bool   `xor:"target" required:"" help:"The broker; with --level, what holds for each topic or subscription that has no limit of its own."`
	Topic     string `xor:"target" required:"" placeholder:"TOPIC" help:"A topic: each of its partitions by itself."`
	Namespace string `xor:"target" required:"" placeholder:"PREFIX" help:"All topics whose name is PREFIX or begins with PREFIX and a dot, where they have no limit of their own."`
	Group     string `xor:"target" required:"" placeholder:"GROUP" help:"A consumer group, on each partition that it reads."`

	Level string `enum:",broker,topic,subscription" default:"" placeholder:"LEVEL" help:"Who shares the limit: broker (all that the broker dispatches), topic (all groups on a partition) or subscription (one group on a partition). Default: the target's own."`
}

// policy finds the settings that the flags mean.
func (t *limitTarget) policy() (limitPolicy, error) {
	p := limitPolicy{Scope: "topic", Name: t.Topic, Level: t.Level}
	switch {
	case t.Broker:
		p.Scope, p.Name = "broker", ""
	case t.Namespace != "":
		p.Scope, p.Name = "namespace", t.Namespace
	case t.Group != "":
		p.Scope, p.Name = "group", t.Group
	case t.Topic == "":
		return p, usagef("the name is empty; what holds for all topics or groups is set with --broker --level topic or --broker --level subscription")
	}
	if under, ok := strings.CutSuffix(t.Namespace, ".subscription"); ok {
		return p, usagef("--namespace %s would be the subscriptions under %s: use --namespace %s --level subscription, or a longer or shorter prefix", t.Namespace, under, under)
	}
	levels := scopeLevels[p.Scope]
	if p.Level == "" {
		p.Level = levels[0]
	}
	for _, level := range levels {
		if level == p.Level {
			return p, nil
		}
	}
	return p, usagef("--level %s does not go with --%s; it can be %s", t.Level, p.Scope, strings.Join(levels, " or "))
}

// open finds the settings that the flags mean, and connects to the broker that has them. The caller closes the client.
func (t *limitTarget) open(ctx context.Context, s *streams, f *clientFlags) (limitPolicy, configResources, error) {
	p, err := t.policy()
	if err != nil {
		return p, configResources{}, err
	}
	client, err := f.connect(ctx, s)
	return p, configResources{client}, err
}

type throttleSetCmd struct {
	clientFlags `embed:""`
	limitTarget `embed:""`

	Messages  *int64        `short:"m" placeholder:"N" help:"At most N messages in a period."`
	Bytes     *byteSize     `placeholder:"SIZE" help:"At most this many bytes in a period, such as 500000, 2MB or 2MiB."`
	Period    time.Duration `placeholder:"TIME" help:"The period, in whole seconds, such as 1s or 1m (default: the broker's, one second). With --broker it is the default of all limits."`
	Unlimited bool          `help:"No limit, whatever a weaker source says."`
}

// Validate wants a limit.
func (c *throttleSetCmd) Validate() error {
	if c.Messages == nil && c.Bytes == nil && c.Period == 0 && !c.Unlimited {
		return errors.New("nothing to set: give --messages, --bytes, --period or --unlimited")
	}
	if c.Unlimited && (c.Messages != nil || c.Bytes != nil) {
		return errors.New("--unlimited does not go with --messages and --bytes")
	}
	if c.Messages != nil && *c.Messages < 1 || c.Bytes != nil && *c.Bytes < 1 {
		return errors.New("a limit must be at least 1; --unlimited sets none, `sluice throttle unset` takes one back")
	}
	if c.Period%time.Second != 0 || c.Period < 0 || c.Period > 24*time.Hour {
		return fmt.Errorf("--period %v must be whole seconds, at most 24h", c.Period)
	}
	return nil
}

// Run sets what is given, and says what holds then.
func (c *throttleSetCmd) Run(ctx context.Context, s *streams) error {
	p, r, err := c.open(ctx, s, &c.clientFlags)
	if err != nil {
		return err
	}
	defer r.client.Close()
	if err := r.alter(ctx, p, c.changes(p.keys())); err != nil {
		return err
	}
	if p, err = r.read(ctx, p); err != nil {
		return err
	}
	fmt.Fprintln(s.out, p.sentence())
	if p.Scope == "broker" && c.Period != 0 {
		fmt.Fprintln(s.out, "the period is that of all limits that have none of their own")
	}
	return nil
}

// changes are the settings that the flags give.
func (c *throttleSetCmd) changes(keys limitKeys) []keyValue {
	var changes []keyValue
	set := func(key string, value int64) {
		changes = append(changes, keyValue{key, strconv.FormatInt(value, 10)})
	}
	if c.Unlimited {
		set(keys.messages, unlimited)
		set(keys.bytes, unlimited)
	}
	if c.Messages != nil {
		set(keys.messages, *c.Messages)
	}
	if c.Bytes != nil {
		set(keys.bytes, int64(*c.Bytes))
	}
	if c.Period != 0 {
		set(keys.period, int64(c.Period/time.Second))
	}
	return changes
}

type throttleUnsetCmd struct {
	clientFlags `embed:""`
	limitTarget `embed:""`
}

// Run takes all settings of a limit back, but for the broker's period, which other limits have too. It is no error if there are none.
func (c *throttleUnsetCmd) Run(ctx context.Context, s *streams) error {
	p, r, err := c.open(ctx, s, &c.clientFlags)
	if err != nil {
		return err
	}
	defer r.client.Close()
	keys := p.keys()
	taken := []string{keys.messages, keys.bytes}
	if p.Scope != "broker" {
		taken = append(taken, keys.period)
	}
	if err := r.unset(ctx, p, taken); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s: no %s limit of its own\n", p.subject(), p.Level)
	return c.tellPeriod(ctx, s, r, p)
}

// tellPeriod says that the broker's period stays, unless it is the default.
func (c *throttleUnsetCmd) tellPeriod(ctx context.Context, s *streams, r configResources, p limitPolicy) error {
	if p.Scope != "broker" {
		return nil
	}
	p, err := r.read(ctx, p)
	if err == nil && p.period() != time.Second {
		fmt.Fprintf(s.out, "the period of %v stays, for all limits that have none of their own; `sluice throttle set --broker --period 1s` changes it\n", p.period())
	}
	return err
}

// byteSize is a number of bytes on the command line: 500000, 2MB, 2MiB.
type byteSize int64

// UnmarshalText takes decimal units (kB, MB, GB) and binary ones (KiB, MiB, GiB).
func (b *byteSize) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "kKMGiB")
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	unit, ok := byteSizeUnits[string(text[len(digits):])]
	if err != nil || !ok || n > (1<<63-1)/unit || n < 0 {
		return fmt.Errorf("%q is no size: write a number of bytes, or one with kB, MB, GB, KiB, MiB or GiB", text)
	}
	*b = byteSize(n * unit)
	return nil
}

var byteSizeUnits = map[string]int64{
	"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
}
