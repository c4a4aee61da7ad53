// Package kafkago translates the checks to github.com/segmentio/kafka-go.
package kafkago

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"sluice/compat/checks"

	"github.com/segmentio/kafka-go"
)

// Client is a checks.Client.
type Client struct {
	address net.Addr
	client  *kafka.Client
}

// New makes a client of the broker at address.
func New(address string) (checks.Client, error) {
	addr := kafka.TCP(address)
	return &Client{addr, &kafka.Client{Addr: addr, Transport: &kafka.Transport{MetadataTTL: 100 * time.Millisecond}}}, nil
}

func mapped(err error) error {
	return checks.Map(err, map[error]error{
		kafka.UnknownTopicOrPartition: checks.ErrUnknownTopic,
		kafka.TopicAlreadyExists:      checks.ErrTopicExists,
		kafka.MessageSizeTooLarge:     checks.ErrTooLarge,
		kafka.OffsetOutOfRange:        checks.ErrOutOfRange,
	})
}

func (c *Client) Close() {
	c.client.Transport.(*kafka.Transport).CloseIdleConnections()
}

func (c *Client) CreateTopic(ctx context.Context, topic string, partitions int, configs map[string]string) error {
	config := kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}
	for k, v := range configs {
		config.ConfigEntries = append(config.ConfigEntries, kafka.ConfigEntry{ConfigName: k, ConfigValue: v})
	}
	resp, err := c.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err != nil {
		return err
	}
	return mapped(resp.Errors[topic])
}

func (c *Client) DeleteTopic(ctx context.Context, topic string) error {
	resp, err := c.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return mapped(resp.Errors[topic])
}

func (c *Client) Partitions(ctx context.Context, topic string) (int, error) {
	resp, err := c.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 {
		return 0, fmt.Errorf("the answer has %d topics", len(resp.Topics))
	}
	return len(resp.Topics[0].Partitions), mapped(resp.Topics[0].Error)
}

func (c *Client) AddPartitions(ctx context.Context, topic string, total int) error {
	resp, err := c.client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: int32(total)}},
	})
	if err != nil {
		return err
	}
	return resp.Errors[topic]
}

func (c *Client) TopicConfig(ctx context.Context, topic, key string) (string, error) {
	resp, err := c.client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}},
	})
	if err != nil {
		return "", err
	}
	for _, resource := range resp.Resources {
		if resource.Error != nil {
			return "", resource.Error
		}
		for _, e := range resource.ConfigEntries {
			if e.ConfigName == key {
				return e.ConfigValue, nil
			}
		}
	}
	return "", fmt.Errorf("there is no config %s", key)
}

func (c *Client) SetTopicConfig(ctx context.Context, topic, key, value string) error {
	resp, err := c.client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic,
			ResourceName: topic,
			Configs:      []kafka.IncrementalAlterConfigsRequestConfig{{Name: key, Value: value, ConfigOperation: kafka.ConfigOperationSet}},
		}},
	})
	if err != nil {
		return err
	}
	for _, resource := range resp.Resources {
		err = cmp.Or(err, resource.Error)
	}
	return err
}

func (c *Client) DeleteRecords(context.Context, string, int32, int64) error {
	return checks.ErrUnsupported
}

func (c *Client) Offset(ctx context.Context, topic string, partition int32, at int64) (int64, error) {
	request := kafka.OffsetRequest{Partition: int(partition), Timestamp: at} // the library uses Kafka's values for the ends
	resp, err := c.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {request}}})
	if err != nil {
		return 0, err
	}
	for _, p := range resp.Topics[topic] {
		switch {
		case p.Error != nil:
			return 0, mapped(p.Error)
		case at == checks.Earliest:
			return p.FirstOffset, nil
		case at == checks.Latest:
			return p.LastOffset, nil
		}
		for offset := range p.Offsets {
			return offset, nil
		}
	}
	return -1, nil
}

var codecs = map[string]kafka.Compression{
	"gzip":   kafka.Gzip,
	"snappy": kafka.Snappy,
	"lz4":    kafka.Lz4,
	"zstd":   kafka.Zstd,
}

func (c *Client) Produce(ctx context.Context, topic string, how checks.Produce, records []*checks.Record) error {
	if how.Idempotent {
		return checks.ErrUnsupported
	}
	writer := &kafka.Writer{
		Addr:         c.address,
		Topic:        topic,
		Transport:    c.client.Transport,
		RequiredAcks: kafka.RequiredAcks(how.Acks),
		Compression:  codecs[how.Codec],
		BatchSize:    len(records), // one batch a partition
		BatchTimeout: time.Millisecond,
		Balancer:     kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return int(m.WriterData.(*checks.Record).Partition) }),
		Completion: func(messages []kafka.Message, err error) {
			for _, m := range messages {
				m.WriterData.(*checks.Record).Offset = m.Offset
			}
		},
	}
	messages := make([]kafka.Message, len(records))
	for i, r := range records {
		messages[i] = kafka.Message{Time: r.Timestamp, Key: r.Key, Value: r.Value, WriterData: r}
		for _, h := range r.Headers {
			messages[i].Headers = append(messages[i].Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
	}
	err := writer.WriteMessages(ctx, messages...)
	if failures, ok := errors.AsType[kafka.WriteErrors](err); ok {
		err = cmp.Or(failures...)
	}
	return errors.Join(mapped(err), writer.Close())
}

func (c *Client) Open(_ context.Context, topic string, partition int32, offset int64) (checks.Reader, error) {
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers:               []string{c.address.String()},
		Topic:                 topic,
		Partition:             int(partition),
		MinBytes:              1,
		MaxBytes:              10 << 20,
		MaxWait:               100 * time.Millisecond, // the library waits for a fetch under way when it closes
		OffsetOutOfRangeError: true,
	})
	return &reader{r}, r.SetOffset(offset)
}

type reader struct{ *kafka.Reader }

func (r *reader) SeekTo(offset int64) error { return r.SetOffset(offset) }

func (r *reader) Read(ctx context.Context) (*checks.Record, error) {
	m, err := r.ReadMessage(ctx)
	if err != nil {
		return nil, mapped(err)
	}
	record := &checks.Record{Partition: int32(m.Partition), Offset: m.Offset, Timestamp: m.Time, Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		record.Headers = append(record.Headers, checks.Header{Key: h.Key, Value: h.Value})
	}
	return record, nil
}

func (r *reader) Close() { r.Reader.Close() }
