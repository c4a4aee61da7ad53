// Package reader is what a consumer tells that is led through something while it reads: on its standard output, one line each time.
//
//	assigned TOPIC PARTITION                   it has the partition; kafkajs tells all that it has after each rebalance
//	revoked TOPIC PARTITION                    not of kafkajs
//	read TOPIC PARTITION OFFSET BYTES          a record, and how long its value is
//	committed TOPIC PARTITION OFFSET           the offset of the next record; the commit was acknowledged
//
// It obeys the lines of its standard input, and leaves its group at their end:
//
//	pause TOPIC PARTITION
//	resume TOPIC PARTITION
//	seek TOPIC PARTITION OFFSET
//
// A reader is started with HOST:PORT GROUP TOPIC PROTOCOL [key=value ...]. A TOPIC that begins with ^ is a pattern; the settings have the names of Apache
// Kafka's own consumer. It commits what it has said that it read, and knows a new topic that its pattern fits after a second.
package reader

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Run is a reader with franz-go.
func Run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) < 4 {
		return fmt.Errorf("bad arguments %q", args)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options, err := options(args, out)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(in); lines.Scan(); {
			obey(client, strings.Fields(lines.Text()))
		}
	}()
	for ctx.Err() == nil {
		polled := client.PollRecords(ctx, 50)
		polled.EachRecord(func(r *kgo.Record) { fmt.Fprintln(out, "read", r.Topic, r.Partition, r.Offset, len(r.Value)) })
		if client.CommitUncommittedOffsets(ctx) == nil {
			polled.EachPartition(func(p kgo.FetchTopicPartition) {
				if n := len(p.Records); n > 0 {
					fmt.Fprintln(out, "committed", p.Topic, p.Partition, p.Records[n-1].Offset+1)
				}
			})
		}
		client.AllowRebalance()
	}
	return nil
}

// numbers are the settings that are one number to franz-go.
var numbers = map[string]func(int) kgo.Opt{
	"fetch.min.bytes":           func(n int) kgo.Opt { return kgo.FetchMinBytes(int32(n)) },
	"fetch.max.bytes":           func(n int) kgo.Opt { return kgo.FetchMaxBytes(int32(n)) },
	"max.partition.fetch.bytes": func(n int) kgo.Opt { return kgo.FetchMaxPartitionBytes(int32(n)) },
	"fetch.max.wait.ms":         func(n int) kgo.Opt { return kgo.FetchMaxWait(time.Duration(n) * time.Millisecond) },
	"session.timeout.ms":        func(n int) kgo.Opt { return kgo.SessionTimeout(time.Duration(n) * time.Millisecond) },
	"heartbeat.interval.ms":     func(n int) kgo.Opt { return kgo.HeartbeatInterval(time.Duration(n) * time.Millisecond) },
}

func options(args []string, out io.Writer) ([]kgo.Opt, error) {
	list := []kgo.Opt{
		kgo.SeedBrokers(args[0]), kgo.ConsumerGroup(args[1]), kgo.ConsumeTopics(args[2]), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.MetadataMaxAge(time.Second), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(say(out, "assigned")), kgo.OnPartitionsRevoked(say(out, "revoked")), kgo.OnPartitionsLost(say(out, "revoked")),
	}
	if strings.HasPrefix(args[2], "^") {
		list = append(list, kgo.ConsumeRegex())
	}
	if args[3] == "consumer" {
		list = append(list, kgo.ServerSideBalancer())
	}
	for _, s := range args[4:] {
		key, value, _ := strings.Cut(s, "=")
		option, err := option(key, value)
		if err != nil {
			return nil, err
		}
		list = append(list, option)
	}
	return list, nil
}

func option(key, value string) (kgo.Opt, error) {
	switch key {
	case "group.instance.id":
		return kgo.InstanceID(value), nil
	case "client.id":
		return kgo.ClientID(value), nil
	case "isolation.level":
		if value == "read_committed" {
			return kgo.FetchIsolationLevel(kgo.ReadCommitted()), nil
		}
		return kgo.FetchIsolationLevel(kgo.ReadUncommitted()), nil
	}
	n, err := strconv.Atoi(value)
	if numbers[key] == nil || err != nil {
		return nil, fmt.Errorf("bad setting %s=%s", key, value)
	}
	return numbers[key](n), nil
}

func say(out io.Writer, what string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, lists map[string][]int32) {
		for topic, partitions := range lists {
			for _, p := range partitions {
				fmt.Fprintln(out, what, topic, p)
			}
		}
	}
}

// obey carries out a line; one that is wrong is the driver's mistake, and shows in what it misses then.
func obey(client *kgo.Client, words []string) {
	if len(words) < 3 {
		return
	}
	n, _ := strconv.Atoi(words[2])
	where := map[string][]int32{words[1]: {int32(n)}}
	switch words[0] {
	case "pause":
		client.PauseFetchPartitions(where)
	case "resume":
		client.ResumeFetchPartitions(where)
	case "seek":
		offset, _ := strconv.ParseInt(words[3], 10, 64)
		client.SetOffsets(map[string]map[int32]kgo.EpochOffset{words[1]: {int32(n): {Epoch: -1, Offset: offset}}})
	}
}
