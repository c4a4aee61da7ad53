package broker

import (
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
	"sluice/log"
)

const (
	// readersAtOnce is how many connections read.
	readersAtOnce = 64
	// readerSegment is small, so that there are many, and large enough for answers that go by sendfile.
	readerSegment = "24576"
	// spareReads: a run whose segments do not come and go as they should ends after so many times its reads.
	spareReads = 100
)

// orchard is a broker on a real disk whose topics are written, cut, compacted, deleted and made again while readers read.
type orchard struct {
	t       *testing.T
	n       *node
	topics  []*renewed
	refuses bool // there may be too few files for all: a read may find nothing, an append be refused
	rounds  int  // of writing in a topic's life

	want  int64 // reads
	lives int64 // of topics
	reads atomic.Int64
	count [4]atomic.Int64 // by outcome
	bytes atomic.Int64
	large atomic.Int64 // answers that go by sendfile
	died  atomic.Int64
	peak  atomic.Int64 // files open at a time
	over  atomic.Bool
}

// The outcomes of a read.
const (
	readRecords = iota
	readNothing
	readNoTopic
	readOutOfRange
)

// TestReadersAndWhatGoes has 64 connections read at random places of partitions whose segments are rolled, deleted by size and by DeleteRecords, compacted, and
// whose topics are deleted and made again under their names. Every answer has the right bytes or says that there is no such offset or topic.
// SLUICE_READS sets the number of reads, one partition's answer each, and SLUICE_READS_SEED the seed.
func TestReadersAndWhatGoes(t *testing.T) {
	reads := crashtest.Env("SLUICE_READS", 12_000)
	rounds := 160
	if testing.Short() {
		reads, rounds = 2000, 80
	}
	for name, o := range map[string]*orchard{
		// Enough for all that readers may hold at once (64 segments of three files) beside what is written, and far less than there are segments.
		"files are closed and opened again": {want: int64(reads) * 3 / 4, lives: 1, rounds: rounds},
		"too few files for all":             {want: int64(reads) / 4, lives: 1, rounds: rounds / 2, refuses: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.t = t
			o.start(map[bool]int{false: 256, true: 24}[o.refuses])
			o.run(crashtest.Env("SLUICE_READS_SEED", 1))
		})
	}
}

func (o *orchard) start(files int) {
	n := &node{t: o.t, logs: &logBook{}, opts: Options{DataDir: filepath.Join(o.t.TempDir(), "data"), FS: vfs.Disk{}, OpenFiles: files, Static: map[string]string{
		"internal.segment.bytes": readerSegment, "log.segment.delete.delay.ms": "0", "log.retention.check.interval.ms": "20",
		"log.cleaner.backoff.ms": "10", "log.cleaner.min.cleanable.ratio": "0.1", "log.cleaner.dedupe.buffer.size": "1048576",
	}}}
	check(o.t, vfs.Disk{}.Mkdir(n.opts.DataDir, 0o700))
	n.opts.Logger = slog.New(slog.NewTextHandler(n.logs, &slog.HandlerOptions{Level: slog.LevelInfo}))
	n.start()
	o.t.Cleanup(func() {
		n.stop()
		if n.logs.contains("level=ERROR") {
			o.t.Errorf("the broker logged errors:\n%.4000s", n.logs)
		}
	})
	o.n = n
	o.topics = []*renewed{
		{index: 0, name: "sized", sized: true, settings: []string{"retention.bytes", "200000"}},
		{index: 1, name: "cut", cuts: true, settings: []string{"sluice.durability", "os"}},
		{index: 2, name: "compacted", gaps: true, settings: []string{"cleanup.policy", "compact"}},
		{index: 3, name: "both", gaps: true, cuts: true, sized: true, settings: []string{"cleanup.policy", "compact,delete", "retention.bytes", "30000", "sluice.durability", "os"}},
	}
}

func (o *orchard) run(seed uint64) {
	began := time.Now()
	var wg sync.WaitGroup
	for _, x := range o.topics {
		wg.Go(func() {
			defer o.over.Store(true) // also when something fails
			o.tend(x, rand.New(rand.NewPCG(seed, uint64(x.index))))
		})
	}
	for i := range uint64(readersAtOnce) {
		wg.Go(func() {
			defer o.over.Store(true)
			o.readOn(rand.New(rand.NewPCG(seed, 1000+i)))
		})
	}
	wg.Wait()
	o.report(time.Since(began))
}

// ended tells whether there were reads enough, and enough came and went meanwhile.
func (o *orchard) ended() bool {
	n := o.reads.Load()
	return o.over.Load() || o.t.Failed() || n >= o.want && o.changed() || n >= spareReads*o.want
}

func (o *orchard) changed() bool {
	_, limit, opened := o.n.dir.OpenFiles()
	return o.died.Load() >= o.lives*int64(len(o.topics)) && opened > 2*limit && o.n.cleaner.Stats().Runs > 3 &&
		o.n.dir.Deleted(log.ByStart).Segments > 3 && o.n.dir.Deleted(log.BySize).Segments > 3
}

func (o *orchard) report(took time.Duration) {
	_, limit, opened := o.n.dir.OpenFiles()
	o.t.Logf("%d reads in %.1f s: %d of records, %d MB, %d by sendfile; %d of nothing, %d out of range, %d without a topic", o.reads.Load(), took.Seconds(),
		o.count[readRecords].Load(), o.bytes.Load()>>20, o.large.Load(), o.count[readNothing].Load(), o.count[readOutOfRange].Load(), o.count[readNoTopic].Load())
	o.t.Logf("%d topics deleted; segments deleted: %d by DeleteRecords, %d by size; %d compactions; files opened %d times, up to %d of %d at once", o.died.Load(),
		o.n.dir.Deleted(log.ByStart).Segments, o.n.dir.Deleted(log.BySize).Segments, o.n.cleaner.Stats().Runs, opened, o.peak.Load(), limit)
	if !o.t.Failed() && !o.changed() {
		o.t.Error("too little came and went")
	}
	for i := range o.count {
		if o.count[i].Load() == 0 {
			o.t.Errorf("no read ended in outcome %d", i)
		}
	}
}

// tend leads one life of the topic after another.
func (o *orchard) tend(x *renewed, rnd *rand.Rand) {
	c := o.n.dial()
	for !o.ended() {
		l := x.begin(c)
		for round := 0; round < o.rounds && !o.ended(); round++ {
			if !o.write(c, l, rnd) {
				return
			}
			open, _, _ := o.n.dir.OpenFiles()
			o.peak.Store(max(o.peak.Load(), open))
			if x.cuts && round%10 == 9 {
				l.cut(c, int32(rnd.IntN(renewedParts)), rnd.Int64N(900))
			}
		}
		l.end(c)
		o.died.Add(1)
	}
}

// write appends a batch to each partition. What is refused because there are too few files is sent again: it was not appended.
func (o *orchard) write(c *client, l *topicLife, rnd *rand.Rand) bool {
	q := kmsg.NewPtrProduceRequest()
	q.Acks, q.TimeoutMillis = -1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = l.of.name
	for p := range l.parts {
		b, n := l.batch(rnd, p)
		l.parts[p].sent.Store(l.parts[p].acked.Load() + n)
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = int32(p), b
		rt.Partitions = append(rt.Partitions, rp)
	}
	q.Topics = append(q.Topics, rt)
	for p, got := range do[*kmsg.ProduceResponse](c, q, 9).Topics[0].Partitions {
		part := &l.parts[p]
		switch {
		case got.ErrorCode == 0 && got.BaseOffset == part.acked.Load():
			part.acked.Store(part.sent.Load())
		case o.refuses && got.ErrorCode == storageErrorCode:
		default:
			o.t.Errorf("produce to %s/%d, life %d: %+v, want offset %d", l.of.name, p, l.number, got, part.acked.Load())
			return false
		}
	}
	return true
}

// readOn reads until enough was read.
func (o *orchard) readOn(rnd *rand.Rand) {
	c := o.n.dial()
	for !o.ended() {
		asked, q := o.ask(rnd)
		resp, err := c.try(q, asked.version)
		if err != nil {
			o.t.Errorf("fetch v%d of %d partitions: %v", asked.version, len(asked.parts), err)
			return
		}
		if err := asked.judge(o, resp.(*kmsg.FetchResponse)); err != nil {
			o.t.Error(err)
			return
		}
	}
}
