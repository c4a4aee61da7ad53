package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// startGroup makes topic t of two partitions with five records each, and has group g read three of partition 0.
func startGroup(t *testing.T) *kfake.Cluster {
	t.Helper()
	cluster := startBroker(t)
	must(t, "", "topic", "create", "t", "-p", "2")
	for _, p := range []string{"0", "1"} {
		must(t, "a\nb\nc\nd\ne\n", "produce", "t", "-p", p)
	}
	must(t, "", "group", "reset-offsets", "g", "--topic", "t:0", "--to-offset", "3", "--execute")
	return cluster
}

// startMember joins group g for topic t, and returns when it has both partitions.
func startMember(t *testing.T, opts ...kgo.Opt) {
	t.Helper()
	assigned := make(chan struct{}, 1)
	client, err := kgo.NewClient(append(opts,
		kgo.SeedBrokers(os.Getenv("SLUICE_BOOTSTRAP_SERVER")), kgo.ClientID("reader"), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"),
		kgo.Balancers(kgo.RangeBalancer()), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			if len(got) > 0 {
				select {
				case assigned <- struct{}{}:
				default: // a slow machine's member may be thrown out, and join again
				}
			}
		}),
	)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	<-assigned
}

func describeGroup(t *testing.T) groupDescription {
	t.Helper()
	var groups []groupDescription
	decode(t, must(t, "", "group", "describe", "g", "-o", "json"), &groups)
	if len(groups) != 1 {
		t.Fatalf("%d groups", len(groups))
	}
	return groups[0]
}

func TestGroupList(t *testing.T) {
	startGroup(t)
	var listed []groupListing
	decode(t, must(t, "", "group", "list", "-o", "json"), &listed)
	if len(listed) != 1 || listed[0].Group != "g" || listed[0].State != "Empty" || *listed[0].Members != 0 {
		t.Errorf("listed %+v", listed)
	}
	startMember(t)
	if table := must(t, "", "group", "ls", "--state", "stable", "--type", "Classic"); !strings.Contains(table, "g      Stable  classic  consumer  1\n") {
		t.Errorf("table:\n%s", table)
	}
	if out := must(t, "", "group", "ls", "--state", "empty", "-o", "json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("empty groups: %s", out)
	}
}

func TestGroupDescribeShowsMembersAndLag(t *testing.T) {
	startGroup(t)
	startMember(t)
	g := describeGroup(t)
	if g.State != "Stable" || g.Type != "classic" || g.Assignor != "range" || len(g.Members) != 1 || g.Members[0].ClientID != "reader" {
		t.Fatalf("group %+v", g)
	}
	if got := g.Members[0].assignment(); got != "t:0,1" {
		t.Errorf("assignment %q", got)
	}
	if len(g.Offsets) != 2 {
		t.Fatalf("offsets %+v", g.Offsets)
	}
	read, unread := g.Offsets[0], g.Offsets[1]
	if *read.Current != 3 || *read.End != 5 || *read.Lag != 2 || *read.LagSeconds < 0 || *read.Member != g.Members[0].ID {
		t.Errorf("partition 0: %+v", read)
	}
	if unread.Current != nil || *unread.End != 5 || unread.Lag != nil || unread.LagSeconds != nil || unread.Member == nil {
		t.Errorf("partition 1, which has no offset: %+v", unread)
	}
	table := must(t, "", "group", "describe", "g")
	for _, want := range []string{"group g, state Stable, type classic, assignor range", "reader", "\nTOPIC  PARTITION  CURRENT  END  LAG  LAG-SECONDS  MEMBER\n", "\nt      1          -        5    -    - "} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is missing from\n%s", want, table)
		}
	}
}

// TestGroupLagSecondsIsTheAgeOfTheNextRecord: each group's own next record counts, not the newest one.
func TestGroupLagSecondsIsTheAgeOfTheNextRecord(t *testing.T) {
	cluster := startBroker(t)
	must(t, "", "topic", "create", "t")
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, hours := range []int{5, 3, 1} {
		r := &kgo.Record{Value: []byte("v"), Timestamp: time.Now().Add(-time.Duration(hours) * time.Hour)}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for group, offset := range map[string]string{"a": "0", "b": "1", "c": "2", "d": "3"} {
		must(t, "", "group", "reset-offsets", group, "--topic", "t", "--to-offset", offset, "--execute")
	}
	var groups []groupDescription
	decode(t, must(t, "", "group", "describe", "a", "b", "c", "d", "-o", "json"), &groups)
	for i, hours := range []int{5, 3, 1, 0} {
		if got := *groups[i].Offsets[0].LagSeconds; int(got)/3600 != hours {
			t.Errorf("group %s is %v s behind, want %d hours", groups[i].Group, got, hours)
		}
	}
}

func TestGroupDelete(t *testing.T) {
	startGroup(t)
	must(t, "", "group", "delete", "g")
	must(t, "", "group", "delete", "g", "--if-exists")
	if r := sluice(t, "", "group", "describe", "g"); r.code != exitFailed || !strings.Contains(r.err, "GROUP_ID_NOT_FOUND") {
		t.Errorf("code %d, err %q", r.code, r.err)
	}
}

func TestGroupDeleteOffsets(t *testing.T) {
	startGroup(t)
	must(t, "", "group", "reset-offsets", "g", "--topic", "t:1", "--to-latest", "--execute")
	must(t, "", "group", "delete-offsets", "g", "--topic", "t:0")
	if g := describeGroup(t); len(g.Offsets) != 1 || g.Offsets[0].Partition != 1 {
		t.Errorf("left are %+v", g.Offsets)
	}
	out := must(t, "", "group", "delete-offsets", "g", "--all-topics")
	if want := "deleted the offset of group g for partition 1 of topic t\n"; out != want {
		t.Errorf("printed %q, want %q", out, want)
	}
}

func TestGroupErrorsSayWhatToDo(t *testing.T) {
	startGroup(t)
	file := filepath.Join(t.TempDir(), "offsets.csv")
	if err := os.WriteFile(file, []byte("t,0,2\ngone,3,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args string
		want string
	}{
		"describe a missing":     {"describe nothing", "sluice group list"},
		"delete a missing":       {"delete nothing", "sluice group list"},
		"reset of no topic":      {"reset-offsets g --topic nothing --to-latest", "sluice topic list"},
		"reset of no partition":  {"reset-offsets g --topic t:7 --to-latest", "no partition 7"},
		"reset all of none":      {"reset-offsets new --all-topics --to-latest", "has no offsets"},
		"reset from a bad file":  {"reset-offsets g --from-file " + file, "topic gone has no partition 3"},
		"shift nothing":          {"reset-offsets g --topic t:1 --shift-by 1", "no offset there"},
		"delete no topic's":      {"delete-offsets g --topic nothing", "no offsets for topic nothing"},
		"delete what is not":     {"delete-offsets g --topic t:1", "no offset for partition 1"},
		"delete offsets of none": {"delete-offsets new --all-topics", "has no offsets"},
		"one of two is missing":  {"describe g nothing", "group nothing"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := sluice(t, "", append([]string{"group"}, strings.Fields(tc.args)...)...)
			if r.code != exitFailed || !strings.Contains(r.err, tc.want) || r.out != "" {
				t.Errorf("code %d, out %q, err %q, want %q", r.code, r.out, r.err, tc.want)
			}
		})
	}
}

// TestGroupWithMembersIsLeftAlone: whatever would pull the offsets from under its members is refused.
func TestGroupWithMembersIsLeftAlone(t *testing.T) {
	startGroup(t)
	startMember(t)
	for _, args := range []string{
		"reset-offsets g --all-topics --to-earliest --execute", "reset-offsets g --all-topics --to-earliest", "delete g", "delete-offsets g --all-topics",
	} {
		r := sluice(t, "", append([]string{"group"}, strings.Fields(args)...)...)
		if r.code != exitFailed || !strings.Contains(r.err, "sluice group describe") {
			t.Errorf("%s: code %d, err %q", args, r.code, r.err)
		}
	}
	if g := describeGroup(t); *g.Offsets[0].Current != 3 {
		t.Errorf("offset %d", *g.Offsets[0].Current)
	}
}

func TestGroupResetOffsets(t *testing.T) {
	startGroup(t)
	file := filepath.Join(t.TempDir(), "offsets.csv")
	if err := os.WriteFile(file, []byte("t,0,2\nt, 1, 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args string
		want string // as CSV
	}{
		"earliest":         {"--topic t --to-earliest", "t,0,0\nt,1,0\n"},
		"latest":           {"--topic t --to-latest", "t,0,5\nt,1,5\n"},
		"current":          {"--topic t --to-current", "t,0,3\nt,1,5\n"},
		"all topics":       {"--all-topics --to-earliest", "t,0,0\n"},
		"offset":           {"--topic t:1 --to-offset 4", "t,1,4\n"},
		"beyond the end":   {"--topic t:1 --to-offset 400", "t,1,5\n"},
		"back":             {"--topic t:0 --shift-by -2", "t,0,1\n"},
		"forward":          {"--topic t:0 --shift-by 1", "t,0,4\n"},
		"back too far":     {"--topic t:0 --shift-by -9", "t,0,0\n"},
		"since 1970":       {"--topic t --to-datetime 1970-01-01T00:00:00.000", "t,0,0\nt,1,0\n"},
		"from the future":  {"--topic t --to-datetime 2999-01-01", "t,0,5\nt,1,5\n"},
		"of the last hour": {"--topic t --by-duration PT1H", "t,0,0\nt,1,0\n"},
		"from file":        {"--from-file " + file, "t,0,2\nt,1,4\n"},
		"two topics":       {"--topic t:1 --topic t:0 --to-latest", "t,0,5\nt,1,5\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"group", "reset-offsets", "g", "-o", "csv"}, strings.Fields(tc.args)...)
			r := sluice(t, "", args...)
			if r.code != exitOK || r.out != tc.want || !strings.Contains(r.err, "--execute") {
				t.Errorf("code %d, out %q, err %q, want %q", r.code, r.out, r.err, tc.want)
			}
		})
	}
	if g := describeGroup(t); *g.Offsets[0].Current != 3 || len(g.Offsets) != 1 {
		t.Errorf("the dry runs changed something: %+v", g.Offsets)
	}
}

func TestGroupResetShowsBeforeAndAfter(t *testing.T) {
	startGroup(t)
	want := "TOPIC  PARTITION  BEFORE  AFTER\nt      0          3       5\nt      1          -       5\n"
	for _, mode := range []string{"--dry-run", "--execute"} {
		if got := must(t, "", "group", "reset-offsets", "g", "--topic", "t", "--to-latest", mode); got != want {
			t.Errorf("%s:\n%swant\n%s", mode, got, want)
		}
	}
	var resets []offsetReset
	decode(t, must(t, "", "group", "reset-offsets", "g", "--topic", "t", "--to-earliest", "-o", "json"), &resets)
	if len(resets) != 2 || *resets[1].Before != 5 || resets[1].After != 0 {
		t.Errorf("after the execution: %+v", resets)
	}
}

// TestGroupResetBackup: what --to-current prints as CSV brings every offset back.
func TestGroupResetBackup(t *testing.T) {
	startGroup(t)
	file := filepath.Join(t.TempDir(), "backup.csv")
	backup := must(t, "", "group", "reset-offsets", "g", "--all-topics", "--to-current", "-o", "csv")
	if err := os.WriteFile(file, []byte(backup), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "", "group", "reset-offsets", "g", "--all-topics", "--to-latest", "--execute")
	must(t, "", "group", "reset-offsets", "g", "--from-file", file, "--execute")
	if g := describeGroup(t); *g.Offsets[0].Current != 3 {
		t.Errorf("offset %d", *g.Offsets[0].Current)
	}
}

func TestGroupJSONHasNullForTheUnknown(t *testing.T) {
	text, err := json.Marshal(groupOffset{Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"topic":"t","partition":0,"current_offset":null,"end_offset":null,"lag":null,"lag_seconds":null,"member":null}`
	if string(text) != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}

// TestGroupOfTheConsumerProtocol: a group whose members speak KIP-848 is shown like a classic one, beside one.
func TestGroupOfTheConsumerProtocol(t *testing.T) {
	cluster := startGroup(t)
	must(t, "", "group", "reset-offsets", "other", "--topic", "t", "--to-earliest", "--execute")
	cluster.ControlKey(int16(kmsg.ConsumerGroupDescribe), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
		for _, name := range req.(*kmsg.ConsumerGroupDescribeRequest).Groups {
			resp.Groups = append(resp.Groups, consumerGroup(name))
		}
		return resp, nil, true
	})
	var groups []groupDescription
	decode(t, must(t, "", "group", "describe", "g", "other", "-o", "json"), &groups)
	g, other := groups[0], groups[1]
	if g.State != "Reconciling" || g.Type != "consumer" || g.Assignor != "uniform" || len(g.Members) != 1 || g.Members[0].assignment() != "t:0,1" {
		t.Errorf("group %+v", g)
	}
	if len(g.Offsets) != 2 || *g.Offsets[0].Lag != 2 || *g.Offsets[1].Member != "m" {
		t.Errorf("offsets %+v", g.Offsets)
	}
	if other.State != "Empty" || other.Type != "classic" || len(other.Offsets) != 2 {
		t.Errorf("the classic group: %+v", other)
	}
}

// consumerGroup is what a broker says of group g, which has a member, and of others, which do not speak the consumer protocol.
func consumerGroup(name string) kmsg.ConsumerGroupDescribeResponseGroup {
	g := kmsg.NewConsumerGroupDescribeResponseGroup()
	g.Group, g.State, g.AssignorName = name, "Reconciling", "uniform"
	if name != "g" {
		g.ErrorCode = kerr.GroupIDNotFound.Code
		return g
	}
	m := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	m.MemberID = "m"
	topic := kmsg.NewAssignmentTopicPartition()
	topic.Topic, topic.Partitions = "t", []int32{1, 0}
	m.Assignment.TopicPartitions = append(m.Assignment.TopicPartitions, topic)
	g.Members = append(g.Members, m)
	return g
}
