package broker

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
	"sluice/kproto"
)

// initProducerID answers InitProducerId, v0-5.
//
// An idempotent producer gets an id that no other ever had, with epoch 0. When it names its old id and epoch (v3,
// KIP-360) it gets a new id as well: in Kafka, too, only transactional producers have their epoch raised here, the
// others raise it themselves.
//
// Transactions are not there yet. A transactional id is checked as Kafka does and then refused with
// TRANSACTIONAL_ID_AUTHORIZATION_FAILED: the one code on which librdkafka stops at once (it retries others until its
// timeout) and that Java and franz-go do not retry either.
func (b *Broker) initProducerID(c *call, q *kmsg.InitProducerIDRequest) {
	if err := b.checkInitProducerID(q); err != nil {
		c.refuseProducerID(err)
		return
	}
	b.pids.next(func(id int64, err error) {
		c.guard(func() {
			if err != nil {
				codeFor(err) // logged if it is a defect
				c.refuseProducerID(kproto.Errorf(kproto.CoordinatorLoadInProgress, "No producer id could be reserved."))
				return
			}
			resp := kmsg.NewPtrInitProducerIDResponse()
			resp.ProducerID, resp.ProducerEpoch = id, 0
			c.answer(resp)
		})
	})
}

func (b *Broker) checkInitProducerID(q *kmsg.InitProducerIDRequest) error {
	if (q.ProducerID == -1) != (q.ProducerEpoch == -1) {
		return kproto.Errorf(kproto.InvalidRequest, "Producer id and epoch must both be given, or neither.")
	}
	if q.TransactionalID == nil {
		return nil
	}
	if *q.TransactionalID == "" {
		return kproto.Errorf(kproto.InvalidRequest, "The transactional id is empty.")
	}
	if q.TransactionTimeoutMillis <= 0 || int64(q.TransactionTimeoutMillis) > b.config().TransactionMaxTimeout.Milliseconds() {
		return kproto.Errorf(kproto.InvalidTransactionTimeout, "The transaction timeout is outside of (0, transaction.max.timeout.ms].")
	}
	b.logger.Debug("a transactional producer was refused: transactions are not supported", "transactional_id", *q.TransactionalID)
	return kproto.Errorf(kproto.TransactionalIDAuthorizationFailed, "Transactions are not supported.")
}

func (c *call) refuseProducerID(err error) {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ErrorCode = c.code(err)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	c.answer(resp)
}

// producerIDBlock is how many producer ids are reserved at a time, as in Kafka: one durable record for that many
// producers, at the price of losing what is left of a block at each start.
const producerIDBlock = 1000

// pidAllocator hands out producer ids from blocks that were reserved durably before, so none is given twice, whatever
// happens.
type pidAllocator struct {
	reserve func(done func(block catalog.ProducerIDBlock, err error))

	mu      sync.Mutex
	block   catalog.ProducerIDBlock // what is left
	waiting []func(int64, error)    // while a block is being reserved
}

func (b *Broker) reserveProducerIDs(done func(catalog.ProducerIDBlock, error)) {
	b.catalog.Do(catalog.ReserveProducerIDs{N: producerIDBlock}, func(v any, err error) {
		block, _ := v.(catalog.ProducerIDBlock)
		if err == nil && block.N == 0 {
			err = kproto.Errorf(kproto.UnknownServerError, "No producer ids are left.")
		}
		done(block, err)
	})
}

// next calls done with a new id, at once or when a block has been reserved.
func (p *pidAllocator) next(done func(int64, error)) {
	p.mu.Lock()
	if len(p.waiting) == 0 && p.block.N > 0 {
		id := p.take()
		p.mu.Unlock()
		done(id, nil)
		return
	}
	p.waiting = append(p.waiting, done)
	first := len(p.waiting) == 1
	p.mu.Unlock()
	if first {
		p.reserve(p.reserved)
	}
}

func (p *pidAllocator) take() int64 {
	id := p.block.First
	p.block.First++
	p.block.N--
	return id
}

// reserved serves the waiting from the new block, and reserves another while some are left.
func (p *pidAllocator) reserved(block catalog.ProducerIDBlock, err error) {
	p.mu.Lock()
	p.block = block
	served := p.waiting
	if err == nil {
		served = served[:min(int64(len(served)), block.N)]
	}
	p.waiting = append([]func(int64, error){}, p.waiting[len(served):]...)
	ids := make([]int64, len(served))
	for i := range ids {
		if err == nil {
			ids[i] = p.take()
		}
	}
	more := len(p.waiting) > 0
	p.mu.Unlock()
	for i, done := range served {
		done(ids[i], err)
	}
	if more {
		p.reserve(p.reserved)
	}
}
