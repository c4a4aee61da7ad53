package group

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/machine"
	"sluice/kproto"
)

// first is what a new member says.
func first() *kmsg.ConsumerGroupHeartbeatRequest {
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Version, q.Group, q.MemberID = 1, "g", "m"
	q.RebalanceTimeoutMillis = 60_000
	q.SubscribedTopicNames = []string{"t"}
	q.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return q
}

// TestConsumerHeartbeatCodes changes one thing of a good request.
func TestConsumerHeartbeatCodes(t *testing.T) {
	type request = kmsg.ConsumerGroupHeartbeatRequest
	empty, long, much := "", strings.Repeat("x", maxName+1), make([]string, maxMemberMetadata/nameOverhead+1)
	magic, bad := "magic", "a("
	for name, x := range map[string]struct {
		change func(q *request)
		want   int16
	}{
		"as it should be":            {func(*request) {}, kproto.NoError},
		"no topics at all":           {func(q *request) { q.SubscribedTopicNames = []string{} }, kproto.NoError},
		"a pattern for topics":       {func(q *request) { q.SubscribedTopicNames, q.SubscribedTopicRegex = nil, kmsg.StringPtr("t.*") }, kproto.NoError},
		"version 0 without an id":    {func(q *request) { q.Version, q.MemberID = 0, "" }, kproto.NoError},
		"no group":                   {func(q *request) { q.Group = "" }, kproto.InvalidRequest},
		"empty instance":             {func(q *request) { q.InstanceID = &empty }, kproto.InvalidRequest},
		"empty rack":                 {func(q *request) { q.RackID = &empty }, kproto.InvalidRequest},
		"epoch -3":                   {func(q *request) { q.MemberEpoch = -3 }, kproto.InvalidRequest},
		"no id":                      {func(q *request) { q.MemberID = "" }, kproto.InvalidRequest},
		"version 0, epoch, no id":    {func(q *request) { q.Version, q.MemberID, q.MemberEpoch = 0, "", 1 }, kproto.InvalidRequest},
		"no rebalance timeout":       {func(q *request) { q.RebalanceTimeoutMillis = -1 }, kproto.InvalidRequest},
		"negative rebalance timeout": {func(q *request) { q.RebalanceTimeoutMillis = -2 }, kproto.InvalidRequest},
		"no subscription":            {func(q *request) { q.SubscribedTopicNames = nil }, kproto.InvalidRequest},
		"does not say what it owns":  {func(q *request) { q.Topics = nil }, kproto.InvalidRequest},
		"owns something already":     {func(q *request) { q.Topics = append(q.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{}) }, kproto.InvalidRequest},
		"long id":                    {func(q *request) { q.MemberID = long }, kproto.InvalidRequest},
		"long instance":              {func(q *request) { q.InstanceID = &long }, kproto.InvalidRequest},
		"long topic":                 {func(q *request) { q.SubscribedTopicNames = []string{long} }, kproto.InvalidRequest},
		"very many topics":           {func(q *request) { q.SubscribedTopicNames = much }, kproto.InvalidRequest},
		"unknown assignor":           {func(q *request) { q.ServerAssignor = &magic }, kproto.UnsupportedAssignor},
		"bad pattern":                {func(q *request) { q.SubscribedTopicRegex = &bad }, kproto.InvalidRegularExpression},
		"epoch in an unknown group":  {func(q *request) { q.MemberEpoch = 3 }, kproto.GroupIDNotFound},
		"leaves an unknown group":    {func(q *request) { q.MemberEpoch = -1 }, kproto.GroupIDNotFound},
		"goes away, unknown group":   {func(q *request) { q.MemberEpoch, q.InstanceID = -2, &magic }, kproto.GroupIDNotFound},
		"goes away as nobody":        {func(q *request) { q.MemberEpoch = -2 }, kproto.InvalidRequest},
	} {
		r := newRig(t)
		q := first()
		x.change(q)
		r.do(ConsumerHeartbeat{q, Client{ID: "c", Host: "/h"}, "made"}, func(v any, _ error) {
			if code := v.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode; code != x.want {
				t.Errorf("%s: %s, want %s", name, kproto.CodeName(code), kproto.CodeName(x.want))
			}
		})
		checkMachine(t, r.m)
		if x.want != kproto.NoError && (len(r.m.groups) > 0 || len(r.log) > 0) {
			t.Errorf("%s: it was refused and left %d groups and %d records", name, len(r.m.groups), len(r.log))
		}
	}
}

// What all members of a group are subscribed to is bounded; who says no more than before is not in the way.
func TestConsumerSubscriptionsAreBounded(t *testing.T) {
	r := newRig(t)
	var last int16
	for i := 0; i < 2*maxGroupMetadata/maxMemberMetadata && last == kproto.NoError; i++ {
		q := first()
		q.MemberID = fmt.Sprint(i)
		q.SubscribedTopicNames = nil
		for n := range maxMemberMetadata / (nameOverhead + 8) {
			q.SubscribedTopicNames = append(q.SubscribedTopicNames, fmt.Sprintf("%08d", n))
		}
		r.do(ConsumerHeartbeat{q, Client{ID: "c", Host: "/h"}, "made"}, func(v any, _ error) { last = v.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode })
	}
	if last != kproto.GroupMaxSizeReached || r.m.groups["g"].consumers.said > maxGroupMetadata {
		t.Errorf("%s with %d bytes said", kproto.CodeName(last), r.m.groups["g"].consumers.said)
	}
	if n := len(r.m.groups["g"].consumers.members); n < maxGroupMetadata/maxMemberMetadata {
		t.Errorf("only %d members had room", n)
	}
}

func TestConsumerCommitCodes(t *testing.T) {
	r := newRig(t)
	r.do(ConsumerHeartbeat{first(), Client{ID: "c", Host: "/h"}, "made"}, func(any, error) {})
	for name, x := range map[string]struct {
		version    int16
		member     string
		generation int32
		want       int16
	}{
		"member and epoch":     {9, "m", 1, kproto.NoError},
		"version 10":           {10, "m", 1, kproto.NoError},
		"old version":          {8, "m", 1, kproto.UnsupportedVersion},
		"epoch before":         {9, "m", 0, kproto.StaleMemberEpoch},
		"epoch to come":        {9, "m", 2, kproto.StaleMemberEpoch},
		"member without epoch": {9, "m", -1, kproto.StaleMemberEpoch},
		"somebody else":        {9, "x", 1, kproto.UnknownMemberID},
		"nobody":               {9, "", -1, kproto.UnknownMemberID},
	} {
		q := kmsg.NewPtrOffsetCommitRequest()
		q.Version, q.Group, q.MemberID, q.Generation = x.version, "g", x.member, x.generation
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.Partitions = "t", []kmsg.OffsetCommitRequestTopicPartition{kmsg.NewOffsetCommitRequestTopicPartition()}
		q.Topics = append(q.Topics, topic)
		r.do(Commit{q}, func(v any, _ error) {
			if code := v.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != x.want {
				t.Errorf("%s: %s, want %s", name, kproto.CodeName(code), kproto.CodeName(x.want))
			}
		})
	}
	for name, x := range map[string]struct {
		member string
		epoch  int32
		want   int16
	}{
		"says nothing": {"", -1, kproto.NoError}, "member": {"m", 1, kproto.NoError},
		"stale": {"m", 5, kproto.StaleMemberEpoch}, "unknown": {"x", 1, kproto.UnknownMemberID},
	} {
		r.do(Fetch{FetchOffsets{Group: "g", MemberID: x.member, MemberEpoch: x.epoch}}, func(v any, _ error) {
			if code := v.(FetchedOffsets).Code; code != x.want {
				t.Errorf("fetch, %s: %s, want %s", name, kproto.CodeName(code), kproto.CodeName(x.want))
			}
		})
	}
}

// TestConsumerRecordBytes compares the records with Kafka's schemas, byte for byte.
func TestConsumerRecordBytes(t *testing.T) {
	id := kproto.TopicID{0: 0xab, 15: 0xcd}
	topicID := "\xab" + strings.Repeat("\x00", 14) + "\xcd"
	one := "i"
	c := &consumerMember{
		id: "m", instance: &one, client: Client{ID: "c", Host: "/h"}, topics: []string{"t"}, rebalance: millis(256), assignor: "range",
		target: partitionSet{{id, 1}}, epoch: 3, previous: 2, state: memberRevoking,
		given: partitionSet{{id, 1}, {id, 2}}, revoking: partitionSet{{id, 5}},
		since: assignmentEpochs{{id, 1}: 1, {id, 2}: 2}, // and the last since the present epoch
	}
	for name, x := range map[string]struct {
		record     machine.Record
		key, value string
	}{
		"group":  {consumerGroupRecord("g", 7, -2), "\x00\x03\x00\x01g", "\x00\x00" + "\x00\x00\x00\x07" + "\x01\x00\x08\xff\xff\xff\xff\xff\xff\xff\xfe"},
		"member": {consumerMemberRecord("g", c), "\x00\x05\x00\x01g\x00\x01m", "\x00\x00" + "\x02i" + "\x00" + "\x02c" + "\x03/h" + "\x02\x02t" + "\x00" + "\x00\x00\x01\x00" + "\x06range" + "\x00"},
		"classic member": {consumerMemberRecord("g", &consumerMember{id: "m", classic: &classicMember{millis(9), []protocol{{"p", []byte("xy")}}}}), "\x00\x05\x00\x01g\x00\x01m",
			"\x00\x00" + "\x00\x00\x01\x01\x01\x00" + "\x00\x00\x00\x00" + "\x00" + "\x01\x00\x0d" + "\x01\x00\x00\x00\x09" + "\x02\x02p\x03xy\x00" + "\x00"},
		"target": {consumerTargetRecord("g", 7), "\x00\x06\x00\x01g", "\x00\x00" + "\x00\x00\x00\x07" + "\x00"},
		"target of a member": {consumerTargetMemberRecord("g", c), "\x00\x07\x00\x01g\x00\x01m",
			"\x00\x00" + "\x02" + topicID + "\x02\x00\x00\x00\x01" + "\x00" + "\x00"},
		"current": {consumerCurrentRecord("g", c), "\x00\x08\x00\x01g\x00\x01m",
			"\x00\x00" + "\x00\x00\x00\x03" + "\x00\x00\x00\x02" + "\x01" +
				"\x02" + topicID + "\x03\x00\x00\x00\x01\x00\x00\x00\x02" + "\x01\x00\x09" + "\x03\x00\x00\x00\x01\x00\x00\x00\x02" +
				"\x02" + topicID + "\x02\x00\x00\x00\x05" + "\x01\x00\x05" + "\x02\x00\x00\x00\x03" + "\x00"},
	} {
		if string(x.record.Key) != x.key || string(x.record.Value) != x.value {
			t.Errorf("%s is\n%q %q, want\n%q %q", name, x.record.Key, x.record.Value, x.key, x.value)
		}
	}
}

// A record that is cut off is an error, wherever the cut is; tags that a newer broker adds are passed over.
func TestConsumerRecordsAreChecked(t *testing.T) {
	id := testTopicID("t")
	c := &consumerMember{id: "m", client: Client{ID: "c", Host: "/h"}, topics: []string{"t"}, epoch: 1, given: partitionSet{{id, 1}}, target: partitionSet{{id, 1}}}
	old := &consumerMember{id: "m", classic: &classicMember{millis(9), []protocol{{"p", []byte("xy")}}}}
	for _, rec := range []machine.Record{
		consumerMemberRecord("g", old),
		consumerGroupRecord("g", 1, 1), consumerMemberRecord("g", c), consumerTargetRecord("g", 1), consumerTargetMemberRecord("g", c), consumerCurrentRecord("g", c),
	} {
		for n := range len(rec.Value) {
			if err := New(Options{}).Apply(machine.Record{Key: rec.Key, Value: rec.Value[:n]}); err == nil {
				t.Errorf("%q: cut to %d bytes it was taken", rec.Key, n)
			}
		}
		for n := 2; n < len(rec.Key); n++ {
			if err := New(Options{}).Apply(machine.Record{Key: rec.Key[:n], Value: rec.Value}); err == nil {
				t.Errorf("%q: it was taken", rec.Key[:n])
			}
		}
		tagged := bytes.Clone(rec.Value)
		if tagged[len(tagged)-1] == 0 && rec.Key[1] != keyConsumerGroup && !bytes.HasSuffix(tagged, []byte("xy\x00\x00")) {
			tagged = append(tagged[:len(tagged)-1], 1, 9, 2, 'x', 'y')
		}
		if err := New(Options{}).Apply(machine.Record{Key: rec.Key, Value: tagged}); err != nil {
			t.Errorf("%q with a tag: %v", rec.Key, err)
		}
	}
}

// Brokers before KIP-1251 record no assignment epochs; a list that does not fit says nothing either. Then the present epoch counts.
func TestAssignmentEpochsOfOtherRecords(t *testing.T) {
	id := testTopicID("t")
	p, q := topicPartition{id, 1}, topicPartition{id, 2}
	head := "\x00\x00" + "\x00\x00\x00\x09" + "\x00\x00\x00\x08" + "\x00" + "\x02" + string(id[:]) + "\x03\x00\x00\x00\x01\x00\x00\x00\x02"
	for name, x := range map[string]struct {
		tags string
		p, q int32
	}{
		"none":      {"\x00", 9, 9},
		"too few":   {"\x01\x00\x05" + "\x02\x00\x00\x00\x03", 9, 9},
		"too many":  {"\x01\x00\x0d" + "\x04\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00\x05", 9, 9},
		"null":      {"\x01\x00\x01\x00", 9, 9},
		"for both":  {"\x01\x00\x09" + "\x03\x00\x00\x00\x03\x00\x00\x00\x04", 3, 4},
		"and other": {"\x02\x00\x09" + "\x03\x00\x00\x00\x03\x00\x00\x00\x04" + "\x07\x01x", 3, 4},
	} {
		m := New(Options{})
		if err := m.Apply(machine.Record{Key: consumerKey(keyConsumerCurrent, "g", "m"), Value: []byte(head + x.tags + "\x01" + "\x00")}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c := m.groups["g"].consumers.members["m"]
		for r, want := range map[topicPartition]int32{p: x.p, q: x.q} {
			if got, ok := c.hasSince(r); !ok || got != want {
				t.Errorf("%s: %v since %d (held: %t), want %d", name, r.partition, got, ok, want)
			}
		}
		if _, ok := c.hasSince(topicPartition{id, 3}); ok {
			t.Errorf("%s: a partition that it does not hold", name)
		}
	}
}
