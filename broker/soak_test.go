package broker

import (
	"context"
	"encoding/binary"
	iofs "io/fs"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/crashtest"
	"sluice/internal/server"
	"sluice/internal/vfs"
	"sluice/kproto"
	"sluice/log"
)

// A whole broker in virtual time, for days: producers, a group that commits and rebalances, members that die, groups and producer ids that expire,
// retention and compaction. Each hour, all that was acknowledged and is not expired is there, nothing is kept for ever, no living member was lost,
// no committed offset went back; and goroutines and open files stay as they were after the first hours. (The clock of a bubble cannot jump:
// TestRetentionClock and its like have that.)
//
// SLUICE_SOAK_HOURS sets the hours; without it the test is left out. The heap is told and not judged yet.
func TestSoak(t *testing.T) {
	hours := int(crashtest.Env("SLUICE_SOAK_HOURS", 0))
	if hours == 0 {
		t.Skip("SLUICE_SOAK_HOURS is not set")
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour - time.Duration(stampOf(time.Now()))) // a bubble begins in the year 2000, when there were no stamps
		s := newSoak(t)
		defer s.stop()
		for h := range hours {
			s.hour(h)
			if t.Failed() {
				return
			}
		}
		s.flat()
		t.Logf("%d hours, %d requests, %d records; after hour %d and at the end: heap %d and %d bytes, goroutines %d and %d, open files %d and %d",
			hours, s.c.corr+s.members[0].corr+s.members[1].corr, len(s.events)+s.states, settled, s.before.heap, s.after.heap,
			s.before.goroutines, s.after.goroutines, s.before.files, s.after.files)
	})
}

const (
	soakTick      = 5 * time.Second // half a session
	soakRetention = time.Hour
	// soakSlack is what may be kept longer: the segment that is being written, the pause between two checks, the delay of deletion.
	soakSlack = 15 * time.Minute
	// settled is the hour after which nothing grows any more: segments and expiry have come round.
	settled = 6
)

// soak is a broker and its clients.
type soak struct {
	t    *testing.T
	b    *Broker
	srv  *server.Server
	pipe *pipeListener
	fs   *countedFiles

	c       *client
	members [2]*testMember
	lone    *testMember

	began         time.Time
	events        []time.Time // by offset: when it was written
	states        int         // records of the compacted topic, whose newest value of a key is its offset
	committed     int64
	pids          []int64 // by hour
	before, after footprint
}

// footprint is what a process takes.
type footprint struct {
	heap       int64
	goroutines int
	files      int64
}

// countedFiles counts the files that are open.
type countedFiles struct {
	vfs.FS
	open atomic.Int64
}

type countedFile struct {
	vfs.File
	of *countedFiles
}

func (c *countedFiles) OpenFile(name string, flag int, perm iofs.FileMode) (vfs.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return countedFile{f, c}, nil
}

func (f countedFile) Close() error {
	f.of.open.Add(-1)
	return f.File.Close()
}

func (f countedFile) OS() *os.File { return nil }

func newSoak(t *testing.T) *soak {
	s := &soak{t: t, pipe: newPipeListener(), fs: &countedFiles{FS: vfs.NewMem()}, began: time.Now(), committed: -1}
	b, err := Start(Options{DataDir: "/data", FS: s.fs, Logger: slog.New(&logCount{}), Static: map[string]string{
		"offsets.retention.minutes": "60", "producer.id.expiration.ms": "3600000", "log.cleaner.backoff.ms": "60000",
		"offsets.topic.segment.bytes": "1048576",
	}})
	check(t, err)
	s.b, s.srv = b, server.New(b, server.Options{OnClose: b.ConnClosed})
	go func() { _ = s.srv.Serve(s.pipe) }()
	s.c = s.dial()
	s.c.mustCreate("events", "retention.ms", strconv.FormatInt(soakRetention.Milliseconds(), 10), "segment.ms", "300000", "file.delete.delay.ms", "60000")
	s.c.mustCreate("state", "cleanup.policy", "compact", "segment.ms", "600000", "delete.retention.ms", "600000")
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	do[*kmsg.FindCoordinatorResponse](s.c, find, 3)
	s.c.describeGroup("g")
	time.Sleep(time.Second) // the group's state is being read
	s.members = [2]*testMember{s.member("g"), s.member("g")}
	s.rebalance()
	return s
}

func (s *soak) stop() {
	for _, m := range s.members {
		m.conn.Close()
	}
	if s.lone != nil {
		s.lone.conn.Close()
	}
	s.c.conn.Close()
	check(s.t, s.srv.Shutdown(context.Background()))
	check(s.t, s.b.Close(context.Background()))
}

func (s *soak) dial() *client {
	near, far := net.Pipe()
	s.pipe.conns <- far
	return &client{t: s.t, conn: near}
}

func (s *soak) member(group string) *testMember {
	return &testMember{client: s.dial(), group: group, protocols: []string{"range"}, gen: -1}
}

// rebalance has both members join and gives each a partition.
func (s *soak) rebalance() {
	for _, m := range s.members {
		m.startJoin(5)
	}
	for _, m := range s.members {
		if got := m.joined(5); got.ErrorCode != 0 {
			s.t.Fatalf("join: %+v", got)
		}
	}
	for _, m := range s.members {
		m.send(m.syncRequest(map[string]string{s.members[0].id: "0", s.members[1].id: "1"}), 3)
	}
	for _, m := range s.members {
		if got := answer[*kmsg.SyncGroupResponse](m.client, m.syncRequest(nil), 3); got.ErrorCode != 0 {
			s.t.Fatalf("sync: %+v", got)
		}
	}
}

// hour is an hour of all clients, and the check at its end.
func (s *soak) hour(h int) {
	s.beginHour(h)
	for tick := range int(time.Hour / soakTick) {
		s.write()
		for i, m := range s.members {
			if code := m.heartbeat(4); code != 0 {
				s.t.Fatalf("hour %d: member %d hears %d to its heartbeat", h, i, code)
			}
		}
		if tick%12 == 0 {
			s.commit()
		}
		time.Sleep(soakTick)
	}
	s.check(h)
	switch h {
	case settled:
		s.before = s.footprint()
	default:
		s.after = s.footprint()
	}
}

// beginHour: a rebalance, a member that dies at once, a group that is used once, a producer that writes once.
func (s *soak) beginHour(h int) {
	s.rebalance()
	if s.lone != nil {
		if d := s.c.describeGroup(s.lone.group); len(d.Members) != 0 {
			s.t.Fatalf("hour %d: a member that is silent for an hour is in its group: %+v", h, d)
		}
		s.lone.conn.Close()
	}
	s.lone = s.member("lone-" + strconv.Itoa(h))
	if got := s.lone.join(5); got.ErrorCode != 0 {
		s.t.Fatalf("hour %d: join: %+v", h, got)
	}
	if codes := s.c.commitCodes(5, once(h), commitTopic("events", 0, int64(h), "")); codes[0] != 0 {
		s.t.Fatalf("hour %d: commit %v", h, codes)
	}
	if got := s.c.fetched(once(h), "events", 0).Offset; got != int64(h) {
		s.t.Fatalf("hour %d: %d is committed", h, got)
	}
	if got := s.c.fetched(once(h-3), "events", 0).Offset; h >= 3 && got != -1 {
		s.t.Fatalf("hour %d: offset %d of a group that was used three hours ago", h, got)
	}
	s.produceOnce(h)
}

func once(h int) string { return "once-" + strconv.Itoa(h) }

// produceOnce has a new producer write two batches, and the one of the hour before last, which is forgotten: any sequence is a beginning.
func (s *soak) produceOnce(h int) {
	s.pids = append(s.pids, s.c.initProducer(4, nil, 0, -1, -1).ProducerID)
	s.idempotent(s.pids[h], 0, 0)
	s.idempotent(s.pids[h], 5, 45)
	s.idempotent(s.pids[h], 1, 0)
	if h >= 2 {
		s.idempotent(s.pids[h-2], 99, 0)
	}
}

// idempotent writes a batch of a producer; code is what it must be told.
func (s *soak) idempotent(pid int64, seq int32, code int16) {
	s.t.Helper()
	b := kproto.NewBuilder(kproto.None)
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = pid, 0, seq
	s.produce("events", b, code)
}

// write writes a record to each topic.
func (s *soak) write() {
	s.produce("events", kproto.NewBuilder(kproto.Snappy), 0)
	s.produce("state", kproto.NewBuilder(kproto.LZ4), 0)
}

// produce appends one record, whose value is its offset.
func (s *soak) produce(topic string, b *kproto.Builder, code int16) {
	s.t.Helper()
	n := len(s.events)
	if topic == "state" {
		n = s.states
	}
	b.Add(kproto.Record{Timestamp: time.Now().UnixMilli(), Key: []byte(strconv.Itoa(n % stateKeys)), Value: binary.BigEndian.AppendUint64(nil, uint64(n))})
	q := kmsg.NewPtrProduceRequest()
	q.Acks, q.TimeoutMillis = -1, 10_000
	q.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: b.Batch()}}}}
	got := do[*kmsg.ProduceResponse](s.c, q, 9).Topics[0].Partitions[0]
	switch {
	case got.ErrorCode != code || code == 0 && got.BaseOffset != int64(n):
		s.t.Fatalf("produce to %s at %d: code %d, offset %d; want code %d", topic, n, got.ErrorCode, got.BaseOffset, code)
	case code != 0:
	case topic == "state":
		s.states++
	default:
		s.events = append(s.events, time.Now())
	}
}

// stateKeys is how many keys the compacted topic has.
const stateKeys = 100

// commit commits the end of events; the offset that is there before is the last one committed.
func (s *soak) commit() {
	if got := s.c.fetched("g", "events", 0).Offset; got != s.committed {
		s.t.Fatalf("offset %d is committed, want %d", got, s.committed)
	}
	s.committed = int64(len(s.events))
	if code := s.members[0].commit(5, "events", s.committed); code != 0 {
		s.t.Fatalf("commit: %d", code)
	}
}

// check holds both topics against what was acknowledged.
func (s *soak) check(h int) {
	values, o := s.values("events")
	oldest := time.Since(s.events[o.Start])
	if int64(len(values)) != o.End-o.Start || o.End != int64(len(s.events)) {
		s.t.Errorf("hour %d: %d records in %+v, %d were acknowledged", h, len(values), o, len(s.events))
	}
	if o.Start > 0 && time.Since(s.events[o.Start-1]) < soakRetention || oldest > soakRetention+soakSlack {
		s.t.Errorf("hour %d: %+v keeps what is %s old", h, o, oldest)
	}
	values, o = s.values("state")
	if len(values) > 3*stateKeys+int(time.Hour/soakTick) {
		s.t.Errorf("hour %d: %d records of %d keys are not compacted", h, len(values), stateKeys)
	}
	for n := max(0, s.states-stateKeys); n < s.states; n++ {
		if !values[int64(n)] {
			s.t.Errorf("hour %d: the newest record of a key, at %d, is gone; %+v", h, n, o)
		}
	}
}

// values reads a topic: its records by offset, each as it was written.
func (s *soak) values(topic string) (map[int64]bool, log.Offsets) {
	l := s.b.topics.byName(topic).partition(0)
	o, err := l.Offsets()
	check(s.t, err)
	found := map[int64]bool{}
	for at := o.Start; at < o.High; {
		data, next, err := l.ReadBytes(nil, at, o.High, 1<<20)
		check(s.t, err)
		for len(data) > 0 {
			b, rest, err := kproto.SplitBatch(data)
			check(s.t, err)
			data = rest
			check(s.t, b.EachRecord(func(r kproto.Record) bool {
				if found[r.Offset] = true; binary.BigEndian.Uint64(r.Value) != uint64(r.Offset) {
					s.t.Errorf("%s: record %d is %x", topic, r.Offset, r.Value)
				}
				return true
			}))
		}
		at = next
	}
	return found, o
}

func (s *soak) footprint() footprint {
	synctest.Wait()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	own := int64(cap(s.events))*24 + s.diskBytes("/data") // the test's book, and what is a disk elsewhere
	return footprint{int64(m.HeapAlloc) - own, runtime.NumGoroutine(), s.fs.open.Load()}
}

// diskBytes is what the files below a directory hold.
func (s *soak) diskBytes(dir string) (n int64) {
	entries, err := s.fs.ReadDir(dir)
	check(s.t, err)
	for _, e := range entries {
		if e.IsDir() {
			n += s.diskBytes(dir + "/" + e.Name())
		} else if info, err := e.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

// flat: what the broker takes has not grown since it was settled, but for one in a hundred a day, and a fifth that a measure may be off.
func (s *soak) flat() {
	days := time.Since(s.began).Hours() / 24
	most := 1.2 + days/100
	for _, x := range []struct {
		what          string
		before, after float64
	}{
		{"goroutines", float64(s.before.goroutines), float64(s.after.goroutines)},
		{"open files", float64(s.before.files), float64(s.after.files)},
	} {
		if x.before > 0 && x.after > x.before*most {
			s.t.Errorf("%s: %.0f after hour %d, %.0f after %.1f days", x.what, x.before, settled, x.after, days)
		}
	}
}
