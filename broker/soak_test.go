package broker

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
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
// retention and compaction, and retention's wall clock that jumps. Each hour, all that was acknowledged and is not expired is there, nothing is kept for
// ever, no living member was lost and no committed offset went back. At the end, neither the heap nor goroutines nor open files have a slope.
//
// SLUICE_SOAK_HOURS sets the hours.
func TestSoak(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("days of a broker's life")
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour - time.Duration(stampOf(time.Now()))) // a bubble begins in the year 2000, when there were no stamps
		s := newSoak(t)
		defer s.stop()
		hours := int(crashtest.Env("SLUICE_SOAK_HOURS", soakHours))
		for h := 0; h < hours && !t.Failed(); h++ {
			s.hour(h)
		}
		t.Logf("%d hours, %d records, %d rises of the wall clock doubted", hours, s.records(), s.doubts)
		s.flat()
	})
}

const (
	// soakHours is what fits into the test command, and enough for a slope of 1 % a day to stand out.
	soakHours     = 96
	soakTick      = 5 * time.Second // half a session
	soakRetention = time.Hour
	// soakSlack is what may be kept longer: the segment that is being written, the pause between two checks.
	soakSlack = 15 * time.Minute
	// settled is the hour after which nothing grows any more: segments and expiry have come round. From then on a slope is looked for.
	settled = 12
	// maxSlope is the growth that counts as none, in percent a day.
	maxSlope = 1.0
	// visitors is how many groups, producers and clients come each hour to stay for a request or two: so many that those that are not forgotten show in
	// the heap.
	visitors = 60
	// stateKeys is how many keys a partition of the compacted topic has.
	stateKeys = 100
)

// soak is a broker and its clients.
type soak struct {
	t    *testing.T
	b    *Broker
	srv  *server.Server
	pipe *pipeListener
	disk *vfs.Mem
	fs   *countedFiles
	jump atomic.Int64 // of the wall clock, ns

	c       *client
	members [2]*testMember
	lone    *testMember

	books  []*soakBook // those of events, then those of state
	pids   [3][]int64  // by hour, the last ones
	doubts int         // jumps that retention did not believe
	taken  []footprint // by hour, once settled
}

// soakBook is what was acknowledged for a partition.
type soakBook struct {
	topic     string
	partition int32
	next      int64       // the end
	first     int64       // offset of written[0]
	written   []time.Time // when; what retention has deleted is taken out
	committed int64
}

// The partitions of the two topics, both by retention and both by compaction.
const (
	eventParts = 3
	stateParts = 2
)

func newSoak(t *testing.T) *soak {
	s := &soak{t: t, pipe: newPipeListener(), disk: vfs.NewMem()}
	s.fs = &countedFiles{FS: s.disk}
	b, err := Start(Options{DataDir: "/data", FS: s.fs, Clock: s.clock, Static: map[string]string{
		"offsets.retention.minutes": "60", "producer.id.expiration.ms": "3600000", "log.cleaner.backoff.ms": "60000",
		"offsets.topic.num.partitions": "4", "log.roll.ms": "3600000", "max.incremental.fetch.session.cache.slots": "100",
	}})
	check(t, err)
	s.b, s.srv = b, server.New(b, server.Options{OnClose: b.ConnClosed})
	go func() { _ = s.srv.Serve(s.pipe) }()
	s.c = s.dial()
	s.topic("events", eventParts, "retention.ms", strconv.FormatInt(soakRetention.Milliseconds(), 10), "segment.ms", "300000", "file.delete.delay.ms", "60000")
	s.topic("state", stateParts, "cleanup.policy", "compact", "segment.ms", "600000", "delete.retention.ms", "600000")
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	do[*kmsg.FindCoordinatorResponse](s.c, find, 3)
	s.c.describeGroup("g")
	time.Sleep(time.Second) // the group's state is being read
	s.members = [2]*testMember{s.member("g"), s.member("g")}
	s.rebalance()
	return s
}

func (s *soak) topic(name string, partitions int32, kv ...string) {
	if got := s.c.create(7, false, createEntry(name, partitions, 1, kv...))[0]; got.ErrorCode != 0 {
		s.t.Fatalf("create %s: %d", name, got.ErrorCode)
	}
	for p := range partitions {
		s.books = append(s.books, &soakBook{topic: name, partition: p, committed: -1})
	}
}

// clock is the wall clock of the machine.
func (s *soak) clock() time.Time { return time.Now().Add(time.Duration(s.jump.Load())) }

func (s *soak) records() (n int64) {
	for _, b := range s.books {
		n += b.next
	}
	return n
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

// rebalance has both members join and gives each a partition. The leader's join must be there first: it begins a round, while a follower's that comes
// before gets the generation that is, as if nothing had happened, and its member would be missed in the round.
func (s *soak) rebalance() {
	for _, m := range s.members {
		m.startJoin(5)
		synctest.Wait()
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
		s.move(h, time.Duration(tick)*soakTick)
		s.write(s.books[tick%eventParts], kproto.NewBuilder(kproto.Snappy), 0)
		s.write(s.books[eventParts+tick%stateParts], kproto.NewBuilder(kproto.LZ4), 0)
		for i, m := range s.members {
			if code := m.heartbeat(4); code != 0 {
				s.t.Fatalf("hour %d: member %d hears %d to its heartbeat", h, i, code)
			}
		}
		if tick%12 == 0 {
			s.commit(s.books[tick/12%eventParts])
		}
		time.Sleep(soakTick)
	}
	for _, b := range s.books {
		s.check(h, b)
	}
	if h >= settled {
		s.taken = append(s.taken, s.footprint())
	}
}

// move has the wall clock jump: ahead by hours to weeks for less than it is doubted, then back by half an hour, and right again. Neither may cost a record.
func (s *soak) move(h int, at time.Duration) {
	switch at {
	case 10 * time.Minute:
		s.jump.Store(int64(time.Duration(2+h%500) * time.Hour))
	case 17 * time.Minute:
		if !s.b.retention.doubt.Load() {
			s.t.Errorf("hour %d: retention believes a clock %s ahead", h, time.Duration(s.jump.Load()))
		}
		s.doubts++
		s.jump.Store(0)
	case 30 * time.Minute:
		s.jump.Store(int64(-30 * time.Minute))
	case 40 * time.Minute:
		s.jump.Store(0)
	}
}

// beginHour: a rebalance, a member that dies at once, groups that are used once, producers that write once.
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
	for i := range visitors {
		s.visit(h, i)
		s.guest(h, i)
	}
	s.produceOnce(h)
}

func once(h, i int) string { return "once-" + strconv.Itoa(h) + "-" + strconv.Itoa(i) }

// visit has a group commit once, and sees that the one of three hours ago is forgotten.
func (s *soak) visit(h, i int) {
	if codes := s.c.commitCodes(5, once(h, i), commitTopic("events", 0, int64(h), "")); codes[0] != 0 {
		s.t.Fatalf("hour %d: commit %v", h, codes)
	}
	if got := s.c.fetched(once(h, i), "events", 0).Offset; got != int64(h) {
		s.t.Fatalf("hour %d: %d is committed", h, got)
	}
	if got := s.c.fetched(once(h-3, i), "events", 0).Offset; got != -1 {
		s.t.Fatalf("hour %d: offset %d of a group that was used three hours ago", h, got)
	}
}

// produceOnce has new producers write two batches each, and those of the hour before last, which are forgotten: any sequence is a beginning.
func (s *soak) produceOnce(h int) {
	for i, pid := range s.pids[(h+1)%3] {
		s.idempotent(i, pid, 99, 0)
	}
	s.pids[h%3] = s.pids[h%3][:0]
	for i := range visitors {
		pid := s.c.initProducer(4, nil, 0, -1, -1).ProducerID
		s.pids[h%3] = append(s.pids[h%3], pid)
		s.idempotent(i, pid, 0, 0)
		s.idempotent(i, pid, 5, 45)
		s.idempotent(i, pid, 1, 0)
	}
}

// idempotent writes a batch of a producer; code is what it must be told.
func (s *soak) idempotent(i int, pid int64, seq int32, code int16) {
	s.t.Helper()
	b := kproto.NewBuilder(kproto.None)
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = pid, 0, seq
	s.write(s.books[i%eventParts], b, code)
}

// write appends one record, whose value is its offset.
func (s *soak) write(to *soakBook, b *kproto.Builder, code int16) {
	s.t.Helper()
	key := strconv.FormatInt(to.next%stateKeys, 10)
	b.Add(kproto.Record{Timestamp: time.Now().UnixMilli(), Key: []byte(key), Value: binary.BigEndian.AppendUint64(nil, uint64(to.next))})
	q := kmsg.NewPtrProduceRequest()
	q.Acks, q.TimeoutMillis = -1, 10_000
	q.Topics = []kmsg.ProduceRequestTopic{{Topic: to.topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: to.partition, Records: b.Batch()}}}}
	got := do[*kmsg.ProduceResponse](s.c, q, 9).Topics[0].Partitions[0]
	if got.ErrorCode != code || code == 0 && got.BaseOffset != to.next {
		s.t.Fatalf("produce to %s-%d at %d: code %d, offset %d; want code %d", to.topic, to.partition, to.next, got.ErrorCode, got.BaseOffset, code)
	}
	if code == 0 {
		to.next++
		to.written = append(to.written, time.Now())
	}
}

// commit commits the end of a partition; the offset that is there before is the last one committed.
func (s *soak) commit(b *soakBook) {
	if got := s.c.fetched("g", b.topic, b.partition).Offset; got != b.committed {
		s.t.Fatalf("offset %d of partition %d is committed, want %d", got, b.partition, b.committed)
	}
	b.committed = b.next
	m := s.members[b.partition%2]
	q := m.commitRequest(b.topic, b.committed)
	q.Topics[0].Partitions[0].Partition = b.partition
	if code := do[*kmsg.OffsetCommitResponse](m.client, q, 5).Topics[0].Partitions[0].ErrorCode; code != 0 {
		s.t.Fatalf("commit: %d", code)
	}
}

// check holds a partition against what was acknowledged.
func (s *soak) check(h int, b *soakBook) {
	values, o := s.values(b)
	if o.End != b.next {
		s.t.Errorf("hour %d: %s-%d ends at %d, %d were acknowledged", h, b.topic, b.partition, o.End, b.next)
	}
	if b.topic == "events" {
		s.checkRetained(h, b, values, o)
	} else {
		s.checkCompacted(h, b, values)
	}
	b.forget(o.Start)
}

func (s *soak) checkRetained(h int, b *soakBook, values map[int64]bool, o log.Offsets) {
	if int64(len(values)) != o.End-o.Start {
		s.t.Errorf("hour %d: %d records in %+v", h, len(values), o)
	}
	if oldest := time.Since(b.written[o.Start-b.first]); oldest > soakRetention+soakSlack {
		s.t.Errorf("hour %d: %+v keeps what is %s old", h, o, oldest)
	}
	if o.Start > b.first && time.Since(b.written[o.Start-1-b.first]) < soakRetention {
		s.t.Errorf("hour %d: %+v lacks what is to be kept", h, o)
	}
}

func (s *soak) checkCompacted(h int, b *soakBook, values map[int64]bool) {
	if len(values) > 3*stateKeys+int(time.Hour/soakTick)/stateParts {
		s.t.Errorf("hour %d: %d records of %d keys are not compacted", h, len(values), stateKeys)
	}
	for n := max(0, b.next-stateKeys); n < b.next; n++ {
		if !values[n] {
			s.t.Errorf("hour %d: the newest record of a key, at %d, is gone", h, n)
		}
	}
}

// forget takes out of the book what is deleted, and of a compacted topic all, as its times are not asked for.
func (b *soakBook) forget(start int64) {
	if b.topic != "events" {
		start = b.next
	}
	b.written = slices.Delete(b.written, 0, int(start-b.first))
	b.first = start
}

// values reads a partition: its records by offset, each as it was written.
func (s *soak) values(of *soakBook) (map[int64]bool, log.Offsets) {
	l := s.b.topics.byName(of.topic).partition(of.partition)
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
					s.t.Errorf("%s-%d: record %d is %x", of.topic, of.partition, r.Offset, r.Value)
				}
				return true
			}))
		}
		at = next
	}
	return found, o
}

// flat: since it was settled, the broker takes no more.
func (s *soak) flat() {
	for _, f := range figures {
		hourly := make([]int64, len(s.taken))
		for i, taken := range s.taken {
			hourly[i] = f.of(taken)
		}
		if len(hourly) < 48 {
			s.t.Logf("%s: %d; no slope from %d hours", f.name, hourly, len(hourly))
			continue
		}
		grows := slope(hourly)
		s.t.Logf("%s: %d after hour %d, %d at the end, %+.2f %% a day", f.name, hourly[0], settled, hourly[len(hourly)-1], grows)
		if grows > maxSlope {
			s.t.Errorf("%s: grows by %.2f %% a day: %d", f.name, grows, hourly)
		}
	}
}
