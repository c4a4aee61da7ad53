package broker

import (
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

const storageErrorCode = 56 // KAFKA_STORAGE_ERROR

// askedFetch is a Fetch that was sent, with what was known then.
type askedFetch struct {
	version int16
	parts   []askedPart
}

type askedPart struct {
	l         *topicLife // the newest, or by id any
	partition int
	offset    int64
	max       int32
	lowest    int64 // no life below this can be meant
	byID      bool
	end       int64 // all below it was acknowledged
}

// ask makes a request for one to three partitions, each of another topic, by name or by id.
func (o *orchard) ask(rnd *rand.Rand) (askedFetch, *kmsg.FetchRequest) {
	a := askedFetch{version: 12}
	if rnd.IntN(2) == 0 {
		a.version = int16(13 + rnd.IntN(5))
	}
	q := kmsg.NewPtrFetchRequest()
	q.MinBytes, q.MaxBytes = 1, 1<<20
	for _, i := range rnd.Perm(len(o.topics))[:1+rnd.IntN(3)] {
		p, ok := o.topics[i].ask(rnd, a.version > 12)
		if !ok {
			continue
		}
		a.parts = append(a.parts, p)
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = int32(p.partition), p.offset, p.max, -1
		q.Topics = append(q.Topics, kmsg.FetchRequestTopic{Topic: p.l.of.name, TopicID: p.l.id, Partitions: []kmsg.FetchRequestTopicPartition{rp}})
	}
	return a, q
}

func (x *renewed) ask(rnd *rand.Rand, byID bool) (p askedPart, ok bool) {
	l := x.lives.Load()
	if byID {
		l = x.any(rnd)
	}
	if l == nil {
		return p, false
	}
	p = askedPart{l: l, byID: byID, partition: rnd.IntN(renewedParts), max: 1 + rnd.Int32N(4096), lowest: l.number}
	if rnd.IntN(4) == 0 {
		p.max = 64 << 10
	}
	if l.dead.Load() {
		p.lowest++
	}
	p.end = l.parts[p.partition].acked.Load()
	back := []int64{4, 400, 1500, p.end}[rnd.IntN(4)]
	p.offset = max(0, p.end+2-rnd.Int64N(back+4))
	return p, true
}

// judge holds the answer against what may be.
func (a *askedFetch) judge(o *orchard, r *kmsg.FetchResponse) error {
	if r.ErrorCode != 0 || len(r.Topics) != len(a.parts) {
		return fmt.Errorf("code %d, %d topics for %d", r.ErrorCode, len(r.Topics), len(a.parts))
	}
	for i, t := range r.Topics {
		p := &a.parts[i]
		if len(t.Partitions) != 1 || t.Partitions[0].Partition != int32(p.partition) || p.byID && t.TopicID != p.l.id || !p.byID && t.Topic != p.l.of.name {
			return fmt.Errorf("asked for %s/%d, got %+v", p.l.of.name, p.partition, t)
		}
		if err := p.judge(o, &t.Partitions[0], i == 0); err != nil {
			return fmt.Errorf("fetch v%d of %s/%d, life %d, offset %d, at most %d bytes, code %d: %w", a.version, p.l.of.name, p.partition, p.l.number, p.offset, p.max, t.Partitions[0].ErrorCode, err)
		}
		o.reads.Add(1)
	}
	return nil
}

func (p *askedPart) judge(o *orchard, got *kmsg.FetchResponseTopicPartition, first bool) error {
	g, dying := &p.l.parts[p.partition], p.l.dying.Load() // then what is said may be of a later life
	switch {
	case got.ErrorCode == 0 && len(got.RecordBatches) > 0:
		o.count[readRecords].Add(1)
		o.bytes.Add(int64(len(got.RecordBatches)))
		if len(got.RecordBatches) >= 16<<10 {
			o.large.Add(1)
		}
		return p.records(got.RecordBatches)
	case got.ErrorCode == 0:
		o.count[readNothing].Add(1)
		if first && p.offset < p.end && !dying && !o.refuses {
			return fmt.Errorf("nothing, and %d were acknowledged", p.end)
		}
		if p.byID && p.lowest > p.l.number {
			return fmt.Errorf("an answer of a topic that is deleted")
		}
	case got.ErrorCode == 1:
		o.count[readOutOfRange].Add(1)
		start := g.cut.Load()
		if p.l.of.sized {
			start = g.sent.Load()
		}
		if p.offset >= start && p.offset <= p.end && !dying {
			return fmt.Errorf("the log is from %d to %d", start, p.end)
		}
	case got.ErrorCode == 3, got.ErrorCode == 100 && p.byID:
		o.count[readNoTopic].Add(1)
		if !dying {
			return fmt.Errorf("the topic is there")
		}
	default:
		return fmt.Errorf("no answer to this")
	}
	return nil
}

// records checks what was read: whole batches, all of one life that was there, and each record where it belongs.
func (p *askedPart) records(b []byte) error {
	next, number, n := int64(-1), int64(0), len(b)
	for batches := 0; len(b) > 0; batches++ {
		batch, rest, err := kproto.SplitBatch(b)
		switch {
		case err != nil:
			return err
		case !batch.ValidCRC():
			return fmt.Errorf("the batch at offset %d has a wrong checksum", batch.BaseOffset())
		case batches == 0 && (batch.LastOffset() < p.offset || !p.l.of.gaps && batch.BaseOffset() > p.offset):
			return fmt.Errorf("the first batch is from %d to %d", batch.BaseOffset(), batch.LastOffset())
		case batches > 0 && (batch.BaseOffset() < next || !p.l.of.gaps && batch.BaseOffset() > next):
			return fmt.Errorf("a batch at offset %d, after %d", batch.BaseOffset(), next-1)
		case batches > 0 && n > int(p.max):
			return fmt.Errorf("%d bytes", n)
		case !p.l.of.gaps && int64(batch.Count()) != batch.NextOffset()-batch.BaseOffset():
			return fmt.Errorf("%d records from %d to %d", batch.Count(), batch.BaseOffset(), batch.LastOffset())
		}
		if err := p.eachOf(batch, &number); err != nil {
			return err
		}
		next, b = batch.NextOffset(), rest
	}
	return p.ofItsTime(number, next)
}

func (p *askedPart) eachOf(batch kproto.Batch, number *int64) (bad error) {
	err := batch.EachRecord(func(r kproto.Record) bool {
		n, err := lifeOf(r.Value, p.l.of, p.partition, r.Offset)
		if err == nil && *number != 0 && n != *number {
			err = fmt.Errorf("records of the lives %d and %d", *number, n)
		}
		*number, bad = n, err
		return err == nil
	})
	if err != nil {
		return err
	}
	return bad
}

// ofItsTime holds a life against those that were there between question and answer. Zero: compaction took all records of these batches.
func (p *askedPart) ofItsTime(number, next int64) error {
	highest := p.l.number
	if !p.byID {
		highest = p.l.of.asked.Load()
	}
	switch {
	case p.lowest > highest:
		return fmt.Errorf("records of a topic that is deleted")
	case number != 0 && (number < p.lowest || number > highest):
		return fmt.Errorf("records of life %d, those of %d to %d are there", number, p.lowest, highest)
	case (number == p.l.number || p.byID) && next > p.l.parts[p.partition].sent.Load():
		return fmt.Errorf("records up to %d, %d were sent", next, p.l.parts[p.partition].sent.Load())
	}
	return nil
}
