package broker

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// want is one partition of a Fetch; zero epochs mean none is claimed.
type want struct {
	x         *topic
	partition int32
	offset    int64
	max       int32
	current   int32 // leader epoch, -1: none
	last      int32 // last fetched epoch, -1: none
}

// fetchOf makes a request that does not wait, for at most 1 MiB in all.
func fetchOf(parts ...want) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.MinBytes, q.MaxBytes = 1, 1<<20
	for _, p := range parts {
		if n := len(q.Topics); n == 0 || q.Topics[n-1].TopicID != p.x.id {
			q.Topics = append(q.Topics, kmsg.FetchRequestTopic{Topic: p.x.name, TopicID: p.x.id})
		}
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p.partition, p.offset, p.max
		rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = p.current, p.last
		t := &q.Topics[len(q.Topics)-1]
		t.Partitions = append(t.Partitions, rp)
	}
	return q
}

func at(x *topic, partition int32, offset int64) want {
	return want{x, partition, offset, 1 << 20, -1, -1}
}

// fetched flattens an answer.
func fetched(r kmsg.Response) (ps []kmsg.FetchResponseTopicPartition) {
	for _, t := range r.(*kmsg.FetchResponse).Topics {
		ps = append(ps, t.Partitions...)
	}
	return ps
}

// offsetsOf gives the base offsets of the batches in an answer's records and fails when one is not whole.
func offsetsOf(t testing.TB, records []byte) (bases []int64) {
	t.Helper()
	for len(records) > 0 {
		b, rest, err := kproto.SplitBatch(records)
		check(t, err)
		if !b.ValidCRC() {
			t.Fatal("a batch is damaged")
		}
		bases, records = append(bases, b.BaseOffset()), rest
	}
	return bases
}

func TestFetchEveryVersion(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 2, nil)
	r.fill(x.partition(0), 3, 10)
	r.fill(x.partition(1), 2, 40_000) // large enough to be sent from the file
	for version := int16(4); version <= 18; version++ {
		q := fetchOf(at(x, 0, 1), at(x, 1, 0), at(x, 9, 0))
		w := r.dial()
		w.send(version, q)
		raw := new(bytes.Buffer)
		resp := w.tee(raw, q)
		if again := kproto.AppendResponse(nil, w.corr, resp); !bytes.Equal(again, raw.Bytes()) {
			t.Errorf("v%d: kmsg writes the answer otherwise", version)
		}
		ps := fetched(resp)
		if len(ps) != 3 {
			t.Fatalf("v%d: %+v", version, resp)
		}
		start := int64(0)
		if version < 5 {
			start = -1
		}
		for i, n := range []int64{3, 2} {
			p := ps[i]
			if p.ErrorCode != 0 || p.HighWatermark != n || p.LastStableOffset != n || p.LogStartOffset != start || p.AbortedTransactions != nil {
				t.Errorf("v%d partition %d: %+v", version, i, p)
			}
		}
		if got := offsetsOf(t, ps[0].RecordBatches); fmt.Sprint(got) != "[1 2]" {
			t.Errorf("v%d: batches %v", version, got)
		}
		if got := offsetsOf(t, ps[1].RecordBatches); fmt.Sprint(got) != "[0 1]" {
			t.Errorf("v%d: batches %v", version, got)
		}
		if p := ps[2]; p.ErrorCode != 3 || p.HighWatermark != -1 || p.RecordBatches == nil {
			t.Errorf("v%d unknown partition: %+v", version, p)
		}
	}
}

func TestFetchErrors(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 1, nil)
	r.fill(x.partition(0), 5, 10)
	other := &topic{name: "b", id: kproto.TopicID{1}}
	lastOf := func(epoch int32, offset int64) want { return want{x, 0, offset, 100, -1, epoch} }
	for _, c := range []struct {
		name    string
		version int16
		want    want
		code    int16
	}{
		{"unknown topic", 12, at(other, 0, 0), 3},
		{"unknown id", 13, at(other, 0, 0), 100},
		{"partition -1", 12, at(x, -1, 0), 3},
		{"offset -1", 12, at(x, 0, -1), 1},
		{"at the end", 12, at(x, 0, 5), 0},
		{"past the end", 12, at(x, 0, 6), 1},
		{"current epoch", 12, want{x, 0, 0, 100, rigEpoch, -1}, 0},
		{"older epoch", 12, want{x, 0, 0, 100, rigEpoch - 1, -1}, 74},
		{"older epoch, v16", 16, want{x, 0, 0, 100, rigEpoch - 1, -1}, 74},
		{"newer epoch", 12, want{x, 0, 0, 100, rigEpoch + 1, -1}, 75},
		{"last epoch is current", 12, lastOf(rigEpoch, 5), 0},
		{"last epoch is to come", 12, lastOf(rigEpoch+1, 5), 1},
	} {
		q := fetchOf(c.want)
		p := fetched(r.dial().do(c.version, q))[0]
		if p.ErrorCode != c.code || c.code != 0 && (p.HighWatermark != -1 || p.LogStartOffset != -1 || len(p.RecordBatches) > 0) {
			t.Errorf("%s: %+v", c.name, p)
		}
		leader := kmsg.FetchResponseTopicPartitionCurrentLeader{LeaderID: -1, LeaderEpoch: -1}
		if c.version >= 16 {
			leader.LeaderID, leader.LeaderEpoch = NodeID, rigEpoch
		}
		if p.CurrentLeader.LeaderID != leader.LeaderID || p.CurrentLeader.LeaderEpoch != leader.LeaderEpoch {
			t.Errorf("%s: leader %+v", c.name, p.CurrentLeader)
		}
	}
}

// A client whose last record is of an epoch that ended below its position is told where the histories part.
func TestFetchDivergence(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 1, nil)
	r.b.dir.SetEpoch(1)
	r.fill(x.partition(0), 4, 10)
	r.b.dir.SetEpoch(rigEpoch)
	ask := func(last int32, offset int64) kmsg.FetchResponseTopicPartition {
		q := fetchOf(want{x, 0, offset, 100, -1, last})
		q.MaxWaitMillis = 60_000 // a divergence does not wait
		return fetched(r.dial().do(12, q))[0]
	}
	// Nothing was written in epochs 2 and 3 yet: they end with the log.
	for _, last := range []int32{2, 3} {
		q := fetchOf(want{x, 0, 4, 100, -1, last})
		if p := fetched(r.dial().do(12, q))[0]; p.ErrorCode != 0 || p.DivergingEpoch.Epoch != -1 {
			t.Errorf("epoch %d without data: %+v", last, p)
		}
	}
	r.fill(x.partition(0), 2, 10)
	if p := ask(1, 5); p.ErrorCode != 0 || p.DivergingEpoch.Epoch != 1 || p.DivergingEpoch.EndOffset != 4 || len(p.RecordBatches) > 0 {
		t.Errorf("past the end of epoch 1: %+v", p)
	}
	if p := ask(2, 4); p.ErrorCode != 0 || p.DivergingEpoch.Epoch != 1 || p.DivergingEpoch.EndOffset != 4 {
		t.Errorf("an epoch that was lost: %+v", p)
	}
	if p := ask(1, 4); p.ErrorCode != 0 || p.DivergingEpoch.Epoch != -1 || len(p.RecordBatches) == 0 {
		t.Errorf("in order: %+v", p)
	}
}

func TestFetchSizes(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 3, nil)
	for i := range int32(3) {
		r.fill(x.partition(i), 10, 1000-kproto.HeaderSize-10) // batches of about 1000 bytes
	}
	size := len(fetched(r.dial().do(12, fetchOf(want{x, 0, 0, 1, -1, -1})))[0].RecordBatches) // one batch
	for _, c := range []struct {
		name  string
		whole int
		part  [3]int
		want  [3]int // batches
	}{
		{"everything", 1 << 20, [3]int{1 << 20, 1 << 20, 1 << 20}, [3]int{10, 10, 10}},
		{"nothing allowed", 0, [3]int{0, 0, 0}, [3]int{1, 0, 0}},
		{"negative", -5, [3]int{-1, -1, -1}, [3]int{1, 0, 0}},
		{"part by part", 1 << 20, [3]int{size, 2 * size, 3*size - 1}, [3]int{1, 2, 2}},
		{"the first is too large for its part", 1 << 20, [3]int{size - 1, size - 1, size}, [3]int{1, 0, 1}},
		{"the whole", 5*size + 1, [3]int{3 * size, 9 * size, 9 * size}, [3]int{3, 2, 0}},
		{"the first eats all", size / 2, [3]int{9 * size, 9 * size, 9 * size}, [3]int{1, 0, 0}},
	} {
		q := fetchOf(want{x, 0, 0, int32(c.part[0]), -1, -1}, want{x, 1, 0, int32(c.part[1]), -1, -1}, want{x, 2, 0, int32(c.part[2]), -1, -1})
		q.MaxBytes = int32(c.whole)
		q.MinBytes, q.MaxWaitMillis = 1<<30, 60_000 // more than fits: there is nothing to wait for
		if c.whole == 1<<20 {
			q.MaxWaitMillis = 0
		}
		for i, p := range fetched(r.dial().do(12, q)) {
			if n := len(offsetsOf(t, p.RecordBatches)); n != c.want[i] {
				t.Errorf("%s: partition %d has %d batches, want %d", c.name, i, n, c.want[i])
			}
		}
	}
}

func TestFetchMaxBytesOfTheBroker(t *testing.T) {
	r := newRig(t, map[string]string{"fetch.max.bytes": "5000"})
	x := r.topic("a", 1, nil)
	r.fill(x.partition(0), 10, 1000)
	if n := len(fetched(r.dial().do(12, fetchOf(at(x, 0, 0))))[0].RecordBatches); n > 5000 || n < 3000 {
		t.Errorf("%d bytes", n)
	}
}

func TestFetchZstdForOldClients(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 1, nil)
	l := x.partition(0)
	r.fill(l, 2, 10)
	z := kproto.NewBuilder(kproto.Zstd)
	z.Add(kproto.Record{Value: []byte("z")})
	_, err := l.Append(z.Batch(), internalAppend)
	check(t, err)
	r.fill(l, 1, 10)
	for _, c := range []struct {
		version int16
		offset  int64
		code    int16
		batches string
	}{
		{9, 0, 0, "[0 1]"}, {9, 2, 76, "[]"}, {9, 3, 0, "[3]"}, {10, 0, 0, "[0 1 2 3]"}, {10, 2, 0, "[2 3]"},
	} {
		p := fetched(r.dial().do(c.version, fetchOf(at(x, 0, c.offset))))[0]
		if got := fmt.Sprint(offsetsOf(t, p.RecordBatches)); p.ErrorCode != c.code || got != c.batches {
			t.Errorf("v%d at %d: code %d, batches %s", c.version, c.offset, p.ErrorCode, got)
		}
	}
}

func TestFetchRefusals(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 1, nil)
	r.fill(x.partition(0), 1, 10)
	q := fetchOf(at(x, 0, 0))
	q.ReplicaID, q.SessionEpoch = 2, 0
	if got := r.dial().do(12, q).(*kmsg.FetchResponse); fetched(got)[0].ErrorCode != 29 || got.SessionID != 0 {
		t.Errorf("replica: %+v", got)
	}
	q = fetchOf(at(x, 0, 0))
	q.ReplicaState.ID, q.SessionEpoch = 2, 0
	if got := r.dial().do(15, q).(*kmsg.FetchResponse); fetched(got)[0].ErrorCode != 29 || got.SessionID != 0 {
		t.Errorf("replica, v15: %+v", got)
	}
	q = fetchOf(at(x, 0, 0))
	q.IsolationLevel, q.SessionEpoch = 2, 0
	if got := r.dial().do(12, q).(*kmsg.FetchResponse); got.ErrorCode != 42 || fetched(got)[0].ErrorCode != 42 || got.SessionID != 0 {
		t.Errorf("isolation level: %+v", got)
	}
	r.b.fetchSessions.mu.Lock()
	defer r.b.fetchSessions.mu.Unlock()
	if n := len(r.b.fetchSessions.byID); n != 0 {
		t.Errorf("%d sessions were made", n)
	}
}

func TestFetchMalformed(t *testing.T) {
	r := newRig(t, nil)
	x := r.topic("a", 1, nil)
	for version := int16(4); version <= 18; version++ {
		q := fetchOf(at(x, 0, 0), at(x, 0, 1))
		q.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "a", TopicID: x.id, Partitions: []int32{1, 2}}}
		q.Rack = "rack"
		q.SetVersion(version)
		body := q.AppendTo(nil)
		for n := range body {
			if _, _, ok := parseFetchBody(r.b, version, body[:n]); ok {
				t.Fatalf("v%d: cut at %d of %d passes", version, n, len(body))
			}
		}
		if _, _, ok := parseFetchBody(r.b, version, body); !ok {
			t.Fatalf("v%d: a sound body is refused", version)
		}
	}
	q := fetchOf(at(x, 0, 0))
	w := r.dial()
	w.sendCut(12, q, 1)
	w.closed(q)
}

// What the parser reads is what kmsg reads, whatever the request.
func TestParseFetchRandom(t *testing.T) {
	r := newRig(t, nil)
	r.topic("t1", 1, nil)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		version := int16(4 + rnd.IntN(15))
		q := randomFetch(rnd)
		q.SetVersion(version)
		body := q.AppendTo(nil)
		want := kmsg.NewPtrFetchRequest()
		want.SetVersion(version)
		check(t, want.ReadFrom(body))
		f, forgotten, ok := parseFetchBody(r.b, version, body)
		if !ok {
			t.Fatalf("refused: %+v", q)
		}
		if got := describe(f, forgotten); got != describeRequest(want) {
			t.Fatalf("v%d\n%s\n%s", version, got, describeRequest(want))
		}
	}
}

func randomFetch(rnd *rand.Rand) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.ReplicaID, q.ReplicaState.ID = int32(rnd.IntN(3)-1), int32(rnd.IntN(3)-1)
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes = int32(rnd.IntN(1000)), int32(rnd.IntN(1000)), int32(rnd.IntN(1000)+1000)
	q.IsolationLevel, q.SessionID, q.SessionEpoch = int8(rnd.IntN(3)), rnd.Int32(), rnd.Int32()
	name := func() string { return fmt.Sprintf("t%d", rnd.IntN(4)) }
	for range rnd.IntN(4) {
		t := kmsg.FetchRequestTopic{Topic: name(), TopicID: [16]byte{byte(rnd.IntN(3))}}
		for range rnd.IntN(4) {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch, p.FetchOffset = rnd.Int32(), rnd.Int32(), rnd.Int64()
			p.LastFetchedEpoch, p.PartitionMaxBytes = rnd.Int32(), rnd.Int32()
			p.ReplicaDirectoryID[0], p.HighWatermark = byte(rnd.IntN(2)), rnd.Int64()
			t.Partitions = append(t.Partitions, p)
		}
		q.Topics = append(q.Topics, t)
	}
	for range rnd.IntN(3) {
		q.ForgottenTopics = append(q.ForgottenTopics, kmsg.FetchRequestForgottenTopic{Topic: name(), TopicID: [16]byte{byte(rnd.IntN(3))}, Partitions: []int32{rnd.Int32(), 2}})
	}
	q.Rack = name()
	if rnd.IntN(2) == 0 {
		q.ClusterID = &q.Rack
	}
	return q
}

func describe(f *fetchCall, forgotten []forgottenPart) string {
	s := fmt.Sprintln(f.replica, f.wait, f.minBytes, f.maxBytes, f.isolation, f.sessionID, f.sessionEpoch)
	for i, t := range f.topics {
		s += fmt.Sprintln(t.name, t.id)
		for _, p := range f.parts {
			if int(p.topic) == i {
				s += fmt.Sprintln(p.partition, p.fetchAsked)
			}
		}
	}
	for _, p := range forgotten {
		s += fmt.Sprintln("forget", p.name, p.id, p.partition)
	}
	return s
}

func describeRequest(q *kmsg.FetchRequest) string {
	replica := q.ReplicaID
	if q.Version >= 15 {
		replica = q.ReplicaState.ID
	}
	s := fmt.Sprintln(replica, time.Duration(q.MaxWaitMillis)*time.Millisecond, q.MinBytes, q.MaxBytes, q.IsolationLevel, q.SessionID, q.SessionEpoch)
	for _, t := range q.Topics {
		s += fmt.Sprintln(t.Topic, kproto.TopicID(t.TopicID))
		for _, p := range t.Partitions {
			s += fmt.Sprintln(p.Partition, fetchAsked{p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.FetchOffset, p.PartitionMaxBytes})
		}
	}
	for _, t := range q.ForgottenTopics {
		for _, p := range t.Partitions {
			s += fmt.Sprintln("forget", t.Topic, kproto.TopicID(t.TopicID), p)
		}
	}
	return s
}
