package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// stalledMembers are the partitions that members do not read although records wait, by group and member. Only sluice tells;
// from another broker, or when it does not answer, there are none.
type stalledMembers map[string]map[string][]kproto.Stalled

// addStalled notes at each offset how long its member has not read.
func addStalled(ctx context.Context, client *kgo.Client, groups []groupDescription) {
	all := stalledMembers{}
	var classic, consumer []string
	for _, g := range groups {
		if g.Type == "consumer" {
			consumer = append(consumer, g.Group)
		} else {
			classic = append(classic, g.Group)
		}
	}
	describe, describeConsumers := kmsg.NewPtrDescribeGroupsRequest(), kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Groups, describeConsumers.Groups = classic, consumer
	all.ask(ctx, client, describe, len(classic))
	all.ask(ctx, client, describeConsumers, len(consumer))
	for i := range groups {
		groups[i].setStalled(all[groups[i].Group])
	}
}

func (all stalledMembers) ask(ctx context.Context, client *kgo.Client, q kmsg.Request, groups int) {
	if groups == 0 {
		return
	}
	for _, shard := range client.RequestSharded(ctx, q) {
		switch r := shard.Resp.(type) {
		case *kmsg.DescribeGroupsResponse:
			for _, g := range r.Groups {
				for i := range g.Members {
					all.take(g.Group, g.Members[i].MemberID, &g.Members[i].UnknownTags)
				}
			}
		case *kmsg.ConsumerGroupDescribeResponse:
			for _, g := range r.Groups {
				for i := range g.Members {
					all.take(g.Group, g.Members[i].MemberID, &g.Members[i].UnknownTags)
				}
			}
		}
	}
}

func (all stalledMembers) take(group, member string, tags *kmsg.Tags) {
	list := kproto.GetStalled(tags)
	if len(list) == 0 {
		return
	}
	if all[group] == nil {
		all[group] = map[string][]kproto.Stalled{}
	}
	all[group][member] = list
}

func (g *groupDescription) setStalled(members map[string][]kproto.Stalled) {
	for i := range g.Members {
		m := &g.Members[i]
		for _, s := range members[m.ID] {
			seconds := (time.Duration(s.IdleMs) * time.Millisecond).Seconds()
			m.Stalled = append(m.Stalled, stalledPartition{s.Topic, s.Partition, seconds, s.Backlog})
		}
	}
}

// stalledPartition is a partition that its member has not read for IdleSeconds, longer than its poll interval, although
// Backlog records wait.
type stalledPartition struct {
	Topic       string  `json:"topic"`
	Partition   int32   `json:"partition"`
	IdleSeconds float64 `json:"idle_seconds"`
	Backlog     int64   `json:"backlog"`
}

// stalledText prints a line for each stalled member, behind an empty line.
func (g *groupDescription) stalledText(w io.Writer) {
	first := true
	for _, m := range g.Members {
		if len(m.Stalled) == 0 {
			continue
		}
		if first {
			fmt.Fprintln(w)
			first = false
		}
		var texts []string
		longest := 0.0
		for _, p := range m.Stalled {
			texts = append(texts, fmt.Sprintf("%s:%d (%d to read)", p.Topic, p.Partition, p.Backlog))
			longest = max(longest, p.IdleSeconds)
		}
		idle := time.Duration(longest * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(w, "STALLED: member %s sends heartbeats but has not read for up to %s: %s\n", m.ID, idle, strings.Join(texts, ", "))
	}
}
