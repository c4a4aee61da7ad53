package broker

import (
	"time"

	"sluice/kproto"
)

// produceHead is what a walk over a body finds before anything is done.
type produceHead struct {
	topics wireReader // stands at the topics array
	acks   int16
	wait   time.Duration // 0: as long as it takes

	hasTxnID bool
	txnBatch bool // some batch has the transactional bit
	parts    int
}

// scanProduce walks a body to its end; ok is false when it is malformed. Nothing is allocated.
func scanProduce(body []byte, version int16) (q produceHead, ok bool) {
	r := wireReader{b: body, flex: version >= 9}
	q.hasTxnID = r.nullableString() != nil
	q.acks = r.int16()
	q.wait = produceWait(q.acks, r.int32())
	q.topics = r
	for range r.count(minProduceTopic(version)) {
		if version >= 13 {
			r.topicID()
		} else {
			r.string()
		}
		n := r.count(minProducePart)
		q.parts += n
		for range n {
			r.int32()
			q.txnBatch = transactionalBit(r.nullableBytes()) || q.txnBatch
			r.tags(noTag)
		}
		r.tags(noTag)
		if r.bad {
			return q, false
		}
	}
	r.tags(noTag)
	return q, !r.bad && q.parts <= maxProduceParts
}

// minProducePart is the least size of a partition entry, in bytes: its index and the length of its records.
const minProducePart = 5

// minProduceTopic is the least size of a topic entry: its name or id, and its count of partitions.
func minProduceTopic(version int16) int {
	if version >= 13 {
		return 17
	}
	return 2
}

// produceWait is how long an answer may be held back. acks=1 never times out in Kafka, so neither does it here.
func produceWait(acks int16, timeoutMs int32) time.Duration {
	switch {
	case acks != -1:
		return 0
	case timeoutMs <= 0:
		return defaultProduceTimeout
	}
	return time.Duration(timeoutMs) * time.Millisecond
}

// transactionalBit looks at the attributes of what may be a batch. They decide, not the request's transactional id:
// otherwise leaving the id out would avoid the check (CVE-2018-17196).
func transactionalBit(records []byte) bool {
	return len(records) >= kproto.HeaderSize && kproto.Batch(records).Transactional()
}
