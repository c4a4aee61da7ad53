package group

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/machine"
	"sluice/internal/machine/machinetest"
	"sluice/kproto"
)

const (
	modernSession   = 10 * time.Second
	modernRebalance = 20 * time.Second
)

// TestRandomLivesOfConsumers plays histories of a group of the consumer protocol: members that join, leave, go away and come back,
// crash, are slow to give partitions back, lose answers and change their subscriptions; topics that come, grow and go; a log
// whose appends are late or refused, and restarts. No partition may ever be owned by two, on the clients' side; a replay must
// equal the machine, no commit may be lost, and in peace everybody gets what the target says.
func TestRandomLivesOfConsumers(t *testing.T) { eachLife(t, 300, playModernLife) }

func playModernLife(t testing.TB, seed uint64) {
	l := newModernLife(t, seed)
	for range 60 + l.rand.IntN(60) {
		l.event()
		l.check()
	}
	l.peace()
}

type modernLife struct {
	*rig
	rand    *rand.Rand
	clients []*modernClient
	commits commitBook
	seed    uint64
}

func newModernLife(t testing.TB, seed uint64) *modernLife {
	l := &modernLife{rig: newRig(t), rand: rand.New(rand.NewPCG(seed, 9)), seed: seed}
	l.settings.ConsumerSessionTimeout = modernSession
	l.settings.ConsumerHeartbeatInterval = 3 * time.Second
	l.settings.MaxSize = 3 + l.rand.IntN(5)
	l.settings.ConsumerMaxSize = l.settings.MaxSize
	l.settings.Downgrade = seed%3 != 0
	l.settings.Gather = time.Duration(seed%3) * 500 * time.Millisecond
	if seed%5 == 4 {
		l.settings.ConsumerAssignmentInterval = 2 * time.Second
	}
	l.survive = func(volatile int) int { return l.rand.IntN(volatile + 1) }
	book := ownershipBook{}
	l.orders = func(o any) { book.take(t, o.(Ownership)) }
	l.commits.rewatch(nil)
	l.stepped = func() { l.commits.watch(l.m.groups["g"]) }
	l.reborn = func() { clear(book); l.commits.rewatch(l.m.groups["g"]) }
	if seed%8 == 0 {
		l.twin = l.fresh()
		l.load()
	}
	l.setTopics(Topics{map[string]Topic{"t": {testTopicID("t"), 4}}})
	for i := range 2 + l.rand.IntN(4) {
		c := &modernClient{l: l, name: fmt.Sprint("c", i), topics: []string{"t"}}
		if l.rand.IntN(3) == 0 {
			c.instance = &c.name
		}
		if l.rand.IntN(4) == 0 {
			c.topics, c.pattern = nil, "t.*"
		}
		c.old = seed%2 == 0 && l.rand.IntN(2) == 0
		l.clients = append(l.clients, c)
	}
	return l
}

func (l *modernLife) setTopics(t Topics) {
	l.topics = t.Topics
	l.do(t, func(any, error) {})
}

// event lets something happen.
func (l *modernLife) event() {
	c := l.clients[l.rand.IntN(len(l.clients))]
	switch n := l.rand.IntN(100); {
	case n < 54:
		c.beat()
	case n < 60:
		c.commit()
	case n < 62:
		l.commits.fetch(l.t, l.rig, "g")
	case n < 70:
		l.advance(time.Duration(l.rand.IntN(4000)) * time.Millisecond)
	case n < 72:
		l.advance(time.Duration(l.rand.IntN(20)) * time.Second)
	case n < 76:
		c.leave()
	case n < 79:
		c.crash()
	case n < 82:
		c.subscribe()
	case n < 85:
		l.changeTopics()
	case n < 88:
		l.held = true
	case n < 92:
		l.sync(l.rand.IntN(3))
	case n < 95:
		l.held = false
		l.sync(-1)
	case n < 97:
		l.lose()
	case n < 98 && l.seed%2 == 0 && c.asked == 0:
		c.crash() // the client is restarted with another protocol
		c.old = !c.old
	case n < 99:
		l.refuse = true
		c.beat()
		l.refuse = false
	default:
		l.stray(c)
	}
}

func (l *modernLife) changeTopics() {
	topics := map[string]Topic{}
	for name, t := range l.topics {
		topics[name] = t
	}
	switch name := fmt.Sprint("t", l.rand.IntN(3)); l.rand.IntN(3) {
	case 0:
		topics[name] = Topic{testTopicID(fmt.Sprint(name, ".", l.ticket)), int32(1 + l.rand.IntN(3))}
	case 1:
		delete(topics, name)
	case 2:
		t := topics["t"]
		t.Partitions++
		topics["t"] = t
	}
	l.setTopics(Topics{topics})
}

// stray sends what belongs to no order of things, or evicts.
func (l *modernLife) stray(c *modernClient) {
	if l.rand.IntN(2) == 0 {
		l.do(Evict{"g", c.id, c.epoch}, func(any, error) {})
		return
	}
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Version, q.Group, q.MemberID, q.MemberEpoch = 1, "g", c.id, c.epoch+int32(l.rand.IntN(3))+1
	l.do(ConsumerHeartbeat{q, Client{}, "never"}, func(any, error) {})
}

// check compares what the clients do with what they may.
func (l *modernLife) check() {
	checkMachine(l.t, l.m)
	g := l.m.groups["g"]
	if g == nil || g.consumers == nil {
		return
	}
	owner := map[topicPartition]string{}
	for _, c := range l.clients {
		member := g.consumers.members[c.id]
		if member == nil || c.id == "" || c.life != c.joined {
			continue // nobody, or it has not heard yet that it is fenced
		}
		if !c.claims().within(member.held()) {
			l.t.Fatalf("%s owns %v and holds %v", c.id, c.owns, member.held())
		}
		for _, p := range c.owns {
			if owner[p] != "" {
				l.t.Fatalf("%v is owned by %s and %s", p, owner[p], c.id)
			}
			owner[p] = c.id
		}
	}
	if l.rand.IntN(40) == 0 {
		l.checkRecorded()
	}
}

// checkRecorded compares the machine with what a restart would find.
func (l *modernLife) checkRecorded() {
	for what, log := range map[string][]machine.Record{
		"whole": l.log, "compacted": machinetest.Compacted(l.log, false), "compacted in part": machinetest.Partly(l.log, true), "compacted in part without tombstones": machinetest.Partly(l.log, false),
	} {
		m := l.asRecorded(log)
		if live, replayed := hardState(l.m), hardState(m); !reflect.DeepEqual(live, replayed) {
			l.t.Fatalf("replay of the log, %s:\n%+v\nlive:\n%+v", what, replayed, live)
		}
		checkMachine(l.t, m)
	}
}

// peace lets every client that is there do what is right, for two rebalance timeouts.
func (l *modernLife) peace() {
	l.held, l.settings.MaxSize, l.settings.ConsumerMaxSize = false, 1000, 1000
	l.sync(-1)
	for range int(2 * modernRebalance / time.Second) {
		for _, c := range l.clients {
			if c.there {
				c.slow = 0
				c.lossy = false
				c.beat()
				c.beat()
			}
		}
		l.check()
		l.advance(time.Second)
	}
	l.commits.fetch(l.t, l.rig, "g")
	if len(l.waiting) > 0 {
		l.t.Fatalf("%d requests were never answered", len(l.waiting))
	}
	if g := l.m.groups["g"]; g != nil && g.consumers != nil {
		l.checkPeace()
	} else if g != nil && len(g.members) > 0 && g.state != Stable {
		l.t.Fatalf("after two rebalance timeouts the classic group is %s", g.state)
	}
	l.checkRecorded()
}

func (l *modernLife) checkPeace() {
	g := l.m.groups["g"]
	n := 0
	owned := map[topicPartition]bool{}
	wanted := map[topicPartition]bool{}
	for _, c := range l.clients {
		if !c.there {
			continue
		}
		n++
		m := g.consumers.members[c.id]
		if m == nil || !m.settledAt(g.consumers.assigned) || !slices.Equal(c.owns, m.target) || c.epoch != m.epoch {
			l.t.Fatalf("after two rebalance timeouts %s owns %v in epoch %d, of %+v; the group has epoch %d", c.id, c.owns, c.epoch, m, g.consumers.epoch)
		}
		for _, p := range c.owns {
			owned[p] = true
		}
		for _, name := range l.m.subscribed(g, m) {
			for p := range l.topics[name].Partitions {
				wanted[topicPartition{l.topics[name].ID, p}] = true
			}
		}
	}
	if n > 0 && (g.consumers.shown() != Stable || len(g.consumers.members) != n) {
		l.t.Fatalf("%d members in %s, and %d are there", len(g.consumers.members), g.consumers.shown(), n)
	}
	if n > 0 && len(owned) != len(wanted) {
		l.t.Fatalf("%d partitions are owned, of %d", len(owned), len(wanted))
	}
}

// modernClient is a client of the consumer protocol.
type modernClient struct {
	l        *modernLife
	name     string
	instance *string
	topics   []string
	pattern  string

	there   bool // it runs
	id      string
	ids     int
	epoch   int32 // 0: to join
	owns    partitionSet
	told    partitionSet // what it was last assigned, and takes over when it is not slow
	asked   int          // requests that were not answered yet
	slow    int          // beats that it still needs to give partitions back
	lossy   bool         // the next answer gets lost
	full    bool         // it must say everything
	life    int
	joined  int // the life whose join was answered
	changed bool

	// Of the classic protocol.
	old    bool
	stage  oldStage
	roster []kmsg.JoinGroupResponseMember
}

// beat sends a heartbeat, unless an answer is outstanding.
func (c *modernClient) beat() {
	if c.old {
		c.oldBeat()
		return
	}
	if c.asked > 0 {
		return
	}
	if !c.there {
		c.there, c.epoch = true, epochJoin
		if c.id == "" || c.l.rand.IntN(2) == 0 {
			c.ids++
			c.id = fmt.Sprint(c.name, "-", c.ids)
		}
		c.life++
	}
	c.takeOver()
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Version, q.Group, q.MemberID, q.MemberEpoch = 1, "g", c.id, c.epoch
	if c.epoch == epochJoin {
		c.owns, c.told = nil, nil
		c.slow = 0
	}
	if c.epoch == epochJoin || c.full || c.changed || c.l.rand.IntN(4) == 0 {
		q.RebalanceTimeoutMillis = int32(modernRebalance.Milliseconds())
		q.InstanceID = c.instance
		q.SubscribedTopicNames, q.SubscribedTopicRegex = append([]string{}, c.topics...), &c.pattern
		q.Topics = owned848(c.owns)
	} else if c.slow == 0 && c.l.rand.IntN(2) == 0 {
		q.Topics = owned848(c.owns)
	}
	c.full, c.changed = false, false
	lost := c.lossy
	c.lossy = c.l.rand.IntN(12) == 0
	life := c.life
	c.asked++
	c.l.do(ConsumerHeartbeat{q, Client{ID: c.name, Host: "/h"}, "never"}, func(v any, err error) {
		c.asked--
		switch {
		case life != c.life:
		case err != nil || lost:
			c.full = true // it does not know what has become of it
		default:
			c.hear(v.(*kmsg.ConsumerGroupHeartbeatResponse))
		}
	})
}

// takeOver makes what it was assigned its own. To give something back takes it some beats; what it gets, it gets at once.
func (c *modernClient) takeOver() {
	if c.slow > 0 {
		c.slow--
		return
	}
	c.owns = c.told
}

func (c *modernClient) hear(r *kmsg.ConsumerGroupHeartbeatResponse) {
	switch r.ErrorCode {
	case kproto.NoError:
		c.joined = c.life
		c.epoch = r.MemberEpoch
		if r.Assignment == nil {
			return
		}
		c.told = assigned848(r.Assignment)
		if len(c.owns.minus(c.told)) > 0 {
			c.slow = c.l.rand.IntN(4)
		} else {
			c.owns = c.told
		}
	case kproto.FencedMemberEpoch:
		c.rejoin(c.id)
	case kproto.UnknownMemberID, kproto.GroupIDNotFound, kproto.FencedInstanceID:
		c.ids++
		c.rejoin(fmt.Sprint(c.name, "-", c.ids))
	case kproto.UnreleasedInstanceID, kproto.GroupMaxSizeReached:
		c.epoch, c.owns, c.told = epochJoin, nil, nil
	default:
		c.l.t.Fatalf("%s: %s", c.id, kproto.CodeName(r.ErrorCode))
	}
}

func (c *modernClient) rejoin(id string) {
	c.id, c.epoch, c.owns, c.told, c.slow = id, epochJoin, nil, nil, 0
	c.life++
}

func (c *modernClient) leave() {
	if !c.there || c.asked > 0 {
		return
	}
	if c.old {
		c.oldLeave()
		return
	}
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Version, q.Group, q.MemberID, q.MemberEpoch = 1, "g", c.id, epochLeave
	if c.instance != nil && c.l.rand.IntN(2) == 0 {
		q.MemberEpoch, q.InstanceID = epochAway, c.instance
	}
	c.crash()
	c.l.do(ConsumerHeartbeat{q, Client{ID: c.name, Host: "/h"}, "never"}, func(any, error) {})
}

func (c *modernClient) crash() {
	c.life++
	c.there, c.epoch, c.owns, c.told = false, epochJoin, nil, nil
}

// commit is with the epoch that the client believes in, or an earlier one, or as somebody who is no member.
func (c *modernClient) commit() {
	id, epoch := c.id, c.epoch
	switch c.l.rand.IntN(8) {
	case 0:
		id, epoch = "", -1
	case 1:
		epoch -= int32(c.l.rand.IntN(4))
	}
	c.l.commits.commit(c.l.rig, "g", int32(c.l.rand.IntN(lifePartitions)), id, epoch, nil)
}

func (c *modernClient) subscribe() {
	c.changed = true
	switch c.l.rand.IntN(3) {
	case 0:
		c.topics = []string{"t", fmt.Sprint("t", c.l.rand.IntN(3))}
	case 1:
		c.topics, c.pattern = []string{"t"}, ""
	case 2:
		c.topics, c.pattern = nil, fmt.Sprintf("t[0-%d]?", c.l.rand.IntN(3))
	}
}
