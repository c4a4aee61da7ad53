package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

type groupCmd struct {
	List          groupListCmd          `cmd:"" aliases:"ls" help:"List the consumer groups."`
	Describe      groupDescribeCmd      `cmd:"" help:"Show the members of groups, their offsets and how far they are behind."`
	ResetOffsets  groupResetCmd         `cmd:"" help:"Set the offsets of a group without members."`
	Delete        groupDeleteCmd        `cmd:"" aliases:"rm" help:"Delete groups without members, with their offsets."`
	DeleteOffsets groupDeleteOffsetsCmd `cmd:"" help:"Delete a group's offsets of topics that nobody in it reads."`
}

// Groups are of these types and in these states, as Kafka 4 names them.
var (
	groupTypes  = []string{"classic", "consumer", "share", "streams"}
	groupStates = []string{"Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "NotReady", "Dead"}
)

// stateDead is the state of a group that is not there.
const stateDead = "Dead"

type groupListCmd struct {
	clientFlags `embed:""`
	outputFlag  `embed:""`

	State []string `placeholder:"STATE" help:"Only groups in this state, such as Stable or Empty; may be repeated."`
	Type  []string `placeholder:"TYPE" help:"Only groups of this type: classic or consumer; may be repeated."`
}

// Validate gives the filters Kafka's spelling.
func (c *groupListCmd) Validate() error {
	return errors.Join(spell(c.State, groupStates, "--state"), spell(c.Type, groupTypes, "--type"))
}

// spell replaces each text by the name that it is but for case.
func spell(texts, names []string, flag string) error {
	for i, text := range texts {
		at := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, text) })
		if at < 0 {
			return fmt.Errorf("%s %s is none of: %s", flag, text, strings.Join(names, ", "))
		}
		texts[i] = names[at]
	}
	return nil
}

// groupListing is one group of `group list -o json`. Members is null when the broker does not tell.
type groupListing struct {
	Group        string `json:"group"`
	State        string `json:"state"`
	Type         string `json:"type"`
	ProtocolType string `json:"protocol_type"`
	Members      *int   `json:"members"`
}

// Run prints the groups in the order of their names.
func (c *groupListCmd) Run(ctx context.Context, s *streams) error {
	admin, err := c.connectAdmin(ctx, s)
	if err != nil {
		return err
	}
	defer admin.Close()
	listed, err := admin.ListGroupsByType(ctx, c.Type, c.State...)
	if err != nil {
		return explain("group list", err, "")
	}
	described, err := describeMembers(ctx, admin, listed.Groups())
	if err != nil {
		return explain("group list", err, "")
	}
	groups := []groupListing{}
	for _, l := range listed.Sorted() {
		g := groupListing{Group: l.Group, State: l.State, Type: l.GroupType, ProtocolType: l.ProtocolType}
		if d, ok := described[l.Group]; ok && d.State != stateDead { // ended meanwhile, or of a type that is not described
			members := len(d.Members)
			g.Members = &members
		}
		groups = append(groups, g)
	}
	return c.print(s.out, groups, func(w io.Writer) {
		row(w, "GROUP", "STATE", "TYPE", "PROTOCOL", "MEMBERS")
		for _, g := range groups {
			row(w, g.Group, g.State, orDash(g.Type), orDash(g.ProtocolType), known(g.Members))
		}
	})
}

// known prints what a pointer points to, and a dash for what is not known.
func known[T any](v *T) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// errNoGroup is what is said of a group that is not there.
func errNoGroup(group string) error { return explain("group "+group, kerr.GroupIDNotFound, "") }

type groupDeleteCmd struct {
	clientFlags `embed:""`

	Groups   []string `arg:"" name:"group" help:"Names of the groups."`
	IfExists bool     `help:"Accept a group that does not exist."`
}

// Run deletes every group, and fails if one of them could not be deleted.
func (c *groupDeleteCmd) Run(ctx context.Context, s *streams) error {
	admin, err := c.connectAdmin(ctx, s)
	if err != nil {
		return err
	}
	defer admin.Close()
	responses, err := admin.DeleteGroups(ctx, c.Groups...)
	if err != nil {
		return explain("group delete", err, "")
	}
	return eachResponse(responses, func(r kadm.DeleteGroupResponse) error {
		if c.IfExists && errors.Is(r.Err, kerr.GroupIDNotFound) {
			fmt.Fprintf(s.out, "group %s does not exist\n", r.Group)
			return nil
		}
		if r.Err == nil {
			fmt.Fprintf(s.out, "deleted group %s\n", r.Group)
		}
		return explain("group "+r.Group, r.Err, r.ErrMessage)
	})
}

type groupDeleteOffsetsCmd struct {
	clientFlags `embed:""`
	topicFlags  `embed:""`

	Group string `arg:"" help:"Name of the group."`
}

// Validate wants to know which offsets.
func (c *groupDeleteOffsetsCmd) Validate() error { return c.check() }

// Run deletes the offsets, and fails if one of them could not be deleted.
func (c *groupDeleteOffsetsCmd) Run(ctx context.Context, s *streams) error {
	admin, err := c.connectAdmin(ctx, s)
	if err != nil {
		return err
	}
	defer admin.Close()
	committed, err := committedOffsets(ctx, admin, c.Group)
	if err != nil {
		return err
	}
	wanted, err := c.committed(c.Group, committed)
	if err != nil {
		return err
	}
	responses, err := admin.DeleteOffsets(ctx, c.Group, wanted)
	if err != nil {
		return explain("group "+c.Group, err, "")
	}
	var errs []error
	for _, t := range wanted.Sorted() {
		for _, p := range t.Partitions {
			err, answered := responses.Lookup(t.Topic, p)
			switch {
			case !answered:
				err = errors.New("the broker did not answer for it")
			case err == nil:
				fmt.Fprintf(s.out, "deleted the offset of group %s for partition %d of topic %s\n", c.Group, p, t.Topic)
			}
			errs = append(errs, explain(fmt.Sprintf("partition %d of topic %s", p, t.Topic), err, ""))
		}
	}
	return errors.Join(errs...)
}

// committedOffsets asks for all offsets of a group; an unknown group has none.
func committedOffsets(ctx context.Context, admin *kadm.Client, group string) (kadm.OffsetResponses, error) {
	committed, err := admin.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return kadm.OffsetResponses{}, nil
	}
	if err == nil {
		err = committed.Error()
	}
	committed.KeepFunc(func(o kadm.OffsetResponse) bool { return o.At >= 0 })
	return committed, explain("group "+group, err, "")
}
