package log

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// sealedLog is a log of some sealed segments with four batches each, of three offsets, after a restart.
type sealedLog struct {
	disk    *vfs.Mem
	cfg     *Config
	batches []kproto.Batch
	places  []DumpedBatch // where they stand
}

func newSealedLog(t testing.TB) *sealedLog {
	t.Helper()
	x := &sealedLog{disk: vfs.NewMem(), cfg: DefaultConfig()}
	x.cfg.SegmentBytes, x.cfg.IndexInterval = 900, 300
	d := openDir(t, x.disk)
	l := d.Log("a", testTopic, 0, x.cfg)
	for i := range 18 {
		mustWait(t, mustAppend(t, l, batchSpec{records: 3, size: 40, time: int64(1000 + 10*i), pid: 1, seq: int32(3 * i)}))
	}
	x.batches = readAll(t, l)
	must(t, d.Close(context.Background()))
	must(t, Dump(x.disk, "data/a-0", Dumper{Batch: func(b DumpedBatch) error { x.places = append(x.places, b); return nil }}))
	return x
}

func (x *sealedLog) open(t testing.TB) (*Dir, *Log, *says) {
	t.Helper()
	said := &says{}
	d, err := Open("data", Options{FS: x.disk, Logger: slog.New(said)})
	must(t, err)
	d.SetEpoch(9)
	return d, d.Log("a", testTopic, 0, x.cfg), said
}

// says keeps what is said at level error.
type says struct{ errors []string }

func (s *says) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }
func (s *says) WithAttrs([]slog.Attr) slog.Handler               { return s }
func (s *says) WithGroup(string) slog.Handler                    { return s }
func (s *says) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	s.errors = append(s.errors, line)
	return nil
}

// read gives which batches can be read, asked for one by one in some order.
func (x *sealedLog) read(t testing.TB, l *Log, order []int) (ok []int) {
	t.Helper()
	o := mustOffsets(t, l)
	for _, i := range order {
		want := x.batches[i]
		for at := want.BaseOffset(); at <= want.LastOffset(); at++ {
			got, next, err := l.ReadBytes(nil, at, o.High, 1)
			switch {
			case errors.Is(err, ErrDamaged):
			case err != nil:
				t.Fatalf("offset %d: %v", at, err)
			case string(got) != string(want) || next != want.NextOffset():
				t.Fatalf("offset %d: a batch of %d bytes, and not the %d that were written", at, len(got), len(want))
			case at == want.LastOffset():
				ok = append(ok, i)
			}
		}
	}
	slices.Sort(ok)
	for _, i := range ok {
		_, err := countsAgree(l, x.batches[i].BaseOffset(), o.High, 1<<20)
		must(t, err)
	}
	return ok
}

func without(n int, lost ...int) (left []int) {
	for i := range n {
		if !slices.Contains(lost, i) {
			left = append(left, i)
		}
	}
	return left
}

// TestDamagedRange damages one batch of a sealed segment in every kind of byte. That batch, and at worst those up to the next index entry, answer
// ErrDamaged; everything before and after is served, in whatever order it is asked for, and appends go on.
func TestDamagedRange(t *testing.T) {
	for _, c := range []struct {
		name  string
		at    int64 // byte of the batch
		bit   int64
		loses []int // of batches 0 to 17; the damaged one is 6, the third of the second segment
	}{
		{"base offset", 7, 3, []int{6}},
		{"length, longer than the file", 8, 6, nil},
		{"length, a little", 11, 0, nil},
		{"magic", 16, 0, nil},
		{"CRC", 18, 1, []int{6}},
		{"attributes", 22, 4, []int{6}},
		{"last offset delta", 26, 5, []int{6}},
		{"producer id", 50, 0, []int{6}},
		{"count", 60, 1, []int{6}},
		{"records", 100, 0, []int{6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(6) {
				x := newSealedLog(t)
				b := x.places[6]
				if b.File == x.places[0].File {
					t.Fatal("not in a later segment")
				}
				flipBit(t, x.disk, b.File, 8*(b.Position+c.at)+c.bit)
				d, l, said := x.open(t)
				order := rand.New(rand.NewPCG(seed, 1)).Perm(len(x.batches))
				ok := x.read(t, l, order)
				if again := x.read(t, l, order); !slices.Equal(again, ok) {
					t.Fatalf("seed %d: first %v could be read, then %v", seed, ok, again)
				}
				lost := without(len(x.batches), ok...)
				if c.loses != nil && !slices.Equal(lost, c.loses) || !slices.Contains(lost, 6) || len(lost) > 3 || lost[0] < 6 {
					t.Errorf("seed %d: lost %v, want %v", seed, lost, c.loses)
				}
				if len(said.errors) != 1 || !strings.Contains(said.errors[0], b.File) || !strings.Contains(said.errors[0], fmt.Sprintf("offset=%d", b.BaseOffset)) {
					t.Errorf("seed %d: said %q", seed, said.errors)
				}
				known := d.Damages()
				if len(known) != 1 || known[0].Offset != b.BaseOffset || known[0].End != x.places[lost[len(lost)-1]].LastOffset+1 || known[0].File != b.File {
					t.Errorf("seed %d: known is %+v, lost %v", seed, known, lost)
				}
				mustWait(t, mustAppend(t, l, batchSpec{}))
				must(t, d.Close(context.Background()))
			}
		})
	}
}

// TestDamageAtTheEnds damages the first and the last batch of sealed segments, and cuts a segment short.
func TestDamageAtTheEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(x *sealedLog)
		lost  func(x *sealedLog) []int
	}{
		{"first of a segment", func(x *sealedLog) { flipBit(t, x.disk, x.places[4].File, 8*30) }, func(*sealedLog) []int { return []int{4} }},
		{"last of a segment", func(x *sealedLog) { flipBit(t, x.disk, x.places[7].File, 8*(x.places[7].Position+70)) }, func(*sealedLog) []int { return []int{7} }},
		{"two, apart", func(x *sealedLog) {
			flipBit(t, x.disk, x.places[5].File, 8*(x.places[5].Position+70))
			flipBit(t, x.disk, x.places[7].File, 8*(x.places[7].Position+70))
		}, func(*sealedLog) []int { return []int{5, 7} }},
		{"all of a segment", func(x *sealedLog) {
			for i := 4; i < 8; i++ {
				flipBit(t, x.disk, x.places[i].File, 8*(x.places[i].Position+70))
			}
		}, func(*sealedLog) []int { return []int{4, 5, 6, 7} }},
		{"segment cut inside a batch", func(x *sealedLog) { truncate(t, x.disk, x.places[4].File, x.places[6].Position+20) }, func(*sealedLog) []int { return []int{6, 7} }},
		{"segment cut between batches", func(x *sealedLog) { truncate(t, x.disk, x.places[4].File, x.places[6].Position) }, func(*sealedLog) []int { return []int{6, 7} }},
		{"last segment", func(x *sealedLog) { flipBit(t, x.disk, x.places[16].File, 8*(x.places[16].Position+70)) }, func(*sealedLog) []int { return []int{16} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(6) {
				x := newSealedLog(t)
				if x.places[4].Position != 0 || x.places[7].File != x.places[4].File || x.places[8].Position != 0 || x.places[16].Position != 0 {
					t.Fatal("not the segments that the test is about")
				}
				c.spoil(x)
				_, l, _ := x.open(t)
				ok := x.read(t, l, rand.New(rand.NewPCG(seed, 1)).Perm(len(x.batches)))
				if lost := without(len(x.batches), ok...); !slices.Equal(lost, c.lost(x)) {
					t.Errorf("seed %d: lost %v, want %v", seed, lost, c.lost(x))
				}
				abandon(l.dir)
			}
		})
	}
}

// TestReadsEndBeforeDamage: one read over many batches stops where the damage begins, and the next one says why.
func TestReadsEndBeforeDamage(t *testing.T) {
	x := newSealedLog(t)
	flipBit(t, x.disk, x.places[6].File, 8*(x.places[6].Position+70))
	_, l, _ := x.open(t)
	first := x.batches[4].BaseOffset()
	got, next, err := l.ReadBytes(nil, first, mustOffsets(t, l).High, 1<<20)
	if err != nil || next != x.batches[6].BaseOffset() || string(got) != string(slices.Concat(x.batches[4], x.batches[5])) {
		t.Fatalf("%d bytes up to %d, %v", len(got), next, err)
	}
	if _, _, err := l.ReadBytes(nil, next, mustOffsets(t, l).High, 1<<20); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	r, err := l.Read(x.batches[7].BaseOffset(), mustOffsets(t, l).High, 1<<20, true)
	if err != nil || r.Next != x.batches[8].BaseOffset() {
		t.Fatalf("%+v, %v", r, err)
	}
	r.Release()
}

// TestFindAcrossDamage: times are found before and behind damage; that there is none cannot be said if the damage may have had it.
func TestFindAcrossDamage(t *testing.T) {
	x := newSealedLog(t)
	flipBit(t, x.disk, x.places[6].File, 8*(x.places[6].Position+70))
	_, l, _ := x.open(t)
	o := mustOffsets(t, l)
	x.read(t, l, without(len(x.batches)))
	for i, b := range x.batches {
		got, err := l.FindTime(b.BaseTimestamp(), o.High)
		want := b.BaseOffset()
		if i == 6 {
			want = x.batches[7].BaseOffset() // the first that can be read
		}
		if err != nil || got.Offset != want {
			t.Errorf("time of batch %d: %+v, %v, want %d", i, got, err, want)
		}
	}
	if got, err := l.FindTime(1e6, o.High); err != nil || got.Offset >= 0 {
		t.Errorf("a time after all: %+v, %v", got, err)
	}
	if _, err := l.MaxTime(o.High); !errors.Is(err, ErrDamaged) {
		t.Errorf("largest time: %v", err)
	}
	if _, err := l.AdvanceStart(context.Background(), x.batches[7].BaseOffset()); err != nil {
		t.Fatal(err)
	}
	if known := l.dir.Damages(); len(known) != 0 {
		t.Errorf("damage below the log start is still counted: %+v", known)
	}
	if _, err := l.MaxTime(o.High); err != nil {
		t.Errorf("largest time when the damage was deleted: %v", err)
	}
}

// TestCheckedOnce: a sealed segment's bytes are read for their CRCs the first time that they are given out, and not again.
func TestCheckedOnce(t *testing.T) {
	x := newSealedLog(t)
	_, l, _ := x.open(t)
	all := without(len(x.batches))
	x.read(t, l, rand.New(rand.NewPCG(1, 1)).Perm(len(all)))
	for _, s := range l.segs {
		if s.checks.open(0, s.size) || len(s.checks.done) > 0 {
			t.Errorf("segment %d: not all was checked: %+v", s.base, s.checks.done)
		}
	}
	flipBit(t, x.disk, x.places[6].File, 8*(x.places[6].Position+70)) // not seen: nobody looks again before the scrubber comes
	if b, _, err := l.ReadBytes(nil, x.batches[6].BaseOffset(), mustOffsets(t, l).High, 1); err != nil || kproto.Batch(b).ValidCRC() {
		t.Errorf("read again: %v", err)
	}
}

func TestChecks(t *testing.T) {
	var c checks
	if c.open(0, 100) {
		t.Error("new bytes need a check")
	}
	c.need(1000)
	rnd := rand.New(rand.NewPCG(3, 3))
	var model [1000]bool
	for range 400 {
		from := rnd.Int64N(999)
		to := from + 1 + rnd.Int64N(min(30, 1000-from))
		c.add(from, to)
		for i := from; i < to; i++ {
			model[i] = true
		}
		if len(c.done) > maxSpans {
			t.Fatalf("%d spans", len(c.done))
		}
		for range 20 {
			a := rnd.Int64N(999)
			b := a + 1 + rnd.Int64N(1000-a)
			if !c.open(a, b) && slices.Contains(model[a:b], false) {
				t.Fatalf("bytes %d to %d count as checked", a, b)
			}
		}
	}
	c.add(0, 1000)
	if c.open(0, 1000) || c.done != nil {
		t.Error("all was checked")
	}
}
