package log

import (
	"context"
	iofs "io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/vfs"
)

// openFiles counts the files that are open, and tells of each that is opened.
type openFiles struct {
	vfs.FS
	open   atomic.Int64
	opened func(name string)
}

type openFile struct {
	vfs.File
	of *openFiles
}

func (o *openFiles) OpenFile(name string, flag int, perm iofs.FileMode) (vfs.File, error) {
	f, err := o.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	if o.opened != nil {
		o.opened(name)
	}
	o.open.Add(1)
	return openFile{f, o}, nil
}

func (f openFile) Close() error {
	f.of.open.Add(-1)
	return f.File.Close()
}

func fast() ScrubSettings { return ScrubSettings{BytesPerSecond: 1e12, Interval: time.Hour} }

// TestScrubFindsDamage: a pass finds a flipped bit in any segment, of logs that are in use and of those that nobody has opened; readers are refused from then on
// without having looked.
func TestScrubFindsDamage(t *testing.T) {
	for _, used := range []bool{true, false} {
		for _, i := range []int{0, 3, 6, 7, 12, 17} {
			x := newSealedLog(t)
			b := x.places[i]
			flipBit(t, x.disk, b.File, 8*(b.Position+b.Size-1))
			d, l, said := x.open(t)
			if used {
				mustOffsets(t, l)
			}
			s := d.NewScrubber(fast)
			must(t, s.Pass(t.Context()))
			got := s.Stats()
			if got.Found != 1 || got.Passes != 1 || got.Segments != 5 || got.Done != got.Total || got.Total == 0 || got.Bytes == 0 {
				t.Errorf("used %v, batch %d: %+v", used, i, got)
			}
			known := d.Damages()
			if len(known) != 1 || known[0].Offset != b.BaseOffset || known[0].End != b.LastOffset+1 || len(said.errors) != 1 {
				t.Errorf("used %v, batch %d: known %+v, said %q", used, i, known, said.errors)
			}
			if ok := x.read(t, l, without(len(x.batches))); !slices.Equal(ok, without(len(x.batches), i)) {
				t.Errorf("used %v, batch %d: %v can be read", used, i, ok)
			}
			must(t, s.Pass(t.Context()))
			if len(d.Damages()) != 1 || len(said.errors) != 1 {
				t.Errorf("used %v, batch %d: a second pass says %+v, %q", used, i, d.Damages(), said.errors)
			}
			must(t, d.Close(context.Background()))
		}
	}
}

// TestScrubSound: a pass over sound logs says nothing, opens no log that is idle, leaves no file open, and saves readers the check.
func TestScrubSound(t *testing.T) {
	x := newSealedLog(t)
	counted := &openFiles{FS: x.disk}
	d, err := Open("data", Options{FS: counted})
	must(t, err)
	l := d.Log("a", testTopic, 0, x.cfg)
	idle := d.Log("b", testTopic, 0, x.cfg)
	before := counted.open.Load()
	s := d.NewScrubber(fast)
	must(t, s.Pass(t.Context()))
	if l.state != stateIdle || idle.state != stateIdle || counted.open.Load() != before {
		t.Errorf("states %v and %v, %d files open, were %d", l.state, idle.state, counted.open.Load(), before)
	}
	mustOffsets(t, l)
	must(t, s.Pass(t.Context()))
	for _, seg := range l.segs {
		if seg.checks.open(0, seg.size) {
			t.Errorf("segment %d is to be checked again", seg.base)
		}
	}
	if len(d.Damages()) != 0 {
		t.Errorf("%+v", d.Damages())
	}
}

// TestScrubGoesOn: a pass that was interrupted goes on where it was, in the next run too.
func TestScrubGoesOn(t *testing.T) {
	x := newSealedLog(t)
	for runs := int64(1); ; runs++ {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		d, err := Open("data", Options{FS: &openFiles{FS: x.disk, opened: func(name string) {
			if n++; strings.HasSuffix(name, logSuffix) && n > 3 {
				cancel()
			}
		}}})
		must(t, err)
		d.Log("a", testTopic, 0, x.cfg)
		n = 0
		s := d.NewScrubber(fast)
		s.stop, s.stopped = cancel, make(chan struct{})
		close(s.stopped)
		must(t, s.Pass(ctx))
		s.Close()
		if got := s.Stats(); got.Passes == 1 {
			if runs < 2 || got.Segments > 4 {
				t.Fatalf("%d runs, %+v", runs, got)
			}
			break
		}
		if runs > 10 {
			t.Fatal("no end")
		}
		x.disk = x.disk.Crash(vfs.KeepNothing)
		abandon(d)
	}
}

// TestScrubPace: passes begin an interval apart and keep to the budget.
func TestScrubPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newSealedLog(t)
		size := int64(0)
		for _, p := range x.places {
			size += p.Size
		}
		d, _, _ := x.open(t)
		rate := float64(size) / 60 // a pass a minute, were it paid for byte by byte
		s := d.NewScrubber(func() ScrubSettings { return ScrubSettings{BytesPerSecond: rate, Interval: time.Hour} })
		begin := time.Now()
		s.owed = scrubPayBytes
		s.Start(time.Second)
		time.Sleep(10*time.Hour + 2*time.Minute)
		s.Close()
		got := s.Stats()
		if n := got.Passes; n < 1 || n > 11 {
			t.Errorf("%d passes in ten hours", n)
		}
		if most := rate*time.Since(begin).Seconds() + scrubPayBytes; float64(got.Bytes) > most {
			t.Errorf("%d bytes, %v were allowed", got.Bytes, most)
		}
		must(t, d.Close(context.Background()))
	})
}

// TestScrubOff: a rate of zero ends the work, and a later one goes on.
func TestScrubOff(t *testing.T) {
	x := newSealedLog(t)
	d, _, _ := x.open(t)
	set := ScrubSettings{}
	s := d.NewScrubber(func() ScrubSettings { return set })
	if s.due(time.Now()) {
		t.Error("due although it is turned off")
	}
	s.owed = scrubPayBytes
	must(t, s.Pass(t.Context()))
	if got := s.Stats(); got.Passes != 0 || got.Segments != 0 {
		t.Errorf("%+v", got)
	}
	set = fast()
	if !s.due(time.Now()) {
		t.Error("not due")
	}
	must(t, s.Pass(t.Context()))
	if got := s.Stats(); got.Passes != 1 || s.due(time.Now()) || !s.due(time.Now().Add(time.Hour)) {
		t.Errorf("%+v", got)
	}
}

// TestScrubPlaceIsNotTrusted: whatever the file says, a pass reads what there is, or begins anew.
func TestScrubPlaceIsNotTrusted(t *testing.T) {
	for _, text := range []string{"", "0\n", "x", "0\n1\n", "0\n99999999999999\n-\n0\n", "0\n5\n../../etc\n-3\n", "0\n5\na-0\n9223372036854775807\n"} {
		x := newSealedLog(t)
		must(t, vfs.WriteFileAtomic(x.disk, "data/"+scrubFile, []byte(text), 0o600))
		d, _, _ := x.open(t)
		s := d.NewScrubber(fast)
		if !s.due(time.Now()) {
			t.Errorf("%q: no pass is due", text)
		}
		must(t, s.Pass(t.Context()))
		if s.Stats().Passes != 1 {
			t.Errorf("%q: %+v", text, s.Stats())
		}
		must(t, d.Close(context.Background()))
	}
}

// TestScrubFindsWhatIsMissing: of a log that nobody uses, too.
func TestScrubFindsWhatIsMissing(t *testing.T) {
	for _, spoil := range []func(x *sealedLog){
		func(x *sealedLog) { must(t, x.disk.Remove(x.places[4].File)) },
		func(x *sealedLog) { truncate(t, x.disk, x.places[4].File, x.places[6].Position) },
	} {
		x := newSealedLog(t)
		spoil(x)
		d, _, said := x.open(t)
		must(t, d.NewScrubber(fast).Pass(t.Context()))
		if known := d.Damages(); len(known) != 1 || len(said.errors) != 1 {
			t.Errorf("known %+v, said %q", known, said.errors)
		}
	}
}
