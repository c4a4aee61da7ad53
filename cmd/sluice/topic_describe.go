package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
)

type topicDescribeCmd struct {
	clientFlags `embed:""`
	outputFlag  `embed:""`

	Topics []string `arg:"" name:"topic" help:"Names of the topics."`
	All    bool     `short:"a" help:"Show the configs that have their default value too."`
}

// topicDescription is one topic of `topic describe -o json`.
type topicDescription struct {
	Name       string                 `json:"name"`
	ID         string                 `json:"id"`
	Internal   bool                   `json:"internal"`
	Partitions []partitionDescription `json:"partitions"`
	Configs    []configDescription    `json:"configs"`
	Disks      []diskDescription      `json:"disks"`
}

// diskDescription is a disk that holds partitions of the topic (KIP-827).
type diskDescription struct {
	Broker      int32  `json:"broker"`
	Directory   string `json:"directory"`
	TotalBytes  int64  `json:"total_bytes"`  // -1 if the broker does not tell
	UsableBytes int64  `json:"usable_bytes"` // likewise
}

// partitionDescription is one partition. EndOffset is the offset of the next record; SizeBytes is -1 if the broker
// does not tell it.
type partitionDescription struct {
	Partition   int32 `json:"partition"`
	Leader      int32 `json:"leader"`
	LeaderEpoch int32 `json:"leader_epoch"`
	StartOffset int64 `json:"start_offset"`
	EndOffset   int64 `json:"end_offset"`
	SizeBytes   int64 `json:"size_bytes"`
}

// configDescription is one config. Value is null when the broker keeps it secret.
type configDescription struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"`
	Source string  `json:"source"`
}

// Run prints what the broker knows about each topic.
func (c *topicDescribeCmd) Run(ctx context.Context, s *streams) error {
	admin, err := c.connectAdmin(ctx, s)
	if err != nil {
		return err
	}
	defer admin.Close()
	topics := []topicDescription{}
	for _, name := range c.Topics {
		topic, err := c.describe(ctx, admin, name)
		if err != nil {
			return err
		}
		topics = append(topics, topic)
	}
	return c.print(s.out, topics, func(w io.Writer) {
		for _, t := range topics {
			t.table(w)
		}
	})
}

func (c *topicDescribeCmd) describe(ctx context.Context, admin *kadm.Client, name string) (topicDescription, error) {
	detail, err := topicDetail(ctx, admin, name)
	if err != nil {
		return topicDescription{}, err
	}
	topic := topicDescription{Name: name, ID: topicID(detail.ID), Internal: detail.IsInternal}
	dirs := logDirs(ctx, admin, detail)
	if topic.Partitions, err = describePartitions(ctx, admin, detail, dirs); err != nil {
		return topicDescription{}, err
	}
	topic.Disks = disks(dirs)
	topic.Configs, err = c.describeConfigs(ctx, admin, name)
	return topic, err
}

// topicDetail asks for the metadata of one topic, and fails if it does not exist.
func topicDetail(ctx context.Context, admin *kadm.Client, name string) (kadm.TopicDetail, error) {
	details, err := admin.ListTopicsWithInternal(ctx, name)
	if err != nil {
		return kadm.TopicDetail{}, explain("topic "+name, err, "")
	}
	detail := details[name]
	return detail, explain("topic "+name, detail.Err, "")
}

func describePartitions(ctx context.Context, admin *kadm.Client, detail kadm.TopicDetail, dirs []kadm.DescribedLogDir) ([]partitionDescription, error) {
	starts, err := admin.ListStartOffsets(ctx, detail.Topic)
	if err != nil {
		return nil, explain("topic "+detail.Topic, err, "")
	}
	ends, err := admin.ListEndOffsets(ctx, detail.Topic)
	if err != nil {
		return nil, explain("topic "+detail.Topic, err, "")
	}
	if err := cmp.Or(starts.Error(), ends.Error()); err != nil {
		return nil, explain("topic "+detail.Topic, err, "")
	}
	sizes := partitionSizes(dirs, detail.Topic)
	partitions := []partitionDescription{}
	for _, p := range detail.Partitions.Sorted() {
		size, ok := sizes[p.Partition]
		if !ok {
			size = -1
		}
		partitions = append(partitions, partitionDescription{
			Partition:   p.Partition,
			Leader:      p.Leader,
			LeaderEpoch: p.LeaderEpoch,
			StartOffset: starts[detail.Topic][p.Partition].Offset,
			EndOffset:   ends[detail.Topic][p.Partition].Offset,
			SizeBytes:   size,
		})
	}
	return partitions, nil
}

// logDirs asks for the directories that hold the topic, in order. There are none when the broker does not tell: sizes are not worth failing for.
func logDirs(ctx context.Context, admin *kadm.Client, detail kadm.TopicDetail) []kadm.DescribedLogDir {
	wanted := kadm.TopicsSet{}
	wanted.Add(detail.Topic, detail.Partitions.Numbers()...)
	described, err := admin.DescribeAllLogDirs(ctx, wanted)
	if err != nil {
		return nil
	}
	return described.Sorted()
}

func partitionSizes(dirs []kadm.DescribedLogDir, topic string) map[int32]int64 {
	sizes := map[int32]int64{}
	for _, dir := range dirs {
		for number, p := range dir.Topics[topic] {
			sizes[number] = p.Size
		}
	}
	return sizes
}

func disks(dirs []kadm.DescribedLogDir) []diskDescription {
	all := []diskDescription{}
	for _, d := range dirs {
		all = append(all, diskDescription{d.Broker, d.Dir, d.TotalBytes, d.UsableBytes})
	}
	return all
}

// describeConfigs lists the configs that differ from their default, or all of them with --all, by name.
func (c *topicDescribeCmd) describeConfigs(ctx context.Context, admin *kadm.Client, name string) ([]configDescription, error) {
	resources, err := admin.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return nil, explain("topic "+name, err, "")
	}
	configs := []configDescription{}
	for _, resource := range resources {
		if resource.Err != nil {
			return nil, explain("topic "+name, resource.Err, resource.ErrMessage)
		}
		for _, config := range resource.Configs {
			source := config.Source.String()
			if c.All || source == "DYNAMIC_TOPIC_CONFIG" {
				configs = append(configs, configDescription{config.Key, config.Value, source})
			}
		}
	}
	slices.SortFunc(configs, func(a, b configDescription) int { return cmp.Compare(a.Name, b.Name) })
	return configs, nil
}

func (t *topicDescription) table(w io.Writer) {
	fmt.Fprintf(w, "topic %s, id %s\n", t.Name, t.ID)
	row(w, "PARTITION", "LEADER", "EPOCH", "START", "END", "SIZE")
	for _, p := range t.Partitions {
		size := "-"
		if p.SizeBytes >= 0 {
			size = byteCount(p.SizeBytes)
		}
		row(w, p.Partition, p.Leader, p.LeaderEpoch, p.StartOffset, p.EndOffset, size)
	}
	for _, d := range t.Disks {
		if d.TotalBytes >= 0 && d.UsableBytes >= 0 {
			fmt.Fprintf(w, "\n%s: %s of %s free\n", d.Directory, byteCount(d.UsableBytes), byteCount(d.TotalBytes))
		}
	}
	if len(t.Configs) == 0 {
		return
	}
	fmt.Fprintln(w) // an empty line lets the columns below align by themselves
	row(w, "CONFIG", "VALUE", "SOURCE")
	for _, c := range t.Configs {
		value := "(secret)"
		if c.Value != nil {
			value = *c.Value
		}
		row(w, c.Name, value, c.Source)
	}
}
