package broker

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/server"
	"sluice/kproto"
)

// Whoever uses a pooled buffer or a request's body after its end reads poison.
func init() { server.PoisonFreedBuffers() }

func TestWireReaderBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		flex bool
		in   []byte
		read func(r *wireReader)
		bad  bool
	}{
		{"int32", false, []byte{0, 0, 0, 1}, func(r *wireReader) { r.int32() }, false},
		{"int32 cut", false, []byte{0, 0, 0}, func(r *wireReader) { r.int32() }, true},
		{"int64 cut", false, make([]byte, 7), func(r *wireReader) { r.int64() }, true},
		{"id cut", false, make([]byte, 15), func(r *wireReader) { r.topicID() }, true},
		{"varint of 32 bits", true, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, func(r *wireReader) { r.uvarint() }, false},
		{"varint of 33 bits", true, []byte{0xff, 0xff, 0xff, 0xff, 0x1f}, func(r *wireReader) { r.uvarint() }, true},
		{"varint of six bytes", true, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0}, func(r *wireReader) { r.uvarint() }, true},
		{"varint cut", true, []byte{0x80}, func(r *wireReader) { r.uvarint() }, true},
		{"null string", false, []byte{0xff, 0xff}, func(r *wireReader) { r.string() }, true},
		{"null nullable string", false, []byte{0xff, 0xff}, func(r *wireReader) { r.nullableString() }, false},
		{"string of -2", false, []byte{0xff, 0xfe}, func(r *wireReader) { r.nullableString() }, true},
		{"string too long", false, []byte{0, 2, 'a'}, func(r *wireReader) { r.string() }, true},
		{"compact string too long", true, []byte{3, 'a'}, func(r *wireReader) { r.string() }, true},
		{"compact null string", true, []byte{0}, func(r *wireReader) { r.string() }, true},
		{"bytes of -2", false, []byte{0xff, 0xff, 0xff, 0xfe}, func(r *wireReader) { r.nullableBytes() }, true},
		{"bytes of 2 GiB", false, []byte{0x7f, 0xff, 0xff, 0xff}, func(r *wireReader) { r.nullableBytes() }, true},
		{"compact bytes of 4 GiB", true, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, func(r *wireReader) { r.nullableBytes() }, true},
		{"count", false, []byte{0, 0, 0, 2, 1, 2}, func(r *wireReader) { r.count(1) }, false},
		{"count over what is left", false, []byte{0, 0, 0, 2, 1, 2}, func(r *wireReader) { r.count(2) }, true},
		{"count of -1", false, []byte{0xff, 0xff, 0xff, 0xff}, func(r *wireReader) { r.count(1) }, true},
		{"compact null count", true, []byte{0}, func(r *wireReader) { r.count(1) }, true},
		{"tags", true, []byte{2, 0, 1, 9, 5, 0}, func(r *wireReader) { r.tags(0) }, false},
		{"tags unsorted", true, []byte{2, 5, 0, 0, 0}, func(r *wireReader) { r.tags(0) }, true},
		{"tag twice", true, []byte{2, 5, 0, 5, 0}, func(r *wireReader) { r.tags(0) }, true},
		{"tag too long", true, []byte{1, 0, 2, 9}, func(r *wireReader) { r.tags(0) }, true},
		{"tags cut", true, []byte{2, 0, 0}, func(r *wireReader) { r.tags(0) }, true},
		{"too many tags", true, append([]byte{65}, make([]byte, 200)...), func(r *wireReader) { r.tags(0) }, true},
		{"tags too heavy", true, append([]byte{1, 0, 0x81, 0x20}, make([]byte, 5000)...), func(r *wireReader) { r.tags(0) }, true},
	} {
		r := wireReader{b: c.in, flex: c.flex}
		if c.read(&r); r.bad != c.bad {
			t.Errorf("%s: bad is %v", c.name, r.bad)
		}
		if r.bad && (r.int64() != 0 || r.string() != nil || r.count(1) != 0 || r.topicID() != kproto.TopicID{}) {
			t.Errorf("%s: something was read after it", c.name)
		}
	}
}

// Counts that fit the body but not what a broker can hold are refused before anything is made for them.
func TestWireCounts(t *testing.T) {
	const n = 300_000
	array := func(head, element []byte) []byte {
		return append(binary.BigEndian.AppendUint32(head, n), bytes.Repeat(element, n)...)
	}
	fetchHead := make([]byte, 17) // v4: replica, max wait, min bytes, max bytes, isolation
	r := newRig(t, nil)
	for name, body := range map[string][]byte{
		"topics":     array(bytes.Clone(fetchHead), []byte{0, 0, 0, 0, 0, 0}),
		"partitions": array(append(bytes.Clone(fetchHead), 0, 0, 0, 1, 0, 1, 'a'), make([]byte, 16)),
	} {
		if _, _, ok := parseFetchBody(r.b, 4, body); ok {
			t.Errorf("Fetch with %d %s passes", n, name)
		}
	}
	produceHead := []byte{0xff, 0xff, 0, 1, 0, 0, 0, 9, 0, 0, 0, 1, 0, 1, 'a'}
	if _, ok := scanProduce(array(produceHead, []byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}), 3); ok {
		t.Errorf("Produce with %d partitions passes", n)
	}
}

func FuzzScanProduce(f *testing.F) {
	for version := int16(3); version <= 13; version++ {
		q := produceTo(&topic{name: "a"}, version, -1, recordBatch(1, 10), nil)
		q.SetVersion(version)
		f.Add(version, q.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		version = 3 + version&0x7fff%11
		q, ok := scanProduce(body, version)
		if !ok {
			return
		}
		if q.parts*minProducePart > len(body) {
			t.Errorf("%d partitions in %d bytes", q.parts, len(body))
		}
		k := kmsg.NewPtrProduceRequest()
		k.SetVersion(version)
		if err := k.ReadFrom(body); err != nil {
			t.Errorf("kmsg refuses what passes here: %v", err)
		}
		parts := 0
		for _, topic := range k.Topics {
			parts += len(topic.Partitions)
		}
		if parts != q.parts || k.Acks != q.acks || (k.TransactionID != nil) != q.hasTxnID {
			t.Errorf("%+v is read as %+v", k, q)
		}
	})
}

func FuzzParseFetch(f *testing.F) {
	b, err := newBroker(Options{})
	check(f, err)
	b.topics = newTopics(nil, nil)
	x := &topic{name: "a", id: kproto.TopicID{1}}
	for version := int16(4); version <= 18; version++ {
		q := fetchOf(at(x, 0, 0), at(x, 1, 5))
		q.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "a", Partitions: []int32{1}}}
		q.SetVersion(version)
		f.Add(version, q.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		version = 4 + version&0x7fff%15
		q, forgotten, ok := parseFetchBody(b, version, body)
		if !ok {
			return
		}
		if 16*len(q.parts)+2*len(q.topics)+4*len(forgotten) > len(body) {
			t.Errorf("%d topics, %d partitions, %d forgotten in %d bytes", len(q.topics), len(q.parts), len(forgotten), len(body))
		}
		k := kmsg.NewPtrFetchRequest()
		k.SetVersion(version)
		if err := k.ReadFrom(body); err != nil {
			return // kmsg also reads the tags that only followers send
		}
		q.wait, q.minBytes, q.maxBytes = 0, 0, 0 // clamped
		k.MaxWaitMillis, k.MinBytes, k.MaxBytes = 0, 0, 0
		if got, want := describe(q, forgotten), describeRequest(k); got != want {
			t.Errorf("v%d\n%s\n%s", version, got, want)
		}
	})
}
