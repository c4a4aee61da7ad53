package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// reader reads all partitions of a topic, without a group.
func (f *feed) reader(addr, id string, from func(partition int) kgo.Offset) (*kgo.Client, error) {
	at := map[int32]kgo.Offset{}
	for p := range f.partitions {
		at[int32(p)] = from(p)
	}
	return kgo.NewClient(kgo.SeedBrokers(addr), kgo.ClientID(id+f.topic), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{f.topic: at}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(8<<20), kgo.FetchMaxPartitionBytes(2<<20))
}

// follow reads what is written and checks each record, until ctx ends and it has come to the end of what is acknowledged.
func (f *feed) follow(ctx context.Context, addr string) error {
	client, err := f.reader(addr, "follow-", func(p int) kgo.Offset { return kgo.NewOffset().At(f.parts[p].seen.Load()) })
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	var deadline time.Time
	for {
		poll, cancel := context.WithTimeout(context.WithoutCancel(ctx), 100*time.Millisecond)
		fetches := client.PollFetches(poll)
		cancel()
		fetches.EachPartition(func(t kgo.FetchTopicPartition) { f.checkAll(admin, t) })
		if ctx.Err() == nil {
			continue
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(patience)
		}
		if f.caughtUp() || f.alive.Err() != nil {
			return nil
		}
		if time.Now().After(deadline) {
			f.lament()
			return nil
		}
	}
}

func (f *feed) caughtUp() bool {
	for p := range f.parts {
		if f.parts[p].seen.Load() < f.parts[p].acked.Load() {
			return false
		}
	}
	return true
}

// lament counts what was acknowledged and does not come.
func (f *feed) lament() {
	for p := range f.parts {
		if seen, acked := f.parts[p].seen.Load(), f.parts[p].acked.Load(); seen < acked {
			f.tally.complain(&f.tally.missing, acked-seen, "%s-%d: nothing comes from offset %d on, %d are acknowledged", f.topic, p, seen, acked)
		}
	}
}

// checkAll checks what one poll has brought of a partition.
func (f *feed) checkAll(admin *kadm.Client, t kgo.FetchTopicPartition) {
	if len(t.Records) == 0 { // an error, or nothing within the time
		return
	}
	p := &f.parts[t.Partition]
	for _, r := range t.Records {
		f.checkOne(r)
		expected := p.seen.Load()
		switch {
		case r.Offset < expected:
			f.tally.complain(&f.tally.wrong, 1, "%s-%d: offset %d after %d", f.topic, t.Partition, r.Offset, expected-1)
			continue
		case r.Offset > expected && !f.compacted():
			f.gap(admin, t.Partition, expected, r.Offset)
		}
		p.seen.Store(r.Offset + 1)
	}
}

func (f *feed) compacted() bool {
	policy := f.configs["cleanup.policy"]
	return policy == "compact" || policy == "compact,delete"
}

func (f *feed) checkOne(r *kgo.Record) {
	f.tally.checked.Add(1)
	f.consumed.Add(int64(len(r.Value) + len(r.Key)))
	var key []byte
	if f.keys > 0 {
		key = keyName(keyOf(r.Partition, r.Offset, f.keys))
	}
	err := check(r.Value, f.number, r.Partition, r.Offset, r.Key)
	if err == nil && string(key) != string(r.Key) {
		err = fmt.Errorf("the key is %q, not %q", r.Key, key)
	}
	if err != nil {
		f.tally.complain(&f.tally.wrong, 1, "%s-%d: offset %d: %v", f.topic, r.Partition, r.Offset, err)
	}
}

// gap judges offsets from..to-1 that did not come: below the log start they have expired.
func (f *feed) gap(admin *kadm.Client, partition int32, from, to int64) {
	start, err := f.offset(admin.ListStartOffsets, partition)
	if err != nil {
		f.tally.complain(&f.tally.missing, to-from, "%s-%d: offsets %d to %d did not come, and the log start is not told: %v", f.topic, partition, from, to-1, err)
		return
	}
	expired := min(max(start-from, 0), to-from)
	f.tally.expired.Add(expired)
	if missing := to - from - expired; missing > 0 {
		f.tally.complain(&f.tally.missing, missing, "%s-%d: offsets %d to %d did not come, the log start is %d", f.topic, partition, from, to-1, start)
	}
}

// offset asks for one offset of a partition.
func (f *feed) offset(list func(context.Context, ...string) (kadm.ListedOffsets, error), partition int32) (int64, error) {
	ctx, cancel := context.WithTimeout(f.alive, patience)
	defer cancel()
	all, err := list(ctx, f.topic)
	if err != nil {
		return 0, err
	}
	one, ok := all.Lookup(f.topic, partition)
	if !ok {
		return 0, fmt.Errorf("%s-%d is not in the answer", f.topic, partition)
	}
	return one.Offset, one.Err
}
