package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
	"sluice/kproto"
)

// rotten is a small data directory with everything in it, and what it holds.
type rotten struct {
	disk  *vfs.Mem
	files map[string]int64 // sizes
	want  []partContent
}

type partContent struct {
	n        int32
	offsets  Offsets
	batches  []kproto.Batch
	windows  map[int64][]producerBatch
	epochs   epochs
	newest   Position
	recorded int64 // durable offset in the slot
}

func (p *partContent) open(d *Dir) *Log { return d.Log("a", testTopic, p.n, tiny()) }

// ending is how the last run of a directory ended.
type ending string

const (
	killed    ending = "killed"
	marked    ending = "stopped, all in the mark"
	sideFiles ending = "stopped, with side files"
)

var endings = []ending{killed, marked, sideFiles}

// newRotten fills two partitions over two runs.
func newRotten(t testing.TB, how ending) *rotten {
	r := &rotten{disk: vfs.NewMem(), files: map[string]int64{}}
	var d *Dir
	for run := range 2 {
		d = openDir(t, r.disk)
		d.SetEpoch(int32(3 + run))
		if how == sideFiles {
			d.markRoom = 0
		}
		for i := range 6 {
			for n := range int32(2) {
				l := d.Log("a", testTopic, n, tiny())
				mustWait(t, mustAppend(t, l, batchSpec{records: 2, size: 60 + 50*int(n), time: int64(1000 + 10*(i^1)), pid: 5, seq: int32(12*run + 2*i)}))
			}
		}
		if run == 0 {
			must(t, d.Close(context.Background()))
		}
	}
	for n := range int32(2) {
		r.want = append(r.want, contentOf(t, d, n))
	}
	r.stop(t, d, how != killed)
	return r
}

// stop ends the last run, cleanly or not.
func (r *rotten) stop(t testing.TB, d *Dir, clean bool) {
	if clean {
		must(t, d.Close(context.Background()))
	} else {
		finishAll(d)
		must(t, d.slots.settle())
		abandon(d)
	}
	r.disk = r.disk.Crash(vfs.KeepNothing)
	list(t, r.disk, "data", r.files)
}

func contentOf(t testing.TB, d *Dir, n int32) partContent {
	l := d.Log("a", testTopic, n, tiny())
	c := partContent{n: n, offsets: mustOffsets(t, l), batches: readAll(t, l), windows: windows(l), epochs: slices.Clone(l.epochs), recorded: l.durable}
	var err error
	c.newest, err = l.MaxTime(c.offsets.High)
	must(t, err)
	return c
}

func list(t testing.TB, fs vfs.FS, dir string, files map[string]int64) {
	entries, err := fs.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			list(t, fs, name, files)
			continue
		}
		info, err := fs.Stat(name)
		must(t, err)
		files[name] = info.Size()
	}
}

// loudLogger counts what is said at level warn or above.
type loudLogger struct{ n atomic.Int32 }

func (l *loudLogger) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}
func (l *loudLogger) Handle(context.Context, slog.Record) error { l.n.Add(1); return nil }
func (l *loudLogger) WithAttrs([]slog.Attr) slog.Handler        { return l }
func (l *loudLogger) WithGroup(string) slog.Handler             { return l }

// check opens a directory with rot in it. Everything is as it was, or something says loudly why not; nothing is served that was never written.
func (r *rotten) check(disk *vfs.Mem) error {
	said := &loudLogger{}
	d, err := Open("data", Options{FS: disk, Logger: slog.New(said)})
	if err != nil {
		return nil // loud enough
	}
	defer abandon(d)
	d.SetEpoch(9)
	for i := range r.want {
		r.want[i].open(d)
	}
	if err := d.Recover(context.Background()); err != nil {
		return err
	}
	for i := range r.want {
		if err := r.want[i].check(r.want[i].open(d), said); err != nil {
			return fmt.Errorf("partition %d: %w", i, err)
		}
	}
	return nil
}

func (p *partContent) check(l *Log, said *loudLogger) error {
	o, err := l.Offsets()
	if err != nil {
		return named(err)
	}
	damaged := false
	for _, b := range p.batches {
		got, err := p.readAt(l, o, b)
		switch {
		case err != nil:
			if err := named(err); err != nil {
				return err
			}
			damaged = true
		case got == nil && said.n.Load() == 0:
			return fmt.Errorf("the batch at %d is gone without a word: %+v", b.BaseOffset(), o)
		case got == nil:
			damaged = true
		}
	}
	if damaged || said.n.Load() > 0 {
		return nil
	}
	return p.same(l, o)
}

// readAt reads the batch at the offset of b: that one, nothing, or an error.
func (p *partContent) readAt(l *Log, o Offsets, b kproto.Batch) (kproto.Batch, error) {
	if b.BaseOffset() < o.Start || b.LastOffset() >= o.High {
		return nil, nil
	}
	got, _, err := l.ReadBytes(nil, b.BaseOffset(), o.High, 1)
	if err != nil {
		return nil, err
	}
	first, _, err := kproto.SplitBatch(got)
	if err != nil || !first.ValidCRC() {
		return nil, fmt.Errorf("%w: the client sees it", ErrDamaged)
	}
	if !bytes.Equal(first[bytesAfterEpoch:], b[bytesAfterEpoch:]) || first.BaseOffset() != b.BaseOffset() {
		return nil, fmt.Errorf("wrong data: batch %d where %d was asked for", first.BaseOffset(), b.BaseOffset())
	}
	return first, nil
}

// named: an error that stops a reader says that it is the disk.
func named(err error) error {
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrOffline) || errors.Is(err, ErrStorage) || errors.Is(err, ErrOffsetOutOfRange) {
		return nil
	}
	return err
}

// same: nothing was said, so nothing is different.
func (p *partContent) same(l *Log, o Offsets) error {
	newest, err := l.MaxTime(o.High)
	switch {
	case err != nil && named(err) == nil:
		return nil
	case err != nil:
		return err
	case o != p.offsets:
		return fmt.Errorf("offsets %+v, were %+v", o, p.offsets)
	case !reflect.DeepEqual(windows(l), p.windows):
		return fmt.Errorf("%w: %+v, were %+v", errProducers, windows(l), p.windows)
	case newest.Offset != p.newest.Offset || newest.Timestamp != p.newest.Timestamp:
		return fmt.Errorf("newest %+v, was %+v", newest, p.newest)
	case !slices.Equal(l.epochs, p.epochs):
		return fmt.Errorf("%w: %+v, were %+v", errEpochs, l.epochs, p.epochs)
	}
	for _, b := range p.batches {
		got, err := l.FindTime(b.MaxTimestamp(), o.High)
		if err != nil && named(err) == nil {
			continue
		}
		got.Epoch = b.LeaderEpoch() // in a sealed segment, where no checksum covers it: `log verify` finds that
		want := scanTime(p.batches, b.MaxTimestamp(), o.Start)
		if want.Epoch = got.Epoch; err != nil || got != want {
			return fmt.Errorf("%w: %d at %+v, want %+v (%v)", errTime, b.MaxTimestamp(), got, want, err)
		}
	}
	return nil
}

// TestBitRot flips bits, cuts files short, and deletes them. SLUICE_ROT_STRIDE=1 flips every bit.
func TestBitRot(t *testing.T) {
	for _, how := range endings {
		r := newRotten(t, how)
		cases := r.spoil(t, func(name string, _ int64, err error) bool { return undetectable(name, err) })
		t.Logf("%s: %d cases in %d files", how, cases, len(r.files))
	}
}

// spoil tries all rot there may be. unseen tells what nobody can see; bit is -1 when a file was cut or deleted.
func (r *rotten) spoil(t *testing.T, unseen func(name string, bit int64, err error) bool) (cases int) {
	stride := int64(crashtest.Env("SLUICE_ROT_STRIDE", 61))
	if testing.Short() {
		stride = 2381
	}
	for name, size := range r.files {
		try := func(what string, bit int64, spoil func(disk *vfs.Mem)) {
			disk := r.disk.Crash(vfs.KeepNothing)
			spoil(disk)
			cases++
			if err := r.check(disk.Crash(vfs.KeepEverything)); err != nil && !unseen(name, bit, err) {
				t.Errorf("%s of %s: %v", what, name, err)
			}
		}
		for bit := int64(len(name)) % stride; bit < 8*size; bit += stride {
			try(fmt.Sprintf("bit %d", bit), bit, func(disk *vfs.Mem) { flipBit(t, disk, name, bit) })
		}
		for cut := int64(0); cut < size; cut += 1 + stride/4 {
			try(fmt.Sprintf("all from byte %d", cut), -1, func(disk *vfs.Mem) { truncate(t, disk, name, cut) })
		}
		try("everything", -1, func(disk *vfs.Mem) { must(t, disk.Remove(name)) })
	}
	return cases
}

// TestSwappedFiles puts every two files in each other's place, and every file in the place of every other.
func TestSwappedFiles(t *testing.T) {
	for _, how := range endings {
		r := newRotten(t, how)
		names := slices.Sorted(maps.Keys(r.files))
		cases, stride := 0, 1
		if testing.Short() {
			stride = 7
		}
		for i, a := range names {
			for j, b := range names {
				if i == j || (i+j)%stride != 0 {
					continue
				}
				disk := r.disk.Crash(vfs.KeepNothing)
				switch {
				case i < j:
					swapFiles(t, disk, a, b)
				default:
					must(t, vfs.WriteFileAtomic(disk, a, []byte(read(t, disk, b)), 0o600))
				}
				cases++
				if err := r.check(disk.Crash(vfs.KeepEverything)); err != nil && !undetectable(a, err) && !undetectable(b, err) {
					t.Errorf("%s: %s and %s: %v", how, a, b, err)
				}
			}
		}
		t.Logf("%s: %d cases", how, cases)
	}
}

var (
	errEpochs = errors.New("epochs differ")
	errTime   = errors.New("time found elsewhere")
	// A snapshot does not say which one it is.
	errProducers = errors.New("producers differ")
)

// undetectable is what Kafka's formats give no means to see when a partition is opened, and "log verify" reports: an epoch in a batch that is another
// plausible one, and a time index cut between two entries or put in the place of another; and that a snapshot of the producers is another one.
func undetectable(name string, err error) bool {
	return errors.Is(err, errEpochs) && filepath.Ext(name) == logSuffix || errors.Is(err, errTime) && filepath.Ext(name) == timeSuffix ||
		errors.Is(err, errProducers) && filepath.Ext(name) == producerSuffix
}

func flipBit(t testing.TB, fs vfs.FS, name string, bit int64) {
	f, err := fs.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, bit/8)
	must(t, err)
	b[0] ^= 1 << (bit % 8)
	_, err = f.WriteAt(b, bit/8)
	must(t, err)
}

func truncate(t testing.TB, fs vfs.FS, name string, size int64) {
	f, err := fs.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(size))
}
