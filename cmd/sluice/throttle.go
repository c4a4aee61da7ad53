package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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

// Help shows what can be limited.
func (throttleCmd) Help() string {
	return `A limit is shared by all who read one partition of a topic, or holds for each group on each partition by itself, or for all that the broker
dispatches. It holds from now on; consumers need not be restarted (docs/throttling.md).

  sluice throttle set --topic orders --messages 10            each partition of orders: 10 messages a second
  sluice throttle set --group replay --bytes 2MB              group replay: 2 MB a second from each partition
  sluice throttle set --namespace orders.eu --messages 500    orders.eu and every topic orders.eu.*
  sluice throttle set --broker --bytes 100MB                  all that the broker dispatches
  sluice throttle list
  sluice throttle explain orders
  sluice throttle unset --group replay`
}

// limitTarget says whose limit is meant: exactly one of the first four is given.
type limitTarget struct {
	Broker    bool    `xor:"target" help:"The broker; with --level, what holds for each topic or subscription that has no limit of its own."`
	Topic     *string `xor:"target" placeholder:"TOPIC" help:"A topic: each of its partitions by itself."`
	Namespace *string `xor:"target" placeholder:"PREFIX" help:"All topics whose name is PREFIX or begins with PREFIX and a dot, where they have no limit of their own."`
	Group     *string `xor:"target" placeholder:"GROUP" help:"A consumer group, on each partition that it reads."`

	Level string `enum:",broker,topic,subscription" default:"" placeholder:"LEVEL" help:"Who shares the limit: broker (all that the broker dispatches), topic (all groups on a partition) or subscription (one group on a partition). Default: the target's own."`
}

// policy finds the settings that the flags mean.
func (t *limitTarget) policy() (limitPolicy, error) {
	p := limitPolicy{Level: t.Level}
	switch {
	case t.Broker:
		p.Scope = "broker"
	case t.Topic != nil:
		p.Scope, p.Name = "topic", *t.Topic
	case t.Namespace != nil:
		p.Scope, p.Name = "namespace", *t.Namespace
	case t.Group != nil:
		p.Scope, p.Name = "group", *t.Group
	default:
		return p, usagef("whose limit? Give --broker, --topic TOPIC, --namespace PREFIX or --group GROUP")
	}
	if err := p.checkName(); err != nil {
		return p, err
	}
	levels := scopeLevels[p.Scope]
	if p.Level == "" {
		p.Level = levels[0]
	}
	if !slices.Contains(levels, p.Level) {
		return p, usagef("--level %s does not go with --%s; it can be %s", t.Level, p.Scope, strings.Join(levels, " or "))
	}
	return p, nil
}

// checkName refuses names that would mean something else.
func (p *limitPolicy) checkName() error {
	if p.Scope != "broker" && p.Name == "" {
		return usagef("the name is empty; what holds for all topics or groups is set with --broker --level topic or --broker --level subscription")
	}
	if under, ok := strings.CutSuffix(p.Name, ".subscription"); ok && p.Scope == "namespace" {
		return usagef("--namespace %s would be the subscriptions under %s: use --namespace %s --level subscription, or a longer or shorter prefix", p.Name, under, under)
	}
	return nil
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

	Messages  *int64         `short:"m" placeholder:"N" help:"At most N messages in a period."`
	Bytes     *byteSize      `placeholder:"SIZE" help:"At most this many bytes in a period, such as 500000, 2MB or 2MiB."`
	Period    *time.Duration `placeholder:"TIME" help:"The period, in whole seconds, such as 1s or 1m (default: the broker's, one second). With --broker it is the default of all limits."`
	Unlimited bool           `help:"No limit, whatever a weaker source says."`
}

// Validate wants a limit.
func (c *throttleSetCmd) Validate() error {
	if c.Messages == nil && c.Bytes == nil && c.Period == nil && !c.Unlimited {
		return errors.New("nothing to set: give --messages, --bytes, --period or --unlimited")
	}
	if c.Unlimited && (c.Messages != nil || c.Bytes != nil) {
		return errors.New("--unlimited does not go with --messages and --bytes")
	}
	if c.Messages != nil && *c.Messages < 1 || c.Bytes != nil && *c.Bytes < 1 {
		return errors.New("a limit must be at least 1; --unlimited sets none, `sluice throttle unset` takes one back")
	}
	if p := c.Period; p != nil && (*p%time.Second != 0 || *p < time.Second || *p > 24*time.Hour) {
		return fmt.Errorf("--period %v must be whole seconds, from 1s to 24h", *p)
	}
	return c.checkPrefix()
}

// checkPrefix refuses a prefix that ends in a dot, which would be topics like orders..eu. One that was set by other means can be unset.
func (c *throttleSetCmd) checkPrefix() error {
	if c.Namespace == nil {
		return nil
	}
	if prefix := strings.TrimRight(*c.Namespace, "."); prefix != "" && prefix != *c.Namespace {
		return fmt.Errorf("a prefix comes without its dot: --namespace %s is for %s and every topic %s.*", prefix, prefix, prefix)
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
	if p.Scope != "broker" {
		return nil
	}
	if c.Period != nil {
		fmt.Fprintln(s.out, "the period is that of all limits that have none of their own")
	}
	return r.tellElsewhere(ctx, s.out, p)
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
	if c.Period != nil {
		set(keys.period, int64(*c.Period/time.Second))
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
	if p.Scope == "broker" {
		return tellRest(ctx, s.out, r, p)
	}
	fmt.Fprintln(s.out, p.noLimit())
	return nil
}

// tellRest says what is left of the broker's limit: what other places set, and the period, unless it is the default.
func tellRest(ctx context.Context, w io.Writer, r configResources, p limitPolicy) error {
	p, err := r.read(ctx, p)
	if err != nil {
		return err
	}
	if p.set {
		fmt.Fprintln(w, p.sentence())
		return r.tellElsewhere(ctx, w, p)
	}
	fmt.Fprintln(w, p.noLimit())
	if p.period() != time.Second {
		fmt.Fprintf(w, "the period of %v stays, for all limits that have none of their own; `sluice throttle set --broker --period 1s` changes it\n", p.period())
	}
	return nil
}

// byteSize is a number of bytes on the command line: 500000, 2MB, 2MiB.
type byteSize int64

// UnmarshalText takes decimal units (kB to TB) and binary ones (KiB to TiB).
func (b *byteSize) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "kKMGTiB")
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	unit, ok := byteSizeUnits[string(text[len(digits):])]
	if err != nil || !ok || n > (1<<63-1)/unit || n < 0 {
		return fmt.Errorf("%q is no size: write a number of bytes, or one with kB, MB, GB, TB, KiB, MiB, GiB or TiB", text)
	}
	*b = byteSize(n * unit)
	return nil
}

var byteSizeUnits = map[string]int64{
	"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}
