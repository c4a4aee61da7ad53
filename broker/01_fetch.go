package broker

import (
	"context"
	"errors"
	"time"

	"sluice/internal/server"
	"sluice/kproto"
	"sluice/log"
	"sluice/throttle"
	"sluice/throttle/quota"
)

// Fetch (key 1), versions 4-18.
//
// Does: plans what each partition can give, waits for min_bytes in park.go, and answers with whole batches as file
// ranges, which never pass through memory unless they are small. The first batch of the first partition that has one is
// given even when it is larger than every limit (KIP-74). Sessions are in fetch_session.go.
//
// Dispatch throttling decides how many of the batches may leave (fetch_limits.go).
//
// Leaves out: followers. A replica id of zero or more is refused and no state is touched (CVE-2018-1288); the fields
// that only followers send are read over. There are no aborted transactions yet, but what `sluice log import --lost=keep` has
// brought, which is shown to everybody; read_committed stops at the last stable offset. The preferred read replica and the node endpoints (KIP-951) make no sense for one node.
//
// Differs from Kafka: an unknown isolation level is INVALID_REQUEST for every partition, where Kafka answers -1.
//
// By version: 5 log_start_offset; 7 sessions (KIP-227); 9 leader epochs (KIP-320); 10 zstd (KIP-110); 11 rack;
// 12 flexible, last_fetched_epoch and diverging_epoch (KIP-595); 13 topic ids (KIP-516); 15 replica_state as a tag
// (KIP-903); 16 current_leader; 17 and 18 add tags of followers.

const (
	// maxFetchParts bounds the topics, partitions and forgotten partitions of a request, at up to 200 bytes of state
	// each. It is the default of sluice.max.partitions: nobody has more to ask for.
	maxFetchParts = 250_000
	// maxFetchWait bounds max_wait_ms. Clients ask for half a second.
	maxFetchWait = 5 * time.Minute
)

// fetch is the handler.
func fetch(b *Broker, r *server.Request) {
	f, forgotten, ok := parseFetch(b, r)
	if !ok {
		r.Abort("malformed Fetch body")
		return
	}
	f.conn = b.resolver.connOf(r)
	f.conn.setRack(f.rack)
	f.conn.wait.Store(int64(f.wait))
	f.who = f.conn.identity
	f.capByQuota()
	if f.replica >= 0 || f.isolation < 0 || f.isolation > 1 {
		f.refuse()
	} else if err := f.enter(&b.fetchSessions, forgotten); err != nil {
		f.code = err.Code
		f.clear()
	}
	if !f.resolve() {
		f.wait = 0
	}
	if f.session == nil { // a session has an order of its own
		f.first = b.dispatch.turn(len(f.parts))
	}
	await(f, f.wait)
}

// fetchCall is one request.
type fetchCall struct {
	broker *Broker
	req    *server.Request
	conn   *connState

	replica   int32
	wait      time.Duration
	minBytes  int64
	maxBytes  int64
	isolation int8
	waits     bool   // it was not due at first
	rack      []byte // of the request's body: valid while the handler runs

	sessionID    int32
	sessionEpoch int32
	session      *fetchSession // of an incremental request
	opens        bool          // a session is to be made from the answer

	code   int16 // of the whole answer (version 7)
	topics []fetchTopic
	parts  []fetchPart  // in the order in which they share max_bytes
	found  []fetchFound // of the parts; see openFound
	first  int          // the part that the sharing begins with
	avail  int64        // sum over parts

	quota *connQuota // of its connection; nil: no quota is set

	// What the look under way holds; fetch_keep.go.
	small []byte     // the data of small ranges
	held  int        // ranges whose files are held
	alone fetchFound // of the one part that a promise looks at

	// Of dispatch throttling; fetch_limits.go.
	who     identity
	now     throttle.Instant // of the look under way; 0: the clock was not looked at
	ahead   throttle.Cost    // of what the look under way has planned
	gone    bool             // the client has hung up: nothing is to be taken for it
	lines   []watch          // wakes that the partitions may use; nil while the call is not parked
	waiting wait             // fetch_waits.go
}

// fetchTopic is a topic as the client names it.
type fetchTopic struct {
	topicKey
	topic *topic // nil: code says why
	code  int16
}

// fetchAsked is what a client asks of a partition; a session remembers it.
type fetchAsked struct {
	leaderEpoch int32 // that the client believes in, or -1
	lastEpoch   int32 // of the last record it has, or -1
	offset      int64
	maxBytes    int32
}

// fetchPart is one partition of a request: what is asked, and what the last look found.
type fetchPart struct {
	topic     int32 // index in fetchCall.topics
	partition int32
	fetchAsked
	refused int16         // it has this error whatever the log says
	send    bool          // the answer names it
	arrived bool          // exempt is set
	exempt  bool          // it has no backlog, and such are exempt
	log     source        // nil when refused
	sub     *subscription // whose allowance it draws on; nil when refused
	cached  *sessionPart  // nil without a session
	limit   *allowance    // nil: no limits were found
	avail   int64         // bytes as min_bytes counts them

	*fetchFound
}

// fetchFound is what a look at a partition found.
type fetchFound struct {
	code      int16
	diverges  bool // the client's last record is of a history that was lost (KIP-595)
	endEpoch  int32
	endOffset int64
	offsets   log.Offsets // -1 each when code is set
	rng       log.Range   // held until released
}

// source is what Fetch needs of a partition's log.
type source interface {
	watchable
	Offsets() (log.Offsets, error)
	EpochEnd(e int32) (epoch int32, end int64, err error)
	Read(from, limit int64, max int, whole bool) (log.Range, error)
	Trim(r *log.Range, a log.Admitter) error
}

func (f *fetchCall) version() int16  { return f.req.Version }
func (f *fetchCall) flexible() bool  { return f.req.Version >= 12 }
func (f *fetchCall) byTopicID() bool { return f.req.Version >= 13 }
func (f *fetchCall) sources() int    { return len(f.parts) }
func (f *fetchCall) committed() bool { return f.isolation == 1 }
func (f *fetchCall) park(w []watch)  { f.lines = w }

// dueAlone tells whether what was found ends the wait (B of park.go). What was refused before looking does not, as in
// Kafka: a client that goes on to ask for a topic that is gone would turn the long polls of its other topics into a busy
// loop.
func (p *fetchPart) dueAlone() bool {
	return p.code != 0 && p.refused == 0 || p.diverges || p.lapses()
}

func (f *fetchCall) source(i int) watchable {
	if f.parts[i].log == nil {
		return nil
	}
	return f.parts[i].log
}

// context implements parkable.
func (f *fetchCall) context() context.Context { return f.req.Context() }

// guard implements parkable.
func (f *fetchCall) guard(fn func()) {
	defer f.broker.recovered(f.req)
	if q := f.quota; q.meter(quota.Request) != nil {
		began := time.Now()
		defer func() { q.noteWork(time.Since(began)) }()
	}
	fn()
}

// refuse answers every partition with the error of the request as a whole, without a session.
func (f *fetchCall) refuse() {
	code := kproto.TopicAuthorizationFailed // only brokers may fetch as replicas
	if f.replica < 0 {
		code = kproto.InvalidRequest // the isolation level
		f.code = code
	}
	for i := range f.parts {
		f.parts[i].refused = code
	}
}

// resolve finds the partitions' logs and tells whether there is one to wait for.
func (f *fetchCall) resolve() (waits bool) {
	now := stampOf(f.req.Received)
	for i := range f.parts {
		p := &f.parts[i]
		t := &f.topics[p.topic]
		switch {
		case p.refused != 0:
		case t.topic == nil:
			p.refused = t.code
		default:
			if l := t.topic.partition(p.partition); l != nil {
				p.log, waits = l, true
				f.follow(p, t.topic, now)
			} else {
				p.refused = errUnknownTopic.Code
			}
		}
	}
	return waits
}

// follow finds whom the fetch of a partition belongs to. A session remembers it.
func (f *fetchCall) follow(p *fetchPart, t *topic, now stamp) {
	var known *subscription
	if p.cached != nil {
		known = p.cached.sub.Load()
	}
	p.sub = f.broker.resolver.subscription(known, f.conn, topicPartition{t, p.partition}, p.offset, now)
	if p.cached != nil && p.sub != known {
		p.cached.sub.Store(p.sub)
	}
}

// lookUp finds a topic as a client names it. known is the name that an id had when it was last looked up: it tells a
// topic that was made anew from one that is gone.
func (b *Broker) lookUp(k topicKey, byID bool, known string) fetchTopic {
	t := fetchTopic{topicKey: k}
	switch {
	case !byID:
		t.topic, t.code = b.topics.byName(k.name), errUnknownTopic.Code
	default:
		t.topic, t.code = b.topics.byID(k.id), errUnknownTopicID.Code
		if t.topic == nil && known != "" && b.topics.byName(known) != nil {
			t.code = kproto.InconsistentTopicID
		}
	}
	return t
}

// maxRaces is how often a call makes another plan because others have taken what it had planned.
const maxRaces = 100

// longPlan is from how many partitions on plans that draw on the broker's allowance queue up.
const longPlan = 256

// plan implements parkable.
func (f *fetchCall) plan(last bool) bool {
	f.gone = last && f.abandoned()
	if len(f.parts) > longPlan && f.broker.dispatch.Limited() {
		defer f.queue()()
	}
	for races := 0; ; {
		if due := f.survey() || last; !due {
			f.release()
			if f.hold() {
				f.closeFound()
				f.noteWait()
				f.waitsOn(f.opensFirst())
				return false
			}
			continue
		}
		if races++; f.reserve() || last || races > maxRaces {
			f.letGo()
			f.waitEnds()
			return true
		}
		f.release()
	}
}

// survey looks at the partitions in order, lets them share max_bytes, and tells whether what was found is due.
func (f *fetchCall) survey() (due bool) {
	f.now, f.ahead, f.avail = 0, throttle.Cost{}, 0
	f.openFound()
	left, empty := f.maxBytes, true
	for n := range f.parts {
		i := f.first + n
		if i >= len(f.parts) {
			i -= len(f.parts)
		}
		p := &f.parts[i]
		f.look(p, left, empty)
		f.keep(p)
		f.avail += p.avail
		left = max(0, left-p.rng.Len)
		empty = empty && p.rng.Len == 0
		due = due || p.dueAlone()
	}
	return due || f.avail >= f.minBytes
}

// promise implements parkable. A partition alone may take all of max_bytes, so a promise is never less than the plan.
func (f *fetchCall) promise(moved []int) bool {
	due, first := false, -1
	f.now = 0
	if f.waiting.cause >= forAllowance {
		first = f.waiting.part
	}
	for _, i := range moved {
		p := &f.parts[i]
		if f.found == nil {
			p.fetchFound = &f.alone
		}
		for held := false; !held; held = due || f.holdPart(i) {
			f.avail -= p.avail
			f.ahead = throttle.Cost{}
			f.look(p, f.maxBytes, false)
			f.avail += p.avail
			due = due || p.dueAlone()
			p.rng.Release()
			p.rng = log.Range{}
		}
		if f.found == nil {
			p.fetchFound = nil
		}
		first = f.earlier(first, i)
	}
	if due || f.avail >= f.minBytes {
		return true
	}
	if first >= 0 && f.parts[first].refusedBy() == nil {
		first = f.opensFirst()
	}
	f.waitsOn(first)
	return false
}

// release lets go of what the last plan holds.
func (f *fetchCall) release() {
	for i := range f.parts {
		p := &f.parts[i]
		if p.rng.Len > 0 {
			p.rng.Release()
			p.rng = log.Range{}
		}
		if p.limit != nil {
			p.limit.drop()
		}
	}
	f.freeKept()
}

// look finds what a partition can give within left bytes. whole is set while the answer has no data: then one batch is
// given whatever its size.
func (f *fetchCall) look(p *fetchPart, left int64, whole bool) {
	*p.fetchFound, p.avail = fetchFound{}, 0
	if p.limit != nil {
		p.limit.forget()
	}
	if p.refused != 0 {
		p.fail(p.refused)
		return
	}
	if err := f.find(p, left, whole); err != nil {
		p.rng.Release()
		p.fail(f.codeFor(err))
	}
}

func (p *fetchPart) fail(code int16) {
	*p.fetchFound = fetchFound{code: code, offsets: log.Offsets{Start: -1, Stable: -1, High: -1, End: -1}}
	p.avail = 0
}

// find is look without its bookkeeping.
func (f *fetchCall) find(p *fetchPart, left int64, whole bool) (err error) {
	if err := checkLeaderEpoch(p.leaderEpoch, f.broker.epoch); err != nil {
		return err
	}
	if p.offsets, err = p.log.Offsets(); err != nil {
		return err
	}
	if err := f.checkHistory(p); err != nil || p.diverges {
		return err
	}
	if p.offset < p.offsets.Start || p.offset > p.offsets.End {
		return log.ErrOffsetOutOfRange
	}
	limit := f.end(p)
	throttled := f.throttled(p, limit)
	if p.offset >= limit {
		return nil
	}
	bytes := min(left, int64(max(p.maxBytes, 0)))
	if (bytes > 0 || whole) && f.mayHold() {
		if throttled && !f.allow(p) {
			return nil // as if there were no data
		}
		p.rng, err = p.log.Read(p.offset, limit, int(bytes), whole)
		if errors.Is(err, log.ErrTooManyFiles) {
			return nil // as if there were no data: those that this answer or others hold are closed after it, and it is another partition's turn
		}
		if err != nil {
			return err
		}
		if err := f.checkCodec(p); err != nil {
			return err
		}
		if err := f.trim(p, limit); err != nil {
			return err
		}
	}
	p.avail = p.rng.Len
	if !p.lapses() && (p.rng.Len == 0 || p.rng.Next < limit) {
		// There is more than fits, so all that fits is there.
		p.avail = max(p.avail, bytes)
	}
	return nil
}

// end is where a partition's data end for the request.
func (f *fetchCall) end(p *fetchPart) int64 {
	if f.committed() {
		return p.offsets.Stable
	}
	return p.offsets.High
}

// checkHistory compares the client's last record with the log's history of leader epochs. An offset beyond the end of
// that record's epoch means that the record was lost, here or in another history.
func (f *fetchCall) checkHistory(p *fetchPart) error {
	if p.lastEpoch < 0 {
		return nil
	}
	epoch, end, err := f.broker.endOfEpoch(p.log, p.lastEpoch, p.offsets.High)
	switch {
	case err != nil:
		return err
	case epoch < 0 || end < 0 || p.offset < p.offsets.Start:
		return log.ErrOffsetOutOfRange
	case epoch < p.lastEpoch || end < p.offset:
		p.diverges, p.endEpoch, p.endOffset = true, epoch, end
	}
	return nil
}

var (
	errFencedEpoch      = &kproto.Error{Code: kproto.FencedLeaderEpoch, Message: "the leader epoch is older than the current one"}
	errUnknownEpoch     = &kproto.Error{Code: kproto.UnknownLeaderEpoch, Message: "the leader epoch is newer than the current one"}
	errUnsupportedCodec = &kproto.Error{Code: kproto.UnsupportedCompressionType, Message: "zstd needs a newer version of Fetch"}
)

// checkLeaderEpoch compares the epoch that a client believes in, -1 for none, with the current one (KIP-320).
func checkLeaderEpoch(claimed, current int32) error {
	switch {
	case claimed < 0 || claimed == current:
		return nil
	case claimed < current:
		return errFencedEpoch
	}
	return errUnknownEpoch
}

// checkCodec keeps zstd from clients that cannot know it (version 9 and older, KIP-110): the range ends before the first
// such batch, and an offset that stands on one is an error. Newer clients cost nothing.
func (f *fetchCall) checkCodec(p *fetchPart) error {
	if f.version() >= 10 {
		return nil
	}
	var head [kproto.HeaderSize]byte
	for at := int64(0); at < p.rng.Len; {
		if _, err := p.rng.File.ReadAt(head[:], p.rng.Pos+at); err != nil {
			return err
		}
		b := kproto.Batch(head[:])
		if b.Codec() == kproto.Zstd {
			if at == 0 {
				return errUnsupportedCodec
			}
			p.rng.Len, p.rng.Next = at, b.BaseOffset()
			return nil
		}
		at += int64(b.Length()) + 12
	}
	return nil
}

// codeFor is the package's codeFor, but for a deleted topic that was named by id.
func (f *fetchCall) codeFor(err error) int16 {
	if f.byTopicID() && errors.Is(err, log.ErrDeleted) {
		return errUnknownTopicID.Code
	}
	code, _ := codeFor(err)
	return code
}

// enter takes the request into its session, which decides which partitions are fetched.
func (f *fetchCall) enter(s *fetchSessions, forgotten []forgottenPart) *kproto.Error {
	if f.sessionEpoch == initialEpoch || f.sessionEpoch == finalEpoch {
		s.remove(f.sessionID)
		f.opens = f.sessionEpoch == initialEpoch
		return nil
	}
	x := s.find(f.sessionID)
	if x == nil {
		return errSessionNotFound
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.epoch != f.sessionEpoch:
		return errSessionEpoch
	case x.byTopic != f.byTopicID():
		return errSessionTopicID
	}
	x.update(f, forgotten)
	if x.size == 0 {
		s.remove(x.id)
		return nil
	}
	if !s.touch(x, x.size, time.Now()) {
		return errSessionNotFound
	}
	x.epoch = nextSessionEpoch(x.epoch)
	f.session = x
	x.load(f)
	return nil
}
