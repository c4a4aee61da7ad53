package main

import (
	"context"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// lagTimeLimit bounds the search for the times of the records that groups have to read next: a dash is better than to
	// wait for a partition that does not answer.
	lagTimeLimit = 5 * time.Second
	// lagFetchBytes is what is asked of a partition to see the time of one record. It is enough for most batches, so
	// that one request serves many partitions; a larger batch comes whole, one to a request (KIP-74).
	lagFetchBytes = 16 << 10
)

// groupOffset is what a group has read of a partition. Current is the committed offset, the next to be read, and Lag the
// number of offsets from there to the end. LagSeconds is the time since the record at Current was written, by that
// record's timestamp; 0 when nothing is left to read. What is not known is null.
type groupOffset struct {
	Topic      string   `json:"topic"`
	Partition  int32    `json:"partition"`
	Current    *int64   `json:"current_offset"`
	End        *int64   `json:"end_offset"`
	Lag        *int64   `json:"lag"`
	LagSeconds *float64 `json:"lag_seconds"`
	Member     *string  `json:"member"`

	start int64 // of the partition
}

// describeOffsets shows the partitions that are assigned or committed, in order.
func describeOffsets(ctx context.Context, admin *kadm.Client, g *groupDescription) ([]groupOffset, error) {
	committed, err := committedOffsets(ctx, admin, g.Group)
	if err != nil {
		return nil, err
	}
	shown := committed.Partitions()
	owners := map[string]map[int32]string{}
	for _, m := range g.Members {
		for _, a := range m.Assignment {
			if owners[a.Topic] == nil {
				owners[a.Topic] = map[int32]string{}
			}
			for _, p := range a.Partitions {
				owners[a.Topic][p] = m.ID
				shown.Add(a.Topic, p)
			}
		}
	}
	offsets := []groupOffset{}
	if len(shown) == 0 {
		return offsets, nil
	}
	starts, ends, err := logBounds(ctx, admin, shown.Topics())
	if err != nil {
		return nil, explain("group "+g.Group, err, "")
	}
	for _, t := range shown.Sorted() {
		for _, p := range t.Partitions {
			o := groupOffset{Topic: t.Topic, Partition: p}
			if c, ok := committed.Lookup(t.Topic, p); ok {
				o.Current = &c.At
			}
			if end, ok := ends.Lookup(t.Topic, p); ok && end.Err == nil {
				o.End, o.start = &end.Offset, starts[t.Topic][p].Offset
			}
			if owner, ok := owners[t.Topic][p]; ok {
				o.Member = &owner
			}
			o.setLag()
			offsets = append(offsets, o)
		}
	}
	return offsets, nil
}

// logBounds lists the first and the next offset of topics. Partitions that cannot tell carry errors; a topic that is
// gone is not there.
func logBounds(ctx context.Context, admin *kadm.Client, topics []string) (starts, ends kadm.ListedOffsets, err error) {
	if starts, err = admin.ListStartOffsets(ctx, topics...); err != nil {
		return nil, nil, err
	}
	ends, err = admin.ListEndOffsets(ctx, topics...)
	return starts, ends, err
}

// setLag works out the records to read; an offset beyond the end, of a topic that was made anew, has none.
func (o *groupOffset) setLag() {
	if o.Current == nil || o.End == nil {
		return
	}
	lag := max(0, *o.End-*o.Current)
	o.Lag = &lag
	if lag == 0 {
		o.LagSeconds = new(float64)
	}
}

// setLagTime works out the time since the next record was written. A clock that goes ahead of ours makes it 0.
func (o *groupOffset) setLagTime(written, now time.Time) {
	seconds := max(0, now.Sub(written).Round(time.Millisecond).Seconds())
	o.LagSeconds = &seconds
}

func (o *groupOffset) lagSeconds() string {
	if o.LagSeconds == nil {
		return "-"
	}
	return strconv.FormatFloat(*o.LagSeconds, 'f', -1, 64)
}

// lagOptions are for a client that reads one record of each partition, a transaction's marker too. It has a client id of its
// own, lest it be taken for a member of the group that it looks at.
func lagOptions() []kgo.Opt {
	return []kgo.Opt{kgo.ClientID("sluice-cli-lag"), kgo.KeepControlRecords(), kgo.FetchMaxPartitionBytes(lagFetchBytes)}
}

// partition names a partition of a topic.
type partition struct {
	topic  string
	number int32
}

// addLagTimes reads the record at each committed offset, or the first after it that is still there. Several groups may
// stand at different offsets of a partition, so one group is looked up after the other.
func addLagTimes(ctx context.Context, client *kgo.Client, groups []groupDescription) {
	ctx, cancel := context.WithTimeout(ctx, lagTimeLimit)
	defer cancel()
	for _, g := range groups {
		at := map[partition]int64{}
		for _, o := range g.Offsets {
			if o.Lag != nil && *o.Lag > 0 {
				at[partition{o.Topic, o.Partition}] = max(*o.Current, o.start)
			}
		}
		times := recordTimes(ctx, client, at)
		for i := range g.Offsets {
			o := &g.Offsets[i]
			if written, ok := times[partition{o.Topic, o.Partition}]; ok {
				o.setLagTime(written, time.Now())
			}
		}
	}
}

// recordTimes reads the timestamps of the records at the given offsets. What cannot be read before ctx ends is missing.
func recordTimes(ctx context.Context, client *kgo.Client, at map[partition]int64) map[partition]time.Time {
	times := map[partition]time.Time{}
	starts := map[string]map[int32]kgo.Offset{}
	for p, offset := range at {
		if starts[p.topic] == nil {
			starts[p.topic] = map[int32]kgo.Offset{}
		}
		starts[p.topic][p.number] = kgo.NewOffset().At(offset)
	}
	client.AddConsumePartitions(starts)
	for left := len(at); left > 0; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return times
		}
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			p := partition{f.Topic, f.Partition}
			if _, asked := at[p]; !asked || f.Err == nil && len(f.Records) == 0 {
				return
			}
			if f.Err == nil {
				times[p] = f.Records[0].Timestamp
			}
			delete(at, p)
			left--
			client.RemoveConsumePartitions(map[string][]int32{p.topic: {p.number}})
		})
	}
	return times
}
