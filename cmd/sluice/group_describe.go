package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

type groupDescribeCmd struct {
	clientFlags `embed:""`
	outputFlag  `embed:""`

	Groups []string `arg:"" name:"group" help:"Names of the groups."`
}

// groupDescription is one group of `group describe -o json`.
type groupDescription struct {
	Group        string        `json:"group"`
	State        string        `json:"state"`
	Type         string        `json:"type"` // classic or consumer
	ProtocolType string        `json:"protocol_type"`
	Assignor     string        `json:"assignor"`
	Coordinator  int32         `json:"coordinator"`
	Members      []groupMember `json:"members"`
	Offsets      []groupOffset `json:"offsets"`
}

// groupMember is one member. A static member has an instance id (KIP-345).
type groupMember struct {
	ID         string             `json:"id"`
	InstanceID *string            `json:"instance_id"`
	ClientID   string             `json:"client_id"`
	Host       string             `json:"host"`
	Assignment []memberAssignment `json:"assignment"`
	Stalled    []stalledPartition `json:"stalled"`
}

// memberAssignment is what a member has of one topic.
type memberAssignment struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

// Run prints each group.
func (c *groupDescribeCmd) Run(ctx context.Context, s *streams) error {
	client, err := c.connect(ctx, s, lagOptions()...)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	described, err := describeMembers(ctx, admin, c.Groups)
	if err != nil {
		return explain("group describe", err, "")
	}
	groups := []groupDescription{}
	for _, name := range c.Groups {
		g, ok := described[name]
		if !ok || g.State == stateDead {
			return errNoGroup(name)
		}
		if g.Offsets, err = describeOffsets(ctx, admin, &g); err != nil {
			return err
		}
		groups = append(groups, g)
	}
	addStalled(ctx, client, groups)
	addLagTimes(ctx, client, groups)
	return c.print(s.out, groups, func(w io.Writer) {
		for i := range groups {
			if i > 0 {
				fmt.Fprintln(w)
			}
			groups[i].table(w)
		}
	})
}

// describeMembers asks for the state and the members of groups of both protocols, by name. A group that is not there is Dead.
func describeMembers(ctx context.Context, admin *kadm.Client, names []string) (map[string]groupDescription, error) {
	all := map[string]groupDescription{}
	if len(names) == 0 {
		return all, nil
	}
	// A broker without the consumer protocol refuses this request: then all groups are classic.
	consumers, _ := admin.DescribeConsumerGroups(ctx, names...)
	for name, g := range consumers {
		if g.Err == nil {
			all[name] = describeConsumer(g)
		}
	}
	classic := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, ok := all[name]; return ok })
	if len(classic) == 0 {
		return all, nil
	}
	described, err := admin.DescribeGroups(ctx, classic...)
	if err != nil {
		return nil, err
	}
	for name, g := range described {
		if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) {
			return nil, explain("group "+name, g.Err, g.ErrMessage)
		}
		all[name] = describeClassic(g)
	}
	return all, nil
}

func describeConsumer(g kadm.DescribedConsumerGroup) groupDescription {
	d := groupDescription{
		Group: g.Group, State: g.State, Type: "consumer", ProtocolType: "consumer", Assignor: g.AssignorName,
		Coordinator: g.Coordinator.NodeID, Members: []groupMember{},
	}
	for _, m := range g.Members {
		d.Members = append(d.Members, groupMember{m.MemberID, m.InstanceID, m.ClientID, m.ClientHost, assignmentOf(m.Assignment), []stalledPartition{}})
	}
	return d
}

func describeClassic(g kadm.DescribedGroup) groupDescription {
	d := groupDescription{
		Group: g.Group, State: g.State, Type: "classic", ProtocolType: g.ProtocolType, Assignor: g.Protocol,
		Coordinator: g.Coordinator.NodeID, Members: []groupMember{},
	}
	for _, m := range g.Members {
		assigned := kadm.TopicsSet{}
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range a.Topics {
				assigned.Add(t.Topic, t.Partitions...)
			}
		}
		d.Members = append(d.Members, groupMember{m.MemberID, m.InstanceID, m.ClientID, m.ClientHost, assignmentOf(assigned), []stalledPartition{}})
	}
	return d
}

func assignmentOf(assigned kadm.TopicsSet) []memberAssignment {
	list := []memberAssignment{}
	for _, topic := range slices.Sorted(maps.Keys(assigned)) {
		list = append(list, memberAssignment{topic, slices.Sorted(maps.Keys(assigned[topic]))})
	}
	return list
}

func (g *groupDescription) table(w io.Writer) {
	fmt.Fprintf(w, "group %s, state %s, type %s, assignor %s, coordinator %d\n", g.Group, g.State, orDash(g.Type), orDash(g.Assignor), g.Coordinator)
	if len(g.Members) > 0 {
		row(w, "MEMBER", "INSTANCE", "CLIENT", "HOST", "ASSIGNMENT")
		for _, m := range g.Members {
			row(w, m.ID, known(m.InstanceID), m.ClientID, m.Host, m.assignment())
		}
		fmt.Fprintln(w) // an empty line lets the columns below align by themselves
	}
	row(w, "TOPIC", "PARTITION", "CURRENT", "END", "LAG", "LAG-SECONDS", "MEMBER")
	for _, o := range g.Offsets {
		row(w, o.Topic, o.Partition, known(o.Current), known(o.End), known(o.Lag), o.lagSeconds(), known(o.Member))
	}
	g.stalledText(w)
}

// assignment prints partitions as --topic takes them: "orders:0,1 audit:0".
func (m *groupMember) assignment() string {
	var texts []string
	for _, a := range m.Assignment {
		texts = append(texts, a.Topic+":"+strings.ReplaceAll(strings.Trim(fmt.Sprint(a.Partitions), "[]"), " ", ","))
	}
	return orDash(strings.Join(texts, " "))
}
