package broker

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/group"
)

// scene is a resolver without a broker: groups, connections, and a clock that stands still until it is moved.
type scene struct {
	t     *testing.T
	r     *resolver
	now   time.Time
	topic *topic
	conns uint64
	epoch int32
	count [methods]int
}

func newScene(t *testing.T) *scene {
	s := &scene{t: t, now: time.Now(), topic: &topic{name: "a"}}
	s.r = newResolver(testOwners())
	s.r.topicOf = func(string) *topic { return s.topic }
	s.r.counted = func(m method) { s.count[m]++ }
	return s
}

// person is a member, or a connection of one.
type person struct{ name, client, host, rack, software string }

// joins has a group consist of these members; the partition 0 of topic a goes to the first.
func (s *scene) joins(groupID string, members ...person) {
	s.epoch++
	own := group.Ownership{All: true, Group: groupID}
	for i, m := range members {
		own.Members = append(own.Members, group.Owner{
			MemberID: m.name, Client: group.Client{ID: m.client, Host: m.host, Software: m.software}, RackID: m.rack, Epoch: s.epoch,
			PollInterval: time.Minute, Partitions: map[string][]int32{"a": {int32(i)}},
		})
	}
	s.r.owners.set(0, own, s.now)
}

func (s *scene) connects(p person) *connState {
	s.conns++
	c := &connState{id: s.conns, host: p.host, identity: identity{p.client, anonymous}, rack: p.rack, software: p.software}
	s.r.opened(c)
	return c
}

// fetches gives whom a fetch of a-0 belongs to, and how that was found.
func (s *scene) fetches(c *connState, offset int64) string {
	return s.fetchesOf(c, 0, offset)
}

func (s *scene) fetchesOf(c *connState, partition int32, offset int64) string {
	k, how, _ := s.r.subscription(nil, c, topicPartition{s.topic, partition}, offset, stampOf(s.now)).key()
	return fmt.Sprintf("%s %s", k.name, how)
}

func (s *scene) told(groupID string, offset int64) {
	m, _ := s.r.owners.markOf(groupID, "a", 0)
	m.offset.Store(offset)
}

func (s *scene) commits(groupID string, offset int64, p person) {
	s.r.committed(groupID, "a", 0, offset, identity{p.client, anonymous}, stampOf(s.now))
}

func (s *scene) expect(what, got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: the fetch is %q, want %q", what, got, want)
	}
}

var (
	kgo1 = person{"m1", "kgo", "/10.0.0.1", "", "kgo 1"}
	kgo2 = person{"m2", "kgo", "/10.0.0.2", "", "kgo 1"}
)

// with gives the person under another name, with something else changed.
func (p person) with(name string, change func(*person)) person {
	p.name = name
	if change != nil {
		change(&p)
	}
	return p
}

// Each rule alone, on a connection that is new.
func TestResolveRules(t *testing.T) {
	at := func(host string) func(*person) { return func(p *person) { p.host = host } }
	other := kgo1.with("x", func(p *person) { p.client = "other" })
	for name, x := range map[string]struct {
		prepare func(s *scene)
		conn    person
		change  func(s *scene, c *connState)
		want    string
	}{
		"nobody":   {conn: kgo1, want: "client:User:ANONYMOUS/kgo fallback"},
		"identity": {prepare: func(s *scene) { s.joins("g", kgo1) }, conn: kgo1, want: "g identity"},
		"identity, another host": {
			prepare: func(s *scene) { s.joins("g", kgo1) }, conn: kgo1.with("", at("/192.168.0.1")), want: "g identity",
		},
		"another identity": {prepare: func(s *scene) { s.joins("g", kgo1) }, conn: other, want: "client:User:ANONYMOUS/other fallback"},
		"another partition is the member's": {
			prepare: func(s *scene) { s.joins("g", other, kgo1) }, conn: kgo1, want: "client:User:ANONYMOUS/kgo fallback",
		},
		"affinity": {
			prepare: func(s *scene) { s.joins("g", kgo1) }, conn: other,
			change: func(_ *scene, c *connState) { c.carry("g") }, want: "g affinity",
		},
		"affinity before identity": {
			prepare: func(s *scene) { s.joins("g", kgo1); s.joins("h", other) }, conn: other,
			change: func(_ *scene, c *connState) { c.carry("g") }, want: "g affinity",
		},
		"affinity with a group that owns nothing here": {
			prepare: func(s *scene) { s.joins("g", kgo1) }, conn: kgo1,
			change: func(_ *scene, c *connState) { c.carry("h") }, want: "g identity",
		},
		"affinity with two": {
			prepare: func(s *scene) { s.joins("g", kgo1); s.joins("h", kgo2) }, conn: other.with("", at("/10.0.0.2")),
			change: func(_ *scene, c *connState) { c.carry("g"); c.carry("h") }, want: "h tiebreak",
		},
		"two members of one group": {
			prepare: func(s *scene) { s.joins("g", kgo1); s.now = s.now.Add(time.Second); s.joins("g", kgo2, kgo1) }, conn: kgo1, want: "g identity",
		},
		"by host":      {prepare: func(s *scene) { s.joins("g", kgo1); s.joins("h", kgo2) }, conn: kgo1, want: "g tiebreak"},
		"by the other": {prepare: func(s *scene) { s.joins("g", kgo1); s.joins("h", kgo2) }, conn: kgo2, want: "h tiebreak"},
		"by rack": {
			prepare: func(s *scene) {
				s.joins("g", kgo1.with("m1", func(p *person) { p.rack = "r1" }))
				s.joins("h", kgo1.with("m2", func(p *person) { p.rack = "r2" }))
			},
			conn: kgo1.with("", func(p *person) { p.rack = "r1" }), want: "g tiebreak",
		},
		"by offset": {
			prepare: func(s *scene) { s.joins("g", kgo1); s.joins("h", kgo1); s.told("g", 70); s.told("h", 71) }, conn: kgo1, want: "g tiebreak",
		},
		"by software": {
			prepare: func(s *scene) {
				s.joins("g", kgo1.with("m1", func(p *person) { p.software = "kgo 2" }))
				s.joins("h", kgo1.with("m2", nil))
			},
			conn: kgo1.with("", func(p *person) { p.software = "kgo 2" }), want: "g tiebreak",
		},
		"nothing tells": {prepare: func(s *scene) { s.joins("g", kgo1); s.joins("h", kgo1) }, conn: kgo1, want: "g slot"},
		"simple": {
			prepare: func(s *scene) { s.simple("g", kgo1) }, conn: kgo1, want: "g simple",
		},
		"simple, another host":     {prepare: func(s *scene) { s.simple("g", kgo1) }, conn: kgo2, want: "client:User:ANONYMOUS/kgo fallback"},
		"simple, another identity": {prepare: func(s *scene) { s.simple("g", kgo1) }, conn: other, want: "client:User:ANONYMOUS/other fallback"},
		"simple, without a name": {
			prepare: func(s *scene) { s.simple("", kgo1); s.simple("g", kgo1) }, conn: kgo1, want: "g simple",
		},
		"simple, without a name alone": {prepare: func(s *scene) { s.simple("", kgo1) }, conn: kgo1, want: "client:User:ANONYMOUS/kgo fallback"},
		"simple, long ago": {
			prepare: func(s *scene) { s.simple("g", kgo1); s.now = s.now.Add(simpleTime) }, conn: kgo1, want: "client:User:ANONYMOUS/kgo fallback",
		},
		"simple, two": {
			prepare: func(s *scene) { s.simple("g", kgo1); s.simple("h", kgo1) }, conn: kgo1, want: "h simple",
			change: func(s *scene, _ *connState) { s.expect("another", s.fetches(s.connects(kgo1), 1), "g simple") },
		},
		"a member before a simple group": {
			prepare: func(s *scene) { s.simple("g", kgo1); s.joins("h", kgo1) }, conn: kgo1, want: "h identity",
		},
		"the last owner drains": {prepare: func(s *scene) { s.joins("g", kgo1); s.joins("g") }, conn: kgo1, want: "g identity"},
		"who owns it comes before who did": {
			prepare: func(s *scene) { s.joins("g", kgo1); s.joins("g"); s.joins("h", kgo1) }, conn: kgo1, want: "h identity",
		},
		"drained": {
			prepare: func(s *scene) { s.joins("g", kgo1); s.joins("g"); s.now = s.now.Add(drainTime) }, conn: kgo1,
			want: "client:User:ANONYMOUS/kgo fallback",
		},
		"drained by the next owner's commit": {
			prepare: func(s *scene) { s.joins("g", kgo1); s.joins("g", other); s.commits("g", 5, other) }, conn: kgo1,
			want: "client:User:ANONYMOUS/kgo fallback",
		},
		"hint": {
			prepare: func(s *scene) {
				s.joins("g", kgo1)
				s.r.hint = func() *regexp.Regexp { return regexp.MustCompile(`^app-(.+)$`) }
			},
			conn: kgo1.with("", func(p *person) { p.client = "app-billing" }), want: "billing hint",
		},
		"hint that does not match": {
			prepare: func(s *scene) {
				s.joins("g", kgo1)
				s.r.hint = func() *regexp.Regexp { return regexp.MustCompile(`^app-(.+)$`) }
			},
			conn: kgo1, want: "g identity",
		},
		"fallback to the connection": {prepare: func(s *scene) { s.r.unresolved = func() string { return fallbackConnection } }, conn: kgo1, want: "connection:1 fallback"},
		"fallback to all":            {prepare: func(s *scene) { s.r.unresolved = func() string { return fallbackShared } }, conn: kgo1, want: "shared fallback"},
		"fallback to none":           {prepare: func(s *scene) { s.r.unresolved = func() string { return fallbackNone } }, conn: kgo1, want: " fallback"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if x.prepare != nil {
				x.prepare(s)
			}
			c := s.connects(x.conn)
			if x.change != nil {
				x.change(s, c)
			}
			s.expect("a new connection", s.fetches(c, 70), x.want)
			s.expect("again", s.fetches(c, 80), x.want)
			if n := sum(s.count[:]); n > 2 {
				t.Errorf("resolved %d times", n)
			}
		})
	}
}

func (s *scene) simple(groupID string, p person) {
	s.r.owners.noteSimple(groupID, "a", 0, identity{p.client, anonymous}, p.host, 3, stampOf(s.now))
}

func sum(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}

// What /v1/connections shows: the connections in order, of them what was asked for, and not more than its bound.
func TestShowConnections(t *testing.T) {
	s := newScene(t)
	s.joins("g", kgo1)
	a, b, idle := s.connects(kgo1), s.connects(kgo2.with("", func(p *person) { p.client = "other" })), s.connects(kgo2)
	idle.carry("g")
	s.fetches(a, 7)
	s.fetchesOf(a, 1, 8)
	s.fetches(b, 9)
	s.now = s.now.Add(3 * time.Second)
	for _, x := range []struct {
		group, topic, client string
		want                 string
	}{
		{want: "1: a-0 g identity 7 a-1 client:User:ANONYMOUS/kgo fallback 8; 2: a-0 client:User:ANONYMOUS/other fallback 9; 3 of [g]:;"},
		{group: "g", want: "1: a-0 g identity 7; 3 of [g]:;"},
		{topic: "a", client: "other", want: "2: a-0 client:User:ANONYMOUS/other fallback 9;"},
		{topic: "b"},
		{group: "h"},
	} {
		list, omitted := s.r.show(x.group, x.topic, x.client, stampOf(s.now))
		var got []string
		for _, c := range list {
			text := fmt.Sprint(c.ID)
			if len(c.Members) > 0 {
				text += fmt.Sprint(" of ", c.Members)
			}
			text += ":"
			for _, r := range c.Reads {
				name := r.StandIn
				if r.Group != nil {
					name = *r.Group
				}
				text += fmt.Sprintf(" %s-%d %s %s %d", r.Topic, r.Partition, name, r.Method, r.Position)
				if r.Idle != 3 {
					t.Errorf("idle for %v s", r.Idle)
				}
			}
			got = append(got, text+";")
		}
		if text := strings.Join(got, " "); text != x.want || omitted != 0 {
			t.Errorf("%+v: %d omitted, %s", x, omitted, text)
		}
	}
	for i := range int32(maxShownSubscriptions) {
		s.fetchesOf(b, i+10, 0)
	}
	list, omitted := s.r.show("", "", "", stampOf(s.now))
	if n := len(list[0].Reads) + len(list[1].Reads); len(list) != 3 || n != maxShownSubscriptions || omitted != 3 {
		t.Errorf("%d connections with %d partitions, %d omitted", len(list), n, omitted)
	}
}
