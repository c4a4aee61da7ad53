package broker

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// produceTo makes a request for one topic with one partition entry for each batch given, in order of partition.
func produceTo(x *topic, version, acks int16, batches ...[]byte) *kmsg.ProduceRequest {
	q := kmsg.NewPtrProduceRequest()
	q.Acks, q.TimeoutMillis = acks, 10_000
	t := kmsg.NewProduceRequestTopic()
	if t.Topic = x.name; version >= 13 {
		t.TopicID = x.id
	}
	for i, b := range batches {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), b
		t.Partitions = append(t.Partitions, p)
	}
	q.Topics = append(q.Topics, t)
	return q
}

func TestProduceEveryVersion(t *testing.T) {
	r := newRig(t, nil)
	w := r.dial()
	x := r.topic("a", 2, nil)
	for version := int16(3); version <= 13; version++ {
		base := int64(version-3) * 2
		q := produceTo(x, version, -1, recordBatch(2, 10), recordBatch(2, 10), recordBatch(1, 1))
		got := w.do(version, q).(*kmsg.ProduceResponse)
		if len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 3 {
			t.Fatalf("v%d: %+v", version, got)
		}
		for i, p := range got.Topics[0].Partitions[:2] {
			start := int64(0)
			if version < 5 {
				start = -1
			}
			if p.Partition != int32(i) || p.ErrorCode != 0 || p.BaseOffset != base || p.LogAppendTime != -1 || p.LogStartOffset != start {
				t.Errorf("v%d partition %d: %+v", version, i, p)
			}
		}
		if p := got.Topics[0].Partitions[2]; p.ErrorCode != 3 || p.BaseOffset != -1 || (p.ErrorMessage != nil) != (version >= 8) {
			t.Errorf("v%d unknown partition: %+v", version, p)
		}
		if version >= 13 && got.Topics[0].TopicID != x.id || version < 13 && got.Topics[0].Topic != "a" {
			t.Errorf("v%d topic: %+v", version, got.Topics[0])
		}
	}
}

// The bytes of the answer are exactly what kmsg writes for the same answer.
func TestProduceResponseBytes(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 1, map[string]string{"cleanup.policy": "compact"})
	for version := int16(3); version <= 13; version++ {
		w := r.dial()
		// Null keys in a compacted topic: record errors and a message.
		q := produceTo(x, version, 1, recordBatch(3, 1), recordBatch(1, 1))
		w.send(version, q)
		raw := new(bytes.Buffer)
		resp := w.tee(raw, q)
		if again := kproto.AppendResponse(nil, w.corr, resp); !bytes.Equal(again, raw.Bytes()) {
			t.Errorf("v%d:\n%x, kmsg writes\n%x", version, raw.Bytes(), again)
		}
		p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 87 || version >= 8 && len(p.ErrorRecords) == 0 {
			t.Errorf("v%d: %+v", version, p)
		}
	}
}

func TestProduceRefusals(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 4, map[string]string{"max.message.bytes": "5000"})
	internal := r.topic("__internal", 1, nil)
	internal.internal = true
	transactional := func(pid int64) []byte {
		b := kproto.NewBuilder(kproto.None)
		b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = pid, 0, 0, true
		b.Add(kproto.Record{Value: []byte("x")})
		return b.Batch()
	}
	damaged := recordBatch(1, 10)
	damaged[kproto.HeaderSize]++
	id := "tx"

	for _, c := range []struct {
		name string
		edit func(q *kmsg.ProduceRequest)
		x    *topic
		want int16
	}{
		{"good", func(*kmsg.ProduceRequest) {}, x, 0},
		{"acks 2", func(q *kmsg.ProduceRequest) { q.Acks = 2 }, x, 21},
		{"acks -2", func(q *kmsg.ProduceRequest) { q.Acks = -2 }, x, 21},
		{"transactional id", func(q *kmsg.ProduceRequest) { q.TransactionID = &id }, x, 48},
		{"transactional batch alone", func(q *kmsg.ProduceRequest) { q.Topics[0].Partitions[0].Records = transactional(7) }, x, 53},
		{"internal topic", func(*kmsg.ProduceRequest) {}, internal, 17},
		{"unknown topic", func(*kmsg.ProduceRequest) {}, &topic{name: "b", id: kproto.TopicID{1}}, 3},
		{"partition -1", func(q *kmsg.ProduceRequest) { q.Topics[0].Partitions[0].Partition = -1 }, x, 3},
		{"null records", func(q *kmsg.ProduceRequest) { q.Topics[0].Partitions[0].Records = nil }, x, 87},
		{"empty records", func(q *kmsg.ProduceRequest) { q.Topics[0].Partitions[0].Records = []byte{} }, x, 87},
		{"damaged", func(q *kmsg.ProduceRequest) { q.Topics[0].Partitions[0].Records = damaged }, x, 2},
		{"two batches", func(q *kmsg.ProduceRequest) {
			q.Topics[0].Partitions[0].Records = append(recordBatch(1, 1), recordBatch(1, 1)...)
		}, x, 87},
		{"too large", func(q *kmsg.ProduceRequest) { q.Topics[0].Partitions[0].Records = recordBatch(1, 6000) }, x, 10},
	} {
		for _, version := range []int16{3, 8, 9, 13} {
			q := produceTo(c.x, version, -1, recordBatch(1, 10))
			c.edit(q)
			want := c.want
			if c.name == "unknown topic" && version >= 13 {
				want = 100
			}
			got := r.dial().do(version, q).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			if got.ErrorCode != want || want != 0 && (got.BaseOffset != -1 || got.LogStartOffset != -1) {
				t.Errorf("%s v%d: %+v, want code %d", c.name, version, got, want)
			}
			if version >= 8 && want != 0 && got.ErrorMessage == nil {
				t.Errorf("%s v%d: no message", c.name, version)
			}
			// The same with acks=0 is silent when good, and closes the connection otherwise.
			if q.Acks != -1 {
				continue
			}
			w := r.dial()
			q.Acks = 0
			w.send(version, q)
			if want != 0 {
				w.closed(q)
				continue
			}
			q.Acks = 1
			if corr := w.send(version, q); w.answers() != corr {
				t.Errorf("%s v%d: acks=0 was answered", c.name, version)
			}
		}
	}
}

func TestProducePartitionTwice(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 100, nil)
	for _, partitions := range []int{2, 60} { // searched one by one, and by map
		q := produceTo(x, 9, -1)
		for i := range partitions {
			p := kmsg.NewProduceRequestTopicPartition()
			p.Partition, p.Records = int32(i), recordBatch(1, 1)
			q.Topics[0].Partitions = append(q.Topics[0].Partitions, p)
		}
		twice := q.Topics[0]
		twice.Partitions = []kmsg.ProduceRequestTopicPartition{twice.Partitions[1], twice.Partitions[0]}
		q.Topics = append(q.Topics, twice)
		got := r.dial().do(9, q).(*kmsg.ProduceResponse)
		for _, p := range got.Topics[0].Partitions {
			if p.ErrorCode != 0 {
				t.Errorf("first: %+v", p)
			}
		}
		for _, p := range got.Topics[1].Partitions {
			if p.ErrorCode != 42 || p.BaseOffset != -1 {
				t.Errorf("second: %+v", p)
			}
		}
	}
}

// A malformed request appends nothing, not even from its sound part.
func TestProduceMalformed(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 2, nil)
	for version := int16(3); version <= 13; version++ {
		q := produceTo(x, version, -1, recordBatch(1, 10), recordBatch(1, 10))
		q.SetVersion(version)
		body := q.AppendTo(nil)
		if _, ok := scanProduce(body, version); !ok {
			t.Fatalf("v%d: a sound body is refused", version)
		}
		for n := range body {
			if _, ok := scanProduce(body[:n], version); ok {
				t.Fatalf("v%d: cut at %d of %d passes", version, n, len(body))
			}
		}
	}
	q := produceTo(x, 3, -1, recordBatch(1, 10), recordBatch(1, 10))
	q.Topics = append(q.Topics, kmsg.ProduceRequestTopic{Topic: "a"})
	w := r.dial()
	w.sendCut(3, q, 2)
	w.closed(q)
	for i := range int32(2) {
		if o, err := x.partition(i).Offsets(); err != nil || o.End != 0 {
			t.Errorf("partition %d: %+v %v", i, o, err)
		}
	}
}

func TestProduceWaitsForTheSync(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 2, nil)
	r.fill(x.partition(0), 1, 1)
	r.gate.close()

	// The timeout answers REQUEST_TIMED_OUT, the refused partition keeps its own code, and the append stands.
	w := r.dial()
	q := produceTo(x, 9, -1, recordBatch(1, 10), recordBatch(1, 10), recordBatch(1, 10))
	q.TimeoutMillis = 20
	got := w.do(9, q).(*kmsg.ProduceResponse).Topics[0].Partitions
	if got[0].ErrorCode != 7 || got[0].BaseOffset != 1 || got[1].ErrorCode != 7 || got[2].ErrorCode != 3 {
		t.Errorf("timed out: %+v", got)
	}
	// acks=1 waits as long as it takes; a timeout of zero does not mean zero.
	for _, q := range []*kmsg.ProduceRequest{produceTo(x, 9, 1, recordBatch(1, 10)), produceTo(x, 9, -1, recordBatch(1, 10))} {
		q.TimeoutMillis = 0
		w.send(9, q)
	}
	r.gate.open()
	for i := range int64(2) {
		if p := w.receive(q).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != 2+i {
			t.Errorf("%d: %+v", i, p)
		}
	}
}

func TestProduceLogAppendTimeAndCodec(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 1, map[string]string{"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"})
	b := kproto.NewBuilder(kproto.Gzip)
	b.Add(kproto.Record{Timestamp: 5, Value: bytes.Repeat([]byte("x"), 1000)})
	p := r.dial().do(9, produceTo(x, 9, -1, b.Batch())).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.LogAppendTime < 1e12 {
		t.Fatalf("%+v", p)
	}
	stored, _, err := x.partition(0).ReadBytes(nil, 0, 1, 1<<20)
	check(t, err)
	if s := kproto.Batch(stored); s.Codec() != kproto.Zstd || !s.LogAppendTime() || s.MaxTimestamp() != p.LogAppendTime || !s.ValidCRC() {
		t.Errorf("stored: codec %v, append time %v, max %d", s.Codec(), s.LogAppendTime(), s.MaxTimestamp())
	}
}

func TestProduceToDeletedTopic(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 1, nil)
	l := x.partition(0)
	r.fill(l, 1, 1)
	r.gate.close()
	w := r.dial()
	q := produceTo(x, 13, -1, recordBatch(1, 10))
	w.send(13, q)
	waitFor(t, func() bool { o, _ := l.Offsets(); return o.End == 2 })
	r.b.topics.remove(x.id)
	deleted := make(chan error, 1)
	go func() { deleted <- r.b.dir.Delete(l) }() // waits for the sync that is under way; the producer does not
	if p := w.receive(q).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 100 || p.BaseOffset != -1 {
		t.Errorf("%+v", p)
	}
	r.gate.open()
	check(t, <-deleted)
}

// Replies leave in the order of the requests although the last one is ready first.
func TestProduceOrder(t *testing.T) {
	r := newRig(t, nil)
	slow, fast := r.topic("slow", 1, nil), r.topic("fast", 1, map[string]string{"sluice.durability": "os"})
	r.fill(fast.partition(0), 1, 1)
	r.gate.close()
	w := r.dial()
	q := produceTo(slow, 9, -1, recordBatch(1, 10))
	first := w.send(9, q)
	second := w.send(9, produceTo(fast, 9, -1, recordBatch(1, 10)))
	waitFor(t, func() bool { o, _ := fast.partition(0).Offsets(); return o.High == 2 })
	r.gate.open()
	if a, b := w.answers(), w.answers(); a != first || b != second {
		t.Errorf("answers to %d, %d", a, b)
	}
}
