package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/group"
)

// stallScene is a check on a clock that is moved by hand, with partitions and a machine that are what the test says.
type stallScene struct {
	*scene
	stalls   *stalls
	high     int64
	holding  group.Holding // without Heard, which is now less silent
	silent   time.Duration // since the last heartbeat
	asked    int
	began    []string
	evicted  []string
	evicting bool
	conn     *connState
}

const checkEvery = 5 * time.Second

// newStallScene has member m1 of group g own a-0 with 100 records, 40 of them committed long ago; its poll interval is a minute.
func newStallScene(t *testing.T) *stallScene {
	s := &stallScene{scene: newScene(t), high: 100, holding: group.Holding{Owns: true, Offset: 40}, silent: 3 * time.Second}
	s.stalls = newStalls(s.r.owners, s.r)
	s.stalls.bounds = func(topic string, partition int32) (int64, int64, bool) {
		return 0, s.high, topic == "a" && partition == 0
	}
	s.stalls.ask = func(_ int32, asked []group.Holder) []group.Holding {
		s.asked++
		h := s.holding
		h.Heard = s.now.Add(-s.silent)
		return slices.Repeat([]group.Holding{h}, len(asked))
	}
	s.stalls.began = func(m stalledMember) { s.began = append(s.began, m.member) }
	s.stalls.evicts = func() bool { return s.evicting }
	s.stalls.evict = func(m stalledMember) { s.evicted = append(s.evicted, m.member) }
	s.joins("g", kgo1)
	s.conn = s.connects(kgo1)
	s.fetches(s.conn, 40)
	return s
}

// pass lets time go by, with the checks that fall into it.
func (s *stallScene) pass(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(checkEvery)
		s.stalls.check(s.now, checkEvery+pauseTime)
	}
}

// stalled describes what is stalled now.
func (s *stallScene) stalled() (out string) {
	for _, m := range s.stalls.all() {
		out += m.group + "/" + m.member
		for _, p := range m.partitions {
			out += fmt.Sprintf(" %s-%d idle %v backlog %d", p.topic, p.partition, s.now.Sub(p.since.time()).Round(time.Millisecond), p.backlog)
		}
	}
	return out
}

// What a member does, and what is the case, 30 seconds after it began to have the partition; and what a check finds 35
// seconds later, with a poll interval of a minute.
func TestStalled(t *testing.T) {
	const idle = "g/m1 a-0 idle 1m5s backlog 60"
	stranger := func(host person) person { return host.with("", func(p *person) { p.client = "x" }) }
	for name, x := range map[string]struct {
		before func(s *stallScene)
		then   func(s *stallScene)
		want   string
	}{
		"it reads nothing":             {want: idle},
		"it fetches on":                {then: func(s *stallScene) { s.fetches(s.conn, 40) }},
		"another member of it fetches": {then: func(s *stallScene) { s.fetches(s.connects(kgo2), 50) }},
		"its fetch waits for more": {before: func(s *stallScene) {
			s.conn.read(topicPartition{s.topic, 0}).readUntil(stampOf(s.now) + stamp(10*time.Second))
		}},
		"it commits":                         {then: func(s *stallScene) { s.commits("g", 41, kgo1) }},
		"it committed, as the machine knows": {then: func(s *stallScene) { s.holding.Committed = s.now.UnixMilli() }},
		"nothing is left to read":            {before: func(s *stallScene) { s.holding.Offset = 100 }},
		"the partition is empty":             {before: func(s *stallScene) { s.high = 0 }},
		"it committed beyond the end":        {before: func(s *stallScene) { s.holding.Offset = 1000 }},
		"it never committed":                 {before: func(s *stallScene) { s.holding.Offset = -1 }, want: idle},
		"it never committed, and fetched all": {before: func(s *stallScene) {
			s.holding.Offset = -1
			s.fetches(s.conn, 100)
		}},
		"it never did anything": {
			before: func(s *stallScene) {
				s.holding.Offset = -1
				s.r.closed(s.conn)
				s.joins("g")
				s.pass(drainTime)
				s.joins("g", kgo1)
			},
			want: "g/m1 a-0 idle 1m5s backlog 100",
		},
		"it is silent: its session will end": {before: func(s *stallScene) { s.silent = time.Minute }},
		"it is no member any more":           {before: func(s *stallScene) { s.holding.Owns = false }},
		"its machine does not answer":        {before: func(s *stallScene) { s.stalls.ask = func(int32, []group.Holder) []group.Holding { return nil } }},
		"it has no poll interval": {before: func(s *stallScene) {
			m := owns("m1", 1, map[string][]int32{"a": {0}})
			s.r.owners.set(0, group.Ownership{All: true, Group: "g", Members: []group.Owner{m}}, s.now)
		}},
		"somebody unknown on its host reads": {then: func(s *stallScene) { s.fetches(s.connects(stranger(kgo1)), 40) }},
		"somebody unknown elsewhere reads":   {then: func(s *stallScene) { s.fetches(s.connects(stranger(kgo2)), 40) }, want: idle},
		"the process was stopped":            {then: func(s *stallScene) { s.now = s.now.Add(time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStallScene(t)
			s.stalls.check(s.now, checkEvery+pauseTime)
			if x.before != nil {
				x.before(s)
			}
			s.pass(30 * time.Second)
			if x.then != nil {
				x.then(s)
			}
			s.pass(35 * time.Second)
			if got := s.stalled(); got != x.want {
				t.Errorf("stalled: %q, want %q", got, x.want)
			}
		})
	}
}

// An episode is told of once, however long it lasts; the next one again.
func TestStalledEpisodes(t *testing.T) {
	s := newStallScene(t)
	s.pass(10 * time.Minute)
	if len(s.began) != 1 || len(s.evicted) != 0 {
		t.Errorf("began %v, evicted %v", s.began, s.evicted)
	}
	if _, ok := s.stalls.of("g", "m1"); !ok {
		t.Error("the description does not tell")
	}
	s.fetches(s.conn, 41)
	s.pass(checkEvery)
	if got := s.stalled(); got != "" {
		t.Errorf("after a fetch: %s", got)
	}
	if _, ok := s.stalls.of("g", "m1"); ok {
		t.Error("the description still tells")
	}
	s.pass(10 * time.Minute)
	if len(s.began) != 2 {
		t.Errorf("began %v", s.began)
	}
	s.evicting = true
	s.pass(checkEvery)
	if len(s.evicted) != 1 || len(s.began) != 2 {
		t.Errorf("began %v, evicted %v", s.began, s.evicted)
	}
	s.joins("g", kgo2) // it is out, and the other has a poll interval of its own
	s.pass(time.Minute)
	if got := s.stalled(); got != "" {
		t.Errorf("after it was evicted: %s", got)
	}
}

// A check in quiet times asks no machine.
func TestStalledAsksLittle(t *testing.T) {
	s := newStallScene(t)
	for range 100 {
		s.fetches(s.conn, 40)
		s.pass(checkEvery)
	}
	if s.asked > 0 {
		t.Errorf("asked %d times", s.asked)
	}
}

// One check looks at no more than its bound.
func TestStalledIsBounded(t *testing.T) {
	o := testOwners()
	for i := range 10 {
		o.set(0, group.Ownership{All: true, Group: fmt.Sprint("g", i), Members: []group.Owner{{
			MemberID: "m", PollInterval: time.Second, Partitions: map[string][]int32{"a": {0, 1, 2, 3}, "b": {0, 1}},
		}}}, ownersEpoch)
	}
	later := stampOf(ownersEpoch.Add(time.Minute))
	if n := len(o.idle(later, -never, 1000)); n != 60 {
		t.Errorf("%d claims are idle", n)
	}
	if n := len(o.idle(later, -never, 7)); n != 7 {
		t.Errorf("%d claims are looked at", n)
	}
	if n := len(o.idle(later, later, 1000)); n != 0 {
		t.Errorf("%d claims are idle, and nothing can be", n)
	}
}

// The machine of a real broker tells of its members, and ends a membership when asked to.
func TestEvictThroughTheMachine(t *testing.T) {
	n := startNode(t, nil)
	n.dial().mustCreate("t")
	m := n.member("g")
	m.join(9)
	m.sync(4, map[string]string{m.id: "not of a consumer"})
	ask := func(epoch int32) (h group.Holding) {
		n.groups.mu.RLock()
		shards := len(n.groups.shards)
		n.groups.mu.RUnlock()
		list := n.groups.holdings(partitionOf("g", int32(shards)), []group.Holder{{Group: "g", Member: m.id, Epoch: epoch, Topic: "t"}})
		if len(list) != 1 {
			t.Fatal("no answer")
		}
		return list[0]
	}
	if h := ask(m.gen); !h.Owns || h.Offset != -1 || time.Since(h.Heard) > ioTimeout {
		t.Errorf("%+v", h)
	}
	m.commit(8, "t", 5)
	if h := ask(m.gen + 1); h.Owns || h.Offset != 5 || h.Committed == 0 {
		t.Errorf("of another epoch: %+v", h)
	}
	if n.groups.holdings(1000, nil) != nil {
		t.Error("a shard that does not exist answers")
	}
	evict := func(epoch int32) bool {
		done := make(chan any, 1)
		n.groups.do("g", group.Evict{Group: "g", MemberID: m.id, Epoch: epoch}, func(v any, _ error) { done <- v })
		return (<-done).(bool)
	}
	if evict(m.gen+1) || m.heartbeat(4) != 0 {
		t.Error("evicted in an epoch that it is not in")
	}
	if !evict(m.gen) || m.heartbeat(4) != 25 || evict(m.gen) {
		t.Error("not evicted, or twice")
	}
}
