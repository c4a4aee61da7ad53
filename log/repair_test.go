package log

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
	"sluice/kproto"
)

// damaging is one way to damage the log of newSealedLog: 18 batches of 3 offsets, four to a segment.
type damaging struct {
	name  string
	spoil func(t testing.TB, x *sealedLog)
	lost  []int // batches
}

var damagings = []damaging{
	{"a bit in a record", func(t testing.TB, x *sealedLog) { x.flip(t, 6, 100) }, []int{6}},
	{"a bit in the first batch", func(t testing.TB, x *sealedLog) { x.flip(t, 0, 30) }, []int{0}},
	{"a base offset", func(t testing.TB, x *sealedLog) { x.flip(t, 5, 7) }, []int{5}},
	{"a magic", func(t testing.TB, x *sealedLog) { x.flip(t, 9, 16) }, []int{9}},
	{"the last batch of a segment", func(t testing.TB, x *sealedLog) { x.flip(t, 7, 100) }, []int{7}},
	{"three batches in two segments", func(t testing.TB, x *sealedLog) { x.flip(t, 4, 100); x.flip(t, 6, 100); x.flip(t, 8, 100) }, []int{4, 6, 8}},
	{"all of a segment", func(t testing.TB, x *sealedLog) {
		for i := 4; i < 8; i++ {
			x.flip(t, i, 100)
		}
	}, []int{4, 5, 6, 7}},
	{"the last segment's middle", func(t testing.TB, x *sealedLog) { x.flip(t, 16, 100) }, []int{16}},
	{"the log's last batch", func(t testing.TB, x *sealedLog) { x.flip(t, 17, 100) }, []int{17}},
	{"a segment cut short", func(t testing.TB, x *sealedLog) { truncate(t, x.disk, x.places[4].File, x.places[6].Position+5) }, []int{6, 7}},
	{"a segment cut between batches", func(t testing.TB, x *sealedLog) { truncate(t, x.disk, x.places[4].File, x.places[6].Position) }, []int{6, 7}},
	{"the last segment cut short", func(t testing.TB, x *sealedLog) { truncate(t, x.disk, x.places[17].File, x.places[17].Position+70) }, []int{17}},
	{"the last segment empty", func(t testing.TB, x *sealedLog) { truncate(t, x.disk, x.places[17].File, 0) }, []int{16, 17}},
	{"a segment gone", func(t testing.TB, x *sealedLog) { must(t, x.disk.Remove(x.places[4].File)) }, []int{4, 5, 6, 7}},
	{"the first segment gone", func(t testing.TB, x *sealedLog) { must(t, x.disk.Remove(x.places[0].File)) }, []int{0, 1, 2, 3}},
	{"the last segment gone", func(t testing.TB, x *sealedLog) { must(t, x.disk.Remove(x.places[17].File)) }, []int{16, 17}},
	{"all segments gone", func(t testing.TB, x *sealedLog) { removeAll(t, x.disk, "data/a-0", logSuffix) }, without(18)},
	{"a magic, and the index gone", func(t testing.TB, x *sealedLog) {
		x.flip(t, 9, 16)
		must(t, x.disk.Remove(strings.Replace(x.places[9].File, logSuffix, indexSuffix, 1)))
	}, []int{9, 10, 11}},
}

// flip changes a byte of a batch.
func (x *sealedLog) flip(t testing.TB, batch int, at int64) {
	t.Helper()
	flipBit(t, x.disk, x.places[batch].File, 8*(x.places[batch].Position+at))
}

// afterRepair opens the log: what was not lost is there, consumers step over the rest, nothing is refused, and appends go on behind the old end.
func (x *sealedLog) afterRepair(disk *vfs.Mem, lost []int) error {
	d, err := Open("data", Options{FS: disk})
	if err != nil {
		return err
	}
	defer abandon(d)
	d.SetEpoch(9)
	l := d.Log("a", testTopic, 0, x.cfg)
	o, err := l.Offsets()
	if want := x.batches[17].NextOffset(); err != nil || o.Start != 0 || o.End != want || o.High != want {
		return fmt.Errorf("offsets %+v (%v), the log ended at %d", o, err, want)
	}
	batches, err := readBatches(l, o)
	if err != nil {
		return err
	}
	var got []string
	for _, b := range batches {
		if b.Count() > 0 {
			got = append(got, string(b))
		}
	}
	for _, i := range without(18, lost...) {
		if len(got) == 0 || got[0] != string(x.batches[i]) {
			var bases []string
			for _, b := range batches {
				bases = append(bases, fmt.Sprintf("%d-%d:%d", b.BaseOffset(), b.LastOffset(), b.Count()))
			}
			return fmt.Errorf("batch %d is not there, or others are: %v", i, bases)
		}
		got = got[1:]
	}
	if len(got) > 0 {
		return fmt.Errorf("%d batches too many", len(got))
	}
	if _, err := l.MaxTime(o.High); err != nil {
		return err
	}
	a, err := l.Append(makeBatch(batchSpec{}), AppendOptions{})
	if err == nil {
		err = a.Ticket.Wait(context.Background())
	}
	if err != nil || a.Base != o.End {
		return fmt.Errorf("append at %d: %w", a.Base, err)
	}
	return nil
}

// TestRepair repairs every kind of damage, after a clean stop and after another: first dry, which writes nothing and says the same.
func TestRepair(t *testing.T) {
	for _, c := range damagings {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, clean %v", c.name, clean), func(t *testing.T) {
				x := newSealedLog(t)
				if !clean {
					must(t, x.disk.Remove("data/"+cleanFile))
				}
				c.spoil(t, x)
				x.disk = x.disk.Crash(vfs.KeepEverything)
				before, err := contents(x.disk)
				must(t, err)
				dry, err := Repair(x.disk, "data", false)
				must(t, err)
				if after, err := contents(x.disk); err != nil || !maps.Equal(before, after) {
					t.Fatalf("a dry run changed files: %s (%v)", changed(before, after), err)
				}
				done, err := Repair(x.disk, "data", true)
				must(t, err)
				if len(dry.Losses) == 0 || len(dry.Left) > 0 || len(done.Left) > 0 || dry.Executed || !done.Executed || len(dry.Losses) != len(done.Losses) {
					t.Fatalf("dry: %+v\ndone: %+v", dry, done)
				}
				for i, loss := range done.Losses {
					kept := loss.Kept
					loss.Kept = ""
					if loss != dry.Losses[i] {
						t.Errorf("was to do %+v, did %+v", dry.Losses[i], loss)
					}
					if loss.Bytes > 0 && string(before[loss.File][loss.Position:loss.Position+loss.Bytes]) != read(t, x.disk, kept) {
						t.Errorf("%s does not have the bytes that were cut out", kept)
					}
				}
				if r := mustVerify(t, x.disk, "data"); r.Damaged() {
					t.Errorf("damaged after the repair: %s", findings(r))
				}
				if err := x.afterRepair(x.disk.Crash(vfs.KeepNothing), c.lost); err != nil {
					t.Error(err)
				}
				again, err := Repair(x.disk, "data", true)
				if err != nil || len(again.Losses)+len(again.Left) > 0 {
					t.Errorf("repaired once more: %+v, %v", again, err)
				}
			})
		}
	}
}

func read(t testing.TB, fs vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fs, name, 1<<20)
	must(t, err)
	return string(b)
}

// TestPowerCutsInRepair cuts the power before every operation of a repair. What could be read before can be read then, repair can be called again, and
// everything is as it should be. A start instead serves what is right too.
func TestPowerCutsInRepair(t *testing.T) {
	images := 0
	for _, c := range damagings {
		x := newSealedLog(t)
		must(t, x.disk.Remove("data/"+cleanFile))
		c.spoil(t, x)
		x.disk = x.disk.Crash(vfs.KeepEverything)
		s := &crashtest.Sweep[struct{}]{Name: c.name, Promises: func() struct{} { return struct{}{} }, Seeds: 2}
		s.Check = func(img *vfs.Mem, _ struct{}, _ bool) error { return x.afterHalfARepair(img, c.lost) }
		if testing.Short() {
			sample(s, 7)
		}
		s.Attach(x.disk)
		if _, err := Repair(x.disk, "data", true); err != nil {
			t.Fatal(err)
		}
		s.Cut(x.disk, "the end", 0)
		if err := s.Err(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		images += s.Images()
	}
	t.Logf("%d images", images)
}

// afterHalfARepair: a start serves what is right, and another repair, at once or after that start, completes what was begun.
func (x *sealedLog) afterHalfARepair(img *vfs.Mem, lost []int) error {
	other := img.Crash(vfs.KeepEverything)
	d, err := Open("data", Options{FS: other})
	if err != nil {
		return err
	}
	d.SetEpoch(9)
	l := d.Log("a", testTopic, 0, x.cfg)
	if o, err := l.Offsets(); err == nil {
		err = x.served(l, o)
		if err != nil {
			return err
		}
	}
	abandon(d)
	for _, disk := range []*vfs.Mem{img, other.Crash(vfs.KeepEverything)} {
		r, err := Repair(disk, "data", true)
		if err != nil || len(r.Left) > 0 {
			return fmt.Errorf("repair once more: %+v, %w", r, err)
		}
		if err := x.afterRepair(disk.Crash(vfs.KeepNothing), lost); err != nil {
			return fmt.Errorf("after another repair: %w", err)
		}
	}
	return nil
}

// TestRepairOnAFailingDisk makes each operation of a repair fail, once and from then on, and writes stop half-way; SLUICE_ERRORS_STRIDE=1 leaves none out. The repair says so,
// unless it could do without; nothing is worse than before, also after a power cut, and another repair on the healthy disk completes it.
func TestRepairOnAFailingDisk(t *testing.T) {
	runs := 0
	for i, c := range damagings {
		for j, f := range []vfs.Fault{{Ops: vfs.OpAny}, {Ops: vfs.OpAny, Err: syscall.ENOSPC, Sticky: true}, {Ops: vfs.OpWrite, Path: notSlots, Err: syscall.ENOSPC, Partial: 100}} {
			stride := int(crashtest.Env("SLUICE_ERRORS_STRIDE", 5))
			if testing.Short() {
				stride = 80
			}
			f.Nth = 1 + (i+j)%stride
			for fired := true; fired; f.Nth += stride {
				var err error
				if fired, err = failRepair(t, c, f); err != nil {
					t.Fatalf("%s, %+v: %v", c.name, f, err)
				}
				runs++
			}
		}
	}
	t.Logf("%d runs", runs)
}

// TestRepairIsNotMisled: an error where the index, or the list of sealed segments, was to be read had more cut out than was lost, or the repaired
// segment taken for another.
func TestRepairIsNotMisled(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 9
	}
	for i, c := range []damaging{damagings[0], damagings[1], damagings[3]} {
		f := vfs.Fault{Ops: vfs.OpOpen | vfs.OpRead | vfs.OpStat, Nth: 1 + i%stride}
		for fired := true; fired; f.Nth += stride {
			var err error
			if fired, err = failRepair(t, c, f); err != nil {
				t.Fatalf("%s, %+v: %v", c.name, f, err)
			}
		}
	}
}

func failRepair(t *testing.T, c damaging, f vfs.Fault) (fired bool, err error) {
	x := newSealedLog(t)
	must(t, x.disk.Remove("data/"+cleanFile))
	c.spoil(t, x)
	x.disk = x.disk.Crash(vfs.KeepEverything)
	in := &vfs.Injector{}
	in.Add(f)
	r, failed := Repair(vfs.Inject(x.disk, in), "data", true)
	fired = in.Fired() > 0
	if failed == nil && (fired || len(r.Losses) == 0) && len(r.Left) == 0 {
		if err := x.afterRepair(x.disk.Crash(vfs.KeepNothing), c.lost); err != nil {
			return fired, fmt.Errorf("repaired in spite of the error: %w", err)
		}
	}
	for name, keep := range map[string]vfs.Chooser{"nothing": vfs.KeepNothing, "everything": vfs.KeepEverything} {
		if err := x.afterHalfARepair(x.disk.Crash(keep), c.lost); err != nil {
			return fired, fmt.Errorf("repair said %v; power cut that keeps %s: %w", failed, name, err)
		}
	}
	return fired, nil
}

// served: whatever is read is what was written, or a gap.
func (x *sealedLog) served(l *Log, o Offsets) error {
	for at := o.Start; at < o.High; at++ {
		b, _, err := l.ReadBytes(nil, at, o.High, 1)
		switch {
		case errors.Is(err, ErrDamaged):
			continue
		case err != nil:
			return err
		}
		first, _, err := kproto.SplitBatch(b)
		if err != nil || !first.ValidCRC() || first.Count() > 0 && !slices.ContainsFunc(x.batches, func(w kproto.Batch) bool { return string(w) == string(first) }) {
			return fmt.Errorf("offset %d: bytes that were never written (%v)", at, err)
		}
	}
	return nil
}

// TestRepairRefuses: no repair under a running broker, and none of what it cannot judge.
func TestRepairRefuses(t *testing.T) {
	x := newSealedLog(t)
	d, _, _ := x.open(t)
	for _, execute := range []bool{false, true} {
		if _, err := Repair(x.disk, "data", execute); !errors.Is(err, ErrInUse) {
			t.Errorf("with a running broker: %v", err)
		}
	}
	must(t, d.Close(context.Background()))
	if _, err := Repair(x.disk, "elsewhere", false); err == nil {
		t.Error("a directory that is not there")
	}
	flipBit(t, x.disk, "data/"+durableFile, 93)
	r, err := Repair(x.disk, "data", true)
	if err != nil || len(r.Losses) > 0 || len(r.Left) != 1 || !r.Left[0].Damage {
		t.Errorf("a slot: %+v, %v", r, err)
	}
}
