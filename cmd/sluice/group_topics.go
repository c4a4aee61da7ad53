package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// topicFlags choose partitions.
type topicFlags struct {
	Topic     []topicPartitions `sep:"none" placeholder:"TOPIC[:P,...]" help:"A topic, or only these partitions of it; may be repeated."`
	AllTopics bool              `help:"Every partition that the group has an offset for."`
}

// check wants one of the two flags.
func (f *topicFlags) check() error {
	if (len(f.Topic) > 0) == f.AllTopics {
		return errors.New("say which offsets: either --topic TOPIC[:P,...] or --all-topics")
	}
	return nil
}

// topicPartitions is TOPIC or TOPIC:P,P,...; without partitions it means all.
type topicPartitions struct {
	topic      string
	partitions []int32
}

// UnmarshalText splits at the colon; a topic name holds none.
func (t *topicPartitions) UnmarshalText(text []byte) error {
	name, list, some := strings.Cut(string(text), ":")
	if name == "" {
		return fmt.Errorf("%q names no topic", text)
	}
	t.topic, t.partitions = name, nil
	if !some {
		return nil
	}
	for part := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not of the form TOPIC:P,P,... with partition numbers", text)
		}
		t.partitions = append(t.partitions, int32(n))
	}
	return nil
}

// committed chooses among the partitions that a group has offsets for.
func (f *topicFlags) committed(group string, offsets kadm.OffsetResponses) (kadm.TopicsSet, error) {
	if f.AllTopics {
		if len(offsets) == 0 {
			return nil, fmt.Errorf("group %s has no offsets", group)
		}
		return offsets.Partitions(), nil
	}
	wanted := kadm.TopicsSet{}
	for _, t := range f.Topic {
		if len(offsets[t.topic]) == 0 {
			return nil, fmt.Errorf("group %s has no offsets for topic %s", group, t.topic)
		}
		for _, p := range t.partitions {
			if _, ok := offsets.Lookup(t.topic, p); !ok {
				return nil, fmt.Errorf("group %s has no offset for partition %d of topic %s", group, p, t.topic)
			}
		}
		wanted.Add(t.topic, t.partitions...)
		if len(t.partitions) == 0 {
			for p := range offsets[t.topic] {
				wanted.Add(t.topic, p)
			}
		}
	}
	return wanted, nil
}

// existing chooses among the partitions of the topics that the flags name.
func (f *topicFlags) existing(ctx context.Context, admin *kadm.Client) (kadm.TopicsSet, error) {
	wanted := kadm.TopicsSet{}
	for _, t := range f.Topic {
		detail, err := topicDetail(ctx, admin, t.topic)
		if err != nil {
			return nil, err
		}
		all := detail.Partitions.Numbers()
		for _, p := range t.partitions {
			if !slices.Contains(all, p) {
				return nil, fmt.Errorf("topic %s has no partition %d; it has %d partitions, from 0 on", t.topic, p, len(all))
			}
		}
		wanted.Add(t.topic, t.partitions...)
		if len(t.partitions) == 0 {
			wanted.Add(t.topic, all...)
		}
	}
	return wanted, nil
}
