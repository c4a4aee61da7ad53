package broker

import (
	"container/list"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/kproto"
)

// Fetch sessions (KIP-227). A client names its partitions once; from then on its requests carry what changed, and the
// answers carry the partitions that have something to say. The rules are Kafka's:
//
//   - epoch 0 opens a session, epoch -1 does without one; both end the session they name.
//   - any other epoch must be the one that follows the last; then the session's partitions are fetched.
//   - a session knows its topics by name (to version 12) or by id (from version 13), never both.
//   - a session is used up when it has no partition left.
//   - an answer moves the partitions that had data to the end of the session's order, so that a partition full of data
//     does not starve those behind it.
//
// A session that is not known any more is no loss: the client is told FETCH_SESSION_ID_NOT_FOUND and opens another one.

const (
	// sessionStaleAfter is how long a session must be unused before a new one takes its slot without question, and how
	// old it must be before a larger one may take it. Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS.
	sessionStaleAfter = 2 * time.Minute
	// maxSessionParts bounds the partitions in all sessions, at about 150 bytes each. Kafka bounds the sessions only.
	maxSessionParts = 400_000

	noSession    = 0  // session_id of an answer without a session
	initialEpoch = 0  // session_epoch that opens a session
	finalEpoch   = -1 // session_epoch that does without
)

var (
	errSessionNotFound = &kproto.Error{Code: kproto.FetchSessionIDNotFound, Message: "no such fetch session"}
	errSessionEpoch    = &kproto.Error{Code: kproto.InvalidFetchSessionEpoch, Message: "the fetch session is at another epoch"}
	errSessionTopicID  = &kproto.Error{Code: kproto.FetchSessionTopicIDError, Message: "the fetch session names topics the other way"}
)

// nextSessionEpoch wraps to 1: 0 and -1 have meanings of their own.
func nextSessionEpoch(e int32) int32 {
	if e < 0 {
		return finalEpoch
	}
	return max(e+1, 1)
}

// fetchSessions are the sessions of all clients. The zero value is ready. Lock order: fetchSession, then fetchSessions.
type fetchSessions struct {
	mu    sync.Mutex
	byID  map[int32]*fetchSession
	used  list.List // of *fetchSession, least recently used first
	parts int       // in all sessions, as of their last use
}

// fetchSession is one client's.
type fetchSession struct {
	id      int32
	byTopic bool // by topic id
	created time.Time

	// Of the cache; guarded by its lock.
	place    *list.Element
	lastUsed time.Time
	counted  int // this session's share of fetchSessions.parts

	mu     sync.Mutex
	epoch  int32 // that the next request must carry
	topics map[topicKey]*sessionTopic
	order  sessionPart // head of the ring of partitions
	size   int
}

// topicKey names a topic by exactly one of the two.
type topicKey struct {
	name string
	id   kproto.TopicID
}

type sessionTopic struct {
	topicKey
	known string // the name that the topic had when its id was last looked up
	index int32  // in the request that is being loaded, or -1
	parts map[int32]*sessionPart
}

// sessionPart is one partition of a session, and what its client knows.
type sessionPart struct {
	topic      *sessionTopic
	partition  int32
	asked      fetchAsked
	high       int64 // high watermark and log start as last answered; -1: not answered, or an error was
	start      int64
	sub        atomic.Pointer[subscription] // what fetchCall.follow found last
	prev, next *sessionPart
}

// find gives the session, or nil.
func (s *fetchSessions) find(id int32) *fetchSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// remove ends the session if there is one.
func (s *fetchSessions) remove(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.byID[id]; x != nil {
		s.removeLocked(x)
	}
}

func (s *fetchSessions) removeLocked(x *fetchSession) {
	delete(s.byID, x.id)
	s.used.Remove(x.place)
	s.parts -= x.counted
}

// touch notes that a session of the size given was used. A session that grew beyond what all may hold is ended.
func (s *fetchSessions) touch(x *fetchSession, size int, now time.Time) (kept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[x.id] != x {
		return false
	}
	s.parts += size - x.counted
	x.counted, x.lastUsed = size, now
	s.used.MoveToBack(x.place)
	if s.parts > maxSessionParts {
		s.removeLocked(x)
		return false
	}
	return true
}

// add gives a session of the size given its id, or noSession when there is no room: then the client goes on without.
func (s *fetchSessions) add(x *fetchSession, size, slots int, now time.Time) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.byID) >= slots || s.parts+size > maxSessionParts {
		victim := s.victimLocked(size, now)
		if victim == nil {
			return noSession
		}
		s.removeLocked(victim)
	}
	if s.byID == nil {
		s.byID = map[int32]*fetchSession{}
	}
	for x.id = noSession; x.id == noSession || s.byID[x.id] != nil; {
		x.id = rand.Int32()
	}
	x.created, x.lastUsed, x.counted = now, now, size
	s.byID[x.id] = x
	s.parts += size
	x.place = s.used.PushBack(x)
	return x.id
}

// victimLocked picks the session that makes room for one of the size given: the least recently used one if it is stale,
// else the smallest of the old ones if it is not larger than the new one.
func (s *fetchSessions) victimLocked(size int, now time.Time) *fetchSession {
	oldest := s.used.Front()
	if oldest == nil {
		return nil
	}
	if x := oldest.Value.(*fetchSession); now.Sub(x.lastUsed) > sessionStaleAfter {
		return x
	}
	var smallest *fetchSession
	for e := oldest; e != nil; e = e.Next() {
		x := e.Value.(*fetchSession)
		old := x.lastUsed.Sub(x.created) > sessionStaleAfter
		if old && x.counted <= size && (smallest == nil || x.counted < smallest.counted) {
			smallest = x
		}
	}
	return smallest
}

// newFetchSession makes the session of a full request from its answer; it has no id yet.
func newFetchSession(f *fetchCall) *fetchSession {
	x := &fetchSession{byTopic: f.byTopicID(), epoch: nextSessionEpoch(initialEpoch), topics: map[topicKey]*sessionTopic{}}
	x.order.prev, x.order.next = &x.order, &x.order
	for i := range f.parts {
		p := &f.parts[i]
		e := x.put(&f.topics[p.topic], p)
		e.sub.Store(p.sub)
		e.told(p)
	}
	return x
}

// put adds a partition at the end, or gives one that is there what was asked this time.
func (x *fetchSession) put(asked *fetchTopic, p *fetchPart) *sessionPart {
	t := x.topics[asked.topicKey]
	if t == nil {
		t = &sessionTopic{topicKey: asked.topicKey, parts: map[int32]*sessionPart{}}
		x.topics[t.topicKey] = t
	}
	if asked.topic != nil {
		t.known = asked.topic.name
	}
	e := t.parts[p.partition]
	if e == nil {
		e = &sessionPart{topic: t, partition: p.partition, high: -1, start: -1}
		t.parts[p.partition] = e
		e.linkBefore(&x.order)
		x.size++
	}
	e.asked = p.fetchAsked
	return e
}

// forget takes a partition out, if it is there.
func (x *fetchSession) forget(k topicKey, partition int32) {
	t := x.topics[k]
	if t == nil || t.parts[partition] == nil {
		return
	}
	t.parts[partition].unlink()
	if delete(t.parts, partition); len(t.parts) == 0 {
		delete(x.topics, k)
	}
	x.size--
}

// update takes in what an incremental request changes.
func (x *fetchSession) update(f *fetchCall, forgotten []forgottenPart) {
	for i := range f.parts {
		x.put(&f.topics[f.parts[i].topic], &f.parts[i])
	}
	for _, p := range forgotten {
		x.forget(p.topicKey, p.partition)
	}
}

// load gives a request the session's partitions, in order, and looks their topics up.
func (x *fetchSession) load(f *fetchCall) {
	for _, t := range x.topics {
		t.index = -1
	}
	f.clear()
	f.topics = slices.Grow(f.topics, len(x.topics))
	f.needParts(x.size)
	for e := x.order.next; e != &x.order; e = e.next {
		if e.topic.index < 0 {
			e.topic.index = int32(len(f.topics))
			t := f.broker.lookUp(e.topic.topicKey, x.byTopic, e.topic.known)
			if f.topics = append(f.topics, t); t.topic != nil {
				e.topic.known = t.topic.name
			}
		}
		f.parts = append(f.parts, fetchPart{topic: e.topic.index, partition: e.partition, fetchAsked: e.asked, cached: e})
	}
}

// moveToEnd makes a partition the last of the order.
func (x *fetchSession) moveToEnd(e *sessionPart) {
	e.unlink()
	e.linkBefore(&x.order)
}

func (e *sessionPart) linkBefore(next *sessionPart) {
	e.prev, e.next = next.prev, next
	e.prev.next, next.prev = e, e
}

func (e *sessionPart) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// told notes what an answer says of the partition and tells whether the client needs to hear it. After an error the
// partition is answered once more when the error is gone.
func (e *sessionPart) told(p *fetchPart) (news bool) {
	news = p.rng.Len > 0 || p.code != 0 || p.diverges || e.high != p.offsets.High || e.start != p.offsets.Start
	e.high, e.start = p.offsets.High, p.offsets.Start
	if p.code != 0 {
		e.high = -1
	}
	return news
}
