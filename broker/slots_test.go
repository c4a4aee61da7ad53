package broker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/group"
)

// Two groups with the same default client id, each on a connection of its own: each has its own slot, whatever the order in which
// they come, and keeps it. Clients that carry everything on one connection (sarama) need no slots.
func TestTwoGroupsOneClientID(t *testing.T) {
	for _, id := range []string{"kgo", "rdkafka", "sarama"} {
		t.Run(id, func(t *testing.T) {
			who := person{client: id, host: "/10.0.0.1"}
			s := newScene(t)
			a, b := s.connects(who), s.connects(who)
			if id == "sarama" {
				b.carry("h")
				a.carry("g")
			}
			s.joins("g", who.with("m1", nil))
			first := s.fetches(a, 0)
			s.joins("h", who.with("m2", nil))
			second := s.fetches(b, 0)
			how := "slot"
			if id == "sarama" {
				how = "affinity"
			}
			s.expect("the second", second, "h "+how)
			s.expect("the first, alone", first, map[string]string{"slot": "g identity", "affinity": "g affinity"}[how])
			for range 3 { // whatever else changes
				s.now = s.now.Add(time.Second)
				s.joins("h", who.with("m2", nil))
				s.expect("the first", s.fetches(a, 0), "g "+how)
				s.expect("the second", s.fetches(b, 0), "h "+how)
			}
		})
	}
}

func (s *scene) rivals(c *connState) []string {
	_, _, rivals := c.read(topicPartition{s.topic, 0}).key()
	slices.Sort(rivals)
	return rivals
}

// Who was there when only one of two groups was known, as after a restart, moves to the other one when it comes.
func TestSlotsAfterRestart(t *testing.T) {
	s := newScene(t)
	a, b := s.connects(kgo1), s.connects(kgo1)
	s.joins("g", kgo1)
	s.expect("the first", s.fetches(a, 0), "g identity")
	s.expect("the second", s.fetches(b, 0), "g identity")
	s.joins("h", kgo1.with("m2", nil))
	s.expect("the first", s.fetches(a, 0), "g slot")
	s.expect("the second", s.fetches(b, 0), "h slot")
	if got := fmt.Sprint(s.rivals(a), s.rivals(b)); got != "[g h] [g h]" {
		t.Errorf("rivals %s", got)
	}
}

// A commit tells whose a position is: labels are exchanged, once, where only one reader can have committed.
func TestCommitSettles(t *testing.T) {
	prepare := func(t *testing.T) (s *scene, a, b *connState) {
		s = newScene(t)
		a, b = s.connects(kgo1), s.connects(kgo1)
		s.joins("g", kgo1)
		s.joins("h", kgo1.with("m2", nil))
		s.expect("the first", s.fetches(a, 0), "g slot")
		s.expect("the second", s.fetches(b, 0), "h slot")
		return s, a, b
	}
	t.Run("swap", func(t *testing.T) {
		s, a, b := prepare(t)
		s.fetches(a, 100)
		s.fetches(b, 300)
		s.commits("g", 200, kgo1) // a has not read so far
		s.expect("the first", s.fetches(a, 100), "h slot")
		s.expect("the second", s.fetches(b, 300), "g slot")
		if s.rivals(a) != nil || s.rivals(b) != nil || s.r.slots.Load() != 0 {
			t.Errorf("not settled: %v %v", s.rivals(a), s.rivals(b))
		}
		s.fetches(a, 400)
		s.commits("g", 400, kgo1)
		s.joins("h", kgo1.with("m2", nil))
		s.expect("the first, for good", s.fetches(a, 400), "h slot")
		if s.rivals(a) != nil {
			t.Errorf("doubtful again: %v", s.rivals(a))
		}
	})
	t.Run("right", func(t *testing.T) {
		s, a, b := prepare(t)
		s.fetches(a, 100)
		s.fetches(b, 300)
		s.commits("g", 50, kgo1)
		s.expect("the first", s.fetches(a, 100), "g slot")
		if s.rivals(a) != nil || s.rivals(b) == nil {
			t.Errorf("%v %v", s.rivals(a), s.rivals(b))
		}
		s.commits("g", 300, kgo1) // b might have; but it is known who reads for g
		s.expect("the second", s.fetches(b, 300), "h slot")
	})
	t.Run("two equally far", func(t *testing.T) {
		s, a, b := prepare(t)
		s.fetches(a, 100)
		s.fetches(b, 100)
		s.commits("h", 100, kgo1)
		s.expect("the first", s.fetches(a, 100), "g slot")
		if s.rivals(a) == nil || s.rivals(b) == nil {
			t.Error("settled by nothing")
		}
	})
	t.Run("beyond what anybody read", func(t *testing.T) {
		s, a, _ := prepare(t)
		s.commits("h", 1000, kgo1)
		s.expect("the first", s.fetches(a, 0), "g slot")
	})
	t.Run("of another identity", func(t *testing.T) {
		s, a, b := prepare(t)
		s.fetches(a, 100)
		s.fetches(b, 300)
		s.commits("g", 200, person{client: "other"})
		s.expect("the first", s.fetches(a, 100), "g slot")
	})
}

// More readers than groups share the slot that was given last; one that ends is free again.
func TestSlotsAreShared(t *testing.T) {
	s := newScene(t)
	s.joins("g", kgo1)
	s.joins("h", kgo1.with("m2", nil))
	a, b, c := s.connects(kgo1), s.connects(kgo1), s.connects(kgo1)
	s.expect("the first", s.fetches(a, 0), "g slot")
	s.expect("the second", s.fetches(b, 0), "h slot")
	s.expect("the third", s.fetches(c, 0), "h slot")
	s.r.closed(a)
	d := s.connects(kgo1)
	s.expect("another in place of the first", s.fetches(d, 0), "g slot")
	s.r.closed(a) // twice does nothing
	for _, x := range []*connState{b, c, d} {
		s.r.closed(x)
	}
	if len(s.r.readers) != 0 || s.r.count != 0 || s.r.slots.Load() != 0 || len(s.r.conns) != 0 {
		t.Errorf("remains: %v %d %d", s.r.readers, s.r.count, s.r.slots.Load())
	}
}

// A member leaves or loses the partition, and another takes over: the group's slot goes with it, also while the
// connection of the last owner stays open.
func TestTakeOver(t *testing.T) {
	s := newScene(t)
	s.joins("h", kgo1)
	s.joins("g", kgo1.with("m1", nil), kgo1.with("m2", nil))
	other, last, next := s.connects(kgo1), s.connects(kgo1), s.connects(kgo1)
	s.expect("the other group's", s.fetches(other, 0), "h slot")
	s.expect("the owner's", s.fetches(last, 0), "g slot")
	s.now = s.now.Add(time.Second)
	s.fetches(other, 0)
	s.joins("g", kgo1.with("m2", nil), kgo1.with("m1", nil))
	s.now = s.now.Add(time.Second)
	s.expect("the next owner's", s.fetches(next, 0), "g slot")
	s.expect("the last owner's, of what it had asked for", s.fetches(last, 0), "g slot")
	s.expect("the other group's", s.fetches(other, 0), "h slot")
}

// assign() without a group, then with commits.
func TestCommitOnly(t *testing.T) {
	s := newScene(t)
	c := s.connects(kgo1)
	s.expect("without group", s.fetches(c, 0), "client:User:ANONYMOUS/kgo fallback")
	s.simple("g", kgo1)
	s.expect("after a commit", s.fetches(c, 0), "g simple")
	s.expect("another partition", s.fetchesOf(c, 1, 0), "client:User:ANONYMOUS/kgo fallback")
	s.now = s.now.Add(simpleTime / 2)
	s.simple("g", kgo1)
	s.now = s.now.Add(simpleTime / 2)
	s.expect("committing on", s.fetches(c, 0), "g simple")
	s.now = s.now.Add(simpleTime)
	s.expect("no more", s.fetches(c, 0), "client:User:ANONYMOUS/kgo fallback")
	if s.count[bySimple] != 1 || s.count[byFallback] != 3 {
		t.Errorf("counted %v", s.count)
	}
}

// Simple groups are bounded: each partition's, and all of them.
func TestSimpleBounds(t *testing.T) {
	s := newScene(t)
	for i := range 3 * maxSimplePerPartition {
		s.simple(fmt.Sprint("g", i), kgo1)
	}
	if n := len(s.r.owners.topics["a"][0].simple); n != maxSimplePerPartition || s.r.owners.simples != n {
		t.Errorf("%d of a partition, %d of all", n, s.r.owners.simples)
	}
	s.r.owners.simples = maxSimple // of other partitions
	s.r.owners.noteSimple("x", "a", 1, identity{}, "", 0, stampOf(s.now))
	if s.r.owners.simples != maxSimplePerPartition+1 {
		t.Errorf("%d after those whose time is over were dropped", s.r.owners.simples)
	}
	s.r.owners.noteSimple("x", "a", 1<<30, identity{}, "", 0, stampOf(s.now))
	s.r.owners.noteSimple("x", "no", 0, identity{}, "", 0, stampOf(s.now))
	if len(s.r.owners.topics) != 1 || len(s.r.owners.topics["a"]) != 4 {
		t.Error("partitions that do not exist")
	}
}

// A connection that says that it is another client is looked up again; so is one that begins to carry a member.
func TestConnectionChanges(t *testing.T) {
	s := newScene(t)
	s.joins("g", kgo1)
	s.joins("h", kgo1.with("m2", func(p *person) { p.client = "other" }))
	c := s.connects(kgo1)
	s.expect("at first", s.fetches(c, 0), "g identity")
	c.change(func() { c.clientID = "other" })
	s.expect("another client id", s.fetches(c, 0), "h identity")
	c.carry("g")
	s.expect("a member's connection", s.fetches(c, 0), "g affinity")
	for i := range 2 * maxCarried {
		c.carry(fmt.Sprint("x", i))
	}
	if len(c.carries) != maxCarried {
		t.Errorf("carries %d", len(c.carries))
	}
	s.expect("long ago", s.fetches(c, 0), "h identity")
}

// Settings are in force at the next fetch.
func TestResolverSettings(t *testing.T) {
	s := newScene(t)
	c := s.connects(kgo1)
	s.expect("at first", s.fetches(c, 0), "client:User:ANONYMOUS/kgo fallback")
	s.r.unresolved = func() string { return fallbackShared }
	s.expect("before it is told", s.fetches(c, 0), "client:User:ANONYMOUS/kgo fallback")
	s.r.rulesChanged()
	s.expect("afterwards", s.fetches(c, 0), "shared fallback")
}

// What is not read any more is forgotten, and begun again when it is.
func TestIdleSubscriptions(t *testing.T) {
	s := newScene(t)
	s.joins("g", kgo1)
	c, d := s.connects(kgo1), s.connects(kgo2)
	s.fetches(c, 0)
	old := c.read(topicPartition{s.topic, 0})
	s.now = s.now.Add(subscriptionIdle)
	s.fetches(d, 0)
	s.now = s.now.Add(time.Second)
	s.r.expire(stampOf(s.now))
	if s.r.count != 1 || c.read(topicPartition{s.topic, 0}) != nil {
		t.Errorf("%d remain", s.r.count)
	}
	if k, _, _ := old.key(); k != (groupKey{}) {
		t.Errorf("a forgotten subscription is of %v", k)
	}
	if x := s.r.subscription(old, c, topicPartition{s.topic, 0}, 0, stampOf(s.now)); x == old {
		t.Error("a forgotten subscription is used")
	}
}

// Beyond the bound a fetch is resolved, and nothing is kept of it.
func TestTooManySubscriptions(t *testing.T) {
	s := newScene(t)
	s.joins("g", kgo1)
	s.r.count = maxSubscriptions
	c := s.connects(kgo1)
	k := topicPartition{s.topic, 0}
	x := s.r.subscription(nil, c, k, 0, stampOf(s.now))
	if key, how, _ := x.key(); key != (groupKey{true, "g"}) || how != byIdentity {
		t.Errorf("%v %v", key, how)
	}
	if s.r.subscription(x, c, k, 0, stampOf(s.now)) == x {
		t.Error("it is used again")
	}
	if len(s.r.readers) != 0 || c.read(k) != nil || s.r.count != maxSubscriptions {
		t.Error("it is kept")
	}
}

// A fetch of what is known allocates nothing, also when other groups and partitions change.
func TestResolveAllocatesNothing(t *testing.T) {
	s := newScene(t)
	s.joins("g", kgo1)
	c := s.connects(kgo1)
	k, now := topicPartition{s.topic, 0}, stampOf(s.now)
	x := s.r.subscription(nil, c, k, 0, now)
	for name, change := range map[string]func(){"nothing": func() {}, "elsewhere": func() { s.r.owners.changes.Add(1) }} {
		if n := testing.AllocsPerRun(100, func() {
			change()
			s.r.subscription(x, c, k, 0, now)
			s.r.subscription(nil, c, k, 0, now)
		}); n > 0 {
			t.Errorf("%s changes: %v allocations", name, n)
		}
	}
}

// Everything at once, for the race detector; what is left at the end is what is still read.
func TestResolverConcurrently(t *testing.T) {
	s := newScene(t)
	var all sync.WaitGroup
	conns := make([]*connState, 8)
	for i := range conns {
		conns[i] = s.connects(kgo1)
	}
	for i, c := range conns {
		rnd := rand.New(rand.NewPCG(uint64(i), 1))
		all.Go(func() {
			for range 300 {
				k := topicPartition{s.topic, rnd.Int32N(4)}
				s.r.subscription(c.read(k), c, k, rnd.Int64N(100), stampOf(time.Now())).key()
				if rnd.IntN(20) == 0 {
					c.carry(fmt.Sprint("g", rnd.IntN(3)))
				}
			}
			if i%2 == 0 {
				s.r.closed(c)
			}
		})
	}
	all.Go(func() {
		rnd := rand.New(rand.NewPCG(99, 1))
		for i := range 300 {
			g := fmt.Sprint("g", rnd.IntN(3))
			s.r.owners.set(0, group.Ownership{All: true, Group: g, Members: []group.Owner{{
				MemberID: "m", Client: group.Client{ID: "kgo", Host: "/10.0.0.1"}, Epoch: int32(i),
				Partitions: map[string][]int32{"a": {rnd.Int32N(4), rnd.Int32N(4)}},
			}}}, time.Now())
			s.r.committed(g, "a", rnd.Int32N(4), rnd.Int64N(100), identity{"kgo", anonymous}, stampOf(time.Now()))
			s.r.show("", "", "", stampOf(time.Now()))
			s.r.expire(stampOf(time.Now()))
		}
	})
	all.Wait()
	want := 0
	for _, c := range conns {
		want += len(c.reads)
	}
	listed := 0
	readers := map[*mark]int{}
	for k, list := range s.r.readers {
		listed += len(list)
		for _, sub := range list {
			if sub.topicPartition != k || sub.conn.reads[k] != sub {
				t.Errorf("%v is listed at %v", sub.topicPartition, k)
			}
			if m := sub.result.Load().mark; m != nil {
				readers[m]++
			}
		}
	}
	for m, n := range readers {
		if m.readers != n {
			t.Errorf("a mark counts %d readers of %d", m.readers, n)
		}
	}
	if s.r.count != want || listed != want || want == 0 {
		t.Errorf("%d subscriptions counted, %d listed, %d kept", s.r.count, listed, want)
	}
}

func BenchmarkSubscription(b *testing.B) {
	s := newScene(nil)
	s.joins("g", kgo1)
	c := s.connects(kgo1)
	k, now := topicPartition{s.topic, 0}, stampOf(s.now)
	x := s.r.subscription(nil, c, k, 0, now)
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.r.subscription(x, c, k, 0, now)
		}
	})
	b.Run("by connection", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.r.subscription(nil, c, k, 0, now)
		}
	})
	b.Run("another partition changed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.r.owners.changes.Add(1)
			s.r.subscription(x, c, k, 0, now)
		}
	})
}

// A thousand groups of one client id on one partition.
func BenchmarkManyGroups(b *testing.B) {
	for b.Loop() {
		s := newScene(nil)
		for i := range 1000 {
			s.joins(fmt.Sprint("g", i), kgo1)
			s.fetches(s.connects(kgo1), 0)
		}
	}
}

// Whose slot is only a guess gives way to whom the group's offset names.
func TestSlotGivesWay(t *testing.T) {
	s := newScene(t)
	s.joins("g", kgo1)
	s.joins("h", kgo1.with("m2", nil))
	a, b := s.connects(kgo1), s.connects(kgo1)
	s.expect("the first", s.fetches(a, 0), "g slot")
	s.told("g", 70)
	s.expect("the second, from where g was told to begin", s.fetches(b, 70), "g tiebreak")
	s.joins("h", kgo1.with("m2", nil))
	s.expect("the first", s.fetches(a, 0), "h slot")
	s.expect("the second", s.fetches(b, 70), "g tiebreak")
}

// Whatever came before, once as many readers as groups are there, each group has one of them for itself, and keeps it.
func TestSlotsAreOneToOne(t *testing.T) {
	for seed := range uint64(200) {
		s := newScene(t)
		rnd := rand.New(rand.NewPCG(seed, 7))
		var conns []*connState
		for range 60 {
			s.now = s.now.Add(time.Duration(rnd.Int64N(int64(10 * time.Second))))
			g := fmt.Sprint("g", rnd.IntN(4))
			switch n := rnd.IntN(10); {
			case n < 2:
				s.joins(g, kgo1.with(fmt.Sprint("m", rnd.IntN(2)), nil))
			case n < 3:
				s.joins(g)
			case n < 5:
				conns = append(conns, s.connects(kgo1))
			case n < 6 && len(conns) > 0:
				i := rnd.IntN(len(conns))
				s.r.closed(conns[i])
				conns = slices.Delete(conns, i, i+1)
			case n < 7:
				s.commits(g, rnd.Int64N(100), kgo1)
			case len(conns) > 0:
				s.fetches(conns[rnd.IntN(len(conns))], 100+rnd.Int64N(100)) // where nobody has committed
			}
		}
		s.now = s.now.Add(drainTime)
		for i := range 4 {
			s.joins(fmt.Sprint("g", i), kgo1)
		}
		for ; len(conns) > 4; conns = conns[1:] {
			s.r.closed(conns[0])
		}
		for len(conns) < 4 {
			conns = append(conns, s.connects(kgo1))
		}
		s.round(conns)
		got := s.round(conns)
		sorted := slices.Clone(got)
		slices.Sort(sorted)
		if !slices.Equal(sorted, []string{"g0", "g1", "g2", "g3"}) {
			t.Fatalf("seed %d: the readers have %v", seed, got)
		}
		for range 3 {
			if again := s.round(conns); !slices.Equal(again, got) {
				t.Fatalf("seed %d: the readers had %v and have %v", seed, got, again)
			}
		}
	}
}

// round lets each connection fetch once, and gives the groups.
func (s *scene) round(conns []*connState) (groups []string) {
	s.now = s.now.Add(time.Second)
	for _, c := range conns {
		x := s.r.subscription(nil, c, topicPartition{s.topic, 0}, 150, stampOf(s.now))
		groups = append(groups, x.group())
	}
	return groups
}
