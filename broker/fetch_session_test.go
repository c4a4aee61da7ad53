package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sessionClient talks in one fetch session.
type sessionClient struct {
	*wire
	version int16
	id      int32
	epoch   int32
}

// fetch sends what changed and gives the whole answer; the epoch goes up with each.
func (c *sessionClient) fetch(forget []want, parts ...want) *kmsg.FetchResponse {
	c.t.Helper()
	q := fetchOf(parts...)
	q.SessionID, q.SessionEpoch = c.id, c.epoch
	for _, p := range forget {
		q.ForgottenTopics = append(q.ForgottenTopics, kmsg.FetchRequestForgottenTopic{Topic: p.x.name, TopicID: p.x.id, Partitions: []int32{p.partition}})
	}
	r := c.do(c.version, q).(*kmsg.FetchResponse)
	if c.epoch == 0 {
		c.id = r.SessionID
	}
	c.epoch++
	return r
}

// news says which partitions an answer names, in order, with the number of batches of each.
func (c *sessionClient) news(r *kmsg.FetchResponse) string {
	c.t.Helper()
	if r.ErrorCode != 0 {
		return fmt.Sprintf("error %d", r.ErrorCode)
	}
	s := ""
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			s += fmt.Sprintf(" %d:", p.Partition)
			if p.ErrorCode != 0 {
				s += fmt.Sprintf("E%d", p.ErrorCode)
			} else {
				s += fmt.Sprint(len(offsetsOf(c.t, p.RecordBatches)))
			}
		}
	}
	return s
}

func TestSessionLife(t *testing.T) {
	for _, version := range []int16{7, 11, 12, 13, 18} {
		r := newRig(t, nil)
		x := r.topic("a", 4, nil)
		c := &sessionClient{wire: r.dial(), version: version}
		step := func(what, want string, got *kmsg.FetchResponse) {
			t.Helper()
			if news := c.news(got); news != want || got.ErrorCode == 0 && got.SessionID != c.id {
				t.Errorf("v%d %s: got %q in session %d, want %q in %d", version, what, news, got.SessionID, want, c.id)
			}
		}
		step("opening names all", " 0:0 1:0 2:0", c.fetch(nil, at(x, 0, 0), at(x, 1, 0), at(x, 2, 0)))
		if c.id == 0 {
			t.Fatal("no session")
		}
		step("no news", "", c.fetch(nil))
		r.fill(x.partition(1), 2, 10)
		step("data", " 1:2", c.fetch(nil))
		step("the same data again, as the offset did not move", " 1:2", c.fetch(nil))
		step("the offset moves", "", c.fetch(nil, at(x, 1, 2)))
		step("another partition", " 3:0", c.fetch(nil, at(x, 3, 0)))
		r.fill(x.partition(0), 1, 10)
		r.fill(x.partition(3), 1, 10)
		step("forgotten", " 0:1", c.fetch([]want{at(x, 3, 0)}))
		step("out of range; what had data came last", " 2:E1 0:1", c.fetch(nil, at(x, 2, 99)))
		step("an error repeats", " 2:E1 0:1", c.fetch(nil))
		step("the error is gone", " 2:0", c.fetch(nil, at(x, 2, 0), at(x, 0, 1)))
		step("quiet", "", c.fetch(nil))
		if c.epoch++; true {
			step("an epoch is skipped", "error 71", c.fetch(nil))
		}
		c.epoch -= 2
		step("the session goes on", "", c.fetch(nil))
		last := c.fetch([]want{at(x, 0, 0), at(x, 1, 0), at(x, 2, 0)})
		if c.news(last) != "" || last.SessionID != 0 {
			t.Errorf("v%d: the last partition is forgotten: %+v", version, last)
		}
		step("used up", "error 70", c.fetch(nil))
		s := &r.b.fetchSessions
		s.mu.Lock()
		if len(s.byID) != 0 || s.used.Len() != 0 || s.parts != 0 {
			t.Errorf("left: %d sessions, %d partitions", len(s.byID), s.parts)
		}
		s.mu.Unlock()
	}
}

func TestSessionOrderIsFair(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 3, nil)
	for i := range int32(3) {
		r.fill(x.partition(i), 100, 100)
	}
	c := &sessionClient{wire: r.dial(), version: 12}
	first := func(parts ...want) (partitions []int32) {
		q := fetchOf(parts...)
		q.SessionID, q.SessionEpoch, q.MaxBytes = c.id, c.epoch, 100 // one batch of one partition
		got := c.do(12, q).(*kmsg.FetchResponse)
		c.id, c.epoch = got.SessionID, c.epoch+1
		for _, p := range fetched(got) {
			if len(p.RecordBatches) > 0 {
				partitions = append(partitions, p.Partition)
			}
		}
		return partitions
	}
	seen := fmt.Sprint(first(at(x, 0, 0), at(x, 1, 0), at(x, 2, 0)))
	for range 6 {
		seen += fmt.Sprint(first())
	}
	// The session begins in the order of the first request, and then everybody has a turn.
	if seen != "[0][0][1][2][0][1][2]" {
		t.Error(seen)
	}
}

func TestSessionTopicIDs(t *testing.T) {
	r := newRig(t, nil)
	x, y := r.topic("a", 1, nil), r.topic("b", 1, nil)
	c := &sessionClient{wire: r.dial(), version: 13}
	c.fetch(nil, at(x, 0, 0), at(y, 0, 0))
	c.version = 12
	if got := c.fetch(nil); got.ErrorCode != 106 {
		t.Errorf("by name in a session by id: %+v", got)
	}
	c.version, c.epoch = 13, c.epoch-1
	// A topic that was made anew is not the one the session knows; a deleted one is unknown.
	r.drop(x)
	r.topic("a", 1, nil)
	if got := c.fetch(nil); c.news(got) != " 0:E103" || got.Topics[0].TopicID != x.id {
		t.Errorf("made anew: %+v", got)
	}
	r.drop(y)
	if got := c.news(c.fetch([]want{at(x, 0, 0)})); got != " 0:E100" {
		t.Errorf("deleted: %s", got)
	}
	// By name it is simply the new topic.
	r.topic("b", 1, nil)
	named := &sessionClient{wire: r.dial(), version: 12}
	z := r.topic("c", 1, nil)
	named.fetch(nil, at(z, 0, 0))
	r.drop(z)
	if got := named.news(named.fetch(nil)); got != " 0:E3" {
		t.Errorf("deleted, by name: %s", got)
	}
	r.topic("c", 1, nil)
	if got := named.news(named.fetch(nil)); got != " 0:0" {
		t.Errorf("made anew, by name: %s", got)
	}
}

func TestSessionIsClosedByFullRequests(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 1, nil)
	for _, epoch := range []int32{0, -1} {
		c := &sessionClient{wire: r.dial(), version: 12}
		c.fetch(nil, at(x, 0, 0))
		old := c.id
		c.epoch = epoch
		if got := c.fetch(nil, at(x, 0, 0)); got.ErrorCode != 0 || (got.SessionID != 0) != (epoch == 0) || got.SessionID == old {
			t.Errorf("epoch %d: %+v", epoch, got)
		}
		if r.b.fetchSessions.find(old) != nil {
			t.Errorf("epoch %d: the old session is there", epoch)
		}
	}
}

// A request that was overtaken by the next one of its session, which its client no longer waits for, is refused.
func TestSessionOvertaken(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 1, nil)
	c := &sessionClient{wire: r.dial(), version: 12}
	c.fetch(nil, at(x, 0, 0))
	slow, other := fetchOf(), r.dial()
	slow.SessionID, slow.SessionEpoch, slow.MaxWaitMillis = c.id, 1, 60_000
	other.send(12, slow)
	waitFor(t, func() bool {
		s := r.b.fetchSessions.find(c.id)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.epoch == 2
	})
	c.epoch = 2
	if got := c.fetch(nil); got.ErrorCode != 0 {
		t.Errorf("the next request: %+v", got)
	}
	r.fill(x.partition(0), 1, 10)
	if got := other.receive(slow).(*kmsg.FetchResponse); got.ErrorCode != 71 || len(got.Topics) != 0 || got.SessionID != c.id {
		t.Errorf("the overtaken one: %+v", got)
	}
}

// Who makes room for a new session: Kafka's rules.
func TestSessionSlots(t *testing.T) {
	now := time.Unix(1e6, 0)
	type old struct {
		size      int
		made, use time.Duration // ago
	}
	const slots = 3
	for _, c := range []struct {
		name string
		olds []old
		size int
		gone int // index of the one that makes room, or -1: no room
	}{
		{"all are young", []old{{1, time.Minute, 0}, {1, time.Minute, 0}, {1, time.Minute, 0}}, 9, -1},
		{"a stale one, whatever its size", []old{{50, time.Hour, 3 * time.Minute}, {1, time.Minute, 0}, {1, time.Minute, 0}}, 9, 0},
		{"the smallest old one", []old{{7, time.Hour, 0}, {5, time.Hour, 0}, {1, time.Minute, 0}}, 9, 1},
		{"of the same size", []old{{9, time.Hour, 0}, {9, time.Minute, 0}, {9, time.Minute, 0}}, 9, 0},
		{"old ones are larger", []old{{10, time.Hour, 0}, {11, time.Hour, 0}, {1, time.Minute, 0}}, 9, -1},
	} {
		var s fetchSessions
		var ids []int32
		for _, o := range c.olds {
			x := &fetchSession{}
			ids = append(ids, s.add(x, o.size, slots, now.Add(-o.made)))
			if !s.touch(x, o.size, now.Add(-o.use)) {
				t.Fatal("not kept")
			}
		}
		id := s.add(&fetchSession{}, c.size, slots, now)
		if (id == noSession) != (c.gone < 0) {
			t.Errorf("%s: id %d", c.name, id)
		}
		for i, id := range ids {
			if (s.find(id) == nil) != (i == c.gone) {
				t.Errorf("%s: session %d is there: %v", c.name, i, s.find(id) != nil)
			}
		}
	}
	var none fetchSessions
	if none.add(&fetchSession{}, 1, 0, now) != noSession {
		t.Error("a session without slots")
	}
}

func TestSessionPartitionsAreBounded(t *testing.T) {
	now := time.Unix(1e6, 0)
	var s fetchSessions
	big, small := &fetchSession{}, &fetchSession{}
	if s.add(big, maxSessionParts-1, 10, now) == noSession || s.add(small, 1, 10, now) == noSession {
		t.Fatal("refused within the bound")
	}
	if s.add(&fetchSession{}, 1, 10, now) != noSession {
		t.Error("a session beyond the bound")
	}
	if s.touch(small, 2, now) || s.find(small.id) != nil {
		t.Error("a session grows beyond the bound")
	}
	if s.parts != maxSessionParts-1 {
		t.Errorf("%d partitions", s.parts)
	}
}
