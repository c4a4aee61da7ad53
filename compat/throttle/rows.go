package main

import (
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// row is something that a user can see of a limit, apart from what each client gets. It has a broker of its own.
type row struct {
	name     string
	settings []string    // of the broker
	alone    bool        // it takes or needs much, and is run only when it is asked for
	wired    bool        // it looks at what passes on the wire, and sets quotas
	own      bool        // of a wired one: it has settings that only our broker has
	possible func() bool // false: what it needs is not there
	run      func(t *trial) error
}

const (
	precise    = "dispatch.throttling.precise.flow.control"
	onBatches  = "dispatch.throttling.on.batch.message.enabled"
	period     = "dispatch.throttling.rate.period.seconds"
	nonBacklog = "dispatch.throttling.on.non.backlog.consumer.enabled"
	threshold  = "dispatch.throttling.backlog.threshold"
	// slack is how many records are no backlog yet: of a hundred a second, what comes while a busy machine has no time for the reader.
	slack = 200
)

var rows = []row{
	{name: "the broker's limit is shared by topics and groups", settings: []string{ofTopic + "=10"}, run: brokerLimit},
	{name: "two ways of counting are refused at the start", run: refusedAtStart},
	{name: "two ways of counting are refused while running", run: refusedWhileRunning},
	{name: "one way of counting takes the place of the other in one request", run: exchangedInOneRequest},
	{name: "a reader without backlog is not held back if so set", settings: []string{nonBacklog + "=false", threshold + "=" + fmt.Sprint(slack)},
		run: func(t *trial) error { return tailing(t, false) }},
	{name: "a reader without backlog is held back by default", run: func(t *trial) error { return tailing(t, true) }},
	{name: "a reader that has fallen behind is held back until it has caught up", settings: []string{nonBacklog + "=false", threshold + "=" + fmt.Sprint(slack)}, run: fallenBehind},
	{name: "a waiting fetch is answered when its limit is raised", run: func(t *trial) error { return answeredByChange(t, ofTopic+"=1000") }},
	{name: "a waiting fetch is answered when its limit is deleted", run: func(t *trial) error { return answeredByChange(t, ofTopic, period) }},
	{name: "a waiting fetch is answered when its period is shortened", run: func(t *trial) error { return answeredByChange(t, period+"=1") }},
	{name: "a partition without a limit beside one with one", run: besideUnlimited},
	{name: "a slow poller gets half of what it shares with a quick one", run: slowPoller},
	{name: "min.bytes does not wait for allowance", run: minBytes},
	{name: "polls without waiting cost little and get no errors", run: busyPolls},
	{name: "a reader without a group that commits takes its use along", run: commitsOnly},
	{name: "a new member gets what the old one has left", run: memberLeaves},
	{name: "a slow consumer of sarama stays in its group", run: slowSarama},
	{name: "ten thousand partitions, ten groups", alone: true, run: manyPartitions},
}

func brokerLimit(t *trial) error {
	topics, groups := []string{"x", "y"}, []string{"a", "b"}
	for _, topic := range topics {
		if err := errors.Join(t.topic(topic, 1), t.fill(topic, 0, limit*(t.seconds+5))); err != nil {
			return err
		}
	}
	var readers []*arrivals
	var begin time.Time
	for _, group := range groups {
		a, err := t.read(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topics...))
		if err != nil {
			return err
		}
		readers = append(readers, a)
		if begin, err = a.first(t.ctx); err != nil {
			return err
		}
	}
	begin = begin.Add(settle)
	end := begin.Add(t.span())
	if err := t.wait(end); err != nil {
		return err
	}
	total := 0
	var errs []error
	for i, a := range readers {
		for _, topic := range topics {
			n := a.between(begin, end, topic)
			total += n
			errs = append(errs, near("group "+groups[i]+", topic "+topic, n, limit*t.seconds/4, limit))
		}
	}
	return errors.Join(append(errs, near("all", total, limit*t.seconds, limit))...)
}

func refusedAtStart(t *trial) error {
	out, err := exec.CommandContext(t.ctx, t.binary, "serve", "--data-dir", t.dir+"/other", "--listen", "127.0.0.1:0",
		"--set", precise+"=true", "--set", onBatches+"=true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), precise) || !strings.Contains(string(out), onBatches) {
		return fmt.Errorf("it ended with %w and said %q", err, out)
	}
	return nil
}

func refusedWhileRunning(t *trial) error {
	err := t.set("", onBatches+"=true", ofTopic+"=7")
	if err == nil || !strings.Contains(err.Error(), "INVALID_CONFIG") {
		return fmt.Errorf("the answer is %v", err)
	}
	return t.settings(map[string]string{precise: "true", onBatches: "false", ofTopic: "-1"})
}

func exchangedInOneRequest(t *trial) error {
	if err := t.set("", onBatches+"=true", precise+"=false"); err != nil {
		return err
	}
	if err := errors.Join(t.topic("t", 1, ofTopic+"=2", period+"=3600"), t.batch("t", 0, 3), t.batch("t", 0, 3), t.batch("t", 0, 3)); err != nil {
		return err
	}
	a, err := t.read(kgo.ConsumeTopics("t"))
	if err != nil {
		return err
	}
	begin, err := a.first(t.ctx)
	if err != nil {
		return err
	}
	return errors.Join(t.wait(begin.Add(time.Second)), near("messages of two batches of three", a.between(begin, time.Now()), 6, 0))
}

// settings compares what DescribeConfigs says of the broker.
func (t *trial) settings(want map[string]string) error {
	found, err := t.admin.DescribeBrokerConfigs(t.ctx, 1)
	if err != nil {
		return err
	}
	for _, r := range found {
		for _, c := range r.Configs {
			if w, asked := want[c.Key]; asked && c.MaybeValue() != w {
				err = errors.Join(err, fmt.Errorf("%s is %s, want %s", c.Key, c.MaybeValue(), w))
			}
		}
	}
	return err
}

// tailing reads at the end of a topic of ten a second to which a hundred a second are written.
func tailing(t *trial, held bool) error {
	if err := t.topic("t", 1, ofTopic+"="+fmt.Sprint(limit)); err != nil {
		return err
	}
	a, err := t.read(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"))
	if err != nil {
		return err
	}
	if err := t.wait(time.Now().Add(settle)); err != nil {
		return err
	}
	begin := time.Now()
	written, err := t.feed("t", 0, 10*time.Millisecond, begin.Add(t.span()))
	if err != nil {
		return err
	}
	if held {
		return near("messages", a.between(begin, begin.Add(t.span())), limit*t.seconds, limit)
	}
	if err := errors.Join(t.wait(time.Now().Add(time.Second)), near("messages", a.between(begin, time.Now()), written, 0)); err != nil {
		return err
	}
	// It has used nothing: another group, which has a backlog, gets a window's messages at once. Had it used what it got, that would be owed for long.
	a.stop()
	if err := t.fill("t", 0, 2*slack); err != nil {
		return err
	}
	b, err := t.read(kgo.ConsumerGroup("another"), kgo.ConsumeTopics("t"))
	if err != nil {
		return err
	}
	joined := time.Now()
	first, err := b.first(t.ctx)
	if err == nil && first.Sub(joined) > t.span()/2 {
		err = fmt.Errorf("another group waits for %v", first.Sub(joined))
	}
	err = errors.Join(err, t.wait(first.Add(time.Second/2)))
	if n := b.between(first, time.Now()); n < limit || n > 2*limit { // twice: of two windows
		err = errors.Join(err, fmt.Errorf("another group got %d at once, want %d", n, limit))
	}
	return err
}

// fallenBehind stops a reader without backlog, and has it go on when it has some.
func fallenBehind(t *trial) error {
	if err := t.topic("t", 1, ofTopic+"="+fmt.Sprint(limit)); err != nil {
		return err
	}
	options := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.AutoCommitInterval(100 * time.Millisecond)}
	a, err := t.read(options...)
	if err != nil {
		return err
	}
	const interval = 10 * time.Millisecond
	before, err := t.feed("t", 0, interval, time.Now().Add(3*time.Second))
	if err != nil {
		return err
	}
	if err := t.wait(time.Now().Add(time.Second)); err != nil {
		return err
	}
	read := a.between(time.Time{}, time.Now())
	a.stop()
	behind := limit*t.seconds + slack
	if err := errors.Join(t.fill("t", 0, behind), t.wait(time.Now().Add(2*time.Second))); err != nil { // who is away for less has no backlog
		return err
	}
	if a, err = t.read(options...); err != nil {
		return err
	}
	begin, err := a.first(t.ctx)
	if err != nil {
		return err
	}
	end := begin.Add(t.span())
	if err := t.wait(end.Add(2 * time.Second)); err != nil {
		return err
	}
	half := a.between(begin, begin.Add(t.span()/2))
	again := time.Now()
	more, err := t.feed("t", 0, interval, again.Add(2*time.Second))
	if err != nil {
		return err
	}
	if err := t.wait(time.Now().Add(time.Second)); err != nil {
		return err
	}
	return errors.Join(near("before", read, before, 0), near("in half of the time", half, limit*t.seconds/2, 2*limit), near("all of it", a.between(begin, again), behind, 0),
		near("caught up again", a.between(again, time.Now()), more, 0))
}

// answered is how soon after a change a waiting fetch must be answered. The machine may be busy with other things, so it is enough if one of some
// readers is; all must be within answeredAtLast, and who waited to the end would need 30 s.
const (
	answered       = 50 * time.Millisecond
	answeredAtLast = time.Second
)

// answeredByChange has fetches of some groups wait for the rest of a minute, and alters their limit.
func answeredByChange(t *trial, settings ...string) error {
	const groups = 4
	if err := errors.Join(t.topic("t", 1, ofEachReader+"="+fmt.Sprint(limit), "subscription."+period+"=60"), t.fill("t", 0, 3*limit)); err != nil {
		return err
	}
	var readers []*arrivals
	var begin time.Time
	for g := range groups {
		a, err := t.read(kgo.ConsumerGroup(fmt.Sprint(g)), kgo.ConsumeTopics("t"), kgo.FetchMaxWait(30*time.Second))
		if err != nil {
			return err
		}
		readers = append(readers, a)
		if begin, err = a.first(t.ctx); err != nil {
			return err
		}
	}
	if err := t.wait(begin.Add(2 * time.Second)); err != nil { // all wait
		return err
	}
	for i, s := range settings {
		settings[i] = "subscription." + s
	}
	before := time.Now()
	if err := t.set("t", settings...); err != nil {
		return err
	}
	changed := time.Now()
	soonest := answeredAtLast
	for g, a := range readers {
		if err := near("before the change", a.between(time.Time{}, before), limit, 0); err != nil {
			return err
		}
		for a.between(before, time.Now()) == 0 {
			if time.Since(changed) > answeredAtLast {
				return fmt.Errorf("group %d has no answer after %v", g, answeredAtLast)
			}
			time.Sleep(time.Millisecond)
		}
		soonest = min(soonest, a.after(before).Sub(changed))
	}
	if soonest > answered {
		return fmt.Errorf("the first answer came after %v, it has to within %v", soonest, answered)
	}
	return nil
}

// fewest is how many records it takes to tell how late 99 of 100 are.
const fewest = 100

// besideUnlimited reads a topic of one a second and one without a limit by one consumer, and compares with one that reads the latter alone.
func besideUnlimited(t *trial) error {
	if err := errors.Join(t.topic("slow", 1, ofTopic+"=1"), t.topic("fast", 1), t.fill("slow", 0, 4*t.seconds)); err != nil {
		return err
	}
	var hook throttleTimes
	both, err := t.read(kgo.ConsumerGroup("both"), kgo.ConsumeTopics("slow", "fast"), kgo.FetchMaxWait(5*time.Second), kgo.WithHooks(&hook))
	if err != nil {
		return err
	}
	alone, err := t.read(kgo.ConsumerGroup("alone"), kgo.ConsumeTopics("fast"), kgo.FetchMaxWait(5*time.Second))
	if err != nil {
		return err
	}
	begin, err := both.first(t.ctx)
	if err != nil {
		return err
	}
	for written := 0; written < 2*fewest; {
		n, err := t.feed("fast", 0, 10*time.Millisecond, time.Now().Add(t.span()))
		if err != nil {
			return err
		}
		written += n
	}
	slow := both.between(begin, time.Now(), "slow")
	elapsed := int(time.Since(begin) / time.Second)
	x, y := both.lateness("fast"), alone.lateness("fast")
	if len(x) < fewest || len(y) < fewest {
		return errors.New("little was read of the topic without a limit")
	}
	if more := laterAtBest(x, y); more > 5*time.Millisecond {
		err = fmt.Errorf("99 of 100 records came %v later than to who reads them alone", more)
	}
	if n := hook.n.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d answers with a throttle time", n))
	}
	return errors.Join(err, near("limited", slow, elapsed+1, 2))
}

// laterAtBest compares how late 99 of 100 records came to two readers, for each quarter of the records, and gives the least difference: what holds
// records up because of a limit does so in each quarter, what else the machine does need not.
func laterAtBest(x, y []time.Duration) time.Duration {
	const quarters = 4
	least := time.Duration(math.MaxInt64)
	for i := range quarters {
		least = min(least, hundredth(x[i*len(x)/quarters:(i+1)*len(x)/quarters])-hundredth(y[i*len(y)/quarters:(i+1)*len(y)/quarters]))
	}
	return least
}

// hundredth is the value that a hundredth of the list is above.
func hundredth(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)*99/100]
}

// minBytes asks for a MiB and gets what the limit lets through.
func minBytes(t *trial) error {
	if err := errors.Join(t.topic("t", 1, ofTopic+"="+fmt.Sprint(limit)), t.fill("t", 0, limit*(t.seconds+5))); err != nil {
		return err
	}
	a, err := t.read(kgo.ConsumeTopics("t"), kgo.FetchMinBytes(1<<20), kgo.FetchMaxWait(5*time.Second))
	if err != nil {
		return err
	}
	begin, err := a.first(t.ctx)
	if err != nil {
		return err
	}
	end := begin.Add(t.span())
	return errors.Join(t.wait(end), near("messages", a.between(begin, end), limit*t.seconds, limit))
}

// busyPolls fetches a thousand times a second without waiting from a partition whose limit is used up. That takes less than a twentieth of a core or, on a
// machine that is busy with others, not much more than polls at the end of a partition without a limit.
func busyPolls(t *trial) error {
	if err := errors.Join(t.topic("t", 1, ofTopic+"=1", period+"=3600"), t.fill("t", 0, 3), t.topic("free", 1)); err != nil {
		return err
	}
	limited, err := t.poller("t", 1)
	if err != nil {
		return err
	}
	free, err := t.poller("free", 0)
	if err != nil {
		return err
	}
	if _, err := limited(); err != nil { // takes the one message of the hour
		return err
	}
	// In turn, so that what else the machine does meets both alike.
	const rounds = 5
	var with, without float64
	for range rounds {
		for sum, fetch := range map[*float64]func() (*kmsg.FetchResponse, error){&without: free, &with: limited} {
			share, err := t.share(fetch, t.span()/2/rounds)
			if err != nil {
				return err
			}
			*sum += share / rounds
		}
	}
	if with > max(0.05, 1.25*without) {
		err = fmt.Errorf("a thousand polls a second take %.1f %% of a core, without a limit %.1f %%", 100*with, 100*without)
	}
	return err
}

// share polls for the time, and gives which part of a core the broker would need for a thousand polls a second. Each is answered without records,
// error and throttle time.
func (t *trial) share(fetch func() (*kmsg.FetchResponse, error), d time.Duration) (float64, error) {
	const rate = 1000
	before, err := t.broker.CPUTime()
	if err != nil {
		return 0, err
	}
	polls := 0
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < d; <-tick.C {
		resp, err := fetch()
		if err != nil {
			return 0, err
		}
		p := resp.Topics[0].Partitions[0]
		if resp.ErrorCode != 0 || p.ErrorCode != 0 || len(p.RecordBatches) > 0 || resp.ThrottleMillis != 0 {
			return 0, fmt.Errorf("the answer has errors %d and %d, %d bytes, throttle time %d", resp.ErrorCode, p.ErrorCode, len(p.RecordBatches), resp.ThrottleMillis)
		}
		polls++
	}
	after, err := t.broker.CPUTime()
	return rate * (after - before).Seconds() / float64(polls), err
}

// commitsOnly reads without a group, and then begins to commit for one.
func commitsOnly(t *trial) error {
	if err := errors.Join(t.topic("t", 1, ofEachReader+"="+fmt.Sprint(limit)), t.fill("t", 0, limit*(t.seconds+5))); err != nil {
		return err
	}
	a, err := t.read(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(0)}}), kgo.ClientID("c"))
	if err != nil {
		return err
	}
	begin, err := a.first(t.ctx)
	if err != nil {
		return err
	}
	committer, err := kgo.NewClient(kgo.SeedBrokers(t.broker.Address), kgo.ClientID("c"))
	if err != nil {
		return err
	}
	defer committer.Close()
	end := begin.Add(t.span() - time.Second/2) // in the last window, which began when there was nothing to wait for
	for time.Now().Before(end) {
		if err := t.wait(time.Now().Add(700 * time.Millisecond)); err != nil {
			return err
		}
		if time.Since(begin) < t.span()/2 {
			continue
		}
		at := int64(a.between(begin, time.Now()))
		offsets := kadm.Offsets{}
		offsets.AddOffset("t", 0, at, -1)
		if err := kadm.NewClient(committer).CommitAllOffsets(t.ctx, "g", offsets); err != nil {
			return err
		}
	}
	n := a.between(begin, end)
	if n > limit*t.seconds { // the switch to the group is no new allowance
		return fmt.Errorf("%d messages in %d windows of %d", n, t.seconds, limit)
	}
	return near("messages", n, limit*t.seconds, limit)
}

// memberLeaves has a group read ten in a period of some seconds, by one member and then by another.
func memberLeaves(t *trial) error {
	every := max(10, t.seconds/3)
	if err := errors.Join(t.topic("t", 1, ofEachReader+"="+fmt.Sprint(limit), "subscription."+period+"="+fmt.Sprint(every)), t.fill("t", 0, 4*limit)); err != nil {
		return err
	}
	options := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.FetchMaxBytes(1), kgo.AutoCommitInterval(100 * time.Millisecond)}
	a, err := t.read(options...)
	if err != nil {
		return err
	}
	begin, err := a.first(t.ctx)
	if err != nil {
		return err
	}
	a.stop()
	first := a.between(begin, time.Now())
	b, err := t.read(append(options, kgo.ClientID("another"))...)
	if err != nil {
		return err
	}
	if err := t.wait(begin.Add(time.Duration(every)*time.Second - 2*time.Second)); err != nil {
		return err
	}
	both := first + b.between(begin, time.Now())
	if err := t.wait(begin.Add(time.Duration(every)*time.Second + 2*time.Second)); err != nil {
		return err
	}
	two := first + b.between(begin, time.Now())
	if first == 0 || both > limit || two <= both || two > 2*limit { // what the first had fetched and not handed out is read again, and charged
		return fmt.Errorf("the first member got %d, both %d in one period and %d in two, %d a period are allowed", first, both, two, limit)
	}
	return nil
}

// throttleTimes counts the answers that tell a client to send nothing for a while.
type throttleTimes struct{ n atomic.Int64 }

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (h *throttleTimes) OnBrokerThrottle(kgo.BrokerMetadata, time.Duration, bool) { h.n.Add(1) }
