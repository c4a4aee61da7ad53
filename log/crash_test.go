package log

import (
	"errors"
	"testing"
	"time"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
)

// tiny has segments that roll after a few batches and an index entry for nearly each of them.
func tiny() *Config {
	c := DefaultConfig()
	c.SegmentBytes, c.IndexInterval = 700, 100
	return c
}

func withMode(d Durability) *Config {
	c := tiny()
	c.Durability, c.SyncInterval = d, never
	return c
}

// keeping is tiny with the delete policy.
func keeping(ms, bytes int64, delay time.Duration) *Config {
	c := tiny()
	c.Delete, c.RetentionMs, c.RetentionBytes, c.FileDeleteDelay = true, ms, bytes, delay
	return c
}

// scenario is a script whose every operation is a moment for a power cut.
type scenario struct {
	name string
	run  func(w *world)
}

var scenarios = []scenario{
	{"append and group commit", func(w *world) {
		w.boot()
		a, b := w.create("a", 1, 0, DefaultConfig()), w.create("b", 2, 1, DefaultConfig())
		x := a.must(batchSpec{records: 3, size: 40, pid: 1})
		waitAll(w.t, x)
		y, z := a.must(batchSpec{records: 2, size: 600, pid: 1, seq: 3}), b.must(batchSpec{records: 1, size: 1500})
		again, err := a.retry(y.try)
		if err != nil || !again.a.Duplicate {
			w.t.Fatal(err, again)
		}
		waitAll(w.t, again, y, z)
		waitAll(w.t, b.must(batchSpec{records: 1, size: 10}), a.must(batchSpec{records: 1, pid: 2}))
	}},
	{"roll", func(w *world) {
		w.boot()
		p := w.create("a", 1, 0, tiny())
		for i := range 3 {
			var xs []*pending
			for j := range 4 {
				xs = append(xs, p.must(batchSpec{records: 1 + j%2, size: 150, time: int64(1000 - 100*i + 7*j)}))
			}
			waitAll(w.t, xs...)
		}
	}},
	{"producer snapshots", func(w *world) {
		w.boot()
		p := w.create("a", 1, 0, tiny())
		for i := range 9 {
			waitAll(w.t, p.must(batchSpec{records: 2, size: 90, time: int64(i), pid: int64(1 + i%2), seq: int32(i / 2 * 2)}))
		}
		last := p.must(batchSpec{records: 1, pid: 1, epoch: 1})
		dup, err := p.retry(last.try)
		if err != nil {
			w.t.Fatal(err)
		}
		waitAll(w.t, last, dup)
	}},
	{"log start", func(w *world) {
		w.boot()
		p, q := w.create("a", 1, 0, tiny()), w.create("a", 1, 1, tiny())
		for i := range 8 {
			waitAll(w.t, p.must(batchSpec{records: 2, size: 90, time: int64(i), pid: 1, seq: int32(2 * i)}))
		}
		waitAll(w.t, q.must(batchSpec{records: 5}))
		must(w.t, p.advance(3), q.advance(5))
		waitAll(w.t, p.must(batchSpec{records: 2, size: 90, pid: 1, seq: 16}))
		must(w.t, p.advance(13))
		waitAll(w.t, q.must(batchSpec{records: 1}), p.must(batchSpec{records: 2, size: 300, pid: 1, seq: 18}))
		must(w.t, p.advance(20))
	}},
	{"retention", func(w *world) {
		w.boot()
		p, q := w.create("a", 1, 0, keeping(300, -1, 0)), w.create("a", 1, 1, keeping(-1, 1000, never))
		seq := int32(0)
		produce := func(n int, time int64) (last *pending) {
			for range n {
				last = p.must(batchSpec{records: 2, size: 90, time: time, pid: 1, seq: seq})
				waitAll(w.t, last, q.must(batchSpec{records: 1, size: 180, pid: 1, seq: seq / 2}))
				seq += 2
			}
			return last
		}
		produce(4, 0)
		last := produce(4, 200)
		w.retain(400) // the first segments of p by time, of q by size
		w.retain(600) // all of p: the last segment too, after the next was begun
		again, err := p.retry(last.try)
		if err != nil || !again.a.Duplicate {
			w.t.Fatal("a producer was forgotten with its records", err)
		}
		produce(1, 600)
		must(w.t, q.advance(q.log.end-1)) // to the middle of a segment
		w.kill()
		w.boot()
		w.retain(600)
		produce(3, 600)
		w.retain(10_000)
		must(w.t, w.shut())
		w.boot()
		w.retain(20_000)
		produce(1, 20_000)
	}},
	{"retention and modes", func(w *world) {
		w.boot()
		i, o := w.create("a", 1, 0, keeping(300, -1, 0)), w.create("b", 2, 0, keeping(-1, 0, 0))
		i.cfg.Durability, i.cfg.SyncInterval, o.cfg.Durability = Interval, never, OS
		for n := range 5 {
			waitAll(w.t, i.must(batchSpec{records: 2, size: 150, time: int64(100 * n)}), o.must(batchSpec{records: 2, size: 150}))
		}
		w.retain(500)
		waitAll(w.t, i.must(batchSpec{time: 500}), o.must(batchSpec{}))
		w.kill()
		w.boot()
		w.retain(5000)
		waitAll(w.t, i.must(batchSpec{time: 5000}), o.must(batchSpec{}))
	}},
	{"delete and create again", func(w *world) {
		w.boot()
		old, other := w.create("a", 1, 0, tiny()), w.create("a", 1, 1, tiny())
		for range 4 {
			waitAll(w.t, old.must(batchSpec{records: 2, size: 150, pid: 1}), other.must(batchSpec{size: 30}))
			old = renew(w, old)
		}
		waitAll(w.t, other.must(batchSpec{size: 300}))
	}},
	{"clean stop and start", func(w *world) {
		w.boot()
		p, q := w.create("a", 1, 0, tiny()), w.create("b", 2, 0, tiny())
		for i := range 3 {
			for j := range 3 {
				waitAll(w.t, p.must(batchSpec{records: 1, size: 120, time: int64(100*i + j), pid: 1, seq: int32(3*i + j)}))
			}
			if i == 1 {
				waitAll(w.t, q.must(batchSpec{records: 2}))
			}
			must(w.t, w.shut())
			w.boot()
		}
		must(w.t, w.shut())
	}},
	{"clean stops with side files", func(w *world) {
		w.room = 150 // for the smaller one of the two, as long as it is small
		w.boot()
		p, q := w.create("a", 1, 0, tiny()), w.create("b", 2, 0, tiny())
		for i := range 4 {
			waitAll(w.t, p.must(batchSpec{records: 1, size: 120, time: int64(100 * i), pid: 1, seq: int32(i)}), q.must(batchSpec{records: 1, size: 80, time: int64(i)}))
			must(w.t, w.shut())
			w.boot()
		}
	}},
	{"clean stops and not all is used", func(w *world) {
		w.boot()
		p, q := w.create("a", 1, 0, tiny()), w.create("b", 2, 0, tiny())
		old := w.create("c", 3, 0, tiny())
		waitAll(w.t, p.must(batchSpec{records: 2, pid: 1}), q.must(batchSpec{records: 1, pid: 2, time: 7}), old.must(batchSpec{}))
		for i := range 3 {
			must(w.t, w.shut())
			w.boot()
			if i == 1 {
				waitAll(w.t, p.must(batchSpec{records: 1, size: 300 * i, pid: 1, seq: 2}))
				must(w.t, w.delete(old))
			}
		}
		waitAll(w.t, q.must(batchSpec{records: 1, pid: 2, seq: 1}))
		must(w.t, w.shut())
		w.boot()
	}},
	{"kill and start", func(w *world) {
		w.boot()
		p, q := w.create("a", 1, 0, tiny()), w.create("b", 2, 0, withMode(OS))
		for i := range 4 {
			x := p.must(batchSpec{records: 1, size: 200, pid: 1, seq: int32(2 * i)})
			if i%2 == 0 {
				waitAll(w.t, x)
			}
			q.must(batchSpec{records: 1, size: 100})
			y := p.must(batchSpec{records: 1, size: 200, pid: 1, seq: int32(2*i + 1)})
			if i == 2 {
				waitAll(w.t, y)
				must(w.t, p.advance(2))
			}
			w.kill()
			w.boot()
			for _, x := range []*pending{x, y} {
				if z, err := p.retry(x.try); err == nil {
					waitAll(w.t, z)
				} else {
					w.t.Fatal(err)
				}
			}
		}
	}},
	{"failed sync", func(w *world) {
		w.boot()
		p := w.create("a", 1, 0, tiny())
		seq := int32(0)
		for i := range 6 {
			n := 1 + i%3
			if i%2 == 1 {
				w.in.Add(vfs.Fault{Ops: vfs.OpSync, Path: "*.log", Nth: 1 + i/2%2})
			}
			var xs []*pending
			for j := range n {
				x, err := p.append(batchSpec{records: 1, size: 210, pid: 1, seq: seq + int32(j)})
				if err != nil {
					break
				}
				xs = append(xs, x)
			}
			for _, x := range xs {
				if x.wait() == nil {
					seq++
				}
			}
			w.in.Heal()
		}
		waitAll(w.t, p.must(batchSpec{records: 1, size: 210, pid: 1, seq: seq}))
	}},
	{"interval and os", func(w *world) {
		w.boot()
		p, q := w.create("a", 1, 0, withMode(Interval)), w.create("b", 2, 0, withMode(OS))
		for i := range 8 {
			waitAll(w.t, p.must(batchSpec{records: 2, size: 90, pid: 1, seq: int32(2 * i)}), q.must(batchSpec{records: 1, size: 180, pid: 1, seq: int32(i)}))
			if i == 3 {
				p.log.SetConfig(tiny()) // syncs what there is
				p.log.SetConfig(p.cfg)
			}
		}
		must(w.t, w.shut())
	}},
	{"epochs", func(w *world) {
		p := w.create("a", 1, 0, tiny())
		for i := range 4 {
			w.boot()
			waitAll(w.t, p.must(batchSpec{records: 1, size: 150, time: int64(i)}), p.must(batchSpec{records: 1, size: 150}))
			if i%2 == 0 {
				w.kill()
			} else {
				must(w.t, w.shut())
			}
		}
	}},
	{"few files", func(w *world) { // each use of a partition opens its file and closes another's
		w.files = 1
		w.boot()
		ps := []*part{w.create("a", 1, 0, tiny()), w.create("a", 1, 1, withMode(Interval)), w.create("a", 1, 2, withMode(OS)), w.create("a", 1, 3, tiny())}
		for i := range 12 {
			p := ps[i%len(ps)]
			waitAll(w.t, p.must(batchSpec{records: 1 + i%2, size: 130}))
			w.dir.CloseIdle()
		}
		must(w.t, w.shut())
	}},
	{"many partitions", func(w *world) {
		w.boot()
		var xs []*pending
		for i := range 9 { // more slots than a sector holds
			p := w.create("a", 1, int32(i), DefaultConfig())
			xs = append(xs, p.must(batchSpec{records: 1 + i%3, size: 20 * i}))
		}
		waitAll(w.t, xs...)
	}},
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// renew deletes a partition and creates it again under the same name.
func renew(w *world, old *part) *part {
	must(w.t, w.delete(old))
	return w.create(old.topic, old.id[0]+1, old.n, old.cfg)
}

func sweepOf(w *world, name string) *crashtest.Sweep[promises] {
	s := &crashtest.Sweep[promises]{
		Name:     name,
		Observe:  w.observe,
		Promises: w.promises,
		Check:    checkImage,
		Seeds:    4,
	}
	s.Attach(w.mem)
	return s
}

// sample leaves a sweep every stride-th operation and few images of each. The short tests are what runs under the race detector, which learns nothing
// from one more image of the same moment.
func sample[P any](s *crashtest.Sweep[P], stride int) { s.Stride, s.Seeds, s.Every = stride, 0, 8 }

// TestPowerCuts cuts the power before every operation of every scenario.
func TestPowerCuts(t *testing.T) {
	total := 0
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			w := newWorld(t)
			s := sweepOf(w, sc.name)
			if testing.Short() {
				sample(s, 13)
			}
			sc.run(w)
			s.Cut(w.mem, "the end", 0)
			w.kill()
			if err := s.Err(); err != nil {
				t.Error(err)
			}
			t.Logf("%d points under %d names, %d images", sum(s.Points()), len(s.Points()), s.Images())
			total += s.Images()
		})
	}
	t.Logf("%d images", total)
}

// nestEach has the power cut again inside the recovery of each n-th image, before every operation of it.
func nestEach(s *crashtest.Sweep[promises], n int) (images *int) {
	images = new(int)
	count, check := 0, s.Check
	s.Check = func(img *vfs.Mem, ps promises, killed bool) error {
		if count++; count%n != 0 {
			return check(img, ps, killed)
		}
		inner := &crashtest.Sweep[promises]{
			Name:     "inside recovery",
			Promises: func() promises { return ps },
			Check:    func(img *vfs.Mem, ps promises, again bool) error { return check(img, ps, killed && again) },
			Seeds:    1,
			Stride:   s.Stride,
			Every:    s.Every,
		}
		inner.Attach(img)
		d, err := start(img, ps)
		if err != nil {
			return err
		}
		inner.Cut(img, "recovered", 0)
		abandon(d)
		*images += inner.Images()
		return inner.Err()
	}
	return images
}

// TestPowerCutsInRecovery cuts the power, and again at each operation of the recovery.
func TestPowerCutsInRecovery(t *testing.T) {
	total := 0
	for i, sc := range scenarios {
		w := newWorld(t)
		s := sweepOf(w, sc.name)
		s.Seeds = 2
		s.Stride, s.Offset = 5, i
		if testing.Short() {
			sample(s, 47)
		}
		nested := nestEach(s, 97)
		sc.run(w)
		w.kill()
		if err := s.Err(); err != nil {
			t.Error(err)
		}
		total += *nested
	}
	t.Logf("%d images inside recoveries", total)
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}
