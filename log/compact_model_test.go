package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
	"sluice/kproto"
)

// modelRecord is a record as it was produced.
type modelRecord struct {
	offset, time int64
	key          string // "": none
	value        []byte // nil: a tombstone
	epoch        int32
	pid          int64
	batch        int64 // base offset of its batch
}

func (r modelRecord) same(o kproto.Record) bool {
	return r.offset == o.Offset && r.time == o.Timestamp && r.key == string(o.Key) && (r.key == "") == (o.Key == nil) &&
		(r.value == nil) == (o.Value == nil) && bytes.Equal(r.value, o.Value)
}

// compactModel is a log that is compacted, and all that was ever written to it.
type compactModel struct {
	t    testing.TB
	rng  *rand.Rand
	disk *vfs.Mem
	proc *crashtest.Process // of those that can be killed
	dir  *Dir
	cfg  *Config
	log  *Log
	now  int64 // ms, of the cleaner
	size int   // of values, at most

	counted int // reads whose batches were known

	epoch   int32
	all     []modelRecord          // by offset
	cleaned map[int64]int64        // tombstones: when they were first below the clean point after a run
	seq     map[int64]int32        // next sequence
	last    map[int64]kproto.Batch // last batch of each producer, as it was given
	lastAt  map[int64]int64

	start int64                       // acknowledged log start
	book  atomic.Pointer[compactBook] // for power cuts
}

func newCompactModel(t testing.TB, seed uint64) *compactModel {
	return newLargeCompactModel(t, seed, 1)
}

// newLargeCompactModel has values and segments that are so many times as large.
func newLargeCompactModel(t testing.TB, seed uint64, scale int) *compactModel {
	rng := rand.New(rand.NewPCG(seed, 11))
	c := tiny()
	c.Compact, c.DeleteRetention = true, 1000*time.Millisecond
	c.SegmentBytes, c.IndexInterval = int64(scale)*(500+rng.Int64N(1500)), 1+rng.Int64N(400)
	if seed%2 == 0 {
		c.Delete, c.RetentionMs, c.RetentionBytes = true, 3000*rng.Int64N(2)-1, 2000+rng.Int64N(3000)
	}
	m := &compactModel{t: t, rng: rng, disk: vfs.NewMem(), cfg: c, now: 1 << 20, size: 60 * scale, cleaned: map[int64]int64{}, seq: map[int64]int32{}, last: map[int64]kproto.Batch{}, lastAt: map[int64]int64{}}
	m.open()
	return m
}

func (m *compactModel) open() {
	m.epoch++
	m.dir = openDir(m.t, m.disk)
	m.dir.SetEpoch(m.epoch)
	m.log = m.dir.Log("t", testTopic, 0, m.cfg)
	must(m.t, m.dir.Recover(context.Background()))
}

// restart stops the process, cleanly or not.
func (m *compactModel) restart() {
	if m.rng.IntN(2) == 0 {
		must(m.t, m.dir.Close(context.Background()))
	} else {
		finishAll(m.dir)
		abandon(m.dir)
		m.disk = m.disk.Crash(vfs.KeepNothing)
		if m.rng.IntN(3) == 0 { // nobody knows where offsets may be missing, nor the log start
			maps.DeleteFunc(m.last, func(pid int64, _ kproto.Batch) bool { return m.lastAt[pid] < m.start }) // the batches alone tell of producers now
			if err := m.disk.Remove("data/durable-offsets"); !errors.Is(err, os.ErrNotExist) {
				must(m.t, err, m.disk.SyncDir("data"))
			}
		}
	}
	m.open()
}

func (m *compactModel) produce() {
	b := kproto.NewBuilder(kproto.Codec(m.rng.IntN(5)))
	pid := m.rng.Int64N(4)
	if pid > 0 {
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = pid, 0, m.seq[pid]
	}
	var added []modelRecord
	base := mustOffsets(m.t, m.log).End
	for i := range 1 + m.rng.IntN(5) {
		r := modelRecord{offset: base + int64(i), batch: base, pid: pid, time: m.now - m.rng.Int64N(500), epoch: m.epoch,
			key: fmt.Sprint("key", m.rng.IntN(12)), value: make([]byte, m.rng.IntN(m.size))}
		if m.rng.IntN(4) == 0 {
			r.value = nil
		}
		added = append(added, r)
		b.Add(kproto.Record{Timestamp: r.time, Key: []byte(r.key), Value: r.value})
	}
	batch := b.Batch()
	given := bytes.Clone(batch)
	m.note(added...)
	a, err := m.log.Append(batch, AppendOptions{})
	must(m.t, err)
	mustWait(m.t, a)
	m.all = append(m.all, added...)
	if pid > 0 {
		m.seq[pid] += int32(len(added))
		m.last[pid], m.lastAt[pid] = given, a.Base
	}
	m.note()
}

// advance moves the log start.
func (m *compactModel) advance() {
	o := mustOffsets(m.t, m.log)
	to := o.Start + m.rng.Int64N(o.High-o.Start+1)/2
	start, err := m.log.AdvanceStart(context.Background(), to)
	must(m.t, err)
	m.start = max(m.start, start) // a lost slot takes it back, and not what is gone
	m.note()
}

// retain deletes what the settings no longer keep.
func (m *compactModel) retain() {
	m.dir.Retain(context.Background(), time.UnixMilli(m.now))
	m.start = max(m.start, mustOffsets(m.t, m.log).Start)
	m.note()
}

func (m *compactModel) clean() Cleaned {
	m.now += m.rng.Int64N(800)
	m.note()
	budget := int64(1 << 20)
	if m.rng.IntN(2) == 0 {
		budget = keyEntrySize * (2 + m.rng.Int64N(12))
	}
	roomy := *m.cfg // segments are merged
	roomy.SegmentBytes *= 1 + m.rng.Int64N(5)
	m.log.SetConfig(&roomy)
	defer m.log.SetConfig(m.cfg)
	done, err := m.log.Clean(context.Background(), CleanOptions{Now: time.UnixMilli(m.now), MapBytes: budget})
	must(m.t, err)
	defer m.note()
	below := m.log.cleaned.clean()
	for _, r := range m.all {
		if _, known := m.cleaned[r.offset]; !known && r.offset < below {
			m.cleaned[r.offset] = m.now
		}
	}
	return done
}

// check holds what can be read against what was written.
func (m *compactModel) check() error {
	o, err := m.log.Offsets()
	if err != nil {
		return err
	}
	if o.End != int64(len(m.all)) || o.High != o.End {
		return fmt.Errorf("offsets %+v, %d records were written", o, len(m.all))
	}
	batches, err := readBatches(m.log, o)
	if err != nil {
		return err
	}
	there, err := m.records(batches, o.Start)
	if err != nil {
		return err
	}
	return errors.Join(m.checkKept(there, o.Start), m.checkReads(batches, there, o), m.checkProducers())
}

// records gives what is there, each as it was written and none twice.
func (m *compactModel) records(batches []kproto.Batch, start int64) (there []modelRecord, err error) {
	next := int64(0)
	for _, b := range batches {
		if !b.ValidCRC() {
			return nil, fmt.Errorf("the batch at %d has a wrong CRC", b.BaseOffset())
		}
		var wrong error
		err := b.EachRecord(func(r kproto.Record) bool {
			if r.Offset < next || !m.all[r.Offset].same(r) {
				wrong = fmt.Errorf("offset %d after %d is %+v, was %+v", r.Offset, next-1, r, m.all[r.Offset])
			}
			next = r.Offset + 1
			if r.Offset >= start {
				there = append(there, m.all[r.Offset])
			}
			return wrong == nil
		})
		if err = errors.Join(err, wrong); err != nil {
			return nil, err
		}
	}
	return there, nil
}

// checkKept: the newest record of each key is there, above the clean point everything, and below it nothing that has a newer one there.
func (m *compactModel) checkKept(there []modelRecord, start int64) error {
	clean := m.log.cleaned.clean()
	newest, newestClean := map[string]int64{}, map[string]int64{}
	for _, r := range m.all {
		newest[r.key] = r.offset
		if r.offset < clean {
			newestClean[r.key] = r.offset
		}
	}
	is := map[int64]bool{}
	for _, r := range there {
		is[r.offset] = true
		if r.offset < clean && newestClean[r.key] != r.offset {
			return fmt.Errorf("offset %d of %s is there, and %d is newer; clean below %d", r.offset, r.key, newestClean[r.key], clean)
		}
	}
	for _, r := range m.all[start:] {
		wanted := r.offset >= m.log.cleaned.gaps() || newest[r.key] == r.offset
		if since, seen := m.cleaned[r.offset]; r.value == nil && seen && m.now >= since+m.cfg.DeleteRetention.Milliseconds() {
			wanted = false // it may be gone
		}
		if wanted && !is[r.offset] && r.offset >= m.start {
			return fmt.Errorf("offset %d of %s is gone; newest %d, clean below %d, now %d, first cleaned %d", r.offset, r.key, newest[r.key], clean, m.now, m.cleaned[r.offset])
		}
	}
	return nil
}

// checkReads: a read from anywhere begins with the batch that holds the offset or the next one, and a search by time finds what a scan finds.
func (m *compactModel) checkReads(batches []kproto.Batch, there []modelRecord, o Offsets) error {
	for range 8 {
		if o.High == o.Start {
			return nil
		}
		from := o.Start + m.rng.Int64N(o.High-o.Start)
		i := slices.IndexFunc(batches, func(b kproto.Batch) bool { return b.LastOffset() >= from })
		got, _, err := m.log.ReadBytes(nil, from, o.High, 1)
		if err != nil || !bytes.Equal(got, batches[i]) {
			return fmt.Errorf("read from %d: %d bytes, want the batch at %d (%w)", from, len(got), batches[i].BaseOffset(), err)
		}
		most := m.rng.IntN(40 * m.size)
		if _, err := countsAgree(m.log, from, o.High, most); err != nil {
			return err
		}
		switch known, err := batchesKnown(m.log, from, o.High, most); {
		case err != nil:
			return err
		case known:
			m.counted++
		}
		ms := m.now - m.rng.Int64N(2000)
		want := nowhere
		if i := slices.IndexFunc(there, func(r modelRecord) bool { return r.time >= ms }); i >= 0 {
			want = Position{there[i].offset, there[i].time, there[i].epoch}
		}
		if p, err := m.log.FindTime(ms, o.High); err != nil || p != want {
			return fmt.Errorf("time %d found at %+v, want %+v (%w)", ms, p, want, err)
		}
	}
	newest := nowhere
	for _, r := range there {
		if r.time > newest.Timestamp {
			newest = Position{r.offset, r.time, r.epoch}
		}
	}
	if p, err := m.log.MaxTime(o.High); err != nil || p != newest {
		return fmt.Errorf("newest %+v, want %+v (%w)", p, newest, err)
	}
	return nil
}

// checkProducers: a retry of each producer's last batch is a duplicate still.
func (m *compactModel) checkProducers() error {
	for pid, b := range m.last {
		a, err := m.log.Append(bytes.Clone(b), AppendOptions{})
		if err != nil || !a.Duplicate || a.Base != m.lastAt[pid] {
			return fmt.Errorf("retry of producer %d: %+v, was at %d (%w)", pid, a, m.lastAt[pid], err)
		}
	}
	return nil
}

// Whatever is written, cleaned, deleted and restarted in whatever order: the newest record of each key is there, with its offset and timestamp, and
// all lookups find it. SLUICE_COMPACT_LIVES sets the number of lives, SLUICE_COMPACT_SEED the first.
func TestCompactionModel(t *testing.T) {
	lives, first := crashtest.Env("SLUICE_COMPACT_LIVES", 150), crashtest.Env("SLUICE_COMPACT_SEED", 1)
	if testing.Short() {
		lives = 20
	}
	var total Cleaned
	counted := 0
	for seed := first; seed < first+lives; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			scale := 1
			if seed%4 == 3 {
				scale = 300 // the batches of a range can be known
			}
			m := newLargeCompactModel(t, seed, scale)
			for range 60 {
				switch n := m.rng.IntN(20); {
				case n < 14:
					m.produce()
				case n < 18:
					done := m.clean()
					total.Rounds += done.Rounds
					total.Dropped += done.Dropped
					must(t, m.check())
				case n < 19:
					m.restart()
					must(t, m.check())
				case seed%2 == 0:
					m.retain()
				default:
					m.advance()
				}
			}
			m.clean()
			must(t, m.check())
			must(t, m.dir.Close(context.Background()))
			m.verify()
			counted += m.counted
		})
	}
	t.Logf("%d rounds dropped %d records, the batches of %d ranges were known", total.Rounds, total.Dropped, counted)
	if total.Dropped == 0 || counted == 0 {
		t.Fatal("nothing was dropped, or no batches were counted")
	}
}

// verify: the fsck finds nothing wrong with a compacted log.
func (m *compactModel) verify() {
	m.t.Helper()
	report, err := Verify(m.disk, "data")
	must(m.t, err)
	for _, p := range report.Partitions {
		for _, f := range p.Findings {
			m.t.Errorf("%+v", f)
		}
	}
}
