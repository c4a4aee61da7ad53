package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// slowPoller has two clients share a topic's limit: one that fetches again at once, and one that is away for so long after each answer that its fetch ends
// just before a window begins, again and again.
func slowPoller(t *trial) error {
	if err := errors.Join(t.topic("t", 1, ofTopic+"="+fmt.Sprint(limit)), t.fill("t", 0, 3*limit)); err != nil {
		return err
	}
	begin := time.Now().Add(settle)
	end := begin.Add(t.span())
	var got [2]int
	failed := make(chan error, len(got))
	for i, gap := range []time.Duration{time.Millisecond, 590 * time.Millisecond} {
		client, err := kgo.NewClient(kgo.SeedBrokers(t.broker.Address), kgo.ClientID(fmt.Sprint("away for ", gap)))
		if err != nil {
			return err
		}
		defer client.Close()
		go func() {
			var err error
			got[i], err = t.pollRaw(client, gap, begin, end)
			failed <- err
		}()
	}
	if err := errors.Join(<-failed, <-failed); err != nil {
		return err
	}
	want := limit * t.seconds
	return errors.Join(near("both", got[0]+got[1], want, limit), near("the quick one", got[0], want/2, max(limit, 2*want/100)), near("the slow one", got[1], want/2, max(limit, 2*want/100)))
}

// pollRaw fetches the beginning of a topic, over and over, and counts the records that come in a time.
func (t *trial) pollRaw(client *kgo.Client, gap time.Duration, begin, end time.Time) (n int, err error) {
	q, err := t.fetchRequest("t", 0)
	if err != nil {
		return 0, err
	}
	q.MaxWaitMillis, q.MinBytes = 500, 1
	for time.Now().Before(end) {
		resp, err := q.RequestWith(t.ctx, client)
		if err != nil {
			return 0, err
		}
		if now := time.Now(); !now.Before(begin) && now.Before(end) {
			n += recordsIn(resp.Topics[0].Partitions[0].RecordBatches)
		}
		if err := t.wait(time.Now().Add(gap)); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// recordsIn counts the records of whole batches by their headers.
func recordsIn(batches []byte) (n int) {
	const lengthAt, countAt, headerSize = 8, 57, 61
	for len(batches) >= headerSize {
		n += int(binary.BigEndian.Uint32(batches[countAt:]))
		batches = batches[min(len(batches), lengthAt+4+int(binary.BigEndian.Uint32(batches[lengthAt:]))):]
	}
	return n
}

// fetchRequest asks for a topic's only partition, and does not wait.
func (t *trial) fetchRequest(topic string, offset int64) (*kmsg.FetchRequest, error) {
	listed, err := t.admin.ListTopics(t.ctx, topic)
	if err != nil {
		return nil, err
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.PartitionMaxBytes, p.FetchOffset = -1, -1, 1<<20, offset
	q := kmsg.NewPtrFetchRequest()
	q.MaxWaitMillis, q.MaxBytes, q.SessionEpoch = 0, 1<<20, -1
	q.Topics = []kmsg.FetchRequestTopic{{Topic: topic, TopicID: listed[topic].ID, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return q, nil
}

// poller gives a fetch of a topic's only partition that does not wait.
func (t *trial) poller(topic string, offset int64) (func() (*kmsg.FetchResponse, error), error) {
	q, err := t.fetchRequest(topic, offset)
	return func() (*kmsg.FetchResponse, error) { return q.RequestWith(t.ctx, t.client) }, err
}
