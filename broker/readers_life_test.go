package broker

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/kproto"
)

// renewedParts is how many partitions such a topic has.
const renewedParts = 2

// renewed is a topic that is deleted and made again under its name.
type renewed struct {
	index    byte
	name     string
	settings []string
	gaps     bool // compaction takes records and batches
	cuts     bool // DeleteRecords is asked for
	sized    bool // retention.bytes deletes

	asked atomic.Int64              // the number of the newest life that a request was sent for
	lives atomic.Pointer[topicLife] // the newest that was made

	mu  sync.Mutex
	ids []*topicLife // the last few, that readers may ask for by id
}

// life is a topic between its creation and its deletion.
type topicLife struct {
	of          *renewed
	number      int64
	id          [16]byte
	dying, dead atomic.Bool // its deletion was asked for, was answered
	parts       [renewedParts]ground
}

// ground is what is known of a partition: offsets.
type ground struct {
	sent  atomic.Int64 // there may be records below
	acked atomic.Int64 // there are
	cut   atomic.Int64 // DeleteRecords was asked to delete those below
}

func (x *renewed) begin(c *client) *topicLife {
	l := &topicLife{of: x, number: x.asked.Add(1)}
	got := c.create(7, false, createEntry(x.name, renewedParts, 1, x.settings...))[0]
	if got.ErrorCode != 0 {
		c.t.Fatalf("create %s: %d %s", x.name, got.ErrorCode, deref(got.ErrorMessage))
	}
	l.id = got.TopicID
	x.lives.Store(l)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ids = append(x.ids[max(0, len(x.ids)-2):], l)
	return l
}

func (l *topicLife) end(c *client) {
	l.dying.Store(true)
	c.mustDelete(l.of.name)
	l.dead.Store(true)
}

// cut deletes all but the last records of a partition.
func (l *topicLife) cut(c *client, p int32, left int64) {
	g := &l.parts[p]
	to := max(g.cut.Load(), g.acked.Load()-left)
	g.cut.Store(to)
	if got := c.deleteRecords(2, l.of.name, p, to); got.ErrorCode != 0 || got.LowWatermark < to {
		c.t.Errorf("delete the records of %s/%d below %d: %+v", l.of.name, p, to, got)
	}
}

// any gives one of the last lives.
func (x *renewed) any(rnd *rand.Rand) *topicLife {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.ids) == 0 {
		return nil
	}
	if rnd.IntN(4) > 0 {
		return x.ids[len(x.ids)-1]
	}
	return x.ids[rnd.IntN(len(x.ids))]
}

// batch makes the next batch of a partition, and tells of how many records.
func (l *topicLife) batch(rnd *rand.Rand, p int) (kproto.Batch, int64) {
	codec := kproto.None
	if rnd.IntN(4) == 0 {
		codec = kproto.LZ4
	}
	b, base, n := kproto.NewBuilder(codec), l.parts[p].acked.Load(), 1+rnd.Int64N(8)
	for i := range n {
		b.Add(kproto.Record{Timestamp: time.Now().UnixMilli(), Key: fmt.Append(nil, "key ", (base+i)%64), Value: l.value(p, base+i, 20+rnd.IntN(1400))})
	}
	return b.Batch(), n
}

// A value tells of topic, partition, life and offset, and has a checksum of all that, filled up to some length, at its end.
const valueHead = 1 + 1 + 8 + 8

func (l *topicLife) value(p int, offset int64, filling int) []byte {
	v := append(make([]byte, 0, valueHead+filling+4), l.of.index, byte(p))
	v = binary.BigEndian.AppendUint64(v, uint64(l.number))
	v = binary.BigEndian.AppendUint64(v, uint64(offset))
	for i := range filling {
		v = append(v, byte(int(offset)*31+i*i))
	}
	return binary.BigEndian.AppendUint32(v, crc32.ChecksumIEEE(v))
}

// lifeOf gives the life that a value is of, if all else that it tells is right.
func lifeOf(v []byte, x *renewed, p int, offset int64) (number int64, err error) {
	if len(v) < valueHead+4 {
		return 0, fmt.Errorf("%d bytes at offset %d", len(v), offset)
	}
	told, sum := v[:len(v)-4], binary.BigEndian.Uint32(v[len(v)-4:])
	at := int64(binary.BigEndian.Uint64(v[10:]))
	if crc32.ChecksumIEEE(told) != sum || !slices.Equal(v[:2], []byte{x.index, byte(p)}) || at != offset {
		return 0, fmt.Errorf("the value at offset %d of %s/%d is one of offset %d, topic and partition %d, checksum right: %v", offset, x.name, p, at, v[:2], crc32.ChecksumIEEE(told) == sum)
	}
	return int64(binary.BigEndian.Uint64(v[2:])), nil
}
