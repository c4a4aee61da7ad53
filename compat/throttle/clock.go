package main

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clockSet sets the broker's wall clock by a month, forward and back, while a consumer reads: limits and sessions count on the monotonic clock, and nothing is deleted.
func clockSet(t *trial, client string) error {
	p, begin, err := t.begin(client, 1, 1200, tenASecond, nil)
	if err != nil {
		return err
	}
	for _, ahead := range []time.Duration{30 * 24 * time.Hour, -30 * 24 * time.Hour, time.Second, 0} {
		before := time.Now()
		if err := t.broker.ShiftClock(ahead); err != nil {
			return err
		}
		stamped, err := t.brokerTime()
		if err != nil {
			return err
		}
		if off := stamped.Sub(before) - ahead; off < -time.Second || off > time.Second {
			return errors.New("the broker's clock was not set")
		}
		if err := t.wait(time.Now().Add(4 * time.Second)); err != nil {
			return err
		}
	}
	return errors.Join(t.count("messages", p, 0, begin, 2*habitTime, 2*tenths, limit, limit), near("assignments", len(p.all("assigned")), 1, 0))
}

// brokerTime is the broker's wall clock, which it gives to a record as its timestamp.
func (t *trial) brokerTime() (time.Time, error) {
	err := t.topic("clock", 1, "message.timestamp.type=LogAppendTime")
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return time.Time{}, err
	}
	r := &kgo.Record{Topic: "clock"}
	if err := t.put(r); err != nil {
		return time.Time{}, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(t.broker.Address), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"clock": {0: kgo.NewOffset().At(r.Offset)}}))
	if err != nil {
		return time.Time{}, err
	}
	defer client.Close()
	read := client.PollFetches(t.ctx)
	for _, r := range read.Records() {
		return r.Timestamp, nil
	}
	return time.Time{}, errors.Join(errors.New("the record was not read"), read.Err())
}
