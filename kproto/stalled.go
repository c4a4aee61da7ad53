package kproto

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// StalledTag numbers a tagged field (KIP-482) of ours in the members of DescribeGroups (version 5 on) and
// ConsumerGroupDescribe responses. It is there for members that are stalled, and says so: an array of
//
//	topic        COMPACT_STRING
//	partition    INT32
//	idle_ms      INT64    since the member last read the partition
//	backlog      INT64    records that wait
//
// Clients pass over tags that they do not know. Kafka numbers its own from 0.
const StalledTag = 10_100

// Stalled is a partition that a group's member owns and does not read.
type Stalled struct {
	Topic     string
	Partition int32
	IdleMs    int64
	Backlog   int64
}

// SetStalled puts the field among a member's tags.
func SetStalled(tags *kmsg.Tags, list []Stalled) {
	b := kbin.AppendCompactArrayLen(nil, len(list))
	for _, s := range list {
		b = kbin.AppendCompactString(b, s.Topic)
		b = kbin.AppendInt32(b, s.Partition)
		b = kbin.AppendInt64(b, s.IdleMs)
		b = kbin.AppendInt64(b, s.Backlog)
	}
	tags.Set(StalledTag, b)
}

// GetStalled reads the field from a member's tags; nil when it is not there, or is not sound.
func GetStalled(tags *kmsg.Tags) (list []Stalled) {
	tags.Each(func(tag uint32, value []byte) {
		if tag != StalledTag {
			return
		}
		r := kbin.Reader{Src: value}
		for range r.CompactArrayLen() {
			list = append(list, Stalled{r.CompactString(), r.Int32(), r.Int64(), r.Int64()})
			if !r.Ok() {
				break
			}
		}
		if r.Complete() != nil {
			list = nil
		}
	})
	return list
}
