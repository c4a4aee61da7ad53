package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type quotaCmd struct {
	Set   quotaSetCmd   `cmd:"" help:"Limit the clients of a user or a client id, from now on."`
	Unset quotaUnsetCmd `cmd:"" help:"Take quotas back; what the next weaker entity says counts again."`
	List  quotaListCmd  `cmd:"" aliases:"ls" help:"List the quotas."`
}

// Help says what a quota is, beside a dispatch limit.
func (quotaCmd) Help() string {
	return `A quota limits the clients of a user or a client id: their requests are answered, and they are told to send nothing for a while.
Without authentication everybody is the user ANONYMOUS. How fast records of a topic or for a group are dispatched, whoever
reads them, is limited by ` + "`sluice throttle`" + `.

  sluice quota set --client-id replay --consumer-byte-rate 50kB     all clients with this id together
  sluice quota set --client-id-default --producer-byte-rate 1MB     each other client id by itself
  sluice quota set --user alice --request-percentage 25             all clients of this user together
  sluice quota set --user alice --client-id-default --consumer-byte-rate 2MB    each client id of this user by itself
  sluice quota list
  sluice quota unset --client-id replay`
}

// quotaTarget says whose quotas are meant: of a user, of a client id, or of both together.
type quotaTarget struct {
	User            *string `xor:"user" placeholder:"USER" help:"A user: all its clients together. Without authentication everybody is the user ANONYMOUS."`
	UserDefault     bool    `xor:"user" help:"Each user that has no quota of its own, by itself."`
	ClientID        *string `xor:"client-id" placeholder:"ID" help:"A client id (client.id): all clients with it together. With --user: those of the user."`
	ClientIDDefault bool    `xor:"client-id" help:"Each client id that has no quota of its own, by itself."`
}

// Validate refuses empty names, which Kafka would take for clients that give none.
func (t *quotaTarget) Validate() error {
	if t.User != nil && *t.User == "" {
		return errors.New("the user is empty; --user-default means each user that has no quota of its own")
	}
	if t.ClientID != nil && *t.ClientID == "" {
		return errors.New("the client id is empty; --client-id-default means each client id that has no quota of its own")
	}
	return nil
}

// entity is what the flags name.
func (t *quotaTarget) entity() quotaEntity {
	return quotaEntity{User: t.User, UserDefault: t.UserDefault, ClientID: t.ClientID, ClientIDDefault: t.ClientIDDefault}
}

// one is entity for a command that needs one.
func (t *quotaTarget) one() (quotaEntity, error) {
	e := t.entity()
	if e == (quotaEntity{}) {
		return e, usagef("whose quota? Give --user USER or --user-default, --client-id ID or --client-id-default, or one of each")
	}
	return e, nil
}

type quotaSetCmd struct {
	clientFlags `embed:""`
	quotaTarget `embed:""`

	ProducerByteRate       *byteSize `placeholder:"SIZE" help:"At most so many bytes produced a second, such as 500000, 50kB or 2MiB."`
	ConsumerByteRate       *byteSize `placeholder:"SIZE" help:"At most so many bytes fetched a second."`
	RequestPercentage      *float64  `placeholder:"PERCENT" help:"At most this share of the time of one thread that works on requests: 50 is half a core, 200 are two."`
	ControllerMutationRate *float64  `placeholder:"RATE" help:"At most so many partitions created or deleted a second."`
}

// Help shows what is set how.
func (quotaSetCmd) Help() string {
	return `What is not named stays as it is. Of the entities that fit a client the most exact one that has the quota counts: user and client id, user
and default client id, user; then the same with the default user; then client id, default client id.

  sluice quota set --client-id replay --consumer-byte-rate 50kB
  sluice quota set --user-default --producer-byte-rate 1MB --consumer-byte-rate 2MB`
}

// Validate wants a quota, and each above 0.
func (c *quotaSetCmd) Validate() error {
	if err := c.quotaTarget.Validate(); err != nil {
		return err
	}
	ops := c.ops()
	if len(ops) == 0 {
		return errors.New("nothing to set: give --producer-byte-rate, --consumer-byte-rate, --request-percentage or --controller-mutation-rate")
	}
	for _, op := range ops {
		if !(op.Value > 0) || math.IsInf(op.Value, 1) {
			return fmt.Errorf("--%s must be a number above 0; `sluice quota unset` takes a quota back", quotaOf(op.Key).flag())
		}
	}
	return nil
}

// ops are the quotas that the flags give.
func (c *quotaSetCmd) ops() []kadm.AlterClientQuotaOp {
	var ops []kadm.AlterClientQuotaOp
	add := func(key string, value float64) {
		ops = append(ops, kadm.AlterClientQuotaOp{Key: key, Value: value})
	}
	if c.ProducerByteRate != nil {
		add(producerByteRate, float64(*c.ProducerByteRate))
	}
	if c.ConsumerByteRate != nil {
		add(consumerByteRate, float64(*c.ConsumerByteRate))
	}
	if c.RequestPercentage != nil {
		add(requestPercentage, *c.RequestPercentage)
	}
	if c.ControllerMutationRate != nil {
		add(controllerMutationRate, *c.ControllerMutationRate)
	}
	return ops
}

// Run sets what is given, and says what holds then.
func (c *quotaSetCmd) Run(ctx context.Context, s *streams) error {
	e, err := alterQuotas(ctx, s, &c.clientFlags, &c.quotaTarget, c.ops())
	if err != nil {
		return err
	}
	// It is not read back: a broker of a larger cluster knows it a moment after the controller.
	set := entityQuotas{e, map[string]float64{}}
	for _, op := range c.ops() {
		set.Quotas[op.Key] = op.Value
	}
	fmt.Fprintln(s.out, set.sentence())
	return nil
}

// alterQuotas changes quotas of the one entity that a command names.
func alterQuotas(ctx context.Context, s *streams, f *clientFlags, t *quotaTarget, ops []kadm.AlterClientQuotaOp) (quotaEntity, error) {
	e, err := t.one()
	if err != nil {
		return e, err
	}
	client, err := f.connect(ctx, s)
	if err != nil {
		return e, err
	}
	defer client.Close()
	return e, (clientQuotas{client}).alter(ctx, e, ops)
}

type quotaUnsetCmd struct {
	clientFlags `embed:""`
	quotaTarget `embed:""`

	ProducerByteRate       bool `help:"This quota, and others that are named."`
	ConsumerByteRate       bool `help:"This quota, and others that are named."`
	RequestPercentage      bool `help:"This quota, and others that are named."`
	ControllerMutationRate bool `help:"This quota, and others that are named."`
}

// Help shows what is taken back how.
func (quotaUnsetCmd) Help() string {
	return `Only the quotas of this very entity are taken back, all of them unless some are named.

  sluice quota unset --client-id replay                            all its quotas
  sluice quota unset --user alice --producer-byte-rate             this one only
  sluice quota unset --user alice --client-id-default              what each client id of alice has`
}

// keys are the quotas that the flags name, or all.
func (c *quotaUnsetCmd) keys() []string {
	var keys []string
	for i, named := range []bool{c.ProducerByteRate, c.ConsumerByteRate, c.RequestPercentage, c.ControllerMutationRate} {
		if named {
			keys = append(keys, settableQuotas[i])
		}
	}
	if keys == nil {
		return settableQuotas
	}
	return keys
}

// Run takes quotas of one entity back. It is no error if there are none.
func (c *quotaUnsetCmd) Run(ctx context.Context, s *streams) error {
	var ops []kadm.AlterClientQuotaOp
	for _, key := range c.keys() {
		ops = append(ops, kadm.AlterClientQuotaOp{Key: key, Remove: true})
	}
	e, err := alterQuotas(ctx, s, &c.clientFlags, &c.quotaTarget, ops)
	if err != nil {
		return err
	}
	if len(ops) == len(settableQuotas) {
		fmt.Fprintf(s.out, "%s: no quota of its own\n", e)
	} else {
		fmt.Fprintf(s.out, "%s: no %s of its own\n", e, strings.Join(c.keys(), ", "))
	}
	return nil
}

// clientQuotas reads and writes quotas through Kafka's protocol (KIP-546), which any broker since Kafka 2.6 speaks.
type clientQuotas struct{ client *kgo.Client }

// alter changes the quotas of one entity.
func (q clientQuotas) alter(ctx context.Context, e quotaEntity, ops []kadm.AlterClientQuotaOp) error {
	altered, err := kadm.NewClient(q.client).AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: e.components(), Ops: ops}})
	if err != nil {
		return q.explain(ctx, e, err, "")
	}
	for _, a := range altered {
		if a.Err != nil {
			return q.explain(ctx, e, a.Err, a.ErrMessage)
		}
	}
	return nil
}

// describe gives the quotas of all entities that have the parts of the filter, and perhaps others, in the order of the list.
func (q clientQuotas) describe(ctx context.Context, filter quotaEntity) ([]entityQuotas, error) {
	described, err := kadm.NewClient(q.client).DescribeClientQuotas(ctx, false, filter.matches())
	if err != nil {
		return nil, q.explain(ctx, filter, err, "")
	}
	return sortedQuotas(described), nil
}

// explain is explain, and knows brokers without quotas.
func (q clientQuotas) explain(ctx context.Context, e quotaEntity, err error, detail string) error {
	if _, answered := errors.AsType[*kerr.Error](err); !answered && q.missing(ctx) {
		return errors.New("this broker has no client quotas: it does not know the APIs DescribeClientQuotas and AlterClientQuotas, which Kafka has since 2.6\n" +
			"Name another broker with --bootstrap-server; `sluice throttle` limits what a broker of sluice dispatches")
	}
	return explain(e.String(), err, detail)
}

// missing tells whether the broker says that it has no such API.
func (q clientQuotas) missing(ctx context.Context) bool {
	versions, err := kadm.NewClient(q.client).ApiVersions(ctx)
	for _, v := range versions {
		if _, _, known := v.KeyVersions(kmsg.DescribeClientQuotas.Int16()); v.Err == nil && !known {
			return err == nil
		}
	}
	return false
}
