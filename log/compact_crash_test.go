package log

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
	"sluice/kproto"
)

// compactBook is what holds at one moment in the life of a compactModel, whatever happens. It does not change.
type compactBook struct {
	acked      int           // records
	tried      []modelRecord // those, and of the batch in flight
	cleaned    map[int64]int64
	last       map[int64]kproto.Batch
	lastAt     map[int64]int64
	start, now int64
	epoch      int32
}

// note opens a new page of the book.
func (m *compactModel) note(tried ...modelRecord) {
	m.book.Store(&compactBook{
		acked: len(m.all), tried: slices.Concat(m.all, tried), cleaned: maps.Clone(m.cleaned), last: maps.Clone(m.last), lastAt: maps.Clone(m.lastAt),
		start: m.start, now: m.now, epoch: m.epoch,
	})
}

// resume gives a model of what a crash has left.
func (m *compactModel) resume(img *vfs.Mem, b *compactBook) (*compactModel, error) {
	r := &compactModel{
		t: m.t, rng: rand.New(rand.NewPCG(1, 1)), disk: img, cfg: m.cfg, now: b.now, epoch: b.epoch + 1, start: b.start, size: m.size,
		cleaned: maps.Clone(b.cleaned), seq: map[int64]int32{}, last: maps.Clone(b.last), lastAt: maps.Clone(b.lastAt),
	}
	return r, r.reopen()
}

// reopen starts again on what there is. What was in flight may be there or not.
func (m *compactModel) reopen() error {
	m.proc = crashtest.NewProcess(m.disk)
	d, err := Open("data", Options{FS: m.proc})
	if err != nil {
		return err
	}
	d.SetEpoch(m.epoch)
	m.dir, m.log = d, d.Log("t", testTopic, 0, m.cfg)
	return d.Recover(context.Background())
}

// verifyCrash holds the image of a disk against the book: it has the old segments or the new ones, nothing is lost and nothing there twice; and so
// it is after another start, after another run of the cleaner, and after one more start.
func (m *compactModel) verifyCrash(img *vfs.Mem, b *compactBook, _ bool) error {
	if v, err := Verify(img, "data"); err != nil || v.Damaged() {
		return fmt.Errorf("verify: %w\n%s", err, findings(v))
	}
	r, err := m.resume(img, b)
	if err != nil {
		return err
	}
	defer func() { abandon(r.dir) }()
	o, err := r.log.Offsets()
	if err != nil {
		return err
	}
	if err := r.adopt(o, m.book.Load()); err != nil {
		return err
	}
	if o.Start < b.start || o.End < int64(b.acked) {
		return fmt.Errorf("offsets %+v, start %d and %d records were acknowledged", o, b.start, b.acked)
	}
	if err := r.check(); err != nil {
		return err
	}
	if err := r.again(); err != nil {
		return fmt.Errorf("second start: %w", err)
	}
	if _, err := r.log.Clean(context.Background(), CleanOptions{Now: time.UnixMilli(r.now), MapBytes: 1 << 16}); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return fmt.Errorf("after the next run: %w", err)
	}
	if err := r.again(); err != nil {
		return fmt.Errorf("start after the next run: %w", err)
	}
	return nil
}

// adopt takes in what happened between the book's page and the power cut, which threads beside the script's own may have come to: now is its last page.
func (m *compactModel) adopt(o Offsets, now *compactBook) error {
	if o.End > int64(len(now.tried)) {
		return fmt.Errorf("offsets %+v, %d records were tried", o, len(now.tried))
	}
	for pid, at := range m.lastAt {
		if slices.ContainsFunc(now.tried[at:o.End], func(r modelRecord) bool { return r.pid == pid && r.batch > at }) {
			delete(m.last, pid)
		}
	}
	m.all = slices.Clone(now.tried[:o.End])
	m.now, m.cleaned = now.now, maps.Clone(now.cleaned)
	return nil
}

// again cuts the power, starts, and finds everything as it was.
func (m *compactModel) again() error {
	before, err := readBatches(m.log, mustOffsets(m.t, m.log))
	if err != nil {
		return err
	}
	abandon(m.dir)
	m.disk = m.disk.Crash(vfs.KeepNothing)
	if err := m.reopen(); err != nil {
		return err
	}
	after, err := readBatches(m.log, mustOffsets(m.t, m.log))
	if err != nil {
		return err
	}
	if !slices.EqualFunc(before, after, func(a, b kproto.Batch) bool { return string(a) == string(b) }) {
		return fmt.Errorf("%d batches, and they were %d, or others", len(after), len(before))
	}
	return m.check()
}

// live does some of everything. Its stops are clean or not; the disk keeps what was written.
func (m *compactModel) live(steps int) {
	for range steps {
		switch n := m.rng.IntN(20); {
		case n < 13:
			m.produce()
		case n < 17:
			m.clean()
		case n < 18 && m.cfg.Delete:
			m.retain()
		case n < 18:
			m.advance()
		default:
			if n == 18 {
				must(m.t, m.dir.Close(context.Background()))
			} else {
				m.proc.Kill()
				abandon(m.dir)
			}
			m.epoch++
			m.note()
			must(m.t, m.reopen())
		}
	}
	m.clean()
}

// TestPowerCutsInCompaction cuts the power before every operation of lives in which segments are cleaned, in every state that a disk may have then, and
// now and then once more inside the recovery.
func TestPowerCutsInCompaction(t *testing.T) {
	lives, first := crashtest.Env("SLUICE_COMPACT_CRASHES", 3), crashtest.Env("SLUICE_COMPACT_SEED", 1)
	if testing.Short() {
		lives = 1
	}
	images, nested, points := 0, 0, map[string]int{}
	for seed := first; seed < first+lives; seed++ {
		m := newCompactModel(t, seed)
		must(t, m.dir.Close(context.Background()))
		m.note()
		s := &crashtest.Sweep[*compactBook]{Name: fmt.Sprint("seed ", seed), Promises: m.book.Load, Check: m.verifyCrash, Seeds: 2}
		n := m.nest(s, 101)
		if testing.Short() {
			sample(s, 7)
		}
		s.Attach(m.disk)
		must(t, m.reopen())
		m.live(30)
		s.Cut(m.disk, "the end", 0)
		abandon(m.dir)
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
		images, nested = images+s.Images(), nested+*n
		for name, k := range s.Points() {
			points[name] += k
		}
	}
	t.Logf("%d points under %d names, %d images, of which %d inside recoveries", sum(points), len(points), images+nested, nested)
	for _, name := range []string{"t-0/*.cleaned", "t-0/*.swap"} {
		if !testing.Short() && !slices.ContainsFunc(slices.Collect(maps.Keys(points)), func(p string) bool { return len(p) > len(name) && p[len(p)-len(name):] == name }) {
			t.Errorf("the power was never cut at %s: %v", name, points)
		}
	}
}

// nest has the power cut again at every operation of the recovery of each n-th image.
func (m *compactModel) nest(s *crashtest.Sweep[*compactBook], n int) (images *int) {
	images = new(int)
	count, check := 0, s.Check
	s.Check = func(img *vfs.Mem, b *compactBook, killed bool) error {
		if count++; count%n != 0 {
			return check(img, b, killed)
		}
		inner := &crashtest.Sweep[*compactBook]{Name: "inside recovery", Promises: func() *compactBook { return b }, Check: check, Seeds: 1, Stride: s.Stride, Every: s.Every}
		inner.Attach(img)
		r, err := m.resume(img, b)
		if err != nil {
			return err
		}
		inner.Cut(img, "recovered", 0)
		abandon(r.dir)
		*images += inner.Images()
		return inner.Err()
	}
	return images
}

// TestCompactionOnAFailingDisk makes each operation of a run of the cleaner fail, once or from then on: the log goes on, a later run succeeds or says
// why not, and a power cut afterwards loses nothing.
func TestCompactionOnAFailingDisk(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 15
	}
	runs := 0
	for _, f := range []vfs.Fault{{Ops: vfs.OpAny, Err: syscall.EIO}, {Ops: vfs.OpAny, Err: syscall.ENOSPC, Sticky: true}} {
		for fired := true; fired; f.Nth += stride {
			f.Nth = max(f.Nth, 1)
			fired = failCleaning(t, f)
			runs++
		}
	}
	t.Logf("%d runs", runs)
}

func failCleaning(t *testing.T, f vfs.Fault) (fired bool) {
	t.Helper()
	m := newCompactModel(t, 3)
	must(t, m.dir.Close(context.Background()))
	in := &vfs.Injector{}
	faulty := vfs.Inject(m.disk, in)
	d, err := Open("data", Options{FS: faulty})
	must(t, err)
	d.SetEpoch(m.epoch)
	m.dir, m.log = d, d.Log("t", testTopic, 0, m.cfg)
	for range 30 {
		m.produce()
	}
	m.clean()
	for range 20 {
		m.produce()
	}
	in.Add(f)
	o := CleanOptions{Now: time.UnixMilli(m.now), MapBytes: 200}
	_, failed := m.log.Clean(context.Background(), o)
	fired = in.Fired() > 0
	in.Heal()
	if failed != nil && !errors.Is(failed, ErrStorage) && !errors.Is(failed, ErrUncleanable) {
		t.Fatalf("%+v: %v", f, failed)
	}
	if err := m.check(); err != nil {
		t.Fatalf("%+v, then %v: %v", f, failed, err)
	}
	if _, err := m.log.Clean(context.Background(), o); err != nil && !errors.Is(err, ErrUncleanable) && !errors.Is(err, ErrStorage) {
		t.Fatalf("%+v, then %v: next run: %v", f, failed, err)
	}
	if err := m.check(); err != nil {
		t.Fatalf("%+v, then %v, then another run: %v", f, failed, err)
	}
	m.note()
	abandon(d)
	for name, img := range m.disk.Images(1) {
		if err := m.verifyCrash(img, m.book.Load(), false); err != nil {
			t.Fatalf("%+v, then %v, then a power cut, image %q: %v", f, failed, name, err)
		}
	}
	return fired
}
