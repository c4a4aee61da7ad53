package group

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/machine"
	"sluice/kproto"
)

// compileTestRegex compiles a subscription as the broker does.
func compileTestRegex(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile("^(?:" + pattern + ")$")
}

// testTopicID gives a topic an id that can be read.
func testTopicID(name string) (id kproto.TopicID) {
	copy(id[:], name)
	return id
}

func testTopicName(id kproto.TopicID) string { return strings.TrimRight(string(id[:]), "\x00") }

// consumerEvent knows the commands of the consumer protocol.
func (s *stage) consumerEvent(verb, group string, args []string) (ev any, told func(any), ok bool) {
	switch verb {
	case "topics":
		topics := map[string]Topic{}
		for _, a := range append([]string{group}, args...) {
			name, n, _ := strings.Cut(a, ":")
			topics[name] = Topic{testTopicID(name), int32(s.number(n))}
		}
		s.topics = topics
		return Topics{topics}, nil, true
	case "beat":
		ev, told := s.beat(group, args)
		return ev, told, true
	case "commit848": // commit with a member epoch
		s.actor(args[0]).id, s.actor(args[0]).generation = args[0], s.member848(args[0]).epoch
		return s.commitEvent(group, args), nil, true
	case "fetch848": // NAME EPOCH
		r := FetchOffsets{Group: group, MemberID: args[0], MemberEpoch: int32(s.number(args[1]))}
		return Fetch{r}, nil, true
	case "describe-consumers":
		return ConsumerDescribe{group}, nil, true
	}
	return nil, nil, false
}

// member848 is what an actor of the consumer protocol knows.
type member848 struct {
	epoch int32
	owns  partitionSet
	told  partitionSet // what it was last assigned
}

func (s *stage) member848(name string) *member848 {
	if s.members848 == nil {
		s.members848 = map[string]*member848{}
	}
	if s.members848[name] == nil {
		s.members848[name] = &member848{}
	}
	return s.members848[name]
}

// beat sends a ConsumerGroupHeartbeat. The actor is a member named like it, which owns by now what it was last assigned, and says
// so; with keep it still owns what it owned before, with silent it does not say.
func (s *stage) beat(group string, args []string) (any, func(any)) {
	name := args[0]
	a := s.member848(name)
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Version, q.Group, q.MemberID = 1, group, name
	q.MemberEpoch = a.epoch
	fields := args[1:]
	if !contains(fields, "keep") {
		a.owns = a.told
	}
	var topics []string
	for _, arg := range fields {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "join":
			q.MemberEpoch, a.owns, a.told = 0, nil, nil
			q.RebalanceTimeoutMillis = 60_000
			topics = []string{"t"}
		case "leave":
			q.MemberEpoch = -1
		case "away":
			q.MemberEpoch = -2
		case "epoch":
			q.MemberEpoch = int32(s.number(value))
		case "topics":
			topics = strings.Split(value, ",")
		case "pattern":
			q.SubscribedTopicRegex = &value
			if q.MemberEpoch == 0 {
				topics = []string{}
			}
		case "static":
			q.InstanceID = &value
		case "rack":
			q.RackID = &value
		case "assignor":
			q.ServerAssignor = &value
		case "rebalance":
			q.RebalanceTimeoutMillis = int32(s.duration(value).Milliseconds())
		case "claims":
			topic, parts := s.topicPartitions(value)
			a.owns = nil
			for _, p := range parts {
				a.owns = append(a.owns, topicPartition{testTopicID(topic), p})
			}
		case "keep", "silent", "v0":
		default:
			s.t.Fatalf("no such argument: %s", arg)
		}
	}
	q.SubscribedTopicNames = topics
	if !contains(fields, "silent") {
		q.Topics = owned848(a.owns)
	}
	if contains(fields, "v0") {
		q.Version, q.MemberID = 0, ""
	}
	return ConsumerHeartbeat{q, Client{ID: name, Host: "/127.0.0.1"}, name + "-made"}, func(v any) { a.hear(v.(*kmsg.ConsumerGroupHeartbeatResponse)) }
}

func contains(list []string, x string) bool {
	for _, s := range list {
		if s == x {
			return true
		}
	}
	return false
}

func (a *member848) hear(r *kmsg.ConsumerGroupHeartbeatResponse) {
	if r.ErrorCode != 0 {
		return
	}
	a.epoch = r.MemberEpoch
	if r.Assignment != nil {
		a.told = assigned848(r.Assignment)
	}
}

func assigned848(a *kmsg.ConsumerGroupHeartbeatResponseAssignment) partitionSet {
	var list []topicPartition
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			list = append(list, topicPartition{t.TopicID, p})
		}
	}
	return newPartitionSet(list)
}

func owned848(s partitionSet) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	out := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	s.byTopic(func(id kproto.TopicID, partitions []int32) {
		out = append(out, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: partitions})
	})
	return out
}

func showSet(s partitionSet) string {
	if len(s) == 0 {
		return "nothing"
	}
	m := map[string][]int32{}
	for _, p := range s {
		m[testTopicName(p.topic)] = append(m[testTopicName(p.topic)], p.partition)
	}
	return showPartitions(m)
}

func showBeat(r *kmsg.ConsumerGroupHeartbeatResponse) string {
	switch {
	case r.ErrorCode != 0:
		return kproto.CodeName(r.ErrorCode)
	case r.MemberEpoch == -1:
		return "left"
	case r.MemberEpoch == -2:
		return "away"
	}
	out := fmt.Sprintf("epoch %d", r.MemberEpoch)
	if r.Assignment != nil {
		out += ", may have " + showSet(assigned848(r.Assignment))
	}
	return out + fmt.Sprintf(", again in %d ms", r.HeartbeatIntervalMillis)
}

func showConsumers(g kmsg.ConsumerGroupDescribeResponseGroup) string {
	if g.ErrorCode != 0 {
		return kproto.CodeName(g.ErrorCode)
	}
	out := fmt.Sprintf("%s epoch %d, %s assignment of epoch %d", g.State, g.Epoch, g.AssignorName, g.AssignmentEpoch)
	for _, m := range g.Members {
		out += fmt.Sprintf("\n  member %s%s epoch %d", m.MemberID, showInstance(m.InstanceID), m.MemberEpoch)
		if len(m.SubscribedTopics) > 0 {
			out += " of " + strings.Join(m.SubscribedTopics, ",")
		}
		if m.SubscribedTopicRegex != nil {
			out += " of " + *m.SubscribedTopicRegex
		}
		out += " has " + showDescribedSet(m.Assignment) + ", is to have " + showDescribedSet(m.TargetAssignment)
	}
	return out
}

func showDescribedSet(a kmsg.Assignment) string {
	if len(a.TopicPartitions) == 0 {
		return "nothing"
	}
	m := map[string][]int32{}
	for _, t := range a.TopicPartitions {
		m[t.Topic] = t.Partitions
	}
	return showPartitions(m)
}

// showConsumerRecord shows the records of the consumer protocol by applying them to nothing.
func showConsumerRecord(r machine.Record) string {
	kind := binary.BigEndian.Uint16(r.Key)
	keys := strings.FieldsFunc(string(r.Key[2:]), func(c rune) bool { return c < ' ' })
	name := map[uint16]string{3: "consumers", 5: "member", 6: "assignment", 7: "target", 8: "current"}[kind] + " " + strings.Join(keys, " ")
	if r.Value == nil {
		return name + " deleted"
	}
	m := New(Options{})
	if err := m.Apply(r); err != nil {
		return err.Error()
	}
	g := m.groups[keys[0]].consumers
	if kind == keyConsumerGroup {
		return fmt.Sprintf("%s epoch %d", name, g.epoch)
	}
	if kind == keyConsumerTarget {
		return fmt.Sprintf("%s epoch %d", name, g.assigned)
	}
	c := g.members[keys[1]]
	switch kind {
	case keyConsumerMember:
		return fmt.Sprintf("%s%s of %v %s", name, showInstance(c.instance), c.topics, c.pattern)
	case keyConsumerTargetMember:
		return name + " " + showSet(c.target)
	}
	out := fmt.Sprintf("%s epoch %d has %s", name, c.epoch, showSet(c.given))
	if len(c.revoking) > 0 {
		out += ", gives back " + showSet(c.revoking)
	}
	return out
}
