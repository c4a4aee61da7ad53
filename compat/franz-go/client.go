// Package franzgo translates the checks to github.com/twmb/franz-go.
package franzgo

import (
	"context"
	"fmt"

	"sluice/compat/checks"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Client is a checks.Client.
type Client struct {
	address string
	admin   *kadm.Client
}

// New makes a client of the broker at address.
func New(address string) (checks.Client, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return nil, err
	}
	return &Client{address, kadm.NewClient(client)}, nil
}

func mapped(err error) error {
	return checks.Map(err, map[error]error{
		kerr.UnknownTopicOrPartition: checks.ErrUnknownTopic,
		kerr.TopicAlreadyExists:      checks.ErrTopicExists,
		kerr.MessageTooLarge:         checks.ErrTooLarge,
		kerr.OffsetOutOfRange:        checks.ErrOutOfRange,
	})
}

func (c *Client) Close() { c.admin.Close() }

func (c *Client) CreateTopic(ctx context.Context, topic string, partitions int, configs map[string]string) error {
	pointers := map[string]*string{}
	for k, v := range configs {
		pointers[k] = &v
	}
	_, err := c.admin.CreateTopic(ctx, int32(partitions), 1, pointers, topic)
	return mapped(err)
}

func (c *Client) DeleteTopic(ctx context.Context, topic string) error {
	_, err := c.admin.DeleteTopic(ctx, topic)
	return mapped(err)
}

func (c *Client) Partitions(ctx context.Context, topic string) (int, error) {
	topics, err := c.admin.ListTopics(ctx, topic)
	if err != nil {
		return 0, err
	}
	return len(topics[topic].Partitions), mapped(topics[topic].Err)
}

func (c *Client) AddPartitions(ctx context.Context, topic string, total int) error {
	responses, err := c.admin.UpdatePartitions(ctx, total, topic)
	if err != nil {
		return err
	}
	return responses.Error()
}

func (c *Client) TopicConfig(ctx context.Context, topic, key string) (string, error) {
	resources, err := c.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return "", err
	}
	resource, err := resources.On(topic, nil)
	if err != nil {
		return "", err
	}
	for _, config := range resource.Configs {
		if config.Key == key {
			return config.MaybeValue(), nil
		}
	}
	return "", fmt.Errorf("there is no config %s", key)
}

func (c *Client) SetTopicConfig(ctx context.Context, topic, key, value string) error {
	responses, err := c.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic)
	if err != nil {
		return err
	}
	_, err = responses.On(topic, nil)
	return err
}

func (c *Client) DeleteRecords(ctx context.Context, topic string, partition int32, before int64) error {
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, partition, before, -1)
	responses, err := c.admin.DeleteRecords(ctx, offsets)
	if err != nil {
		return err
	}
	return responses.Error()
}

func (c *Client) Offset(ctx context.Context, topic string, partition int32, at int64) (int64, error) {
	list := func() (kadm.ListedOffsets, error) { return c.admin.ListOffsetsAfterMilli(ctx, at, topic) }
	switch at {
	case checks.Earliest:
		list = func() (kadm.ListedOffsets, error) { return c.admin.ListStartOffsets(ctx, topic) }
	case checks.Latest:
		list = func() (kadm.ListedOffsets, error) { return c.admin.ListEndOffsets(ctx, topic) }
	}
	listed, err := list()
	if err != nil {
		return 0, err
	}
	offset, ok := listed.Lookup(topic, partition)
	if !ok {
		return 0, fmt.Errorf("the answer has no partition %d", partition)
	}
	return offset.Offset, mapped(offset.Err)
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acks = map[int]kgo.Acks{0: kgo.NoAck(), 1: kgo.LeaderAck(), -1: kgo.AllISRAcks()}

func (c *Client) Produce(ctx context.Context, topic string, how checks.Produce, records []*checks.Record) error {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.address),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[how.Codec]),
		kgo.RequiredAcks(acks[how.Acks]),
	}
	if !how.Idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	theirs := make([]*kgo.Record, len(records))
	for i, r := range records {
		theirs[i] = &kgo.Record{Partition: r.Partition, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			theirs[i].Headers = append(theirs[i].Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
	}
	if err := client.ProduceSync(ctx, theirs...).FirstErr(); err != nil {
		return mapped(err)
	}
	for i, r := range theirs {
		records[i].Offset = r.Offset
	}
	return nil
}

func (c *Client) Open(_ context.Context, topic string, partition int32, offset int64) (checks.Reader, error) {
	r := &reader{address: c.address, topic: topic, partition: partition}
	return r, r.SeekTo(offset)
}

// reader reads with a client of its own, which a seek replaces: the library seeks only within groups.
type reader struct {
	address   string
	topic     string
	partition int32
	client    *kgo.Client
	polled    []*kgo.Record
}

func (r *reader) SeekTo(offset int64) error {
	r.Close()
	start := kgo.NoResetOffset().At(offset)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(r.address),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.topic: {r.partition: start}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)
	r.client, r.polled = client, nil
	return err
}

func (r *reader) Read(ctx context.Context) (*checks.Record, error) {
	for len(r.polled) == 0 {
		fetches := r.client.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			return nil, mapped(e.Err)
		}
		r.polled = fetches.Records()
	}
	next := r.polled[0]
	r.polled = r.polled[1:]
	record := &checks.Record{Partition: next.Partition, Offset: next.Offset, Timestamp: next.Timestamp, Key: next.Key, Value: next.Value}
	for _, h := range next.Headers {
		record.Headers = append(record.Headers, checks.Header{Key: h.Key, Value: h.Value})
	}
	return record, nil
}

func (r *reader) Close() {
	if r.client != nil {
		r.client.Close()
	}
}
