// Package sarama translates the checks to github.com/IBM/sarama.
package sarama

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/compat/checks"

	"github.com/IBM/sarama"
)

// Client is a checks.Client.
type Client struct {
	address string
	client  sarama.Client
	admin   sarama.ClusterAdmin
}

// newConfig asks for the newest protocol versions that the library knows.
func newConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Return.Errors = true
	config.Consumer.MaxWaitTime = 100 * time.Millisecond // the library waits for a fetch under way when it closes
	config.Producer.Return.Successes = true
	return config
}

// New makes a client of the broker at address.
func New(address string) (checks.Client, error) {
	client, err := sarama.NewClient([]string{address}, newConfig())
	if err != nil {
		return nil, err
	}
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return nil, err
	}
	return &Client{address, client, admin}, nil
}

func mapped(err error) error {
	return checks.Map(err, map[error]error{
		sarama.ErrUnknownTopicOrPartition: checks.ErrUnknownTopic,
		sarama.ErrTopicAlreadyExists:      checks.ErrTopicExists,
		sarama.ErrMessageSizeTooLarge:     checks.ErrTooLarge,
		sarama.ErrOffsetOutOfRange:        checks.ErrOutOfRange,
	})
}

func (c *Client) Close() { c.admin.Close() }

func (c *Client) CreateTopic(_ context.Context, topic string, partitions int, configs map[string]string) error {
	detail := &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1, ConfigEntries: map[string]*string{}}
	for k, v := range configs {
		detail.ConfigEntries[k] = &v
	}
	if err := c.admin.CreateTopic(topic, detail, false); err != nil {
		return mapped(err)
	}
	return c.client.RefreshMetadata(topic)
}

func (c *Client) DeleteTopic(_ context.Context, topic string) error {
	return mapped(c.admin.DeleteTopic(topic))
}

func (c *Client) Partitions(_ context.Context, topic string) (int, error) {
	topics, err := c.admin.DescribeTopics([]string{topic})
	if err != nil {
		return 0, err
	}
	if len(topics) != 1 {
		return 0, fmt.Errorf("the answer has %d topics", len(topics))
	}
	if topics[0].Err != sarama.ErrNoError {
		return 0, mapped(topics[0].Err)
	}
	return len(topics[0].Partitions), nil
}

func (c *Client) AddPartitions(_ context.Context, topic string, total int) error {
	return c.admin.CreatePartitions(topic, int32(total), nil, false)
}

func (c *Client) TopicConfig(_ context.Context, topic, key string) (string, error) {
	wanted := []*sarama.ConfigResource{{Type: sarama.TopicResource, Name: topic}}
	resources, err := c.admin.DescribeConfigs(wanted, sarama.DescribeConfigsOptions{IncludeSynonyms: true, IncludeDocumentation: true})
	if err != nil {
		return "", err
	}
	for _, resource := range resources {
		if resource.ErrorCode != sarama.ErrNoError {
			return "", resource.ErrorCode
		}
		for _, e := range resource.Configs {
			if e.Name == key {
				return e.Value, nil
			}
		}
	}
	return "", fmt.Errorf("there is no config %s", key)
}

func (c *Client) SetTopicConfig(_ context.Context, topic, key, value string) error {
	entries := map[string]sarama.IncrementalAlterConfigsEntry{key: {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}}
	return c.admin.IncrementalAlterConfig(sarama.TopicResource, topic, entries, false)
}

func (c *Client) DeleteRecords(_ context.Context, topic string, partition int32, before int64) error {
	return c.admin.DeleteRecords(topic, map[int32]int64{partition: before})
}

func (c *Client) Offset(_ context.Context, topic string, partition int32, at int64) (int64, error) {
	offset, err := c.client.GetOffset(topic, partition, at) // the library uses Kafka's values for the ends
	return offset, mapped(err)
}

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func (c *Client) Produce(_ context.Context, topic string, how checks.Produce, records []*checks.Record) error {
	config := newConfig()
	config.Producer.Compression = codecs[how.Codec]
	config.Producer.RequiredAcks = sarama.RequiredAcks(how.Acks)
	config.Producer.Partitioner = sarama.NewManualPartitioner
	if how.Idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{c.address}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, len(records))
	for i, r := range records {
		messages[i] = &sarama.ProducerMessage{Topic: topic, Partition: r.Partition, Timestamp: r.Timestamp, Key: encoder(r.Key), Value: encoder(r.Value)}
		for _, h := range r.Headers {
			messages[i].Headers = append(messages[i].Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
		}
	}
	if err := producer.SendMessages(messages); err != nil {
		if all, ok := errors.AsType[sarama.ProducerErrors](err); ok {
			return mapped(all[0].Err)
		}
		return mapped(err)
	}
	for i, m := range messages {
		records[i].Offset = m.Offset
	}
	return nil
}

// encoder keeps null and empty apart: null is no encoder.
func encoder(b []byte) sarama.Encoder {
	if b == nil {
		return nil
	}
	return sarama.ByteEncoder(b)
}

func (c *Client) Open(_ context.Context, topic string, partition int32, offset int64) (checks.Reader, error) {
	consumer, err := sarama.NewConsumer([]string{c.address}, newConfig())
	if err != nil {
		return nil, err
	}
	r := &reader{consumer: consumer, topic: topic, partition: partition}
	if err := r.SeekTo(offset); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

type reader struct {
	consumer  sarama.Consumer
	messages  sarama.PartitionConsumer
	topic     string
	partition int32
}

func (r *reader) SeekTo(offset int64) error {
	if r.messages != nil {
		r.messages.Close()
		r.messages = nil
	}
	messages, err := r.consumer.ConsumePartition(r.topic, r.partition, offset)
	if err != nil {
		return mapped(err)
	}
	r.messages = messages
	return nil
}

func (r *reader) Read(ctx context.Context) (*checks.Record, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-r.messages.Errors():
		return nil, mapped(err)
	case m := <-r.messages.Messages():
		if m == nil {
			return nil, errors.New("the library ended the stream")
		}
		record := &checks.Record{Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp, Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			record.Headers = append(record.Headers, checks.Header{Key: string(h.Key), Value: h.Value})
		}
		return record, nil
	}
}

func (r *reader) Close() {
	if r.messages != nil {
		r.messages.Close()
	}
	r.consumer.Close()
}
