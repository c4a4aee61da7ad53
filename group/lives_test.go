package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const (
	lifePartitions = 4
	lifeSession    = 10 * time.Second
	lifeRebalance  = 20 * time.Second
	lifeHeartbeat  = 2 * time.Second
)

// TestRandomLives plays histories of groups with everything that may happen to them: members that join, leave, crash, fall
// silent and come back, commits, a log whose appends are slow to become durable or refused, and restarts. After every step
// the machine must be sound and a replay must equal it; at the end all is left in peace, and must become stable.
func TestRandomLives(t *testing.T) { eachLife(t, 500, playLife) }

func playLife(t testing.TB, seed uint64) {
	l := newLife(t, seed)
	l.restless = true
	for range 40 + l.rand.IntN(40) {
		l.event()
		l.check()
	}
	l.peace()
}

// life is a machine, its clients, and what they were promised.
type life struct {
	*rig
	rand      *rand.Rand
	consumers []*consumer
	settled   map[string]string // how each group was last settled
	deletions map[string]int    // of groups
	owners    map[ownedBy]string
	commits   commitBook
	restless  bool                   // before peace
	careless  map[ledGeneration]bool // leaders of these forgot somebody
}

// ledGeneration is one of a group; it may be made again after a crash.
type ledGeneration struct {
	group      string
	generation int32
}

// ownedBy is what has at most one owner.
type ownedBy struct {
	group      string
	deletions  int // a group that is made again begins with generation 1
	generation int32
	partition  int32
}

func newLife(t testing.TB, seed uint64) *life {
	l := &life{
		rig:       newRig(t),
		rand:      rand.New(rand.NewPCG(seed, 848)),
		settled:   map[string]string{},
		careless:  map[ledGeneration]bool{},
		deletions: map[string]int{},
		owners:    map[ownedBy]string{},
	}
	l.settings.InitialRebalanceDelay = time.Duration(l.rand.IntN(2)) * 3 * time.Second
	l.settings.Gather = time.Duration(seed%3) * time.Second
	l.settings.MaxSize = 2 + l.rand.IntN(8)
	l.settings.OffsetsRetentionCheck = 12 * time.Hour
	book := ownershipBook{}
	l.orders = func(o any) { book.take(t, o.(Ownership)) }
	l.stepped = func() { l.note(l.m) }
	l.reborn = func() { clear(book); l.recall() }
	l.survive = func(volatile int) int { return l.rand.IntN(volatile + 1) }
	if seed%8 == 0 {
		l.twin = l.fresh()
		l.load()
	}
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
		l.commits.fetch(l.t, l.rig, c.group)
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
	switch l.rand.IntN(5) {
	case 0:
		l.commits.lower()
		l.do(Delete{group}, func(any, error) {})
	case 1:
		l.commits.lower()
		l.do(TopicDeleted{"t"}, func(any, error) {})
	case 2:
		l.commits.lower()
		l.advance(8 * 24 * time.Hour)
	case 3:
		l.do(Describe{group}, func(any, error) {})
		l.do(List{}, func(any, error) {})
	case 4:
		c := l.consumer()
		l.do(Evict{c.group, c.id, c.generation}, func(any, error) {})
	}
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

// ownershipBook is what the orders say who owns: by group and member.
type ownershipBook map[string]map[string]Owner

// take follows an order, after which no partition of t has two owners. Other topics come and go, and a new one of the same
// name is not told from the old one.
func (b ownershipBook) take(t testing.TB, o Ownership) {
	if o.All || b[o.Group] == nil {
		b[o.Group] = map[string]Owner{}
	}
	for _, m := range o.Members {
		b[o.Group][m.MemberID] = m
	}
	seen := map[int32]string{}
	for _, m := range b[o.Group] {
		for _, p := range m.Partitions["t"] {
			if seen[p] != "" {
				t.Fatalf("partition %d of %s is owned by %s and %s", p, o.Group, seen[p], m.MemberID)
			}
			seen[p] = m.MemberID
		}
	}
}

// owns checks that nobody else was given the partition in that generation. who is the member's id.
func (l *life) owns(c *consumer, who string, deletions int, generation, partition int32) {
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
		l.commits.fetch(l.t, l.rig, c.group)
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
	if !l.careless[ledGeneration{c.group, g.generation}] && !slices.Equal(all, []int32{0, 1, 2, 3}) {
		l.t.Fatalf("the partitions of %s that are owned: %v", c.group, all)
	}
	for _, m := range g.members {
		if !slices.ContainsFunc(l.consumers, func(c *consumer) bool { return !c.gone && c.id == m.id }) {
			l.t.Fatalf("%s is still a member, and nobody", m.id)
		}
	}
}
