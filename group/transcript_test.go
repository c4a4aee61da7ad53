package group

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/transcript"
	"sluice/kproto"
)

// TestTranscripts plays testdata/*.txt; README.txt there explains the commands.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, func(t *testing.T, script string) string { return transcript.Play(newStage(t), script) })
}

// stage is a machine with the clients that play on it.
type stage struct {
	*rig
	actors map[string]*actor
	lines  []string

	members848 map[string]*member848
}

// actor is a client: what it was last told.
type actor struct {
	name       string
	id         string
	joins      int // ids it was given
	generation int32
	instance   *string
}

func newStage(t testing.TB) *stage {
	s := &stage{rig: newRig(t), actors: map[string]*actor{}}
	s.orders = func(o any) { s.say("  order %s", s.showOrder(o)) }
	return s
}

// Command implements transcript.Stage. Words are parted by single spaces: two in a row leave one out.
func (s *stage) Command(text string) {
	if words := strings.Split(text, " "); words[0] != "" && words[0] != "#" {
		s.run(text, words[0], words[1:])
	}
}

// Said implements transcript.Stage.
func (s *stage) Said() string {
	said := strings.Join(s.lines, "\n")
	s.lines = nil
	return said
}

func (s *stage) say(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *stage) actor(name string) *actor {
	if s.actors[name] == nil {
		s.actors[name] = &actor{name: name, generation: -1}
	}
	return s.actors[name]
}

func (s *stage) run(line, verb string, args []string) {
	switch verb {
	case "wait":
		s.advance(s.duration(args[0]))
	case "pause":
		s.pause(s.duration(args[0]))
	case "hold":
		s.held = true
	case "flush":
		s.held = false
		s.sync(-1)
	case "crash":
		s.lose()
	case "fail-appends":
		s.refuse = true
	case "heal":
		s.refuse = false
	case "set":
		s.set(args)
	case "log":
		for _, r := range s.log[:s.durable] {
			s.say("  %s", showRecord(r))
		}
	default:
		s.ask(line, verb, args)
	}
}

func (s *stage) ask(line, verb string, args []string) {
	ev, told := s.event(verb, args)
	s.do(ev, func(v any, err error) {
		if err != nil {
			s.say("%s: %v", line, err)
			return
		}
		if told != nil {
			told(v)
		}
		s.say("%s: %s", line, showReply(v))
	})
}

func (s *stage) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *stage) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *stage) set(args []string) {
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "delay":
			s.settings.InitialRebalanceDelay = s.duration(value)
		case "gather":
			s.settings.Gather = s.duration(value)
		case "max-size":
			s.settings.MaxSize = int(s.number(value))
			s.settings.ConsumerMaxSize = s.settings.MaxSize
		case "classic-max-size":
			s.settings.MaxSize = int(s.number(value))
		case "assignors":
			s.settings.ConsumerAssignors = strings.Split(value, ",")
		case "migration":
			s.settings.Upgrade, s.settings.Downgrade = strings.Contains(value, "up"), strings.Contains(value, "down")
		case "own":
			s.setOwn(strings.Split(value, ","))
		case "retention":
			s.settings.OffsetsRetention = s.duration(value)
		default:
			s.t.Fatalf("no such setting: %s", name)
		}
	}
}

// setOwn gives a group settings of its own, or takes them away: group, session timeout, heartbeat interval and, if there are such, assignment
// interval and the interval of calm.
func (s *stage) setOwn(args []string) {
	if len(args) == 1 {
		delete(s.own, args[0])
		return
	}
	if s.own == nil {
		s.own = map[string]ConsumerSettings{}
	}
	own := ConsumerSettings{ConsumerSessionTimeout: s.duration(args[1]), ConsumerHeartbeatInterval: s.duration(args[2])}
	if len(args) > 3 {
		own.ConsumerAssignmentInterval = s.duration(args[3])
	}
	if len(args) > 4 {
		own.ConsumerCalmInterval = s.duration(args[4])
	}
	s.own[args[0]] = own
}

// event gives what a command asks, and what its actor learns from the answer.
func (s *stage) event(verb string, args []string) (any, func(any)) {
	group, args := "", args
	if len(args) > 0 {
		group, args = args[0], args[1:]
	}
	if ev, told, ok := s.consumerEvent(verb, group, args); ok {
		return ev, told
	}
	switch verb {
	case "join":
		return s.join(group, args)
	case "sync":
		return s.syncEvent(group, args)
	case "heartbeat":
		a := s.actor(args[0])
		r := kmsg.NewPtrHeartbeatRequest()
		r.Group, r.MemberID, r.Generation, r.InstanceID = group, a.id, a.generation, a.instance
		if len(args) > 1 {
			r.Generation = int32(s.number(strings.TrimPrefix(args[1], "generation=")))
		}
		return Heartbeat{r}, nil
	case "leave":
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Group, r.Version = group, 5
		for _, name := range args {
			r.Members = append(r.Members, s.leaver(name))
		}
		return Leave{r}, nil
	case "leave-old":
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Group, r.Version, r.MemberID = group, 2, s.actor(args[0]).id
		return Leave{r}, nil
	case "commit":
		return s.commitEvent(group, args), nil
	case "fetch":
		return s.fetchEvent(group, args), nil
	case "describe":
		return Describe{group}, nil
	case "list":
		return List{}, nil
	case "delete":
		return Delete{group}, nil
	case "evict":
		a := s.actor(args[0])
		ev := Evict{Group: group, MemberID: a.id, Epoch: a.generation}
		if m := s.members848[args[0]]; m != nil {
			ev.MemberID, ev.Epoch = args[0], m.epoch
		}
		if len(args) > 1 {
			ev.Epoch = int32(s.number(strings.TrimPrefix(args[1], "epoch=")))
		}
		return ev, nil
	case "delete-offsets":
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = group
		for _, a := range args {
			topic, parts := s.topicPartitions(a)
			t := kmsg.NewOffsetDeleteRequestTopic()
			t.Topic = topic
			for _, p := range parts {
				t.Partitions = append(t.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
			}
			r.Topics = append(r.Topics, t)
		}
		return DeleteOffsets{r}, nil
	case "topic-deleted":
		return TopicDeleted{group}, nil
	}
	s.t.Fatalf("no such command: %s", verb)
	return nil, nil
}

// leaver reads a name, or instance/NAME for an administrator's removal.
func (s *stage) leaver(name string) kmsg.LeaveGroupRequestMember {
	l := kmsg.NewLeaveGroupRequestMember()
	if instance, ok := strings.CutPrefix(name, "instance/"); ok {
		l.InstanceID = &instance
	} else {
		l.MemberID, l.InstanceID = s.actor(name).id, s.actor(name).instance
	}
	return l
}

func (s *stage) join(group string, args []string) (any, func(any)) {
	a := s.actor(args[0])
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group = 9, group
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 10_000, 60_000
	r.ProtocolType = "consumer"
	protocols, topics, owns := []string{"range"}, []string{"t"}, ""
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "new":
			a.id = ""
		case "id":
			a.id = value
		case "static":
			a.instance = &value
		case "v":
			r.Version = int16(s.number(value))
		case "session":
			r.SessionTimeoutMillis = int32(s.duration(value).Milliseconds())
		case "rebalance":
			r.RebalanceTimeoutMillis = int32(s.duration(value).Milliseconds())
		case "type":
			r.ProtocolType = value
		case "protocols":
			protocols = strings.Split(value, ",")
		case "topics":
			topics = strings.Split(value, ",")
		case "owns":
			owns = value
		default:
			s.t.Fatalf("no such argument: %s", arg)
		}
	}
	r.MemberID, r.InstanceID = a.id, a.instance
	for _, p := range protocols {
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: s.subscription(topics, owns)})
	}
	a.joins++
	ev := Join{Req: r, Client: Client{ID: a.name, Host: "/127.0.0.1"}, NewMemberID: fmt.Sprintf("%s-%d", a.name, a.joins)}
	return ev, func(v any) {
		resp := v.(*kmsg.JoinGroupResponse)
		switch resp.ErrorCode {
		case kproto.NoError:
			a.id, a.generation = resp.MemberID, resp.Generation
		case kproto.MemberIDRequired:
			a.id = resp.MemberID
		}
	}
}

func (s *stage) subscription(topics []string, owns string) []byte {
	m := kmsg.ConsumerMemberMetadata{Version: 1, Topics: topics}
	if owns != "" {
		topic, parts := s.topicPartitions(owns)
		m.OwnedPartitions = append(m.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: topic, Partitions: parts})
	}
	return m.AppendTo(nil)
}

func (s *stage) syncEvent(group string, args []string) (any, func(any)) {
	a := s.actor(args[0])
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version = 5
	r.Group, r.MemberID, r.Generation, r.InstanceID = group, a.id, a.generation, a.instance
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "generation":
			r.Generation = int32(s.number(value))
			continue
		case "protocol":
			r.Protocol = &value
			continue
		case "type":
			r.ProtocolType = &value
			continue
		}
		g := kmsg.NewSyncGroupRequestGroupAssignment()
		g.MemberID = s.actor(name).id
		topic, parts := s.topicPartitions(value)
		g.MemberAssignment = assignment(topic, parts...)
		r.GroupAssignment = append(r.GroupAssignment, g)
	}
	return Sync{r}, nil
}

func assignment(topic string, parts ...int32) []byte {
	a := kmsg.ConsumerMemberAssignment{Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: topic, Partitions: parts}}}
	return a.AppendTo(nil)
}

// topicPartitions reads t:0,1.
func (s *stage) topicPartitions(text string) (string, []int32) {
	topic, list, _ := strings.Cut(text, ":")
	var parts []int32
	for p := range strings.SplitSeq(list, ",") {
		parts = append(parts, int32(s.number(p)))
	}
	return topic, parts
}

// commitEvent reads a name, or - for a client without membership, and t:0=5 for each offset.
func (s *stage) commitEvent(group string, args []string) any {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation = 9, group, -1
	metadata := ""
	if name := args[0]; name != "-" {
		a := s.actor(name)
		r.MemberID, r.Generation, r.InstanceID = a.id, a.generation, a.instance
	}
	for _, arg := range args[1:] {
		what, value, _ := strings.Cut(arg, "=")
		switch what {
		case "retention":
			r.Version, r.RetentionTimeMillis = 4, s.duration(value).Milliseconds()
			continue
		case "v":
			r.Version = int16(s.number(value))
			continue
		case "generation":
			r.Generation = int32(s.number(value))
			continue
		case "metadata":
			metadata = strings.Repeat("m", int(s.number(value)))
			continue
		}
		topic, parts := s.topicPartitions(what)
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = parts[0], s.number(value), &metadata
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.Partitions = topic, append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
	}
	return Commit{r}
}

func (s *stage) fetchEvent(group string, args []string) any {
	f := FetchOffsets{Group: group, MemberEpoch: -1}
	for _, a := range args {
		topic, parts := s.topicPartitions(a)
		f.Topics = append(f.Topics, FetchOffsetsTopic{topic, parts})
	}
	return Fetch{f}
}

func (s *stage) showOrder(o any) string {
	own, ok := o.(Ownership)
	if !ok {
		return fmt.Sprintf("%T?", o)
	}
	if own.All && len(own.Members) == 0 {
		return own.Group + " is nobody's"
	}
	var members []string
	for _, m := range own.Members {
		if len(m.Partitions) == 0 {
			members = append(members, m.MemberID+" has nothing")
			continue
		}
		members = append(members, fmt.Sprintf("%s has %s in %d", m.MemberID, showPartitions(m.Partitions), m.Epoch))
	}
	return own.Group + ": " + strings.Join(members, ", ")
}

func showPartitions(owned map[string][]int32) string {
	var out []string
	for _, t := range slices.Sorted(maps.Keys(owned)) {
		out = append(out, t+":"+strings.Trim(strings.ReplaceAll(fmt.Sprint(owned[t]), " ", ","), "[]"))
	}
	return strings.Join(out, " ")
}

func showAssignment(b []byte) string {
	if owned := decodeAssignment(b); owned != nil {
		return showPartitions(owned)
	}
	return "nothing"
}
