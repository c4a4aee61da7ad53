package broker

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"sluice/config"
	"sluice/internal/server"
	"sluice/kproto"
	"sluice/log"
)

// Produce (key 0), versions 3-13; 0-2 are advertised but refused by dispatch (KIP-896, KAFKA-18659).
//
// Does: checks each partition's batch, appends it, and answers when every append may be acknowledged. Partitions fail
// one by one. The body is walked whole before the first append, so a malformed request changes nothing.
//
// Leaves out: transactions. A transactional id is answered INVALID_TXN_STATE for every partition: to Kafka it is the
// answer for a partition that is not part of the transaction, and here none can be; clients stop the transaction on it.
// CURRENT_LEADER and the node endpoints (v10) belong to NOT_LEADER_OR_FOLLOWER, which a single node never answers.
//
// Differs from Kafka: a partition named twice is refused (INVALID_REQUEST) at its second place, where Kafka drops the
// first batch in silence.
//
// By version: 5 log_start_offset; 8 record_errors and error_message (KIP-467); 9 flexible; 13 topic ids (KIP-516).

const (
	// maxProduceParts bounds what a request can make us keep for each of its eight-byte partition entries: a fifth of a
	// million of them is more than a broker has partitions.
	maxProduceParts = 200_000
	// defaultProduceTimeout stands in for a timeout_ms of zero or less. Apache Kafka with one replica answers such
	// requests without waiting, so clients do send them and do not mean "fail unless the disk is faster than 0 ms".
	defaultProduceTimeout = 30 * time.Second
	// smallRequest is how many partitions are searched for duplicates one by one, without a map.
	smallRequest = 16
)

// produce is the handler.
func produce(b *Broker, r *server.Request) {
	q, ok := scanProduce(r.Body, r.Version)
	if !ok {
		r.Abort("malformed Produce body")
		return
	}
	c := newProduceCall(b)
	c.begin(b, r, q)
	c.appendAll()
	if q.acks == 0 {
		c.finishSilently()
		return
	}
	c.await()
}

// produceCall is one request on its way from the handler to the written reply. It is pooled: appending allocates
// nothing. Its owners are the tickets (together) and the timer when it runs; the last one to let go returns it to the
// pool. The request must not be touched after the reply, which the timer may send before the tickets are resolved.
type produceCall struct {
	broker  *Broker
	req     *server.Request // until the reply
	version int16
	head    produceHead
	refuse  *kproto.Error // what every partition gets; nil: they are appended

	parts  []producedPart // has its final length before a ticket is asked to notify one of them
	seen   map[*log.Log]struct{}
	out    wireWriter // the reply, complete but for what unresolved tickets may change
	failed bool       // some partition was refused

	owners     atomic.Int32
	unresolved atomic.Int32 // tickets, and one for the handler while it still asks
	replied    atomic.Bool
	timed      bool // the timer was started; written before the handler gives up its share of unresolved
	timer      *time.Timer
}

func newProduceCall(b *Broker) *produceCall {
	if c, ok := b.produceCalls.Get().(*produceCall); ok {
		return c
	}
	return &produceCall{seen: map[*log.Log]struct{}{}}
}

// producedPart is one partition's place in the reply. It implements log.Waiter.
type producedPart struct {
	call   *produceCall
	log    *log.Log
	at     int // position of its error code in the reply
	ticket log.Ticket
	waits  bool // ticket is set
	// result is unresolved, or resolvedBit and the code.
	result atomic.Int32
}

const (
	unresolved  = 0
	resolvedBit = 1 << 16
)

func (c *produceCall) begin(b *Broker, r *server.Request, q produceHead) {
	c.broker, c.req, c.version, c.head = b, r, r.Version, q
	c.refuse = produceRefusal(q)
	c.failed, c.timed = false, false
	c.replied.Store(false)
	c.owners.Store(1)
	if cap(c.parts) < q.parts {
		c.parts = make([]producedPart, 0, q.parts)
	}
	c.out = wireWriter{b: server.GetBuffer(64 + 64*q.parts), flex: q.topics.flex}
}

// produceRefusal is the error that a request earns as a whole.
func produceRefusal(q produceHead) *kproto.Error {
	switch {
	case q.acks < -1 || q.acks > 1:
		return errRequiredAcks
	case q.hasTxnID:
		return errNoTransactions
	case q.txnBatch:
		return errTransactionalID
	}
	return nil
}

var (
	errRequiredAcks    = &kproto.Error{Code: kproto.InvalidRequiredAcks, Message: "acks must be -1, 0 or 1"}
	errTransactionalID = &kproto.Error{Code: kproto.TransactionalIDAuthorizationFailed, Message: "a transactional batch needs a transactional id"}
	errNoTransactions  = &kproto.Error{Code: kproto.InvalidTxnState, Message: "transactions are not supported by this broker"}
	errUnknownTopic    = &kproto.Error{Code: kproto.UnknownTopicOrPartition, Message: "no such topic or partition"}
	errUnknownTopicID  = &kproto.Error{Code: kproto.UnknownTopicID, Message: "no topic has this id"}
	errInternalTopic   = &kproto.Error{Code: kproto.InvalidTopic, Message: "clients may not write to an internal topic"}
	errPartitionTwice  = &kproto.Error{Code: kproto.InvalidRequest, Message: "the partition is named twice in one request"}
	errRecompressed    = &kproto.Error{Code: kproto.MessageTooLarge, Message: "the batch, recompressed as compression.type says, is larger than max.message.bytes"}
)

// appendAll walks the body again, appends each batch, and writes the reply as it would be if every ticket resolved well.
func (c *produceCall) appendAll() {
	r := c.head.topics
	c.out.header(c.req.CorrelationID)
	topics := r.count(minProduceTopic(c.version))
	c.out.length(topics)
	for range topics {
		t, unknown := c.topic(&r)
		n := r.count(minProducePart)
		c.out.length(n)
		for range n {
			partition, records := r.int32(), r.nullableBytes()
			r.tags(noTag)
			c.appendPart(t, unknown, partition, records)
		}
		r.tags(noTag)
		c.out.noTags()
	}
	c.out.int32(c.held()) // throttle_time_ms
	c.out.noTags()
}

// topic reads a topic's name or id, repeats it in the reply, and looks it up. unknown is the error if it is not there.
func (c *produceCall) topic(r *wireReader) (t *topic, unknown *kproto.Error) {
	if c.version >= 13 {
		id := r.topicID()
		c.out.b = append(c.out.b, id[:]...)
		return c.broker.topics.byID(id), errUnknownTopicID
	}
	name := r.string()
	c.out.stringBytes(name)
	return c.broker.topics.byNameBytes(name), errUnknownTopic
}

// produced is what became of one partition's batch.
type produced struct {
	log.Appended
	records []kproto.RecordError
}

func (c *produceCall) appendPart(t *topic, unknown *kproto.Error, partition int32, records []byte) {
	c.parts = c.parts[:len(c.parts)+1]
	p := &c.parts[len(c.parts)-1]
	p.call, p.log, p.waits = c, nil, false
	p.result.Store(unresolved)

	var done produced
	err := c.resolve(p, t, unknown, partition)
	if err == nil {
		done, err = c.append(p.log, t.config(), records)
	}
	if errors.Is(err, log.ErrDeleted) {
		err = unknown
	}
	if err != nil {
		c.failed = true
		done.Appended = log.Appended{Base: -1, LogAppendTime: -1, Start: -1}
	} else {
		p.ticket, p.waits = done.Ticket, true
	}
	c.writePart(p, partition, done, err)
}

// resolve finds the partition's log, or says why the batch cannot go there.
func (c *produceCall) resolve(p *producedPart, t *topic, unknown *kproto.Error, partition int32) error {
	switch {
	case c.refuse != nil:
		return c.refuse
	case t == nil:
		return unknown
	}
	l := t.partition(partition)
	switch {
	case l == nil:
		return errUnknownTopic
	case t.internal:
		return errInternalTopic
	case c.named(l):
		return errPartitionTwice
	}
	p.log = l
	return nil
}

// named tells whether the request named the partition before. Few partitions are compared one by one, many by a map.
func (c *produceCall) named(l *log.Log) bool {
	if c.head.parts > smallRequest {
		_, twice := c.seen[l]
		c.seen[l] = struct{}{}
		return twice
	}
	for i := range c.parts {
		if c.parts[i].log == l {
			return true
		}
	}
	return false
}

// append checks one batch by its topic's rules and gives it its place in the log.
func (c *produceCall) append(l *log.Log, t *config.Topic, records []byte) (done produced, err error) {
	batch, refused, err := kproto.CheckProduced(records, kproto.CheckOptions{
		ProduceVersion: c.version,
		Strict:         c.broker.config().ValidationStrict,
		MaxBytes:       t.MaxMessageBytes,
		SegmentBytes:   t.SegmentBytes,
		Compacted:      t.CleanupCompact,
		LogAppendTime:  t.LogAppendTime,
		Now:            c.req.Received.UnixMilli(),
		BeforeMaxMs:    t.TimestampBeforeMaxMs,
		AfterMaxMs:     t.TimestampAfterMaxMs,
	})
	if err != nil {
		return produced{records: refused}, err
	}
	if batch, err = recompress(batch, t); err != nil {
		return produced{}, err
	}
	done.Appended, err = l.Append(batch, log.AppendOptions{})
	return done, err
}

// recompress gives the batch in the topic's codec. compression.type=producer, or the same codec, leaves it as it is.
func recompress(batch kproto.Batch, t *config.Topic) (kproto.Batch, error) {
	if t.Compression == "producer" {
		return batch, nil
	}
	codec, err := kproto.ParseCodec(t.Compression)
	if err != nil || codec == batch.Codec() {
		return batch, err
	}
	batch, err = kproto.Recompress(batch, codec, compressionLevel(t, codec))
	if err == nil && len(batch) > t.MaxMessageBytes {
		err = errRecompressed
	}
	return batch, err
}

func compressionLevel(t *config.Topic, c kproto.Codec) int {
	switch c {
	case kproto.Gzip:
		return t.GzipLevel
	case kproto.LZ4:
		return t.Lz4Level
	case kproto.Zstd:
		return t.ZstdLevel
	}
	return 0
}

// writePart writes a partition's entry of the reply and remembers where its error code stands.
func (c *produceCall) writePart(p *producedPart, partition int32, done produced, err error) {
	code, message := int16(0), ""
	if err != nil {
		code, message = codeFor(err)
	}
	w, version := &c.out, c.version
	w.int32(partition)
	p.at = len(w.b)
	w.int16(code)
	w.int64(done.Base)
	w.int64(done.LogAppendTime)
	if version >= 5 {
		w.int64(done.Start)
	}
	if version >= 8 {
		w.length(len(done.records))
		for _, e := range done.records {
			w.int32(e.Index)
			w.nullableString(e.Message)
			w.noTags()
		}
		w.nullableString(message)
	}
	w.noTags()
}

// finishSilently ends a request that wants no answer: a refusal closes the connection, which is all a producer with
// acks=0 can notice. What becomes of the tickets is not awaited.
func (c *produceCall) finishSilently() {
	if c.failed {
		c.req.Abort("Produce with acks=0 refused")
	} else {
		c.req.NoReply()
	}
	server.PutBuffer(c.out.b)
	c.release()
}

// await asks every ticket to notify its part, and replies now if all of them are resolved already.
func (c *produceCall) await() {
	tickets := int32(0)
	for i := range c.parts {
		if c.parts[i].waits {
			tickets++
		}
	}
	c.unresolved.Store(tickets + 1)
	for i := range c.parts {
		p := &c.parts[i]
		if !p.waits {
			continue
		}
		if done, err := p.ticket.Notify(p); done {
			p.Resolved(err)
		}
	}
	if c.head.wait > 0 && c.unresolved.Load() > 1 {
		c.startTimer()
	}
	c.countDown()
}

func (c *produceCall) startTimer() {
	c.owners.Add(1)
	c.timed = true
	if c.timer == nil {
		c.timer = time.AfterFunc(c.head.wait, c.expire)
	} else {
		c.timer.Reset(c.head.wait)
	}
}

// Resolved implements log.Waiter.
func (p *producedPart) Resolved(err error) {
	code := int16(0)
	if err != nil {
		code = p.call.ticketCode(err)
	}
	p.result.Store(resolvedBit | int32(uint16(code)))
	p.call.countDown()
}

// ticketCode maps the error of an append that was accepted and then not made durable. Whatever it was, the client may
// not take the batch for written: KAFKA_STORAGE_ERROR, or the topic was deleted under it.
func (c *produceCall) ticketCode(err error) int16 {
	switch {
	case !errors.Is(err, log.ErrDeleted):
		return kproto.KafkaStorageError
	case c.version >= 13:
		return errUnknownTopicID.Code
	}
	return errUnknownTopic.Code
}

func (c *produceCall) countDown() {
	if c.unresolved.Add(-1) > 0 {
		return
	}
	if c.timed && c.timer.Stop() {
		c.release()
	}
	c.send()
	c.release()
}

// expire answers REQUEST_TIMED_OUT for what is not resolved yet. Those appends stand, and may be read later.
func (c *produceCall) expire() {
	c.send()
	c.release()
}

// send completes the reply with the tickets' results and hands it over, the first time it is called.
func (c *produceCall) send() {
	if !c.replied.CompareAndSwap(false, true) {
		return
	}
	for i := range c.parts {
		if p := &c.parts[i]; p.waits {
			c.patch(p.at, p.result.Load())
		}
	}
	c.out.setSize(0)
	c.req.ReplyBytes(c.out.b)
}

// patch writes a ticket's failure over the entry whose error code stands at the position given.
func (c *produceCall) patch(at int, result int32) {
	code := int16(result)
	if result == unresolved {
		code = kproto.RequestTimedOut
	}
	if code == kproto.NoError {
		return
	}
	e := c.out.b[at:]
	binary.BigEndian.PutUint16(e, uint16(code))
	if result == unresolved {
		return
	}
	none := int64(-1)
	binary.BigEndian.PutUint64(e[2:], uint64(none))
	binary.BigEndian.PutUint64(e[10:], uint64(none))
	if c.version >= 5 {
		binary.BigEndian.PutUint64(e[18:], uint64(none))
	}
}

// release gives up one owner's hold.
func (c *produceCall) release() {
	if c.owners.Add(-1) > 0 {
		return
	}
	pool := &c.broker.produceCalls
	c.broker, c.req, c.refuse, c.head, c.out = nil, nil, nil, produceHead{}, wireWriter{}
	for i := range c.parts {
		c.parts[i].log, c.parts[i].ticket = nil, log.Ticket{}
	}
	clear(c.seen)
	if c.parts = c.parts[:0]; cap(c.parts) <= maxPooledParts {
		pool.Put(c)
	}
}

// maxPooledParts keeps a rare huge request from staying in the pool, in partitions of about 100 bytes.
const maxPooledParts = 1024
