package catalog

import (
	"encoding/json"
	"errors"
	"fmt"

	"sluice/internal/machine"
	"sluice/kproto"
)

// version is the v of the values that are written, and the only one that is read.
const version = 1

// Keys, and beginnings of keys.
const (
	keyCluster     = "cluster"
	keyEpoch       = "epoch"
	keyProducerIDs = "producer-ids"
	prefixTopic    = "topic/"
	prefixConfig   = "config/"
	prefixQuota    = "quota/"
)

type (
	clusterValue struct {
		V  int    `json:"v"`
		ID string `json:"id"`
	}
	epochValue struct {
		V     int   `json:"v"`
		Epoch int32 `json:"epoch"`
	}
	producerIDsValue struct {
		V    int   `json:"v"`
		Next int64 `json:"next"` // the lowest id not handed out
	}
	topicValue struct {
		V          int               `json:"v"`
		Name       string            `json:"name"`
		Partitions int32             `json:"partitions"`
		Internal   bool              `json:"internal,omitempty"`
		Deleted    bool              `json:"deleted,omitempty"`
		Config     map[string]string `json:"config,omitempty"`
	}
	configValue struct {
		V      int               `json:"v"`
		Values map[string]string `json:"values"`
	}
)

func clusterRecord(id string) machine.Record { return record(keyCluster, clusterValue{version, id}) }

func epochRecord(epoch int32) machine.Record { return record(keyEpoch, epochValue{version, epoch}) }

func producerIDsRecord(next int64) machine.Record {
	return record(keyProducerIDs, producerIDsValue{version, next})
}

func topicRecord(t Topic) machine.Record {
	return record(topicKey(t.ID), topicValue{version, t.Name, t.Partitions, t.Internal, false, t.Config})
}

func deletionRecord(t Topic) machine.Record {
	return record(topicKey(t.ID), topicValue{version, t.Name, t.Partitions, t.Internal, true, nil})
}

func topicTombstone(id kproto.TopicID) machine.Record { return tombstone(topicKey(id)) }

func configRecord(r resource, values map[string]string) machine.Record {
	if len(values) == 0 {
		return tombstone(r.key())
	}
	return record(r.key(), configValue{version, values})
}

func topicKey(id kproto.TopicID) string { return prefixTopic + id.String() }

func tombstone(key string) machine.Record { return machine.Record{Key: []byte(key)} }

func record(key string, value any) machine.Record {
	b, err := json.Marshal(value)
	if err != nil {
		panic(err) // the values above always have a JSON form
	}
	return machine.Record{Key: []byte(key), Value: b}
}

// decode reads a value that must be there. The version is looked at first: another one may have another shape.
func decode(b []byte, value any) error {
	if b == nil {
		return errors.New("it has no value")
	}
	var head struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return err
	}
	if head.V != version {
		return fmt.Errorf("it has version %d, and this broker reads version %d", head.V, version)
	}
	return json.Unmarshal(b, value)
}
