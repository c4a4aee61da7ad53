package broker

import (
	"slices"
	"time"

	"sluice/internal/server"
	"sluice/kproto"
)

// answer implements parkable. The call ends with it.
func (f *fetchCall) answer() {
	f.choose()
	a := fetchAnswer{fetchCall: f, w: wireWriter{b: server.GetBuffer(f.headerSize()), flex: f.flexible()}}
	a.write()
	f.freeKept() // it is in the answer now, which a slow client may take long to read
	a.meter()
	f.noteRead()
	f.answered()
	f.draw()
	req, reply := f.req, a.reply()
	if reply.Done == nil {
		f.free()
	}
	req.Reply(reply)
}

// choose marks the partitions that the answer names: all, or in a session those with news.
func (f *fetchCall) choose() {
	if f.session == nil {
		for i := range f.parts {
			f.parts[i].send = true
		}
		if f.sessionID = noSession; f.opens {
			f.open()
		}
		return
	}
	x := f.session
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.epoch != nextSessionEpoch(f.sessionEpoch) {
		f.code = errSessionEpoch.Code // a later request overtook this one
		f.settle(server.SentNothing)
		f.release()
		return
	}
	for i := range f.parts {
		p := &f.parts[i]
		p.send = p.cached.told(p)
		if p.rng.Len > 0 {
			x.moveToEnd(p.cached)
		}
	}
}

// noteWait tells the subscriptions that they are being read while the request waits.
func (f *fetchCall) noteWait() {
	if f.waits {
		return
	}
	f.waits = true
	f.noteUntil(stampOf(f.req.Received) + stamp(f.wait))
}

// noteRead tells the subscriptions what is read with this answer.
func (f *fetchCall) noteRead() {
	for i := range f.parts {
		if p := &f.parts[i]; p.rng.Len > 0 && p.sub != nil {
			p.sub.position.Store(p.rng.Next)
		}
	}
	if f.waits {
		f.noteUntil(stampOf(time.Now()))
	}
}

func (f *fetchCall) noteUntil(at stamp) {
	for i := range f.parts {
		if s := f.parts[i].sub; s != nil {
			s.readUntil(at)
		}
	}
}

// open makes the session that a full request asks for, if there is room.
func (f *fetchCall) open() {
	x := newFetchSession(f)
	f.sessionID = f.broker.fetchSessions.add(x, x.size, f.broker.config().FetchSessionSlots, time.Now())
}

// headerSize is about how many bytes of the answer are not in files.
func (f *fetchCall) headerSize() int {
	size := 64 + len(f.small)
	for i := range f.parts {
		if p := &f.parts[i]; p.send {
			size += 80 + len(f.topics[p.topic].name)
		}
	}
	return size
}

// fetchAnswer writes an answer: bytes, and the places where file ranges go between them.
type fetchAnswer struct {
	*fetchCall
	w      wireWriter
	ranges []fetchRange
}

// fetchRange says that the data of a partition follows the first at bytes.
type fetchRange struct {
	at   int
	part *fetchPart
}

func (a *fetchAnswer) write() {
	w := &a.w
	w.header(a.req.CorrelationID)
	w.int32(0) // throttle_time_ms, unless a quota says otherwise
	if a.version() >= 7 {
		w.int16(a.code)
		w.int32(a.sessionID)
	}
	w.length(a.groups())
	for i := 0; i < len(a.parts); {
		i = a.writeGroup(i)
	}
	w.noTags()
	inFiles := int64(0)
	for _, r := range a.ranges {
		inFiles += r.part.rng.Len
	}
	w.setSize(inFiles)
}

// groups counts the runs of partitions to send that have the same topic: each is one topic entry of the answer. As in
// Kafka a topic may have several, when a session's order has mixed its partitions with others.
func (f *fetchCall) groups() int {
	n, last := 0, int32(-1)
	for i := range f.parts {
		if p := &f.parts[i]; p.send && p.topic != last {
			n, last = n+1, p.topic
		}
	}
	return n
}

// writeGroup writes the next topic entry from the partition at i on, and gives the index after it.
func (a *fetchAnswer) writeGroup(i int) (next int) {
	for ; i < len(a.parts) && !a.parts[i].send; i++ {
	}
	if i == len(a.parts) {
		return i
	}
	topic, n := a.parts[i].topic, 0
	for next = i; next < len(a.parts); next++ {
		if p := &a.parts[next]; p.send && p.topic != topic {
			break
		} else if p.send {
			n++
		}
	}
	w, t := &a.w, &a.topics[topic]
	if a.byTopicID() {
		w.b = append(w.b, t.id[:]...)
	} else {
		w.string(t.name)
	}
	w.length(n)
	for ; i < next; i++ {
		if p := &a.parts[i]; p.send {
			a.writePart(p)
		}
	}
	w.noTags()
	return next
}

// writePart writes a partition's entry; its data are there if they are few, and else left to be sent from the file.
func (a *fetchAnswer) writePart(p *fetchPart) {
	a.writeHead(p)
	switch kept := a.kept(p); {
	case kept != nil:
		a.w.b = append(a.w.b, kept...)
	case p.rng.Len > 0:
		a.ranges = append(a.ranges, fetchRange{len(a.w.b), p})
	}
	a.writeTags(p)
}

func (a *fetchAnswer) writeHead(p *fetchPart) {
	w, version := &a.w, a.version()
	w.int32(p.partition)
	w.int16(p.code)
	w.int64(p.offsets.High)
	w.int64(p.offsets.Stable)
	if version >= 5 {
		w.int64(p.offsets.Start)
	}
	w.length(-1) // aborted_transactions
	if version >= 11 {
		w.int32(-1) // preferred_read_replica
	}
	w.length(int(p.rng.Len))
}

// writeTags ends a partition's entry: 0 diverging_epoch, 1 current_leader.
func (a *fetchAnswer) writeTags(p *fetchPart) {
	w := &a.w
	switch {
	case !w.flex:
	case p.diverges:
		w.b = append(w.b, 1, 0, 13) // one tag, number 0, 13 bytes
		w.int32(p.endEpoch)
		w.int64(p.endOffset)
		w.noTags()
	case p.code == kproto.FencedLeaderEpoch && a.version() >= 16:
		w.b = append(w.b, 1, 1, 9) // one tag, number 1, 9 bytes
		w.int32(NodeID)
		w.int32(a.broker.epoch)
		w.noTags()
	default:
		w.noTags()
	}
}

// reply cuts the bytes where the ranges go.
func (a *fetchAnswer) reply() server.Reply {
	buf := a.w.b
	if len(a.ranges) == 0 && !a.charged() {
		return server.Reply{Parts: append(a.req.Scratch(), server.Part{Bytes: buf, Pool: true})}
	}
	parts := slices.Grow(a.req.Scratch(), 2*len(a.ranges)+1)
	from := 0
	for _, r := range a.ranges {
		x := &r.part.rng
		parts = append(parts, server.Part{Bytes: buf[from:r.at:r.at]},
			server.Part{Reader: x.File, OS: x.File.OS(), Pos: x.Pos, Len: x.Len})
		from = r.at
	}
	if from < len(buf) {
		parts = append(parts, server.Part{Bytes: buf[from:len(buf):len(buf)]})
	}
	return server.Reply{Parts: parts, Done: func(sent server.Sent) {
		a.settle(sent)
		a.release()
		server.PutBuffer(buf)
		a.free()
	}}
}
