package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	topic      = "orders"
	partitions = 4
	recordSize = 1000
	// interval is that of the live records.
	interval = 5 * time.Millisecond
)

// fill makes the topic and its backlog of records that do not compress.
func (o options) fill(ctx context.Context, addr string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(20_000))
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		return err
	}
	var first kgo.FirstErrPromise
	for range o.backlog << 20 / recordSize {
		value := make([]byte, recordSize)
		binary.LittleEndian.PutUint64(value[8:], rand.Uint64()) //nolint:gosec // not a secret
		client.Produce(ctx, &kgo.Record{Value: value}, first.Promise())
	}
	return errors.Join(client.Flush(ctx), first.Err())
}

// measure runs a situation: the replay if there is one, the live reader, and who writes what that reads.
func (o options) measure(ctx context.Context, addr string, n int) error {
	r := &runs[n]
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var replays sync.WaitGroup
	var replayed atomic.Int64
	for g := range o.groups {
		if !r.replays {
			break
		}
		group := fmt.Sprintf("replay-%d-%d", n, g)
		if err := o.limitGroup(ctx, addr, group, r.limited); err != nil {
			return err
		}
		replays.Go(func() { replay(ctx, addr, group, &replayed) })
	}
	err := o.follow(ctx, addr, r)
	r.replayed = replayed.Load()
	cancel()
	replays.Wait()
	return err
}

func (o options) limitGroup(ctx context.Context, addr, group string, limited bool) error {
	if !limited {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer client.Close()
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "dispatch.throttling.rate.in.byte", kmsg.StringPtr(strconv.FormatInt(o.limit, 10))
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	resource.Configs = append(resource.Configs, config)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, client)
	if err == nil && resp.Resources[0].ErrorCode != 0 {
		err = fmt.Errorf("set the limit: error %d", resp.Resources[0].ErrorCode)
	}
	return err
}

// replay reads the topic from its beginning, again and again, as fast as it gets it.
func replay(ctx context.Context, addr, group string, bytes *atomic.Int64) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ClientID(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	if err != nil {
		return
	}
	defer client.Close()
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { bytes.Add(int64(len(r.Value))) })
	}
}

// follow writes live records and measures when they arrive.
func (o options) follow(ctx context.Context, addr string, r *run) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.ClientID("live"))
	if err != nil {
		return err
	}
	defer client.Close()
	writer, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer writer.Close()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.seconds)*time.Second)
	defer cancel()
	var writing sync.WaitGroup
	writing.Go(func() { write(ctx, writer, begin) })
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
			if sent := time.Duration(binary.LittleEndian.Uint64(rec.Value)); sent != 0 {
				now := time.Since(begin)
				r.sights = append(r.sights, sight{now, now - sent})
			}
		})
	}
	writing.Wait()
	return nil
}

// write sends a record that bears its time in each interval.
func write(ctx context.Context, client *kgo.Client, begin time.Time) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			value := make([]byte, recordSize)
			binary.LittleEndian.PutUint64(value, uint64(time.Since(begin)))
			client.Produce(ctx, &kgo.Record{Value: value}, nil)
		}
	}
}
