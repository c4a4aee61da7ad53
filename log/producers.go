package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"
	"time"

	"sluice/kproto"
)

// batchWindow is how many of a producer's last batches are remembered to answer retries: as many as an
// idempotent client keeps in flight (KIP-98, max.in.flight.requests.per.connection = 5).
const batchWindow = 5

// producerBatch is one remembered batch.
type producerBatch struct {
	firstSeq, lastSeq int32
	base, last        int64 // offsets
	time              int64 // what the reply to its Produce said: append time or -1
}

// producer is the state of one producer id in a partition.
type producer struct {
	epoch    int16
	n        int8 // valid batches, oldest first
	batches  [batchWindow]producerBatch
	appended int64 // by our clock, ms: when the producer last wrote. Record timestamps do not matter: back-dated records must not end deduplication.
}

func (p *producer) lastBatch() producerBatch { return p.batches[p.n-1] }

// find looks for a batch with exactly these sequence numbers.
func (p *producer) find(first, last int32) (producerBatch, bool) {
	for _, b := range p.batches[:p.n] {
		if b.firstSeq == first && b.lastSeq == last {
			return b, true
		}
	}
	return producerBatch{}, false
}

func (p *producer) push(b producerBatch) {
	if int(p.n) == batchWindow {
		copy(p.batches[:], p.batches[1:])
		p.n--
	}
	p.batches[p.n] = b
	p.n++
}

// producers is the idempotence state of a partition, guarded by Log.mu.
type producers map[int64]*producer

// check decides about a client's batch (semantics of KIP-98): it may be appended (dup false), it is a retry of a batch in the window (dup true),
// or it is refused. Nothing is changed.
func (ps producers) check(b kproto.Batch, now int64, expiration time.Duration) (original producerBatch, dup bool, err error) {
	p := ps[b.ProducerID()]
	if p == nil || p.n == 0 || now-p.appended > expiration.Milliseconds() {
		return producerBatch{}, false, nil // unknown: any sequence is a beginning
	}
	switch epoch := b.ProducerEpoch(); {
	case epoch < p.epoch:
		return producerBatch{}, false, fmt.Errorf("%w: epoch %d, last seen %d", ErrInvalidProducerEpoch, epoch, p.epoch)
	case epoch > p.epoch:
		if b.BaseSequence() != 0 {
			return producerBatch{}, false, fmt.Errorf("%w: epoch %d begins with sequence %d, not 0", ErrOutOfOrderSequence, epoch, b.BaseSequence())
		}
		return producerBatch{}, false, nil
	}
	if original, ok := p.find(b.BaseSequence(), b.LastSequence()); ok {
		return original, true, nil
	}
	if want := nextSequence(p.lastBatch().lastSeq); b.BaseSequence() != want {
		return producerBatch{}, false, fmt.Errorf("%w: sequence %d, expected %d", ErrOutOfOrderSequence, b.BaseSequence(), want)
	}
	return producerBatch{}, false, nil
}

func nextSequence(seq int32) int32 {
	if seq == math.MaxInt32 {
		return 0
	}
	return seq + 1
}

// note takes an appended (or replayed) batch in. Batches without a producer, and control batches, which carry no sequence, leave no window.
func (ps producers) note(b kproto.Batch, now, replyTime int64) {
	id := b.ProducerID()
	if id < 0 || b.Control() {
		return
	}
	p := ps[id]
	if p == nil {
		p = &producer{}
		ps[id] = p
	}
	if p.epoch != b.ProducerEpoch() {
		p.epoch, p.n = b.ProducerEpoch(), 0
	}
	p.appended = now
	p.push(producerBatch{b.BaseSequence(), b.LastSequence(), b.BaseOffset(), b.LastOffset(), replyTime})
}

// expire forgets producers that have not written for long; called when the state is copied anyway.
func (ps producers) expire(now int64, expiration time.Duration) {
	for id, p := range ps {
		if now-p.appended > expiration.Milliseconds() {
			delete(ps, id)
		}
	}
}

// The .producers file: the state of all producers at the offset in its name.
//
//	"SLPR" | version 1 (u32) | count (u32) | count times:
//	    producer id (i64) | epoch (i16) | batches (u8) | appended ms (i64) | batches times:
//	        first seq (i32) | last seq (i32) | base offset (i64) | last offset (i64) | time (i64)
//	| CRC-32C of everything before (u32)
const (
	producersMagic      = "SLPR"
	producersVersion    = 1
	producerHeaderSize  = 8 + 2 + 1 + 8
	producerBatchSize   = 4 + 4 + 8 + 8 + 8
	producersHeaderSize = 4 + 4 + 4
	// maxProducersFile bounds what recovery reads: about five million producers.
	maxProducersFile = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (ps producers) encode() []byte {
	b := make([]byte, 0, producersHeaderSize+len(ps)*(producerHeaderSize+producerBatchSize)+4)
	b = append(b, producersMagic...)
	b = binary.BigEndian.AppendUint32(b, producersVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(ps)))
	for _, id := range slices.Sorted(maps.Keys(ps)) {
		p := ps[id]
		b = binary.BigEndian.AppendUint64(b, uint64(id))
		b = binary.BigEndian.AppendUint16(b, uint16(p.epoch))
		b = append(b, byte(p.n))
		b = binary.BigEndian.AppendUint64(b, uint64(p.appended))
		for _, x := range p.batches[:p.n] {
			b = binary.BigEndian.AppendUint32(b, uint32(x.firstSeq))
			b = binary.BigEndian.AppendUint32(b, uint32(x.lastSeq))
			b = binary.BigEndian.AppendUint64(b, uint64(x.base))
			b = binary.BigEndian.AppendUint64(b, uint64(x.last))
			b = binary.BigEndian.AppendUint64(b, uint64(x.time))
		}
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

var errBadProducers = errors.New("producer snapshot is damaged")

func decodeProducers(b []byte) (producers, error) {
	if len(b) < producersHeaderSize+4 || string(b[:4]) != producersMagic {
		return nil, errBadProducers
	}
	body, sum := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, errBadProducers
	}
	if v := binary.BigEndian.Uint32(body[4:]); v != producersVersion {
		return nil, fmt.Errorf("%w: version %d", errBadProducers, v)
	}
	count := int(binary.BigEndian.Uint32(body[8:]))
	body = body[producersHeaderSize:]
	ps := make(producers, min(count, len(body)/producerHeaderSize))
	for range count {
		var p *producer
		var id int64
		if id, p, body = decodeProducer(body); p == nil {
			return nil, errBadProducers
		}
		ps[id] = p
	}
	return ps, nil
}

func decodeProducer(b []byte) (id int64, p *producer, rest []byte) {
	if len(b) < producerHeaderSize {
		return 0, nil, nil
	}
	id = int64(binary.BigEndian.Uint64(b))
	p = &producer{epoch: int16(binary.BigEndian.Uint16(b[8:])), n: int8(b[10]), appended: int64(binary.BigEndian.Uint64(b[11:]))}
	b = b[producerHeaderSize:]
	if p.n < 0 || p.n > batchWindow || len(b) < int(p.n)*producerBatchSize {
		return 0, nil, nil
	}
	for i := range p.batches[:p.n] {
		p.batches[i] = producerBatch{
			firstSeq: int32(binary.BigEndian.Uint32(b)), lastSeq: int32(binary.BigEndian.Uint32(b[4:])),
			base: int64(binary.BigEndian.Uint64(b[8:])), last: int64(binary.BigEndian.Uint64(b[16:])), time: int64(binary.BigEndian.Uint64(b[24:])),
		}
		b = b[producerBatchSize:]
	}
	return id, p, b
}
