package broker

import (
	"sync"
	"time"

	"sluice/internal/server"
)

// forgottenPart is a partition that a client takes out of its session.
type forgottenPart struct {
	topicKey
	partition int32
}

var (
	fetchCalls = sync.Pool{New: func() any { return new(fetchCall) }}
	// Lists of more than maxPooledParts elements, which would be too much for each call to have.
	manyParts, manyFound sync.Pool
)

// newFetchCall gives a call without partitions. Whoever completes its reply frees it: a long poll of many partitions, asked again at
// every batch, would otherwise allocate their list each time.
func newFetchCall(b *Broker, req *server.Request) *fetchCall {
	f := fetchCalls.Get().(*fetchCall)
	*f = fetchCall{broker: b, req: req, replica: -1, sessionEpoch: finalEpoch, topics: f.topics, parts: f.parts, found: f.found}
	return f
}

// free returns the call to the pool. Its lists stay with it, empty.
func (f *fetchCall) free() {
	f.dropLimits()
	f.closeFound()
	clear(f.found)
	f.clear()
	f.freeKept()
	f.broker, f.req, f.conn, f.session, f.rack, f.lines = nil, nil, nil, nil, nil, nil
	if cap(f.parts) > maxPooledParts {
		many := f.parts
		manyParts.Put(&many)
		f.parts = nil
	}
	fetchCalls.Put(f)
}

// needParts makes room for n more parts.
func (f *fetchCall) needParts(n int) {
	have := len(f.parts)
	if cap(f.parts)-have >= n {
		return
	}
	f.parts = append(listOf[fetchPart](&manyParts, have+n), f.parts...)
}

// listOf makes an empty list with room for n elements, or takes one from the pool if they are many.
func listOf[T any](pool *sync.Pool, n int) []T {
	if n > maxPooledParts {
		if many, ok := pool.Get().(*[]T); ok && cap(*many) >= n {
			return (*many)[:0]
		}
	}
	return make([]T, 0, n)
}

// openFound gives each part a place for what a look at all of them finds. A call of many parts has them only from the look to the end of the answer, or
// until it is known that it has to wait: that is more than half of what it takes, and many calls wait.
func (f *fetchCall) openFound() {
	n := len(f.parts)
	if cap(f.found) < n {
		f.found = listOf[fetchFound](&manyFound, n)
	}
	f.found = f.found[:n]
	for i := range f.parts {
		f.parts[i].fetchFound = &f.found[i]
	}
}

// closeFound ends what openFound began, if the parts are many. Nothing is held by then.
func (f *fetchCall) closeFound() {
	if cap(f.found) <= maxPooledParts {
		return
	}
	for i := range f.parts {
		f.parts[i].fetchFound = nil
	}
	many := f.found
	clear(many)
	manyFound.Put(&many)
	f.found = nil
}

// clear takes all partitions out.
func (f *fetchCall) clear() {
	clear(f.topics)
	clear(f.parts)
	f.topics, f.parts = f.topics[:0], f.parts[:0]
}

// parseFetch reads a Fetch body. It touches nothing but what it returns; ok is false when the body is malformed or asks
// for more than maxFetchParts.
func parseFetch(b *Broker, req *server.Request) (f *fetchCall, forgotten []forgottenPart, ok bool) {
	f = newFetchCall(b, req)
	r := wireReader{b: req.Body, flex: f.flexible()}
	f.readLimits(&r)
	for range f.readCount(&r, len(f.topics)) {
		f.readTopic(&r)
		if r.bad {
			return f, nil, false
		}
	}
	if f.version() >= 7 {
		forgotten = f.readForgotten(&r)
	}
	if f.version() >= 11 {
		f.rack = r.string()
	}
	if state := r.tags(1); state != nil && f.version() >= 15 { // replica_state
		s := wireReader{b: state, flex: true}
		f.replica = s.int32()
		r.bad = r.bad || s.bad
	}
	return f, forgotten, !r.bad
}

// readLimits reads what stands before the topics and clamps it (values below zero mean zero).
func (f *fetchCall) readLimits(r *wireReader) {
	if f.version() <= 14 {
		f.replica = r.int32()
	}
	f.wait = min(time.Duration(max(r.int32(), 0))*time.Millisecond, maxFetchWait)
	f.minBytes = int64(max(r.int32(), 0))
	f.maxBytes = min(int64(max(r.int32(), 0)), int64(f.broker.config().FetchMaxBytes))
	f.minBytes = min(f.minBytes, f.maxBytes)
	f.isolation = r.int8()
	if f.version() >= 7 {
		f.sessionID = r.int32()
		f.sessionEpoch = r.int32()
	}
}

// readCount reads the length of an array whose elements are kept next to the have that are there.
func (f *fetchCall) readCount(r *wireReader, have int) int {
	n := r.count(1)
	if have+n > maxFetchParts {
		r.bad = true
		return 0
	}
	return n
}

// readName reads a topic as this version names it.
func (f *fetchCall) readName(r *wireReader) (k topicKey, t *topic) {
	if f.byTopicID() {
		k.id = r.topicID()
		return k, nil
	}
	name := r.string()
	if t = f.broker.topics.byNameBytes(name); t != nil {
		k.name = t.name
	} else {
		k.name = string(name)
	}
	return k, t
}

func (f *fetchCall) readTopic(r *wireReader) {
	k, t := f.readName(r)
	if t != nil {
		f.topics = append(f.topics, fetchTopic{topicKey: k, topic: t})
	} else {
		f.topics = append(f.topics, f.broker.lookUp(k, f.byTopicID(), ""))
	}
	n := f.readCount(r, len(f.parts))
	if cap(f.parts)-len(f.parts) < n {
		f.needParts(min(len(r.b)/f.partSize(), maxFetchParts-len(f.parts))) // for those of the next topics, too
	}
	for i := 0; i < n && !r.bad; i++ {
		f.parts = append(f.parts, f.readPart(r))
	}
	r.tags(noTag)
}

// partSize is how many bytes of a request a partition takes.
func (f *fetchCall) partSize() int {
	switch v := f.version(); {
	case v >= 12:
		return 33
	case v >= 9:
		return 28
	case v >= 5:
		return 24
	}
	return 16
}

func (f *fetchCall) readPart(r *wireReader) fetchPart {
	p := fetchPart{topic: int32(len(f.topics) - 1), partition: r.int32(), fetchAsked: fetchAsked{leaderEpoch: -1, lastEpoch: -1}}
	if f.version() >= 9 {
		p.leaderEpoch = r.int32()
	}
	p.offset = r.int64()
	if f.flexible() {
		p.lastEpoch = r.int32()
	}
	if f.version() >= 5 {
		r.int64() // log_start_offset, of followers
	}
	p.maxBytes = r.int32()
	r.tags(noTag)
	return p
}

func (f *fetchCall) readForgotten(r *wireReader) (forgotten []forgottenPart) {
	for range f.readCount(r, 0) {
		k, _ := f.readName(r)
		n := f.readCount(r, len(forgotten))
		for i := 0; i < n && !r.bad; i++ {
			forgotten = append(forgotten, forgottenPart{k, r.int32()})
		}
		r.tags(noTag)
		if r.bad {
			return nil
		}
	}
	return forgotten
}
