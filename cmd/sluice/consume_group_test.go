package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// startTopic makes topic t of four partitions whose records say where they are.
func startTopic(t *testing.T) *kfake.Cluster {
	t.Helper()
	cluster := startBroker(t)
	must(t, "", "topic", "create", "t", "-p", "4")
	for p := range 4 {
		must(t, fmt.Sprintf("%d-0\n%d-1\n", p, p), "produce", "t", "-p", fmt.Sprint(p))
	}
	return cluster
}

func sortedWords(texts ...string) string {
	words := strings.Fields(strings.Join(texts, " "))
	slices.Sort(words)
	return strings.Join(words, " ")
}

const everything = "0-0 0-1 1-0 1-1 2-0 2-1 3-0 3-1"

func TestConsumeGroupResumes(t *testing.T) {
	startTopic(t)
	first := must(t, "", "consume", "t", "--group", "g", "-c", "3")
	if n := len(strings.Fields(first)); n != 3 {
		t.Errorf("%d records: %q", n, first)
	}
	rest := must(t, "", "consume", "t", "-g", "g", "-e")
	if got := sortedWords(first, rest); got != everything {
		t.Errorf("%q and then %q", first, rest)
	}
	if again := must(t, "", "consume", "t", "-g", "g", "-e"); again != "" {
		t.Errorf("read again: %q", again)
	}
	if other := must(t, "", "consume", "t", "-g", "other", "-e"); sortedWords(other) != everything {
		t.Errorf("another group read %q", other)
	}
	if g := describeGroup(t); g.State != "Empty" || len(g.Offsets) != 4 || *g.Offsets[3].Lag != 0 {
		t.Errorf("left behind: %+v", g)
	}
}

func TestConsumeGroupFromEnd(t *testing.T) {
	startTopic(t)
	if got := must(t, "", "consume", "t", "-g", "g", "-e", "--from", "end"); got != "" {
		t.Errorf("read %q", got)
	}
}

func TestConsumeGroupOfAnEmptyTopicEnds(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t", "-p", "2")
	if got := must(t, "", "consume", "t", "-g", "g", "-e"); got != "" {
		t.Errorf("read %q", got)
	}
}

// TestConsumeGroupBehindTransactionMarkers: the markers count as read, so that nothing seems left.
func TestConsumeGroupBehindTransactionMarkers(t *testing.T) {
	cluster := startBroker(t)
	must(t, "", "topic", "create", "t")
	produceTransaction(t, cluster.ListenAddrs()[0], kgo.TryCommit)
	if got := must(t, "", "consume", "t", "-g", "g", "-e", "-f", "%o "); got != "0 " {
		t.Errorf("read %q", got)
	}
	if g := describeGroup(t); *g.Offsets[0].Lag != 0 {
		t.Errorf("offsets %+v", g.Offsets)
	}
}

// TestConsumeGroupLeavesWhenInterrupted: what was printed is committed, and the group is empty at once.
func TestConsumeGroupLeavesWhenInterrupted(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "t")
	ctx, interrupt := context.WithCancel(t.Context())
	out := &notifyingBuffer{lines: make(chan string, 10)}
	var errs bytes.Buffer
	done := make(chan int)
	go func() { done <- run(ctx, []string{"consume", "t", "-g", "g"}, &streams{out: out, err: &errs}) }()
	for _, text := range []string{"first\n", "second\n"} {
		must(t, text, "produce", "t")
		if line := <-out.lines; line != text {
			t.Errorf("read %q", line)
		}
	}
	interrupt()
	if code := <-done; code != exitOK || errs.Len() > 0 {
		t.Errorf("exit code %d, err %q", code, errs.String())
	}
	if g := describeGroup(t); g.State != "Empty" || *g.Offsets[0].Current != 2 {
		t.Errorf("left behind: %+v", g)
	}
}

// TestConsumeGroupIdleMemberEnds: a member without a partition ends when the others have read everything.
func TestConsumeGroupIdleMemberEnds(t *testing.T) {
	m := membership{cmd: &consumeCmd{Topic: "t"}, bounds: map[int32]bounds{0: {start: 0, end: 5}, 1: {start: 3, end: 3}, 2: {start: 4, end: 6}}}
	committed := func(at ...int64) kadm.OffsetResponses {
		all := kadm.OffsetResponses{}
		for p, o := range at {
			if o >= 0 {
				all.Add(kadm.OffsetResponse{Offset: kadm.Offset{Topic: "t", Partition: int32(p), At: o}})
			}
		}
		return all
	}
	tests := map[string]struct {
		committed kadm.OffsetResponses
		fromEnd   bool
		want      bool
	}{
		"nothing":                           {committed(), false, false},
		"nothing, but none is wanted":       {committed(), true, true},
		"all":                               {committed(5, 3, 6), false, true},
		"more":                              {committed(9, 9, 9), false, true},
		"all but an empty partition":        {committed(5, -1, 6), false, true},
		"offset before the log, all read":   {committed(5, 0, 6), false, true},
		"one behind":                        {committed(5, 3, 5), false, false},
		"one behind, from end":              {committed(5, 3, 5), true, false},
		"one not begun":                     {committed(5, 3, -1), false, false},
		"one not begun, but it is from end": {committed(5, 3, -1), true, true},
	}
	for name, tc := range tests {
		m.cmd.From.kind = fromBeginning
		if tc.fromEnd {
			m.cmd.From.kind = fromEnd
		}
		if got := m.groupDone(tc.committed); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestBeginningOfAPartition(t *testing.T) {
	b := bounds{start: 10, end: 20}
	for at, want := range map[int64]int64{-2: 10, -1: 20, 0: 10, 10: 10, 15: 15, 20: 20} {
		if got := beginning(at, b); got != want {
			t.Errorf("%d begins at %d, want %d", at, got, want)
		}
	}
}

func TestErrorsOfTheGroupThatPass(t *testing.T) {
	for _, err := range []error{kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress, kerr.FencedMemberEpoch, kerr.NotCoordinator, errors.New("connection refused")} {
		if !passes(err) {
			t.Errorf("%v does not pass", err)
		}
	}
	for _, err := range []error{kerr.InconsistentGroupProtocol, kerr.GroupAuthorizationFailed, kerr.GroupMaxSizeReached, kerr.InvalidGroupID} {
		if passes(err) {
			t.Errorf("%v passes", err)
		}
	}
}

// TestConsumeGroupThatCannotBeJoined: the broker's reason ends the command.
func TestConsumeGroupThatCannotBeJoined(t *testing.T) {
	cluster := startTopic(t)
	cluster.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.InconsistentGroupProtocol.Code
		return resp, nil, true
	})
	r := sluice(t, "", "consume", "t", "-g", "g")
	if r.code != exitFailed || !strings.Contains(r.err, "group g: ") || !strings.Contains(r.err, "INCONSISTENT_GROUP_PROTOCOL") || !strings.Contains(r.err, "sluice group describe") {
		t.Errorf("code %d, err %q", r.code, r.err)
	}
}

// TestConsumeGroupThatWentOn: a member whose commit comes too late says that the records will come again, and goes on. It
// may have joined again and read them itself before it ends.
func TestConsumeGroupThatWentOn(t *testing.T) {
	refuseCommit(startTopic(t), kerr.IllegalGeneration)
	r := sluice(t, "", "consume", "t", "-g", "g", "-e")
	seen := slices.Compact(strings.Fields(sortedWords(r.out)))
	if r.code != exitOK || !strings.Contains(r.err, "will be read again") || strings.Join(seen, " ") != everything {
		t.Errorf("code %d, out %q, err %q", r.code, r.out, r.err)
	}
}

// TestConsumeGroupWithAnOldEpochCommitsAgain: a member epoch that is behind only has to catch up.
func TestConsumeGroupWithAnOldEpochCommitsAgain(t *testing.T) {
	refuseCommit(startTopic(t), kerr.StaleMemberEpoch)
	r := sluice(t, "", "consume", "t", "-g", "g", "-e")
	if r.code != exitOK || r.err != "" || sortedWords(r.out) != everything {
		t.Errorf("code %d, out %q, err %q", r.code, r.out, r.err)
	}
	for _, o := range describeGroup(t).Offsets {
		if *o.Lag != 0 {
			t.Errorf("not committed: %+v", o)
		}
	}
}

func TestConsumeGroupThatCannotCommitFails(t *testing.T) {
	refuseCommit(startTopic(t), kerr.GroupAuthorizationFailed)
	if r := sluice(t, "", "consume", "t", "-g", "g", "-e"); r.code != exitFailed || !strings.Contains(r.err, "GROUP_AUTHORIZATION_FAILED") {
		t.Errorf("code %d, err %q", r.code, r.err)
	}
}

// refuseCommit has the broker answer the next commit with an error.
func refuseCommit(cluster *kfake.Cluster, code *kerr.Error) {
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, rt := range req.(*kmsg.OffsetCommitRequest).Topics {
			t := kmsg.NewOffsetCommitResponseTopic()
			t.Topic, t.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				p := kmsg.NewOffsetCommitResponseTopicPartition()
				p.Partition, p.ErrorCode = rp.Partition, code.Code
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, true
	})
}
