package group

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

var lifeSeed = flag.Uint64("life", 0, "play only the random life of this number")

const (
	lifePartitions = 4
	lifeSession    = 10 * time.Second
	lifeRebalance  = 20 * time.Second
	lifeHeartbeat  = 2 * time.Second
)

// TestRandomLives plays histories of groups with everything that may happen to them: members that join, leave, crash, fall
// silent and come back, commits, a log whose appends are slow to become durable or refused, and restarts. After every step
// the machine must be sound and a replay must equal it; at the end all is left in peace, and must become stable.
//
// SLUICE_LIVES sets how many; -life N plays the one that failed.
func TestRandomLives(t *testing.T) {
	if *lifeSeed != 0 {
		playLife(t, *lifeSeed)
		return
	}
	lives := uint64(10_000)
	if testing.Short() {
		lives = 500
	}
	if text := os.Getenv("SLUICE_LIVES"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		lives = n
	}
	for seed := uint64(1); seed <= lives && !t.Failed(); seed++ {
		playLife(t, seed)
	}
}

func playLife(t *testing.T, seed uint64) {
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("life %d: %v", seed, p)
		}
	}()
	l := newLife(t, seed)
	l.restless = true
	for range 40 + l.rand.IntN(40) {
		l.event()
		l.check()
	}
	l.peace()
}

// lifeTB makes a failure name the life, and end it.
type lifeTB struct{ testing.TB }

func (l lifeTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (l lifeTB) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (l lifeTB) Helper()                           {}

// life is a machine, its clients, and what they were promised.
type life struct {
	*rig
	rand      *rand.Rand
	consumers []*consumer
	settled   map[string]string // how each group was last settled
	deletions map[string]int    // of groups
	owners    map[ownedBy]string
	commits   map[committed]*promise
	restless  bool             // before peace
	careless  map[string]int32 // the newest generation of a group whose leader forgot somebody
	counter   int64            // of offsets: each commit is larger than all before it
}

// ownedBy is what has at most one owner.
type ownedBy struct {
	group      string
	deletions  int // a group that is made again begins with generation 1
	generation int32
	partition  int32
}

type committed struct {
	group     string
	partition int32
}

// promise is what a fetch of an offset may find.
type promise struct {
	floor   int64 // the largest that was acknowledged, -1: none, or it may have been deleted
	refused map[int64]bool
	newest  int64 // the largest that was tried
	lowered int   // how often it may have been deleted
}

func newLife(t *testing.T, seed uint64) *life {
	l := &life{
		rig:       newRig(lifeTB{t}),
		rand:      rand.New(rand.NewPCG(seed, 848)),
		settled:   map[string]string{},
		careless:  map[string]int32{},
		deletions: map[string]int{},
		owners:    map[ownedBy]string{},
		commits:   map[committed]*promise{},
	}
	l.settings.InitialRebalanceDelay = time.Duration(l.rand.IntN(2)) * 3 * time.Second
	l.settings.MaxSize = 2 + l.rand.IntN(8)
	l.settings.OffsetsRetentionCheck = 12 * time.Hour
	l.orders = l.checkOwnership
	l.stepped = func() { l.note(l.m) }
	l.reborn = l.recall
	for i := range 2 + l.rand.IntN(4) {
		c := &consumer{l: l, name: fmt.Sprint("c", i), group: "g", generation: -1}
		if i == 3 {
			c.group = "h"
		}
		if l.rand.IntN(3) == 0 {
			c.instance = &c.name
		}
		l.consumers = append(l.consumers, c)
	}
	return l
}

func (l *life) consumer() *consumer { return l.consumers[l.rand.IntN(len(l.consumers))] }

// event is one thing that happens.
func (l *life) event() {
	c := l.consumer()
	switch n := l.rand.IntN(100); {
	case n < 50:
		c.goOn()
	case n < 58:
		l.advance(time.Duration(l.rand.IntN(4000)) * time.Millisecond)
	case n < 60:
		l.advance(time.Duration(l.rand.IntN(30)) * time.Second)
	case n < 61:
		l.pause(time.Duration(l.rand.IntN(60)) * time.Second)
	case n < 66:
		c.heartbeat()
	case n < 74:
		c.commit()
	case n < 78:
		l.fetch(c.group)
	case n < 81:
		c.joinWith(c.id)
	case n < 83:
		c.leave()
	case n < 86:
		c.crash()
	case n < 88:
		c.stray()
	case n < 89:
		c.asleep = !c.asleep
	case n < 90:
		l.held = true
	case n < 94:
		l.sync(l.rand.IntN(3))
	case n < 96:
		l.held = false
		l.sync(-1)
	case n < 97:
		l.lose()
	case n < 98:
		l.refuse = true
		c.goOn()
		c.commit()
		l.refuse = false
	default:
		l.administer(c.group)
	}
}

// administer does what is not a client's.
func (l *life) administer(group string) {
	switch l.rand.IntN(4) {
	case 0:
		l.lower()
		l.do(Delete{group}, func(any, error) {})
	case 1:
		l.lower()
		l.do(TopicDeleted{"t"}, func(any, error) {})
	case 2:
		l.lower()
		l.advance(8 * 24 * time.Hour)
	case 3:
		l.do(Describe{group}, func(any, error) {})
		l.do(List{}, func(any, error) {})
	}
}

// lower takes the promise back that the group's offsets are there.
func (l *life) lower() {
	for _, p := range l.commits {
		p.floor = -1
		p.lowered++
	}
}

func (l *life) promise(group string, partition int32) *promise {
	k := committed{group, partition}
	if l.commits[k] == nil {
		l.commits[k] = &promise{floor: -1, refused: map[int64]bool{}, newest: -1}
	}
	return l.commits[k]
}

func (l *life) fetch(group string) {
	req := FetchOffsets{Group: group, Topics: []FetchOffsetsTopic{{Name: "t"}}}
	for p := range int32(lifePartitions) {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	l.do(Fetch{req}, func(v any, err error) {
		if err != nil {
			return
		}
		for _, p := range v.(FetchedOffsets).Topics[0].Partitions {
			want := l.promise(group, p.Partition)
			if p.Offset > want.newest || p.Offset < want.floor || want.refused[p.Offset] {
				l.t.Fatalf("fetched %d, and acknowledged was %d, tried up to %d", p.Offset, want.floor, want.newest)
			}
		}
	})
}

// check is what must hold after any event.
func (l *life) check() {
	checkMachine(l.t, l.m)
	waiting := tickets(l.m)
	if len(waiting) != len(l.waiting) {
		l.t.Fatalf("%d requests wait, and the machine knows %d", len(l.waiting), len(waiting))
	}
	for ticket := range l.waiting {
		if !waiting[ticket] {
			l.t.Fatalf("the machine has forgotten ticket %d", ticket)
		}
	}
	for id, g := range l.m.groups {
		if text := settled(g); text != "" && text != l.settled[id] {
			l.t.Fatalf("group %s is\n%s\nand was recorded as\n%s", id, text, l.settled[id])
		}
	}
	if l.rand.IntN(4) == 0 {
		l.checkReplay(l.settled)
	}
}

// recall forgets how groups were settled in what was lost.
func (l *life) recall() {
	clear(l.settled)
	l.note(l.asRecorded(l.log))
}

// note remembers how groups were settled.
func (l *life) note(m *Machine) {
	for id := range l.settled {
		if g := m.groups[id]; g == nil || g.recorded == nil {
			delete(l.settled, id)
			l.deletions[id]++
		}
	}
	for id, g := range m.groups {
		if text := settled(g); text != "" {
			l.settled[id] = text
		}
	}
}

func (l *life) checkOwnership(o any) {
	own := o.(Ownership)
	seen := map[int32]string{}
	for _, m := range own.Members {
		for _, p := range m.Partitions["t"] {
			if seen[p] != "" {
				l.t.Fatalf("partition %d of %s is owned by %s and %s", p, own.Group, seen[p], m.MemberID)
			}
			seen[p] = m.MemberID
		}
	}
}

// owns checks that nobody else was given the partition in that generation.
func (l *life) owns(c *consumer, deletions int, generation, partition int32) {
	who := c.id
	if c.instance != nil {
		who = *c.instance // its id may change within a generation
	}
	k := ownedBy{c.group, deletions, generation, partition}
	if other := l.owners[k]; other != "" && other != who {
		l.t.Fatalf("partition %d of generation %d is owned by %s and %s", partition, generation, other, who)
	}
	l.owners[k] = who
}

// peace lets every client that is there do what is right, for two rebalance timeouts, and then all must be well.
func (l *life) peace() {
	l.restless, l.held, l.settings.MaxSize = false, false, 1000
	l.sync(-1)
	for range int(2 * lifeRebalance / lifeHeartbeat) {
		for _, c := range l.consumers {
			c.behave()
		}
		checkMachine(l.t, l.m)
		l.advance(lifeHeartbeat)
	}
	l.check()
	for _, c := range l.consumers {
		c.behave()
	}
	for _, c := range l.consumers {
		l.checkPeace(c)
		l.fetch(c.group)
	}
	l.checkReplay(l.settled)
}

func (l *life) checkPeace(c *consumer) {
	if c.gone {
		return
	}
	g := l.m.groups[c.group]
	if g == nil || g.state != Stable || c.phase != stable || c.generation != g.generation || g.member(c.id) == nil {
		l.t.Fatalf("after two rebalance timeouts %s (%s) is %d in generation %d of %+v", c.name, c.id, c.phase, c.generation, g)
	}
	var all []int32
	for _, m := range g.members {
		all = append(all, decodeAssignment(m.assignment)["t"]...)
	}
	slices.Sort(all)
	if l.careless[c.group] != g.generation && !slices.Equal(all, []int32{0, 1, 2, 3}) {
		l.t.Fatalf("the partitions of %s that are owned: %v", c.group, all)
	}
	for _, m := range g.members {
		if !slices.ContainsFunc(l.consumers, func(c *consumer) bool { return !c.gone && c.id == m.id }) {
			l.t.Fatalf("%s is still a member, and nobody", m.id)
		}
	}
}

// phase is where a client believes to stand.
type phase int

const (
	outside phase = iota // to join
	joining
	joined // to sync
	syncing
	stable
)

// consumer is a client of the classic protocol.
type consumer struct {
	l        *life
	name     string
	group    string
	instance *string
	gone     bool // fenced, or it has crashed and not come back
	asleep   bool // its application is stuck; its heartbeats go on, and it does not hear what they are answered

	id         string
	ids        int
	generation int32
	phase      phase
	life       int      // replies to an earlier one are not heard
	roster     []string // of a leader
	skip       bool     // a leader that need not assign
}

// goOn does what comes next.
func (c *consumer) goOn() {
	if c.asleep {
		c.heartbeat()
		c.l.advance(2 * time.Second)
		return
	}
	switch c.phase {
	case outside:
		c.joinWith(c.id)
	case joined:
		c.syncUp()
	case stable:
		c.heartbeat()
	}
}

// behave is goOn of a client that is there, with the heartbeats that it owes.
func (c *consumer) behave() {
	if c.gone {
		return
	}
	c.asleep = false
	for range 4 {
		if c.phase == stable {
			break
		}
		c.goOn()
	}
	if c.generation >= 0 && c.phase != joining {
		c.heartbeat()
	}
}

// ask sends a request, and hears the reply unless it has crashed meanwhile.
func (c *consumer) ask(ev any, done func(v any)) {
	life := c.life
	c.l.do(ev, func(v any, err error) {
		switch {
		case life != c.life:
		case err != nil:
			c.phase = outside // it has lost its coordinator, and joins again
		default:
			done(v)
		}
	})
}

func (c *consumer) joinWith(id string) {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version = 9
	if c.l.rand.IntN(8) == 0 {
		r.Version = 3
	}
	r.Group, r.MemberID, r.InstanceID = c.group, id, c.instance
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = int32(lifeSession.Milliseconds()), int32(lifeRebalance.Milliseconds())
	r.ProtocolType = "consumer"
	metadata := kmsg.ConsumerMemberMetadata{Topics: []string{"t"}, UserData: []byte{byte(c.l.rand.IntN(2))}}
	for _, p := range []string{"range", "sticky"}[:1+c.l.rand.IntN(2)] {
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: metadata.AppendTo(nil)})
	}
	c.ids++
	c.phase, c.gone = joining, false
	c.ask(Join{r, Client{c.name, "/h"}, fmt.Sprintf("%s-%d", c.name, c.ids)}, func(v any) { c.joinAnswered(v.(*kmsg.JoinGroupResponse)) })
}

func (c *consumer) joinAnswered(r *kmsg.JoinGroupResponse) {
	if r.ErrorCode != kproto.NoError {
		if r.ErrorCode == kproto.MemberIDRequired {
			c.id = r.MemberID
		}
		c.refused(r.ErrorCode)
		return
	}
	c.id, c.generation, c.phase = r.MemberID, r.Generation, joined
	c.roster, c.skip = nil, r.SkipAssignment
	for _, m := range r.Members {
		c.roster = append(c.roster, m.MemberID)
	}
}

// refused takes what a code means to a consumer.
func (c *consumer) refused(code int16) {
	c.phase = outside
	switch code {
	case kproto.MemberIDRequired, kproto.RebalanceInProgress:
	case kproto.FencedInstanceID:
		c.gone, c.id = true, ""
		c.life++
	default:
		c.id, c.generation = "", -1
	}
}

func (c *consumer) syncUp() {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version = 5
	r.Group, r.MemberID, r.Generation, r.InstanceID = c.group, c.id, c.generation, c.instance
	if len(c.roster) > 0 && !c.skip {
		r.GroupAssignment = c.assignAll()
	}
	c.phase = syncing
	generation, deletions := c.generation, c.l.deletions[c.group]
	c.ask(Sync{r}, func(v any) {
		resp := v.(*kmsg.SyncGroupResponse)
		if resp.ErrorCode != kproto.NoError {
			c.refused(resp.ErrorCode)
			return
		}
		c.phase = stable
		for _, p := range decodeAssignment(resp.MemberAssignment)["t"] {
			c.l.owns(c, deletions, generation, p)
		}
	})
}

// assignAll deals the partitions out, beginning anywhere.
func (c *consumer) assignAll() (out []kmsg.SyncGroupRequestGroupAssignment) {
	start := c.l.rand.IntN(len(c.roster))
	for i, id := range c.roster {
		var parts []int32
		for p := range int32(lifePartitions) {
			if (int(p)+start)%len(c.roster) == i {
				parts = append(parts, p)
			}
		}
		if c.l.restless && c.l.rand.IntN(8) == 0 {
			c.l.careless[c.group] = c.generation
			continue
		}
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = id, assignment("t", parts...)
		out = append(out, a)
	}
	return out
}

func (c *consumer) heartbeat() {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group, r.MemberID, r.Generation, r.InstanceID = c.group, c.id, c.generation, c.instance
	phase := c.phase
	c.ask(Heartbeat{r}, func(v any) {
		code := v.(*kmsg.HeartbeatResponse).ErrorCode
		if c.asleep {
			return
		}
		if code != kproto.NoError && c.phase == phase && (phase == joined || phase == stable) {
			c.refused(code)
		}
	})
}

func (c *consumer) commit() {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group = 9, c.group
	r.MemberID, r.Generation, r.InstanceID = c.id, c.generation, c.instance
	if c.l.rand.IntN(4) == 0 {
		r.MemberID, r.Generation, r.InstanceID = "", -1, nil
	}
	c.l.counter++
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = int32(c.l.rand.IntN(lifePartitions)), c.l.counter
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.Partitions = "t", append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	want := c.l.promise(c.group, p.Partition)
	want.newest = max(want.newest, p.Offset)
	lowered := want.lowered
	c.l.do(Commit{r}, func(v any, err error) {
		switch {
		case err != nil:
		case v.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode != kproto.NoError:
			want.refused[p.Offset] = true
		case lowered == want.lowered:
			want.floor = max(want.floor, p.Offset)
		}
	})
}

func (c *consumer) leave() {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group = 5, c.group
	r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: c.id, InstanceID: c.instance}}
	c.crash()
	c.l.do(Leave{r}, func(any, error) {})
}

// crash ends the client without a word; it may come back as somebody new.
func (c *consumer) crash() {
	c.life++
	c.id, c.generation, c.phase, c.gone = "", -1, outside, true
}

// stray sends what belongs to no order of things.
func (c *consumer) stray() {
	other := c.l.consumer()
	h := kmsg.NewPtrHeartbeatRequest()
	h.Group, h.MemberID, h.Generation = c.group, other.id, c.generation-1
	c.l.do(Heartbeat{h}, func(any, error) {})
	s := kmsg.NewPtrSyncGroupRequest()
	s.Group, s.MemberID, s.Generation = c.group, other.id, c.generation-1
	c.l.do(Sync{s}, func(any, error) {})
	j := kmsg.NewPtrJoinGroupRequest()
	j.Version, j.Group, j.MemberID = 9, c.group, "stranger"
	j.SessionTimeoutMillis = int32(lifeSession.Milliseconds())
	j.ProtocolType, j.Protocols = "connect", []kmsg.JoinGroupRequestProtocol{{Name: "x"}}
	c.l.do(Join{j, Client{}, "never"}, func(any, error) {})
}
