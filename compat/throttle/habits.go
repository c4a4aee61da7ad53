package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// habit is something that consumers do, or that happens to them, while a limit holds them back. Each client is led through it in a process of its own, with
// a broker of its own.
type habit struct {
	name     string
	settings []string // of the broker
	clients  []string
	run      func(t *trial, client string) error
}

var (
	everybody = []string{"franz-go", "franz-go-consumer", "python", "kafkajs", "java", "java-consumer"}
	statics   = []string{"franz-go", "python", "java", "java-consumer"} // kafkajs has no static membership
)

var habits = []habit{
	{name: "pauses and resumes", clients: everybody, run: pauses},
	{name: "seeks back", clients: everybody, run: seeksBack},
	{name: "rebalances within a period", clients: []string{"franz-go", "franz-go-consumer", "python", "kafkajs", "java"}, run: rebalances},
	{name: "asks for more than the limit lets through", clients: everybody, run: asksForMuch},
	{name: "asks for less than a batch", clients: everybody, run: asksForLittle},
	{name: "reads what is committed", clients: everybody, run: readCommitted},
	{name: "meets new topics of a limited namespace", clients: []string{"franz-go", "franz-go-consumer", "python", "java", "java-consumer"}, run: newTopics},
	{name: "sees its limit change ten times a second", settings: []string{perTopic + "=50"}, clients: everybody, run: changes},
	{name: "sees the limit of its group change ten times a second", clients: []string{"franz-go", "java"}, run: groupChanges},
	{name: "reads a topic without a limit beside", clients: everybody, run: beside},
	{name: "shares the broker's limit among its partitions", settings: []string{ofTopic + "=20"}, clients: everybody, run: shares},
	{name: "comes back as the same static member", clients: statics, run: comesBack},
	{name: "gets a message a minute", clients: everybody, run: aMessageAMinute},
	{name: "outlives the broker's SIGKILL", clients: everybody, run: brokerKilled},
	{name: "waits while its topic is deleted and made anew", settings: []string{"auto.create.topics.enable=false"}, clients: []string{"python", "kafkajs", "java", "java-consumer"}, run: topicAnew},
	{name: "reads a compacted topic", settings: []string{"log.cleaner.backoff.ms=200"}, clients: everybody, run: compacted},
	{name: "reads large records", clients: everybody, run: largeRecords},
	{name: "reads all codecs", clients: everybody, run: codecs},
	{name: "reads while the clock of the broker is set", clients: everybody, run: clockSet},
}

const perTopic = "dispatch.throttling.rate.per.topic.in.msg"

// habitTime is how long a habit is counted for.
const habitTime = 10 * time.Second

// atOnce is how many habits are tried at a time: a JVM needs a good part of a core for its first seconds.
const atOnce = 4

// habits begins those whose names contain the text.
func (t *test) habits(only string) {
	places := make(chan struct{}, atOnce)
	for _, h := range habits {
		for _, client := range h.clients {
			name := h.name + ": " + client
			if !strings.Contains(name, only) {
				continue
			}
			r := row{name: name, settings: h.settings, run: func(t *trial) error { return h.run(t, client) }}
			places <- struct{}{}
			t.running.Go(func() {
				defer func() { <-places }()
				t.reportRow(r)
			})
		}
	}
}

// begin makes a topic of ten a second with so many one-record batches in each partition, and starts a reader of it. It returns when that reads as it will.
func (t *trial) begin(client string, partitions int32, backlog int, topicSettings, settings []string) (p *process, at time.Time, err error) {
	if err := t.topic("t", partitions, topicSettings...); err != nil {
		return nil, at, err
	}
	for i := range partitions {
		if err := t.fill("t", i, backlog); err != nil {
			return nil, at, err
		}
	}
	if p, err = t.start(client, "g", "t", settings...); err != nil {
		return nil, at, err
	}
	if at, err = p.until(t.ctx, 1); err != nil {
		return nil, at, err
	}
	at = at.Add(settle)
	return p, at, t.wait(at)
}

// tell prints what was counted, for whoever looks at the runs.
func (t *trial) tell(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "throttle:   "+format+"\n", args...)
}

// count fails if a reader did not get what is allowed in a time.
func (t *trial) count(what string, p *process, partition int32, begin time.Time, d time.Duration, want, less, more int) error {
	if err := t.wait(begin.Add(d)); err != nil {
		return err
	}
	n := p.reads(partition, begin, begin.Add(d))
	t.tell("%s: %s: %d, want %d", t.name, what, n, want)
	if n < want-less || n > want+more {
		return fmt.Errorf("%s: %d in %v, want %d or up to %d less or %d more", what, n, d, want, less, more)
	}
	return nil
}

var tenASecond = []string{ofTopic + "=" + fmt.Sprint(limit)}

const tenths = int(habitTime/time.Second) * limit // what ten a second are in habitTime

func pauses(t *trial, client string) error {
	p, _, err := t.begin(client, 2, 600, tenASecond, nil)
	if err != nil {
		return err
	}
	if err := p.tell("pause", "t", 0); err != nil {
		return err
	}
	begin := time.Now().Add(time.Second)
	err = errors.Join(t.count("the other partition", p, 1, begin, habitTime, tenths, limit, limit),
		t.count("the paused partition", p, 0, begin, habitTime, 0, 0, 0), p.tell("resume", "t", 0))
	begin = time.Now()
	err = errors.Join(err, t.count("resumed", p, 0, begin, habitTime, tenths, limit, 2*limit)) // of the time of the pause it may have some in its buffer
	begin = time.Now()
	for time.Since(begin) < habitTime {
		for _, command := range []string{"pause", "resume"} {
			if err := errors.Join(p.tell(command, "t", 0), t.wait(time.Now().Add(250*time.Millisecond))); err != nil {
				return err
			}
		}
	}
	return errors.Join(err, t.count("paused and resumed all the time", p, 0, begin, habitTime, tenths, tenths, limit),
		t.count("beside that", p, 1, begin, habitTime, tenths, limit, limit))
}

func seeksBack(t *trial, client string) error {
	p, begin, err := t.begin(client, 1, 600, tenASecond, nil)
	if err != nil {
		return err
	}
	for time.Since(begin) < habitTime {
		if err := errors.Join(p.tell("seek", "t", 0, 0), t.wait(time.Now().Add(1300*time.Millisecond))); err != nil {
			return err
		}
	}
	return t.count("messages", p, 0, begin, habitTime, tenths, tenths*9/10, limit)
}

// fiftyInFive is a group's limit where members come and go: fifty in five seconds, of each partition.
const (
	fifty = 50
	five  = 5 * time.Second
)

var fiftyInFive = []string{ofEachReader + "=" + fmt.Sprint(fifty), "subscription." + period + "=5"}

// rebalances has members come and go.
func rebalances(t *trial, client string) error {
	p, _, err := t.begin(client, 2, 1000, fiftyInFive, nil)
	if err != nil {
		return err
	}
	all := []*process{p}
	for range 6 {
		q, err := t.start(client, "g", "t")
		if err != nil {
			return err
		}
		all = append(all, q)
		if err := errors.Join(q.has(t.ctx, "assigned", 1), t.wait(time.Now().Add(2*time.Second)), q.leave()); err != nil {
			return err
		}
	}
	return errors.Join(t.inPeriods(all, 0), t.inPeriods(all, 1))
}

// inPeriods fails if members together read more of a partition than a period allows, or less than a quarter of what there was for them: what
// is fetched and not handled by a member that goes is fetched again.
func (t *trial) inPeriods(all []*process, partition int32) error {
	counts := periods(all, partition, five)
	t.tell("%s: by period %d", t.name, counts)
	n := 0
	for _, c := range counts {
		if n += c; c > fifty {
			return fmt.Errorf("%d messages of partition %d in one period, want %d", c, partition, fifty)
		}
	}
	if 4*n < len(counts)*fifty {
		return fmt.Errorf("%d messages of partition %d in %d periods", n, partition, len(counts))
	}
	return nil
}

func asksForMuch(t *trial, client string) error {
	p, begin, err := t.begin(client, 1, 600, tenASecond, []string{"fetch.min.bytes=1000000", "fetch.max.wait.ms=5000"})
	if err != nil {
		return err
	}
	return t.count("messages", p, 0, begin, habitTime, tenths, limit, limit)
}

func asksForLittle(t *trial, client string) error {
	const batch = 20
	if err := t.topic("t", 1, tenASecond...); err != nil {
		return err
	}
	for range 30 {
		if err := t.batch("t", 0, batch); err != nil {
			return err
		}
	}
	p, err := t.start(client, "g", "t", "max.partition.fetch.bytes=100")
	if err != nil {
		return err
	}
	begin, err := p.until(t.ctx, 1)
	if err != nil {
		return err
	}
	return t.count("messages", p, 0, begin, habitTime, tenths, batch, batch)
}

func readCommitted(t *trial, client string) error {
	p, begin, err := t.begin(client, 1, 600, tenASecond, []string{"isolation.level=read_committed"})
	if err != nil {
		return err
	}
	err = t.count("read committed", p, 0, begin, habitTime, tenths, limit, limit)
	p.kill()
	p, err2 := t.start(client, "other", "t", "isolation.level=read_uncommitted")
	if err2 != nil {
		return err2
	}
	if begin, err2 = p.until(t.ctx, 1); err2 != nil {
		return err2
	}
	return errors.Join(err, t.count("read uncommitted", p, 0, begin.Add(settle), habitTime, tenths, limit, limit))
}

func newTopics(t *trial, client string) error {
	if err := errors.Join(t.set("", "namespace.eu."+ofTopic+"="+fmt.Sprint(limit)), t.topic("eu.a", 1), t.fill("eu.a", 0, 600)); err != nil {
		return err
	}
	p, err := t.start(client, "g", `^eu\..*`)
	if err != nil {
		return err
	}
	if _, err := p.until(t.ctx, 1); err != nil {
		return err
	}
	if err := errors.Join(t.topic("eu.b", 1), t.fill("eu.b", 0, 600), t.topic("us", 1), t.fill("us", 0, 10)); err != nil {
		return err
	}
	for !slices.ContainsFunc(p.all("read"), func(e event) bool { return e.topic == "eu.b" }) {
		if err := t.wait(time.Now().Add(10 * time.Millisecond)); err != nil {
			return errors.New("the new topic was not read")
		}
	}
	return t.count("both topics", p, -1, time.Now().Add(settle), habitTime, 2*tenths, 2*limit, 2*limit)
}

// changes sets, alters and deletes the topic's limit in turn; without one of its own the topic has the broker's fifty. Each second may have what was the highest
// limit in it.
func changes(t *trial, client string) error {
	return t.changing(client, func(change string) error { return t.set("t", change) })
}

// groupChanges does it with the limit of the group.
func groupChanges(t *trial, client string) error {
	if err := t.set("", "dispatch.throttling.rate.per.subscription.in.msg=50"); err != nil {
		return err
	}
	return t.changing(client, func(change string) error { return t.setGroup("g", change) })
}

func (t *trial) changing(client string, set func(change string) error) error {
	p, begin, err := t.begin(client, 1, 1200, nil, nil)
	if err != nil {
		return err
	}
	steps := []string{ofTopic + "=10", ofTopic + "=20", ofTopic}
	for i := 0; time.Since(begin) < habitTime; i++ {
		if err := errors.Join(set(steps[i%len(steps)]), t.wait(time.Now().Add(100*time.Millisecond))); err != nil {
			return err
		}
	}
	return t.count("messages", p, 0, begin, habitTime, 5*tenths, tenths, 50)
}

// beside reads a topic of ten a second, and one without a limit to which fifty a second are written.
func beside(t *trial, client string) error {
	if err := errors.Join(t.topic("t0", 1, tenASecond...), t.fill("t0", 0, 600), t.topic("t1", 1), t.fill("t1", 0, 1)); err != nil {
		return err
	}
	p, err := t.start(client, "g", `^t[01]`, "fetch.max.wait.ms=5000")
	if err != nil {
		return err
	}
	of := func(topic string) (n int) {
		for _, e := range p.all("read") {
			if e.topic == topic {
				n++
			}
		}
		return n
	}
	for of("t0") == 0 || of("t1") == 0 {
		if err := t.wait(time.Now().Add(20 * time.Millisecond)); err != nil {
			return err
		}
	}
	if err := t.wait(time.Now().Add(settle)); err != nil {
		return err
	}
	limited, free := of("t0"), of("t1")
	written, err := t.feed("t1", 0, 20*time.Millisecond, time.Now().Add(habitTime))
	if err != nil {
		return err
	}
	limited = of("t0") - limited
	err = t.wait(time.Now().Add(time.Second))
	free = of("t1") - free
	t.tell("%s: %d with the limit, %d of %d without", t.name, limited, free, written)
	return errors.Join(err, near("with the limit", limited, tenths, 2*limit), near("without", free, written, 0))
}

// shares reads four partitions of two topics under the broker's limit, which all of them share.
func shares(t *trial, client string) error {
	const each = 2 * tenths / 4
	for _, topic := range []string{"t0", "t1"} {
		if err := errors.Join(t.topic(topic, 2), t.fill(topic, 0, 600), t.fill(topic, 1, 600)); err != nil {
			return err
		}
	}
	p, err := t.start(client, "g", `^t[01]`)
	if err != nil {
		return err
	}
	begin, err := p.until(t.ctx, 1)
	if err != nil {
		return err
	}
	begin = begin.Add(settle)
	err = t.count("all", p, -1, begin, habitTime, 2*tenths, 2*limit, 2*limit)
	got := map[string]int{}
	for _, e := range p.all("read") {
		if !e.at.Before(begin) && e.at.Before(begin.Add(habitTime)) {
			got[fmt.Sprint(e.topic, "-", e.partition)]++
		}
	}
	t.tell("%s: %v", t.name, got)
	for name, n := range got {
		err = errors.Join(err, near(name, n, each, each/2))
	}
	return errors.Join(err, near("partitions", len(got), 4, 0))
}

// periods are how many records of a partition were read in each period of its limit, the first of which began when the first record was fetched: a moment before
// it was read.
func periods(all []*process, partition int32, every time.Duration) (counts []int) {
	var times []time.Time
	for _, p := range all {
		for _, e := range p.all("read") {
			if e.partition == partition {
				times = append(times, e.at)
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	for _, at := range times {
		k := int((at.Sub(times[0]) + every/10) / every)
		for len(counts) <= k {
			counts = append(counts, 0)
		}
		counts[k]++
	}
	return counts
}

// comesBack ends a member in the middle of a period and starts it anew with the same instance id. In the classic protocol it is killed; in the consumer protocol a
// killed one is waited for until its session ends, so it leaves for a while as static members do.
func comesBack(t *trial, client string) error {
	static := []string{"group.instance.id=i"}
	consumerProtocol := strings.HasSuffix(client, "-consumer")
	if !consumerProtocol {
		static = append(static, "session.timeout.ms=30000")
	}
	p, _, err := t.begin(client, 1, 1000, fiftyInFive, static)
	if err != nil {
		return err
	}
	all := []*process{p}
	for range 5 {
		last := all[len(all)-1]
		if !consumerProtocol {
			last.kill()
		} else if err := last.leave(); err != nil {
			return err
		}
		<-last.ended
		q, err := t.start(client, "g", "t", static...)
		if err != nil {
			return err
		}
		all = append(all, q)
		if err := errors.Join(q.has(t.ctx, "read", 1), t.wait(time.Now().Add(1700*time.Millisecond))); err != nil {
			return err
		}
	}
	var lists [][]event
	for _, q := range all {
		lists = append(lists, q.all("read"))
	}
	return errors.Join(gapless(0, lists...), t.inPeriods(all, 0))
}

func aMessageAMinute(t *trial, client string) error {
	settings := []string{}
	if !strings.HasSuffix(client, "-consumer") {
		settings = append(settings, "session.timeout.ms=10000", "heartbeat.interval.ms=3000")
	}
	p, begin, err := t.begin(client, 1, 10, []string{ofTopic + "=1", period + "=60"}, settings)
	if err != nil {
		return err
	}
	return errors.Join(t.count("messages of three minutes", p, 0, begin.Add(-settle), 3*time.Minute+time.Second, 4, 0, 0), near("assignments", len(p.all("assigned")), 1, 0))
}

// brokerKilled has two members read, and kills the broker twice.
func brokerKilled(t *trial, client string) error {
	p, _, err := t.begin(client, 2, 1200, tenASecond, nil)
	if err != nil {
		return err
	}
	q, err := t.start(client, "g", "t")
	if err != nil {
		return err
	}
	both := []*process{p, q}
	err = q.has(t.ctx, "read", 1)
	for range 2 {
		if err := errors.Join(err, t.wait(time.Now().Add(3700*time.Millisecond)), t.broker.Kill(), t.wait(time.Now().Add(time.Second)), t.broker.Restart()); err != nil {
			return err
		}
		for _, r := range both { // librdkafka may have to wait with its commits until it connects to the coordinator again, and gets records all the while
			err = errors.Join(err, r.has(t.ctx, "committed", len(r.all("committed"))+1))
		}
		begin := time.Now().Add(settle)
		for _, r := range both {
			err = errors.Join(err, t.count("after the restart", r, -1, begin, habitTime, tenths, limit, limit))
		}
	}
	return errors.Join(err, gapless(0, p.all("read"), q.all("read")), notAgain(both))
}

// notAgain fails if records were read that had been committed.
func notAgain(all []*process) error {
	var events []event
	for _, p := range all {
		events = append(events, p.ordered()...)
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	committed := map[int32]int64{}
	for _, e := range events {
		switch c := committed[e.partition]; {
		case e.what == "committed":
			committed[e.partition] = e.offset
		case e.what == "read" && e.offset < c:
			return fmt.Errorf("offset %d of partition %d was read when %d was committed", e.offset, e.partition, c)
		}
	}
	return nil
}

func topicAnew(t *trial, client string) error {
	p, _, err := t.begin(client, 1, 30, []string{ofTopic + "=10", period + "=3600"}, nil)
	if err != nil {
		return err
	}
	deleted, err := t.admin.DeleteTopic(t.ctx, "t")
	t.client.PurgeTopicsFromClient("t")
	if err := errors.Join(err, deleted.Err, t.wait(time.Now().Add(200*time.Millisecond)), t.topic("t", 1, tenASecond...)); err != nil {
		return err
	}
	if err := t.fill("t", 0, 600); err != nil {
		return err
	}
	before, anew := p.reads(-1, time.Time{}, time.Now()), time.Now()
	begin, err := p.until(t.ctx, before+1)
	if err != nil {
		return err
	}
	t.tell("%s: read on after %v", t.name, begin.Sub(anew).Round(time.Millisecond))
	return t.count("of the new topic", p, -1, begin.Add(settle), habitTime, tenths, limit, limit)
}

// compacted has batches of ten records of which compaction has left three, and some with none.
func compacted(t *trial, client string) error {
	const keys, batch = 1000, 10
	if err := t.topic("t", 1, append(tenASecond, "cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01", "segment.ms=500")...); err != nil {
		return err
	}
	write := func(from, to int, keep func(int) bool) error {
		var first kgo.FirstErrPromise
		for k := from; k < to; k++ {
			if keep(k) {
				t.client.Produce(t.ctx, &kgo.Record{Topic: "t", Key: fmt.Append(nil, k), Value: make([]byte, 100)}, first.Promise())
			}
			if k%batch == batch-1 {
				if err := t.client.Flush(t.ctx); err != nil {
					return err
				}
			}
		}
		return errors.Join(t.client.Flush(t.ctx), first.Err())
	}
	all := func(int) bool { return true }
	another := func(k int) bool { return k%batch >= 3 || k%(4*batch) < batch }
	rolled := func() error { return t.wait(time.Now().Add(time.Second)) }
	if err := errors.Join(write(0, keys, all), write(0, keys, another), rolled(), write(keys, keys+300, all), rolled(), rolled(), rolled()); err != nil {
		return err
	}
	p, err := t.start(client, "g", "t")
	if err != nil {
		return err
	}
	begin, err := p.until(t.ctx, 1)
	if err != nil {
		return err
	}
	err = t.count("messages", p, 0, begin, 2*habitTime, 2*tenths, 2*limit, 2*limit)
	gaps := 0
	list := p.all("read")
	for i, e := range list {
		if i > 0 && e.offset != list[i-1].offset+1 {
			gaps++
		}
	}
	t.tell("%s: %d gaps", t.name, gaps)
	if gaps == 0 {
		return errors.Join(err, errors.New("nothing was compacted"))
	}
	return err
}

// largeRecords reads records of 1 MB at 100 kB a second.
func largeRecords(t *trial, client string) error {
	const size, rate, n = 990_000, 100_000, 8
	if err := t.topic("t", 1, "dispatch.throttling.rate.in.byte="+fmt.Sprint(rate), "max.message.bytes=2000000"); err != nil {
		return err
	}
	for range n {
		if err := t.put(&kgo.Record{Topic: "t", Value: make([]byte, size)}); err != nil {
			return err
		}
	}
	p, err := t.start(client, "g", "t")
	if err != nil {
		return err
	}
	begin, err := p.until(t.ctx, 1)
	if err != nil {
		return err
	}
	return t.count("records of a MB, the first at the beginning", p, 0, begin, 32*time.Second, 4, 0, 0) // at 0, 9, 19 and 29 s
}

func codecs(t *trial, client string) error {
	const batch = 6
	all := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	if client == "kafkajs" {
		all = all[:2] // the others come with packages of their own
	}
	if err := t.topic("t", int32(len(all)), tenASecond...); err != nil {
		return err
	}
	var running sync.WaitGroup
	errs := make([]error, len(all))
	for i, codec := range all {
		running.Go(func() {
			client, err := kgo.NewClient(kgo.SeedBrokers(t.broker.Address), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec))
			if err != nil {
				errs[i] = err
				return
			}
			defer client.Close()
			for range 60 {
				var list []*kgo.Record
				for range batch {
					list = append(list, &kgo.Record{Topic: "t", Partition: int32(i), Value: make([]byte, 300)})
				}
				errs[i] = errors.Join(errs[i], client.ProduceSync(t.ctx, list...).FirstErr())
			}
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p, err := t.start(client, "g", "t")
	if err != nil {
		return err
	}
	begin, err := p.until(t.ctx, len(all)*batch)
	if err != nil {
		return err
	}
	for i := range all {
		errs[i] = t.count(fmt.Sprint("codec ", i), p, int32(i), begin.Add(settle), habitTime, tenths, limit, limit)
	}
	return errors.Join(errs...)
}
