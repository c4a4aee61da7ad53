package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
	"sluice/kproto"
)

// What may be set without changing what clients see: however a log is cut into segments, indexed, synced, cleaned and restarted, the same operations
// read the same. Each life plays one list of random operations on several logs, each with settings of its own, at the same virtual time.
//
// In every second life nothing is deleted but by DeleteRecords: there every answer is the same, byte for byte. In the others retention and
// compaction work by whole segments, so that logs may keep different records; each is held against the rules of metaModel.
//
// SLUICE_META_LIVES sets the number of lives, SLUICE_META_SEED the first. What fails is reduced to few operations.
func TestMetamorphic(t *testing.T) {
	lives, first := crashtest.Env("SLUICE_META_LIVES", 150), crashtest.Env("SLUICE_META_SEED", 1)
	if testing.Short() {
		lives = min(lives, 8)
	}
	var total metaCount
	for seed := first; seed < first+lives; seed++ {
		synctest.Test(t, func(t *testing.T) {
			ops := drawOps(seed)
			n, err := playMeta(t, seed, ops)
			total.add(n)
			if err != nil {
				few := reduceOps(t, seed, ops)
				_, again := playMeta(t, seed, few)
				t.Errorf("seed %d: %v\nreduced to %d operations: %v\n%v", seed, err, len(few), again, few)
			}
		})
		if t.Failed() {
			break
		}
	}
	t.Logf("%d lives from seed %d: %+v", lives, first, total)
	if !t.Failed() && (total.records == 0 || total.expired == 0 || total.compacted == 0) {
		t.Error("nothing was written, expired or compacted")
	}
}

// metaCount tells what lives have gone through.
type metaCount struct{ ops, records, expired, compacted, restarts int64 }

func (c *metaCount) add(n metaCount) {
	c.ops += n.ops
	c.records += n.records
	c.expired += n.expired
	c.compacted += n.compacted
	c.restarts += n.restarts
}

// metaKind is a kind of operation.
type metaKind string

// metaKinds have each kind as often as it is likely.
var metaKinds = strings.Fields("append append append append append append append append append append append append append append append retry retry gap epoch read read read time time epochs delete-records " +
	"configure retune retune retain retain clean clean stop kill cut sleep sleep scrub")

// metaOp is an operation. All that is random in it comes from its own seed, so that it means the same without the others.
type metaOp struct {
	kind metaKind
	seed uint64
}

const metaSteps = 200

func drawOps(seed uint64) []metaOp {
	rng := rand.New(rand.NewPCG(seed, 21))
	ops := make([]metaOp, metaSteps)
	for i := range ops {
		ops[i] = metaOp{metaKind(metaKinds[rng.IntN(len(metaKinds))]), rng.Uint64()}
	}
	return ops
}

// reduceOps leaves out what the failure does not need.
func reduceOps(t testing.TB, seed uint64, ops []metaOp) []metaOp {
	for size := len(ops) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(ops); {
			fewer := append(append([]metaOp{}, ops[:at]...), ops[at+size:]...)
			if _, err := playMeta(t, seed, fewer); err != nil {
				ops = fewer
			} else {
				at += size
			}
		}
	}
	return ops
}

// playMeta plays the operations on logs that are set differently. It must be called in a bubble.
func playMeta(t testing.TB, seed uint64, ops []metaOp) (metaCount, error) {
	m := newMetaModel(t, seed)
	worlds := make([]*metaWorld, 3)
	for i := range worlds {
		worlds[i] = newMetaWorld(m, uint64(i))
		defer worlds[i].abandon()
	}
	for i, op := range append(ops[:len(ops):len(ops)], metaOp{"stop", seed}, metaOp{"fsck", seed}) {
		m.count.ops++
		if err := m.step(op, worlds); err != nil {
			return m.count, fmt.Errorf("operation %d, %s: %w", i, op.kind, err)
		}
	}
	return m.count, nil
}

// step does one operation on each log and compares their answers.
func (m *metaModel) step(op metaOp, worlds []*metaWorld) error {
	do := m.draw(op)
	if do == nil {
		return nil
	}
	var first string
	for i, w := range worlds {
		answer, err := do(w)
		if err != nil {
			return fmt.Errorf("log %d (%s): %w", i, w.describe(), err)
		}
		if i == 0 {
			first = answer
		} else if answer != first {
			return fmt.Errorf("log %d (%s) answers\n%s\nand log 0 (%s)\n%s", i, w.describe(), answer, worlds[0].describe(), first)
		}
	}
	m.done(op.kind, worlds)
	return nil
}

// metaWorld is a log with its own settings and its own disk.
type metaWorld struct {
	m       *metaModel
	rng     *rand.Rand // of what must not matter
	disk    *vfs.Mem
	dir     *Dir
	log     *Log
	cfg     Config
	opts    Options
	start   int64
	largest int64 // segment.bytes so far
	kept    []modelRecord
}

func newMetaWorld(m *metaModel, i uint64) *metaWorld {
	w := &metaWorld{m: m, rng: rand.New(rand.NewPCG(m.seed, 100+i)), disk: vfs.NewMem(), cfg: *DefaultConfig()}
	w.retune()
	must(m.t, w.open())
	return w
}

// retune draws all settings that must not matter anew.
func (w *metaWorld) retune() {
	c := w.cfg
	c.Durability = Durability(w.rng.IntN(3))
	c.SyncInterval = time.Duration(1+w.rng.IntN(5000)) * time.Millisecond
	c.SegmentBytes = 700 + w.rng.Int64N(1<<(1+w.rng.IntN(13)))
	c.SegmentAge = time.Duration(1+w.rng.IntN(7200)) * time.Second
	c.IndexBytes = 24 + w.rng.Int64N(1000)
	c.IndexInterval = 1 + w.rng.Int64N(4096)
	c.FileDeleteDelay = time.Duration(w.rng.IntN(600)) * time.Second
	c.MaxCompactionLag = time.Duration(w.rng.IntN(3600)) * time.Second
	c.MinDirtyRatio = w.rng.Float64()
	w.largest = max(w.largest, c.SegmentBytes)
	w.cfg = c
	w.opts = Options{Syncers: w.rng.IntN(4), BallastBytes: w.rng.Int64N(2) << 16}
	w.configure()
}

// configure puts the settings that matter, which all logs share, in force.
func (w *metaWorld) configure() {
	c, m := w.cfg, w.m
	c.LogAppendTime, c.Delete, c.Compact = m.appendTime, m.delete, m.compact
	c.RetentionMs, c.RetentionBytes, c.DeleteRetention, c.MinCompactionLag = m.retentionMs, m.retentionBytes, m.deleteRetention, m.minLag
	w.cfg = c
	if w.log != nil {
		w.log.SetConfig(&c)
	}
}

func (w *metaWorld) describe() string {
	c := w.cfg
	return fmt.Sprintf("%s, segments of %d bytes and %s, index every %d bytes, %d bytes of it", c.Durability, c.SegmentBytes, c.SegmentAge, c.IndexInterval, c.IndexBytes)
}

func (w *metaWorld) open() error {
	o := w.opts
	o.FS = w.disk
	var err error
	if w.dir, err = Open("data", o); err != nil {
		return err
	}
	w.dir.SetEpoch(w.m.epoch)
	c := w.cfg
	w.log = w.dir.Log("t", testTopic, 0, &c)
	return w.dir.Recover(context.Background())
}

func (w *metaWorld) abandon() {
	if w.dir != nil {
		w.dir.syncer.close()
		abandon(w.dir)
	}
}

// restart stops the log's process, in one of three ways, and starts the next one.
func (w *metaWorld) restart(kind metaKind) error {
	switch {
	case kind == "stop":
		if err := w.dir.Close(context.Background()); err != nil {
			return err
		}
	case kind == "kill" || w.cfg.Durability == OS:
		w.abandon()
		w.disk = w.disk.Crash(vfs.KeepEverything)
	default: // all that was acknowledged is durable by now
		w.log.finishSync()
		w.abandon()
		w.disk = w.disk.Crash(vfs.Seeded(w.rng.Uint64()))
	}
	return w.open()
}

func (w *metaWorld) clean() error {
	budget := int64(1 << 20)
	if w.rng.IntN(2) == 0 {
		budget = keyEntrySize * (2 + w.rng.Int64N(12))
	}
	done, err := w.log.Clean(context.Background(), CleanOptions{Now: time.Now(), MapBytes: budget})
	w.m.count.compacted += done.Dropped
	return err
}

func (w *metaWorld) scrub() error {
	s := w.dir.NewScrubber(func() ScrubSettings {
		return ScrubSettings{BytesPerSecond: 100 + w.rng.Float64()*1e6, Interval: time.Hour}
	})
	if err := s.Pass(context.Background()); err != nil {
		return err
	}
	if t := s.Stats(); t.Found > 0 || t.Unreadable > 0 {
		return fmt.Errorf("the scrubber met damage: %+v", t)
	}
	return nil
}

// fsck has a stopped log verified.
func (w *metaWorld) fsck() error {
	if err := w.dir.Close(context.Background()); err != nil {
		return err
	}
	report, err := Verify(w.disk, "data")
	if err != nil {
		return err
	}
	for _, p := range report.Partitions {
		if len(p.Findings) > 0 {
			return fmt.Errorf("findings: %+v", p.Findings)
		}
	}
	return nil
}

// metaError is the class of an error, as clients are told of it.
func metaError(err error) string {
	for _, class := range []error{ErrOffsetOutOfRange, ErrOutOfOrderSequence, ErrInvalidProducerEpoch, ErrTooLarge} {
		if errors.Is(err, class) {
			return class.Error()
		}
	}
	return fmt.Sprint(err)
}

// append appends a batch and waits until it may be acknowledged.
func (w *metaWorld) append(b kproto.Batch) (string, error) {
	a, err := w.log.Append(bytes.Clone(b), AppendOptions{})
	if err == nil {
		err = a.Ticket.Wait(context.Background())
	}
	if err != nil {
		return metaError(err), nil
	}
	o, err := w.log.Offsets()
	return fmt.Sprintf("base %d, append time %d, duplicate %v, high %d, end %d", a.Base, a.LogAppendTime, a.Duplicate, o.High, o.End), err
}

// readOn reads from an offset to the end in pieces of random sizes.
func (w *metaWorld) readOn(from, high int64) ([]byte, error) {
	var got []byte
	for at := from; at < high; {
		most := 1 + w.rng.IntN(3000)
		b, next, err := w.log.ReadBytes(nil, at, high, most)
		if err != nil {
			return nil, err
		}
		if len(b) == 0 || next <= at {
			return nil, fmt.Errorf("a read at %d of %d gives nothing", at, high)
		}
		if _, more, err := kproto.SplitBatch(b); err != nil || len(b) > most && len(more) > 0 {
			return nil, fmt.Errorf("a read of at most %d bytes gives %d, which is more than one batch (%v)", most, len(b), err)
		}
		got, at = append(got, b...), next
	}
	return got, nil
}
