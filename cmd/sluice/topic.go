package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

type topicCmd struct {
	Create   topicCreateCmd   `cmd:"" help:"Create topics."`
	List     topicListCmd     `cmd:"" aliases:"ls" help:"List the topics."`
	Describe topicDescribeCmd `cmd:"" help:"Show the partitions, offsets and configs of topics."`
	Alter    topicAlterCmd    `cmd:"" help:"Add partitions to topics and change their configs."`
	Delete   topicDeleteCmd   `cmd:"" aliases:"rm" help:"Delete topics and their records."`
}

// keyValue is a KEY=VALUE argument. The value may hold further equals signs.
type keyValue struct{ key, value string }

// UnmarshalText splits at the first equals sign.
func (kv *keyValue) UnmarshalText(text []byte) error {
	key, value, ok := strings.Cut(string(text), "=")
	if !ok || key == "" {
		return fmt.Errorf("%q is not of the form KEY=VALUE", text)
	}
	*kv = keyValue{key, value}
	return nil
}

type topicCreateCmd struct {
	clientFlags `embed:""`

	Topics            []string   `arg:"" name:"topic" help:"Names of the topics."`
	Partitions        int32      `short:"p" default:"-1" placeholder:"N" help:"Number of partitions (default: the broker's num.partitions)."`
	ReplicationFactor int16      `default:"-1" placeholder:"N" help:"Number of replicas (default: the broker's)."`
	Config            []keyValue `short:"c" sep:"none" placeholder:"KEY=VALUE" help:"Topic config, such as retention.ms=86400000; may be repeated."`
	IfNotExists       bool       `help:"Accept a topic that exists already, as it is."`
}

// Validate refuses counts that no broker accepts.
func (c *topicCreateCmd) Validate() error {
	if c.Partitions < 1 && c.Partitions != -1 {
		return errors.New("--partitions must be at least 1")
	}
	if c.ReplicationFactor < 1 && c.ReplicationFactor != -1 {
		return errors.New("--replication-factor must be at least 1")
	}
	return nil
}

// Run creates every topic, and fails if one of them could not be created.
func (c *topicCreateCmd) Run(ctx context.Context, s *streams) error {
	admin, err := c.connectAdmin(ctx, s)
	if err != nil {
		return err
	}
	defer admin.Close()
	configs := make(map[string]*string, len(c.Config))
	for _, kv := range c.Config {
		configs[kv.key] = &kv.value
	}
	responses, err := admin.CreateTopics(ctx, c.Partitions, c.ReplicationFactor, configs, c.Topics...)
	if err != nil {
		return explain("topic create", err, "")
	}
	return eachResponse(responses, func(r kadm.CreateTopicResponse) error {
		if c.IfNotExists && errors.Is(r.Err, kerr.TopicAlreadyExists) {
			fmt.Fprintf(s.out, "topic %s exists already\n", r.Topic)
			return nil
		}
		if r.Err == nil {
			fmt.Fprintf(s.out, "created topic %s\n", r.Topic)
		}
		return explain("topic "+r.Topic, r.Err, r.ErrMessage)
	})
}

// eachResponse handles the responses of a request about several topics in the order of their names, and joins the
// errors: one topic's failure does not hide another's.
func eachResponse[R any](responses map[string]R, handle func(R) error) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(responses)) {
		errs = append(errs, handle(responses[name]))
	}
	return errors.Join(errs...)
}

type topicDeleteCmd struct {
	clientFlags `embed:""`

	Topics   []string `arg:"" name:"topic" help:"Names of the topics."`
	IfExists bool     `help:"Accept a topic that does not exist."`
}

// Run deletes every topic, and fails if one of them could not be deleted.
func (c *topicDeleteCmd) Run(ctx context.Context, s *streams) error {
	admin, err := c.connectAdmin(ctx, s)
	if err != nil {
		return err
	}
	defer admin.Close()
	responses, err := admin.DeleteTopics(ctx, c.Topics...)
	if err != nil {
		return explain("topic delete", err, "")
	}
	return eachResponse(responses, func(r kadm.DeleteTopicResponse) error {
		if c.IfExists && errors.Is(r.Err, kerr.UnknownTopicOrPartition) {
			fmt.Fprintf(s.out, "topic %s does not exist\n", r.Topic)
			return nil
		}
		if r.Err == nil {
			fmt.Fprintf(s.out, "deleted topic %s\n", r.Topic)
		}
		return explain("topic "+r.Topic, r.Err, r.ErrMessage)
	})
}

type topicAlterCmd struct {
	clientFlags `embed:""`

	Topics     []string   `arg:"" name:"topic" help:"Names of the topics."`
	Partitions int        `short:"p" placeholder:"N" help:"New number of partitions; it can only grow."`
	Set        []keyValue `short:"s" sep:"none" placeholder:"KEY=VALUE" help:"Set a config; may be repeated."`
	Unset      []string   `short:"u" placeholder:"KEY" help:"Give a config its default back; may be repeated."`
}

// Validate wants something to do.
func (c *topicAlterCmd) Validate() error {
	if c.Partitions == 0 && len(c.Set) == 0 && len(c.Unset) == 0 {
		return errors.New("nothing to alter: give --partitions, --set or --unset")
	}
	if c.Partitions < 0 {
		return errors.New("--partitions must be at least 1")
	}
	return nil
}

// Run changes the configs first: unlike new partitions, they can be taken back.
func (c *topicAlterCmd) Run(ctx context.Context, s *streams) error {
	admin, err := c.connectAdmin(ctx, s)
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := c.alterConfigs(ctx, s, admin); err != nil {
		return err
	}
	return c.addPartitions(ctx, s, admin)
}

func (c *topicAlterCmd) alterConfigs(ctx context.Context, s *streams, admin *kadm.Client) error {
	changes := c.changes()
	if len(changes) == 0 {
		return nil
	}
	responses, err := admin.AlterTopicConfigs(ctx, changes, c.Topics...)
	if err != nil {
		return explain("topic alter", err, "")
	}
	slices.SortFunc(responses, func(a, b kadm.AlterConfigsResponse) int { return cmp.Compare(a.Name, b.Name) })
	var errs []error
	for _, r := range responses {
		if r.Err == nil {
			fmt.Fprintf(s.out, "altered the configs of topic %s\n", r.Name)
		}
		errs = append(errs, explain("topic "+r.Name, r.Err, r.ErrMessage))
	}
	return errors.Join(errs...)
}

func (c *topicAlterCmd) changes() []kadm.AlterConfig {
	var changes []kadm.AlterConfig
	for _, kv := range c.Set {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: kv.key, Value: &kv.value})
	}
	for _, key := range c.Unset {
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key})
	}
	return changes
}

func (c *topicAlterCmd) addPartitions(ctx context.Context, s *streams, admin *kadm.Client) error {
	if c.Partitions == 0 {
		return nil
	}
	responses, err := admin.UpdatePartitions(ctx, c.Partitions, c.Topics...)
	if err != nil {
		return explain("topic alter", err, "")
	}
	return eachResponse(responses, func(r kadm.CreatePartitionsResponse) error {
		if r.Err == nil {
			fmt.Fprintf(s.out, "topic %s has %d partitions\n", r.Topic, c.Partitions)
		}
		return explain("topic "+r.Topic, r.Err, r.ErrMessage)
	})
}

type topicListCmd struct {
	clientFlags `embed:""`
	outputFlag  `embed:""`

	Internal bool `help:"Show internal topics too."`
}

// topicListing is one topic of `topic list -o json`.
type topicListing struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Partitions int    `json:"partitions"`
	Internal   bool   `json:"internal"`
}

// Run prints the topics in the order of their names.
func (c *topicListCmd) Run(ctx context.Context, s *streams) error {
	admin, err := c.connectAdmin(ctx, s)
	if err != nil {
		return err
	}
	defer admin.Close()
	details, err := admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return explain("topic list", err, "")
	}
	topics := []topicListing{}
	for _, d := range details.Sorted() {
		if d.IsInternal && !c.Internal {
			continue
		}
		topics = append(topics, topicListing{d.Topic, topicID(d.ID), len(d.Partitions), d.IsInternal})
	}
	return c.print(s.out, topics, func(w io.Writer) {
		row(w, "TOPIC", "PARTITIONS", "ID")
		for _, t := range topics {
			row(w, t.Name, t.Partitions, t.ID)
		}
	})
}

// topicID prints a topic id as Kafka's tools do: 22 characters of URL-safe base64.
func topicID(id kadm.TopicID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }
