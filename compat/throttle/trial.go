package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/compat/harness"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// trial is a row at work: a broker of its own and an administrator's client.
type trial struct {
	name    string
	ctx     context.Context
	binary  string
	dir     string
	broker  *harness.Broker // none if it is somebody else's
	address string          // for clients
	wire    *wire           // of a wired row
	client  *kgo.Client
	admin   *kadm.Client
	seconds int // to count for
	running sync.WaitGroup
}

// trialID is the client id of a trial's own clients.
const trialID = "trial"

// try runs a row with a broker that has the row's settings, or with somebody else's.
func (t *test) try(ctx context.Context, r row) error {
	dir, err := os.MkdirTemp("", "sluice-throttle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	x := &trial{name: r.name, ctx: ctx, binary: t.binary, dir: dir, seconds: t.seconds}
	defer x.running.Wait()
	defer cancel()
	if r.wired {
		if x.wire, err = newWire(cmp.Or(t.via, "127.0.0.1:0")); err != nil {
			return err
		}
		defer x.wire.listener.Close()
	}
	if x.address = t.against; t.against == "" {
		if x.broker, err = harness.Start(t.binary, dir, x.flags(r)...); err != nil {
			return err
		}
		defer x.broker.Kill()
		x.address = x.broker.Address
	}
	if r.wired {
		x.wire.connect(x.address)
		x.address = x.wire.address()
	}
	if x.client, err = kgo.NewClient(kgo.SeedBrokers(x.address), kgo.ClientID(trialID), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(2_000_000), kgo.ProducerBatchCompression(kgo.NoCompression())); err != nil {
		return err
	}
	defer x.client.Close()
	x.admin = kadm.NewClient(x.client)
	return r.run(x)
}

// flags are those of a row's broker.
func (t *trial) flags(r row) []string {
	flags := []string{"--set", precise + "=true", "--set", "sluice.durability=os", "--set", "group.initial.rebalance.delay.ms=0"}
	for _, s := range r.settings {
		flags = append(flags, "--set", s)
	}
	if r.wired {
		flags = append(flags, "--advertise", t.wire.address(), "--set", fmt.Sprint("quota.window.num=", t.windows()))
	}
	return flags
}

// unique is a name that no other row uses.
func (t *trial) unique(what string) string { return what + "-" + filepath.Base(t.dir) }

// topic makes a topic with settings: key=value.
func (t *trial) topic(name string, partitions int32, settings ...string) error {
	configs := map[string]*string{}
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		configs[key] = &value
	}
	created, err := t.admin.CreateTopic(t.ctx, partitions, 1, configs, name)
	return errors.Join(err, created.Err)
}

// fill appends batches of one record each.
func (t *trial) fill(topic string, partition int32, batches int) error {
	for range batches {
		if err := t.batch(topic, partition, 1); err != nil {
			return err
		}
	}
	return nil
}

// batch appends records as one batch.
func (t *trial) batch(topic string, partition int32, records int) error {
	list := make([]*kgo.Record, records)
	for i := range list {
		list[i] = &kgo.Record{Topic: topic, Partition: partition, Value: stamp(time.Now())}
	}
	return t.put(list...)
}

// put appends records, of each partition in one batch if they fit.
func (t *trial) put(records ...*kgo.Record) error {
	var first kgo.FirstErrPromise
	for _, r := range records {
		t.client.Produce(t.ctx, r, first.Promise())
	}
	return errors.Join(t.client.Flush(t.ctx), first.Err())
}

// feed appends a batch of one record in each interval until the time, as far as the machine lets it, and gives how many those were.
func (t *trial) feed(topic string, partition int32, interval time.Duration, until time.Time) (n int, err error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ; time.Now().Before(until); n++ {
		if err := t.batch(topic, partition, 1); err != nil {
			return n, err
		}
		<-tick.C
	}
	return n, nil
}

// set alters the settings of a topic, or with "" of all brokers: key=value, or key to take it back. All are one request.
func (t *trial) set(topic string, settings ...string) error {
	if topic == "" {
		return t.alter(kmsg.ConfigResourceTypeBroker, "", settings)
	}
	return t.alter(kmsg.ConfigResourceTypeTopic, topic, settings)
}

// setGroup alters those of a group.
func (t *trial) setGroup(group string, settings ...string) error {
	return t.alter(kmsg.ConfigResourceTypeGroupConfig, group, settings)
}

func (t *trial) alter(kind kmsg.ConfigResourceType, name string, settings []string) error {
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, s := range settings {
		key, value, set := strings.Cut(s, "=")
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = key, kmsg.IncrementalAlterConfigOpDelete
		if set {
			c.Op, c.Value = kmsg.IncrementalAlterConfigOpSet, &value
		}
		r.Configs = append(r.Configs, c)
	}
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.Resources = append(q.Resources, r)
	resp, err := q.RequestWith(t.ctx, t.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Resources[0].ErrorCode)
}

// arrival is some records of a partition at one time.
type arrival struct {
	at        time.Time
	topic     string
	partition int32
	records   int
	late      time.Duration // since the last of them was produced
}

// arrivals are what a reader got.
type arrivals struct {
	mu   sync.Mutex
	list []arrival
	err  error
	stop func()
}

// read starts a consumer. It reads from the beginning unless an option says otherwise.
func (t *trial) read(options ...kgo.Opt) (*arrivals, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(t.address), kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, options...)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(t.ctx)
	a := &arrivals{}
	stopped := make(chan struct{})
	a.stop = sync.OnceFunc(func() { cancel(); <-stopped })
	t.running.Go(func() {
		defer close(stopped)
		defer client.Close()
		a.poll(ctx, client)
	})
	return a, nil
}

func (a *arrivals) poll(ctx context.Context, client *kgo.Client) {
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		now := time.Now()
		a.mu.Lock()
		if err := fetches.Err0(); err != nil && ctx.Err() == nil {
			a.err = err
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if n := len(p.Records); n > 0 {
				a.list = append(a.list, arrival{now, p.Topic, p.Partition, n, now.Sub(stamped(p.Records[n-1].Value))})
			}
		})
		a.mu.Unlock()
	}
}

// first waits for the first arrival.
func (a *arrivals) first(ctx context.Context) (time.Time, error) {
	for {
		a.mu.Lock()
		if len(a.list) > 0 {
			defer a.mu.Unlock()
			return a.list[0].at, a.err
		}
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return time.Time{}, errors.New("nothing was read")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// between counts the records that came in a time, of all topics or one.
func (a *arrivals) between(begin, end time.Time, topics ...string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.list {
		if !x.at.Before(begin) && x.at.Before(end) && (len(topics) == 0 || slices.Contains(topics, x.topic)) {
			n += x.records
		}
	}
	return n
}

// after gives the first arrival after a time, or the zero time.
func (a *arrivals) after(begin time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.list {
		if !x.at.Before(begin) {
			return x.at
		}
	}
	return time.Time{}
}

// lateness is how late records of a topic came, in the order in which they came.
func (a *arrivals) lateness(topic string) (all []time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.list {
		if x.topic == topic {
			all = append(all, x.late)
		}
	}
	return all
}

// near fails if a count is off by more than that.
func near(what string, got, want, off int) error {
	if got < want-off || got > want+off {
		return fmt.Errorf("%s: %d, want %d or up to %d more or less", what, got, want, off)
	}
	return nil
}

// wait waits for a time.
func (t *trial) wait(until time.Time) error {
	select {
	case <-t.ctx.Done():
		return t.ctx.Err()
	case <-time.After(time.Until(until)):
		return nil
	}
}

func (t *trial) span() time.Duration { return time.Duration(t.seconds) * time.Second }

// stamp is a record's value: when it was produced.
func stamp(at time.Time) []byte { return at.AppendFormat(nil, time.RFC3339Nano) }

func stamped(value []byte) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, string(value)) // another value is of the year 1
	return at
}
