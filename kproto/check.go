package kproto

import (
	"encoding/binary"
	"math"
)

// CheckOptions are the rules of one topic for a client's batch.
type CheckOptions struct {
	ProduceVersion int16 // of the request
	Strict         bool  // walk compressed records too; else of them only header and CRC are checked, unless Compacted
	MaxBytes       int   // max.message.bytes
	SegmentBytes   int64 // segment.bytes
	Compacted      bool  // every record needs a key
	LogAppendTime  bool  // timestamps are not checked, the broker will overwrite them
	Now            int64 // ms
	BeforeMaxMs    int64 // message.timestamp.before.max.ms
	AfterMaxMs     int64 // message.timestamp.after.max.ms
}

// RecordError says what is wrong with one record of a refused batch (KIP-467).
type RecordError struct {
	Index   int32 // within the batch
	Message string
}

// maxRecordErrors bounds the list that a refused batch gets back: the first ones tell the story.
const maxRecordErrors = 100

// firstZstdProduce is the version of Produce that first may carry zstd (KIP-110).
const firstZstdProduce = 7

// CheckProduced checks the records field of one partition of a Produce request: exactly one batch
// v2 that a client may send. The batch aliases records. As in Kafka, a max timestamp that is not that
// of the records is put right in place, with the CRC, when the records are walked.
//
// The error is an *Error with Kafka's code; RecordErrors is filled for per-record refusals.
func CheckProduced(records []byte, o CheckOptions) (Batch, []RecordError, error) {
	b, err := onlyBatch(records, o.ProduceVersion)
	if err != nil {
		return nil, nil, err
	}
	if err := checkHeader(b, &o); err != nil {
		return nil, nil, err
	}
	if b.Codec() != None && !o.Strict && !o.Compacted { // whether a key is missing shows only in the records
		if err := checkHeaderTimestamps(b, &o); err != nil {
			return nil, nil, err
		}
		return b, nil, nil
	}
	c := checker{batch: b, rules: o, maxTimestamp: noTimestamp}
	if err := c.walk(); err != nil {
		return nil, nil, err
	}
	if err := c.verdict(); err != nil {
		return nil, c.errors, err
	}
	if !o.LogAppendTime {
		b.correctMaxTimestamp(c.maxTimestamp)
	}
	return b, nil, nil
}

// Sizes that Kafka looks at before it knows the record format.
const (
	minLegacyLength = 14 // what the length field of a message v0 counts at least
	upToMagic       = posMagic + 1
)

// onlyBatch demands one whole batch v2 and nothing else. The order of the checks, and so the code
// of bytes with several faults, is that of Kafka's reader.
func onlyBatch(records []byte, version int16) (Batch, error) {
	if len(records) < prefixSize {
		return nil, invalid("the request must have one record batch per partition")
	}
	b := Batch(records)
	length := int(b.Length())
	if length < minLegacyLength {
		return nil, corrupt("the batch's length field is %d", length)
	}
	if len(b) < upToMagic {
		return nil, invalid("the record batch is cut short")
	}
	if m := b.Magic(); m < 0 || m > magicV2 {
		return nil, corrupt("the batch's magic is %d", m)
	}
	size := length + prefixSize
	if size > len(b) {
		return nil, invalid("the record batch has %d bytes, of which %d are there", size, len(b))
	}
	if m := b.Magic(); m < magicV2 {
		return nil, invalid("the batch's magic is %d; this version of Produce takes only 2", m)
	}
	if size < HeaderSize {
		return nil, corrupt("the batch's length field is %d, less than a header", length)
	}
	if b.Codec() == Zstd && version < firstZstdProduce {
		return nil, Errorf(UnsupportedCompressionType, "Produce takes zstd from version %d on", firstZstdProduce)
	}
	if size < len(b) {
		return nil, invalid("%d bytes follow the one record batch that a partition may have", len(b)-size)
	}
	return b, nil
}

// checkHeader checks all that needs no record.
func checkHeader(b Batch, o *CheckOptions) error {
	if base := b.BaseOffset(); base != 0 {
		return invalid("the batch's base offset is %d, not 0", base)
	}
	if len(b) > o.MaxBytes {
		return Errorf(MessageTooLarge, "the batch has %d bytes; max.message.bytes is %d", len(b), o.MaxBytes)
	}
	if !b.ValidCRC() {
		return corrupt("the batch's CRC is %#x, its bytes give %#x", b.CRC(), b.checksum())
	}
	if int64(len(b)) > o.SegmentBytes {
		return Errorf(RecordListTooLarge, "the batch has %d bytes; segment.bytes is %d", len(b), o.SegmentBytes)
	}
	if c := b.Codec(); !c.valid() {
		return c.unsupported()
	}
	count, last := b.Count(), b.LastOffsetDelta()
	switch {
	case count <= 0 || last < 0 || int64(last)+1 != int64(count):
		return invalid("the batch counts %d records and its last offset delta is %d", count, last)
	case b.Control():
		return invalid("clients may not write control records")
	case b.uint16(posAttributes)&attrDeleteHorizon != 0:
		return invalid("clients may not set a delete horizon")
	case b.ProducerID() >= 0 && b.BaseSequence() < 0:
		return invalid("the batch has producer id %d and base sequence %d", b.ProducerID(), b.BaseSequence())
	case b.ProducerID() >= 0 && b.ProducerEpoch() < 0:
		return invalid("the batch has producer id %d and producer epoch %d", b.ProducerID(), b.ProducerEpoch())
	case b.LogAppendTime():
		return Errorf(InvalidTimestamp, "clients may not set the timestamp type LogAppendTime")
	}
	return nil
}

// checkHeaderTimestamps stands in for the records of a batch that is not walked.
func checkHeaderTimestamps(b Batch, o *CheckOptions) error {
	if o.timely(b.BaseTimestamp()) && o.timely(b.MaxTimestamp()) {
		return nil
	}
	return Errorf(InvalidTimestamp, "the batch's timestamps %d to %d are out of range", b.BaseTimestamp(), b.MaxTimestamp())
}

// timely says that a record may have the timestamp (ms). "None" may always.
func (o *CheckOptions) timely(ms int64) bool {
	if o.LogAppendTime || ms == noTimestamp {
		return true
	}
	// Neither sum can overflow: the first is of a positive and a negative number, the other is cut.
	earliest := o.Now - o.BeforeMaxMs
	latest := o.Now + min(o.AfterMaxMs, math.MaxInt64-o.Now)
	return earliest <= ms && ms <= latest
}

// checker walks the records of one batch.
type checker struct {
	recordReader
	batch        Batch
	rules        CheckOptions
	maxTimestamp int64 // ms, of the records so far
	untimely     bool  // one of errors is about a timestamp
	errors       []RecordError
}

func (c *checker) walk() error {
	return c.batch.stream(func(r recordReader) error {
		c.recordReader = r
		return c.records()
	})
}

// records demands as many records as the header counts, and nothing behind them.
func (c *checker) records() error {
	for i := range c.batch.Count() {
		err := c.record(i)
		if failure := c.failure(); failure != nil {
			return failure // the stream's end is not the records' fault
		}
		if err != nil {
			return err
		}
	}
	more := c.more() // also lets the decoder check what trails the records
	if failure := c.failure(); failure != nil {
		return failure
	}
	if more {
		return invalid("bytes are left behind the last record")
	}
	return nil
}

func (c *checker) record(index int32) error {
	size := c.varint()
	end := c.pos + size
	c.skip(1) // attributes: none is defined
	timestampDelta := c.varlong()
	delta := c.varint()
	keySize := c.sized(end)
	c.sized(end)
	c.headers(end)
	if c.bad || size < 0 || c.pos != end {
		return invalid("record %d does not fill its %d bytes", index, size)
	}
	if delta != int64(index) {
		return invalid("record %d has the offset delta %d", index, delta)
	}
	return c.rule(index, timestampDelta, keySize)
}

// sized passes over a length and so many bytes, which must end by end, and gives the length; -1 is null.
func (c *checker) sized(end int64) int64 {
	n := c.varint()
	if n == -1 {
		return n
	}
	if n > end-c.pos {
		c.fail()
		return 0
	}
	c.skip(n)
	return n
}

func (c *checker) headers(end int64) {
	n := c.varint()
	if n < 0 || n*minHeaderSize > end-c.pos {
		c.fail()
	}
	for ; n > 0 && !c.bad; n-- {
		if c.sized(end) < 0 { // a header's key is not null
			c.fail()
		}
		c.sized(end)
	}
}

// rule applies the topic's rules to a sound record.
func (c *checker) rule(index int32, timestampDelta, keySize int64) error {
	base := c.batch.BaseTimestamp()
	ms := base + timestampDelta
	if (ms < base) != (timestampDelta < 0) {
		return invalid("record %d has a timestamp beyond 64 bits", index)
	}
	c.maxTimestamp = max(c.maxTimestamp, ms)
	switch {
	case c.rules.Compacted && keySize < 0:
		c.blame(index, "a compacted topic needs a key on every record")
	case !c.rules.timely(ms):
		c.untimely = true
		c.blame(index, "the timestamp is out of the range that the topic allows")
	}
	return nil
}

func (c *checker) blame(index int32, message string) {
	if len(c.errors) < maxRecordErrors {
		c.errors = append(c.errors, RecordError{index, message})
	}
}

// verdict is the whole batch's error when single records were refused.
func (c *checker) verdict() error {
	switch {
	case len(c.errors) == 0:
		return nil
	case c.untimely:
		return Errorf(InvalidTimestamp, "one or more records have been rejected due to an invalid timestamp")
	}
	return invalid("one or more records have been rejected")
}

func (b Batch) correctMaxTimestamp(ms int64) {
	if b.MaxTimestamp() == ms {
		return
	}
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(ms))
	b.setCRC()
}
