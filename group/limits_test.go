package group

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// A group id as long as one may be, so that few offsets make many bytes.
var longGroup = strings.Repeat("g", maxName)

// commitMany commits n partitions of a topic, beginning with the first.
func commitMany(r *rig, group, topic string, first, n int) int16 {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.Generation = 9, group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for i := range n {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = int32(first+i), 1
		t.Partitions = append(t.Partitions, p)
	}
	q.Topics = append(q.Topics, t)
	code := int16(-2)
	r.do(Commit{q}, func(v any, _ error) { code = v.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[n-1].ErrorCode })
	return code
}

// No step writes more than a batch may hold: what is too much is refused, or left to later ticks.
func TestLargeSteps(t *testing.T) {
	r := newRig(t)
	largest := 0
	r.stepped = func() { largest = max(largest, r.stepBytes) }
	if code := commitMany(r, longGroup, "t", 0, 4100); code != kproto.InvalidCommitOffsetSize {
		t.Errorf("a commit of 67 MB: %s", kproto.CodeName(code))
	}
	if len(r.log) != 0 || len(r.m.groups) != 0 {
		t.Errorf("it left %d records and %d groups", len(r.log), len(r.m.groups))
	}
	for i := range 3 {
		if code := commitMany(r, longGroup, "t", 1500*i, 1500); code != kproto.NoError {
			t.Errorf("a commit of 25 MB: %s", kproto.CodeName(code))
		}
	}
	r.do(Delete{longGroup}, func(v any, _ error) {
		if v != kproto.PolicyViolation {
			t.Errorf("deleted 4,500 offsets: %v", v)
		}
	})
	commitMany(r, longGroup, "u", 0, 100)
	r.do(TopicDeleted{"t"}, func(any, error) {})
	if n := len(r.m.groups[longGroup].offsets); n != 2 {
		t.Errorf("%d topics are left at once", n)
	}
	r.advance(0)
	if n := len(r.m.groups[longGroup].offsets); n != 1 {
		t.Errorf("%d topics are left", n)
	}
	r.settings.OffsetsRetention = 0
	r.advance(defaultExpiryCheck)
	if len(r.m.groups) != 0 {
		t.Errorf("%d groups are left", len(r.m.groups))
	}
	if largest > maxStepBytes {
		t.Errorf("a step wrote %d bytes", largest)
	}
}

// An assignment too large to be recorded is refused, and the members are called to join again.
func TestLargeAssignment(t *testing.T) {
	s := newStage(t)
	for _, line := range []string{"join g a v=3", "join g b v=3", "join g a", "sync g b"} {
		s.Command(line)
	}
	ev, _ := s.event("sync", strings.Split("g a a=t:0", " "))
	ev.(Sync).Req.GroupAssignment[0].MemberAssignment = make([]byte, maxStepBytes)
	s.ask("sync g a", "sync", []string{"g", "x"})
	s.do(ev, func(v any, _ error) { s.say("large: %s", showReply(v)) })
	s.Command("heartbeat g b")
	for command, want := range map[string]string{"large": "UNKNOWN_SERVER_ERROR", "sync g b": "REBALANCE_IN_PROGRESS", "heartbeat g b": "REBALANCE_IN_PROGRESS"} {
		if got := s.answer(command); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	checkMachine(t, s.m)
}

// What the members of a group say is bounded, and what one says again counts once.
func TestGroupMetadataIsBounded(t *testing.T) {
	s := newStage(t)
	s.settings.InitialRebalanceDelay = time.Second
	join := func(name string) {
		ev, told := s.event("join", []string{"g", name, "v=3"})
		ev.(Join).Req.Protocols[0].Metadata = make([]byte, maxMemberMetadata-100)
		s.do(ev, func(v any, _ error) {
			told(v)
			s.say("%s: %s", name, kproto.CodeName(v.(*kmsg.JoinGroupResponse).ErrorCode))
		})
	}
	for i := range maxGroupMetadata / maxMemberMetadata {
		join(fmt.Sprint("m", i))
	}
	join("last")
	s.Command("wait 5s")
	join("m0")
	s.Command("leave g m1")
	s.Command("leave g m2")
	join("m0")
	join("m3")
	join("late")
	for name, want := range map[string]string{"m0": "NONE", "m3": "NONE", "last": "GROUP_MAX_SIZE_REACHED", "late": ""} {
		if got := s.answer(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	checkMachine(t, s.m)
}

// A commit that came after a topic's deletion is for a new topic of that name, and outlives a purge that is still under way.
func TestPurgeSparesWhatCameLater(t *testing.T) {
	r := newRig(t)
	commitMany(r, "g", "t", 0, 2)
	r.m.purges = []purge{{"t", r.now.UnixMilli()}}
	r.advance(1)
	r.now = r.now.Add(1e6)
	commitMany(r, "g", "t", 1, 1)
	r.do(TopicDeleted{"never"}, func(any, error) {})
	if got := r.m.groups["g"].offsets; len(got) != 1 || len(got[0].partitions) != 1 || got[0].partitions[0].partition != 1 {
		t.Errorf("what is left: %+v", got)
	}
}

// Ids that were given out and not used are bounded, and so are groups.
func TestPendingMembersAndGroupsAreBounded(t *testing.T) {
	s := newStage(t)
	for i := range maxPendingMembers {
		s.Command(fmt.Sprintf("join g m%d", i))
	}
	s.Command("join g last")
	if got := s.answer("join g last"); got != "GROUP_MAX_SIZE_REACHED" {
		t.Errorf("one id more: %s", got)
	}
	for i := range maxGroups - 1 {
		s.m.groups[fmt.Sprint("other", i)] = newGroup("")
	}
	s.Command("join another a")
	s.Command("commit another - t:0=5")
	for _, command := range []string{"join another a", "commit another - t:0=5"} {
		if got := s.answer(command); got != "POLICY_VIOLATION" {
			t.Errorf("%s: %s", command, got)
		}
	}
}

// A rebalance that nobody joins is not looked at again and again, whatever its static members claim.
func TestRebalanceOfNobodyIsPatient(t *testing.T) {
	s := newStage(t)
	for _, line := range []string{"join g a static=A session=30m rebalance=0s", "sync g a a=t:0", "join g b v=3 rebalance=0s"} {
		s.Command(line)
	}
	ticks := s.ticks
	s.Command("leave g b")
	s.Command("wait 10m")
	if n := s.ticks - ticks; n > 700 {
		t.Errorf("%d ticks in ten minutes", n)
	}
}

// A commit that is to be kept for ever, as its client says it, is.
func TestLongestRetention(t *testing.T) {
	r := newRig(t)
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.Generation, q.RetentionTimeMillis = 4, "g", -1, math.MaxInt64
	q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1}}}}
	r.do(Commit{q}, func(any, error) {})
	if o, ok := r.m.groups["g"].offsets.get("t", 0); !ok || o.expires != math.MaxInt64 {
		t.Errorf("it is kept until %d", o.expires)
	}
}
