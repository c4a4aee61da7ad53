package log

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sluice/kproto"
)

// metaModel knows all that was ever written, the settings that matter, and by them what may be gone.
type metaModel struct {
	t     testing.TB
	seed  uint64
	exact bool // nothing is deleted but by DeleteRecords
	count metaCount

	appendTime, delete, compact bool
	retentionMs, retentionBytes int64
	deleteRetention, minLag     time.Duration
	epoch                       int32
	all                         []metaRecord
	batches                     []metaBatch
	writers                     map[int64]*metaWriter
	asked                       int64 // log start that DeleteRecords has asked for
	pending                     []metaRecord
	pendingBatch                kproto.Batch
	pendingWriter               int64

	now int64 // ms, at the beginning of the operation

}

// metaRecord is a record and what may have become of it.
type metaRecord struct {
	modelRecord
	aged       bool  // it was older than the lag when a round came
	superseded bool  // a round of compaction may have taken it
	horizon    int64 // of a tombstone: when it may go, ms
	expirable  bool  // retention may have taken it
}

type metaBatch struct{ base, next, bytes int64 }

// metaWriter is an idempotent producer.
type metaWriter struct {
	epoch int16
	seq   int32
	sent  []kproto.Batch // of this epoch, as given
}

func newMetaModel(t testing.TB, seed uint64) *metaModel {
	m := &metaModel{t: t, seed: seed, exact: seed%2 == 0, epoch: 1, writers: map[int64]*metaWriter{}, retentionMs: -1, retentionBytes: -1}
	if !m.exact {
		m.drawPolicy(rand.New(rand.NewPCG(seed, 22)))
	}
	return m
}

// drawPolicy draws the settings that say what is kept.
func (m *metaModel) drawPolicy(rng *rand.Rand) {
	m.delete, m.compact = rng.IntN(3) > 0, rng.IntN(3) > 0
	m.retentionMs, m.retentionBytes = -1, -1
	if rng.IntN(2) == 0 {
		m.retentionMs = 600_000 + rng.Int64N(7_200_000)
	}
	if rng.IntN(2) == 0 {
		m.retentionBytes = rng.Int64N(8000)
	}
	m.deleteRetention = time.Duration(rng.IntN(1200)) * time.Second
	m.minLag = time.Duration(rng.IntN(3)*rng.IntN(600)) * time.Second
}

func (m *metaModel) end() int64 { return int64(len(m.all)) }

// metaDo is an operation on one log. Its answer must be the same of all.
type metaDo func(w *metaWorld) (answer string, err error)

// plain is an operation whose answer is that it succeeds.
func plain(f func(w *metaWorld) error) metaDo {
	return func(w *metaWorld) (string, error) { return "", f(w) }
}

// draw makes an operation what its seed says; nil when it cannot be done now.
func (m *metaModel) draw(op metaOp) metaDo {
	rng := rand.New(rand.NewPCG(op.seed, 23))
	m.now, m.pending, m.pendingBatch, m.pendingWriter = time.Now().UnixMilli(), nil, nil, 0
	switch op.kind {
	case "append":
		return m.drawAppend(rng, rng.Int64N(4))
	case "epoch":
		return m.drawNewEpoch(rng)
	case "retry":
		return m.drawRetry(rng)
	case "gap":
		return m.drawGap(rng)
	case "read":
		from, limit := rng.Int64N(m.end()+4)-1, m.end()
		return func(w *metaWorld) (string, error) { return w.read(from, limit) }
	case "time":
		ms := m.now - rng.Int64N(2_400_000) + 60_000
		return func(w *metaWorld) (string, error) { return w.lookUp(ms) }
	case "epochs":
		e := int32(rng.IntN(int(m.epoch)+2)) - 1
		return func(w *metaWorld) (string, error) { return w.epochEnd(e) }
	case "delete-records":
		return m.drawDeleteRecords(rng)
	case "configure":
		if m.appendTime = rng.IntN(3) == 0; !m.exact {
			m.drawPolicy(rng)
		}
		return plain(func(w *metaWorld) error { w.configure(); return nil })
	case "retune":
		return plain(func(w *metaWorld) error { w.retune(); return w.check() })
	case "retain", "clean":
		return m.drawCleaning(op.kind)
	case "stop", "kill", "cut":
		m.epoch++
		time.Sleep(6 * time.Second) // longer than any interval of durability
		m.count.restarts++
		return plain(func(w *metaWorld) error { return errors.Join(w.restart(op.kind), w.check()) })
	case "sleep":
		time.Sleep(time.Duration(rng.IntN(600_000)) * time.Millisecond)
		return nil
	case "scrub":
		return plain((*metaWorld).scrub)
	case "fsck":
		return plain((*metaWorld).fsck)
	}
	panic("no operation " + op.kind)
}

// drawBatch makes a batch and notes what it would add.
func (m *metaModel) drawBatch(rng *rand.Rand, pid int64) kproto.Batch {
	b := kproto.NewBuilder(kproto.Codec(rng.IntN(int(kproto.Zstd)))) // the zstd package keeps channels, which may not pass from one bubble to the next
	if w := m.writers[pid]; w != nil {
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = pid, w.epoch, w.seq
	}
	for i := range 1 + rng.IntN(5) {
		r := modelRecord{offset: m.end() + int64(i), time: m.now - rng.Int64N(1_800_000), key: fmt.Sprint("key", rng.IntN(12)), epoch: m.epoch, pid: pid}
		if m.exact && rng.IntN(3) == 0 {
			r.key = ""
		}
		if rng.IntN(4) > 0 {
			r.value = make([]byte, rng.IntN(60))
			for i := range r.value {
				r.value[i] = byte(rng.IntN(256))
			}
		}
		k := kproto.Record{Timestamp: r.time, Value: r.value}
		if r.key != "" {
			k.Key = []byte(r.key)
		}
		b.Add(k)
		if m.appendTime {
			r.time = m.now
		}
		m.pending = append(m.pending, metaRecord{modelRecord: r, horizon: math.MaxInt64})
	}
	m.pendingBatch, m.pendingWriter = b.Batch(), pid
	return m.pendingBatch
}

func (m *metaModel) drawAppend(rng *rand.Rand, pid int64) metaDo {
	if pid > 0 && m.writers[pid] == nil {
		m.writers[pid] = &metaWriter{}
	}
	b := m.drawBatch(rng, pid)
	return func(w *metaWorld) (string, error) { return w.append(b) }
}

// drawNewEpoch has a producer begin anew.
func (m *metaModel) drawNewEpoch(rng *rand.Rand) metaDo {
	pid := 1 + rng.Int64N(3)
	if w := m.writers[pid]; w != nil {
		w.epoch, w.seq, w.sent = w.epoch+1, 0, nil
	}
	return m.drawAppend(rng, pid)
}

// drawRetry sends one of a producer's last batches again, or one that is too old to be remembered.
func (m *metaModel) drawRetry(rng *rand.Rand) metaDo {
	w := m.writers[1+rng.Int64N(3)]
	if w == nil || len(w.sent) == 0 {
		return nil
	}
	b := w.sent[max(0, len(w.sent)-1-rng.IntN(8))]
	return func(w *metaWorld) (string, error) { return w.append(b) }
}

// drawGap sends a sequence number or an epoch that does not follow.
func (m *metaModel) drawGap(rng *rand.Rand) metaDo {
	pid := 1 + rng.Int64N(3)
	w := m.writers[pid]
	if w == nil || len(w.sent) == 0 {
		return nil
	}
	right := *w
	if rng.IntN(2) == 0 {
		w.epoch--
	} else {
		w.seq += 1 + rng.Int32N(100)
	}
	b := m.drawBatch(rng, pid)
	*w, m.pending = right, nil
	return func(w *metaWorld) (string, error) {
		answer, err := w.append(b)
		if answer != ErrOutOfOrderSequence.Error() && answer != ErrInvalidProducerEpoch.Error() {
			err = errors.Join(err, errors.New("it was taken: "+answer))
		}
		return answer, err
	}
}

func (m *metaModel) drawDeleteRecords(rng *rand.Rand) metaDo {
	to := m.asked + rng.Int64N(m.end()-m.asked+2)*rng.Int64N(3)/4
	if to <= m.end() {
		m.asked = max(m.asked, to)
	}
	return func(w *metaWorld) (string, error) {
		start, err := w.log.AdvanceStart(context.Background(), to)
		if err == nil && start < to {
			return "", fmt.Errorf("the log start is %d, DeleteRecords asked for %d", start, to)
		}
		if !m.exact {
			start = 0 // retention may have been there before
		}
		return fmt.Sprintf("start %d, %s", start, metaError(err)), nil
	}
}

// drawCleaning notes what a pass of retention or compaction may take away, and has it made.
func (m *metaModel) drawCleaning(kind metaKind) metaDo {
	switch {
	case kind == "retain":
		m.mayExpire()
		return plain((*metaWorld).retain)
	case m.compact:
		m.mayCompact()
		return plain(func(w *metaWorld) error { return errors.Join(w.clean(), w.check()) })
	}
	return nil
}

// mayExpire: what is older than retention.ms, and what has retention.bytes behind it.
func (m *metaModel) mayExpire() {
	if !m.delete {
		return
	}
	behind := int64(0)
	for _, b := range slices.Backward(m.batches) {
		for i := b.base; i < b.next; i++ {
			r := &m.all[i]
			r.expirable = r.expirable || m.retentionMs >= 0 && m.now-r.time > m.retentionMs || m.retentionBytes >= 0 && behind >= m.retentionBytes
		}
		behind += b.bytes
	}
}

// mayCompact: what has a newer record of its key, and tombstones whose time since an earlier round is over; nothing younger than the lag.
func (m *metaModel) mayCompact() {
	newer := map[string]bool{}
	for i := range slices.Backward(m.all) {
		r := &m.all[i]
		r.aged = r.aged || m.now-r.time >= m.minLag.Milliseconds()
		if r.aged {
			r.horizon = min(r.horizon, m.now+m.deleteRetention.Milliseconds()) // a run may have several rounds
			r.superseded = r.superseded || newer[r.key] || r.value == nil && m.now >= r.horizon
		}
		newer[r.key] = true
	}
}

// done takes in what an operation has changed, when all logs have answered alike.
func (m *metaModel) done(kind metaKind, worlds []*metaWorld) {
	if (kind == "append" || kind == "epoch") && len(m.pending) > 0 {
		m.batches = append(m.batches, metaBatch{m.end(), m.end() + int64(len(m.pending)), int64(len(m.pendingBatch))})
		m.all = append(m.all, m.pending...)
		m.count.records += int64(len(m.pending))
		if w := m.writers[m.pendingWriter]; w != nil {
			w.seq += int32(len(m.pending))
			w.sent = append(w.sent, m.pendingBatch)
		}
	}
	if kind == "fsck" {
		for _, w := range worlds {
			m.count.expired += w.start - m.asked
		}
	}
}

// retain makes a pass of retention, after which nothing is kept that must go whatever the segments are.
func (w *metaWorld) retain() error {
	w.dir.Retain(context.Background(), time.Now())
	m := w.m
	size, err := w.log.Size()
	o, oerr := w.log.Offsets()
	if err = errors.Join(err, oerr, w.check()); err != nil || !m.delete {
		return err
	}
	if m.retentionBytes >= 0 && size >= m.retentionBytes+w.largest {
		return fmt.Errorf("%d bytes are kept, retention.bytes is %d and a segment at most %d", size, m.retentionBytes, w.largest)
	}
	return w.keepsTooOld(o)
}

// keepsTooOld: when all that was ever written from the log start on is too old, all of it goes. (A segment counts as old as its newest record was, even
// one that compaction has taken.)
func (w *metaWorld) keepsTooOld(o Offsets) error {
	m := w.m
	young := slices.ContainsFunc(m.all[o.Start:], func(r metaRecord) bool { return m.now-r.time <= m.retentionMs })
	if m.retentionMs >= 0 && !young && o.Start < o.End && len(w.kept) > 0 {
		return fmt.Errorf("all records are too old, and %+v", o)
	}
	return nil
}

// check reads the whole log and holds it against the model.
func (w *metaWorld) check() error {
	o, err := w.log.Offsets()
	if err != nil {
		return err
	}
	m := w.m
	if o.End != m.end() || o.High != o.End {
		return fmt.Errorf("offsets %+v, %d records were written", o, m.end())
	}
	if o.Start < max(w.start, m.asked) || m.exact && o.Start != m.asked {
		return fmt.Errorf("offsets %+v; DeleteRecords asked for %d, and the start was %d before", o, m.asked, w.start)
	}
	w.start = o.Start
	if err := w.checkKept(o); err != nil {
		return err
	}
	for i, r := range m.all[m.asked:max(m.asked, o.Start)] {
		if !r.expirable && !r.superseded {
			return fmt.Errorf("the log start is %d, and retention keeps offset %d of %d ms", o.Start, m.asked+int64(i), r.time)
		}
	}
	return nil
}

// checkKept reads all there is: as it was written, in order, and nothing left out that must be there.
func (w *metaWorld) checkKept(o Offsets) error {
	batches, err := readBatches(w.log, o)
	if err != nil {
		return err
	}
	w.kept = w.kept[:0]
	next := o.Start
	for _, b := range batches {
		var wrong error
		err := b.EachRecord(func(r kproto.Record) bool {
			if r.Offset >= o.Start {
				wrong = w.take(r, &next)
			}
			return wrong == nil
		})
		if err = errors.Join(err, wrong); err != nil || !b.ValidCRC() {
			return fmt.Errorf("batch at %d: %w", b.BaseOffset(), err)
		}
	}
	return w.m.mayLack(next, o.End)
}

// take takes in the next record.
func (w *metaWorld) take(r kproto.Record, next *int64) error {
	if r.Offset < *next || r.Offset >= w.m.end() || !w.m.all[r.Offset].same(r) {
		return fmt.Errorf("offset %d where %d is next is not as it was written: %+v", r.Offset, *next, r)
	}
	err := w.m.mayLack(*next, r.Offset)
	*next = r.Offset + 1
	w.kept = append(w.kept, w.m.all[r.Offset].modelRecord)
	return err
}

// mayLack tells what must not be missing between two offsets.
func (m *metaModel) mayLack(from, to int64) error {
	for i := from; i < to; i++ {
		if r := m.all[i]; !r.superseded {
			return fmt.Errorf("offset %d of %s, %d ms, is missing", i, r.key, r.time)
		}
	}
	return nil
}

// read reads from an offset to the end.
func (w *metaWorld) read(from, limit int64) (string, error) {
	o, err := w.log.Offsets()
	if err != nil {
		return "", err
	}
	if from < o.Start || from > limit {
		_, _, err := w.log.ReadBytes(nil, from, limit, 1)
		if !errors.Is(err, ErrOffsetOutOfRange) {
			return "", fmt.Errorf("a read at %d of %+v gives %w", from, o, err)
		}
		return w.m.mustAgree(metaError(err)), nil
	}
	got, err := w.readOn(from, limit)
	if err != nil {
		return "", err
	}
	next, wrong := from, error(nil)
	w.kept = w.kept[:0]
	eachBatch(got, func(b kproto.Batch) {
		err := b.EachRecord(func(r kproto.Record) bool {
			if r.Offset >= from && wrong == nil {
				wrong = w.take(r, &next)
			}
			return wrong == nil
		})
		wrong = errors.Join(wrong, err)
	})
	sum := fnv.New64a()
	sum.Write(got)
	return w.m.mustAgree(fmt.Sprintf("%d bytes, sum %x", len(got), sum.Sum64())), errors.Join(wrong, w.m.mayLack(next, limit))
}

// mustAgree is an answer that is the same of all logs where they keep the same.
func (m *metaModel) mustAgree(answer string) string {
	if m.exact {
		return answer
	}
	return ""
}

// lookUp searches by time, and finds what a scan finds.
func (w *metaWorld) lookUp(ms int64) (string, error) {
	if err := w.check(); err != nil {
		return "", err
	}
	at, err := w.log.FindTime(ms, w.m.end())
	newest, err2 := w.log.MaxTime(w.m.end())
	if err = errors.Join(err, err2); err != nil {
		return "", err
	}
	want, wantNewest := nowhere, nowhere
	for _, r := range w.kept {
		if want == nowhere && r.time >= ms {
			want = Position{r.offset, r.time, r.epoch}
		}
		if r.time > wantNewest.Timestamp {
			wantNewest = Position{r.offset, r.time, r.epoch}
		}
	}
	if at != want || newest != wantNewest {
		return "", fmt.Errorf("time %d found at %+v, newest %+v; want %+v and %+v", ms, at, newest, want, wantNewest)
	}
	return w.m.mustAgree(fmt.Sprint(at, newest)), nil
}

func (w *metaWorld) epochEnd(e int32) (string, error) {
	epoch, end, err := w.log.EpochEnd(e)
	last, err2 := w.log.Epoch()
	return w.m.mustAgree(fmt.Sprint(epoch, end, last)), errors.Join(err, err2)
}
