package log

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/vfs"
)

const manifestName = "data/a-0/" + manifestFile

// restart abandons a log and cuts the power, or stops it.
func (x *sealedLog) restart(t testing.TB, d *Dir, clean bool) {
	t.Helper()
	if clean {
		must(t, d.Close(context.Background()))
	} else {
		finishAll(d)
		must(t, d.slots.settle())
		abandon(d)
	}
	x.disk = x.disk.Crash(vfs.KeepNothing)
}

func swapFiles(t testing.TB, fs vfs.FS, a, b string) {
	t.Helper()
	must(t, fs.Rename(a, a+".x"), fs.Rename(b, a), fs.Rename(a+".x", b))
}

// TestListedSegments: a sealed segment that is lost, shortened, taken for another, or there twice is seen when the log is opened, before anybody reads. All
// others are served, appends go on, and so it is after any restart.
func TestListedSegments(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, x *sealedLog)
		lost  []int
		quiet bool // nothing is damaged
	}{
		{"nothing", func(t *testing.T, x *sealedLog) {}, nil, true},
		{"lost", func(t *testing.T, x *sealedLog) { must(t, x.disk.Remove(x.places[4].File)) }, []int{4, 5, 6, 7}, false},
		{"first lost", func(t *testing.T, x *sealedLog) { must(t, x.disk.Remove(x.places[0].File)) }, []int{0, 1, 2, 3}, false},
		{"two lost", func(t *testing.T, x *sealedLog) {
			must(t, x.disk.Remove(x.places[4].File), x.disk.Remove(x.places[8].File))
		}, []int{4, 5, 6, 7, 8, 9, 10, 11}, false},
		{"lost with its indexes", func(t *testing.T, x *sealedLog) {
			base := strings.TrimSuffix(x.places[4].File, logSuffix)
			must(t, x.disk.Remove(base+logSuffix), x.disk.Remove(base+indexSuffix), x.disk.Remove(base+timeSuffix))
		}, []int{4, 5, 6, 7}, false},
		{"shortened inside a batch", func(t *testing.T, x *sealedLog) { truncate(t, x.disk, x.places[4].File, x.places[7].Position+9) }, []int{7}, false},
		{"shortened between batches", func(t *testing.T, x *sealedLog) { truncate(t, x.disk, x.places[4].File, x.places[7].Position) }, []int{7}, false},
		{"empty", func(t *testing.T, x *sealedLog) { truncate(t, x.disk, x.places[4].File, 0) }, []int{4, 5, 6, 7}, false},
		{"swapped", func(t *testing.T, x *sealedLog) { swapFiles(t, x.disk, x.places[4].File, x.places[8].File) }, []int{4, 5, 6, 7, 8, 9, 10, 11}, false},
		{"another partition's", func(t *testing.T, x *sealedLog) {
			other := newSealedLog(t)
			for i := range other.places {
				if other.places[i].File == x.places[4].File {
					other.resign(t, i)
				}
			}
			data := read(t, other.disk, x.places[4].File)
			must(t, vfs.WriteFileAtomic(x.disk, x.places[4].File, []byte(data), 0o600))
		}, []int{4, 5, 6, 7}, false},
		{"longer", func(t *testing.T, x *sealedLog) { extend(t, x.disk, x.places[4].File, 500) }, nil, false},
		{"there twice", func(t *testing.T, x *sealedLog) {
			copied := read(t, x.disk, x.places[4].File)
			must(t, vfs.WriteFileAtomic(x.disk, "data/a-0/"+segmentName(x.places[5].BaseOffset, logSuffix), []byte(copied), 0o600))
		}, nil, false},
	} {
		for _, clean := range []bool{true, false} {
			t.Run(c.name, func(t *testing.T) {
				x := newSealedLog(t)
				c.spoil(t, x)
				x.disk = x.disk.Crash(vfs.KeepEverything)
				if !clean {
					must(t, x.disk.Remove("data/"+cleanFile))
				}
				n := int64(0)
				for run := range 3 {
					d, l, said := x.open(t)
					o := mustOffsets(t, l)
					if (len(said.errors) == 0) != c.quiet {
						t.Fatalf("run %d: said %q", run, said.errors)
					}
					if known := d.Damages(); (len(known) == 0) != (len(c.lost) == 0) {
						t.Fatalf("run %d: known %+v", run, known)
					}
					ok := x.read(t, l, rand.New(rand.NewPCG(uint64(run), 1)).Perm(len(x.batches)))
					if lost := without(len(x.batches), ok...); !slices.Equal(lost, c.lost) {
						t.Fatalf("run %d: lost %v, want %v", run, lost, c.lost)
					}
					if o.Start != 0 || o.End != x.batches[17].NextOffset()+n {
						t.Fatalf("run %d: %+v", run, o)
					}
					for range 6 { // rolls, and lists the segments once more
						mustWait(t, mustAppend(t, l, batchSpec{size: 300}))
						n++
					}
					x.restart(t, d, run == 1)
				}
				if r := mustVerify(t, x.disk, "data"); r.Damaged() != (len(c.lost) > 0) {
					t.Errorf("verify says %s", findings(r))
				}
			})
		}
	}
}

// resign changes the first record of a batch, and makes its CRC right: the same offsets, other data.
func (x *sealedLog) resign(t testing.TB, i int) {
	t.Helper()
	b := slices.Clone(x.batches[i])
	b.SetAppendTime(b.MaxTimestamp())
	f, err := x.disk.OpenFile(x.places[i].File, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt(b, x.places[i].Position)
	must(t, err)
}

// TestRetentionPassesLostSegments: a lost segment is kept in mind as long as what came after it, and deleted with it.
func TestRetentionPassesLostSegments(t *testing.T) {
	x := newSealedLog(t)
	must(t, x.disk.Remove(x.places[0].File), x.disk.Remove(x.places[4].File))
	c := *x.cfg
	c.Delete, c.RetentionMs, c.RetentionBytes = true, 1000, -1
	x.cfg = &c
	d, l, _ := x.open(t)
	mustOffsets(t, l)
	d.Retain(t.Context(), time.UnixMilli(2000))
	if o := mustOffsets(t, l); o.Start != 0 || len(d.Damages()) != 2 {
		t.Errorf("too early: %+v, %+v", o, d.Damages())
	}
	d.Retain(t.Context(), time.UnixMilli(x.batches[11].MaxTimestamp()+1001))
	if o := mustOffsets(t, l); o.Start != x.batches[12].BaseOffset() || len(d.Damages()) != 0 {
		t.Errorf("%+v, %+v", o, d.Damages())
	}
	if _, err := l.Clean(t.Context(), CleanOptions{Now: time.Now(), MapBytes: 1 << 16}); err != nil {
		t.Errorf("compaction afterwards: %v", err)
	}
}

// TestLostSegmentsAreNotCompacted: a log with a lost segment is left as it is.
func TestLostSegmentsAreNotCompacted(t *testing.T) {
	x := newSealedLog(t)
	must(t, x.disk.Remove(x.places[4].File))
	_, l, _ := x.open(t)
	if _, err := l.Clean(t.Context(), CleanOptions{Now: time.Now(), MapBytes: 1 << 16}); !errors.Is(err, ErrUncleanable) {
		t.Error(err)
	}
}

// TestListIsMadeAnew: a directory without the list, as versions before it have left them, or with one that is rotten, loses nothing, and has it after the next stop.
func TestListIsMadeAnew(t *testing.T) {
	x := newSealedLog(t)
	want := read(t, x.disk, manifestName)
	sealed, err := decodeManifest([]byte(want))
	must(t, err)
	spoils := []func(fs vfs.FS){func(fs vfs.FS) { must(t, fs.Remove(manifestName)) }}
	for bit := int64(3); bit < int64(8*len(want)); bit += 37 {
		spoils = append(spoils, func(fs vfs.FS) { flipBit(t, fs, manifestName, bit) })
	}
	for size := range int64(len(want)) {
		spoils = append(spoils, func(fs vfs.FS) { truncate(t, fs, manifestName, size) })
	}
	for i, spoil := range spoils {
		y := &sealedLog{disk: x.disk.Crash(vfs.KeepEverything), cfg: x.cfg, batches: x.batches, places: x.places}
		spoil(y.disk)
		if r := mustVerify(t, y.disk, "data"); r.Damaged() || !strings.Contains(findings(r), "made anew from the segments") {
			t.Fatalf("case %d: verify says %s", i, findings(r))
		}
		d, l, said := y.open(t)
		if ok := y.read(t, l, without(18)); len(ok) != 18 || len(said.errors) > 0 {
			t.Fatalf("case %d: %v can be read, said %q", i, ok, said.errors)
		}
		must(t, d.Close(context.Background()))
		if got, err := readManifest(y.disk, "data/a-0"); err != nil || len(got) != len(sealed)+1 || !slices.Equal(got[:len(sealed)], sealed) {
			t.Fatalf("case %d: the list is %+v and was %+v, without the last segment (%v)", i, got, sealed, err)
		}
	}
}

// TestListWhileRunning: the list that was missing is there after the next append's sync.
func TestListWhileRunning(t *testing.T) {
	x := newSealedLog(t)
	must(t, x.disk.Remove(manifestName))
	d, l, _ := x.open(t)
	mustWait(t, mustAppend(t, l, batchSpec{}))
	l.finishSync()
	es, err := readManifest(x.disk, "data/a-0")
	if err != nil || len(es) != 4 {
		t.Errorf("%d entries, %v", len(es), err)
	}
	must(t, d.Close(context.Background()))
}

// TestVerifySeesWhatNoCRCCovers: an epoch or an offset in a batch header that is another plausible one.
func TestVerifySeesWhatNoCRCCovers(t *testing.T) {
	x := newSealedLog(t)
	flipBit(t, x.disk, x.places[0].File, 8*15+1) // epoch 7 is 5 now, and nothing came before
	r := mustVerify(t, x.disk, "data")
	if !r.Damaged() || !strings.Contains(findings(r), "not what was sealed") {
		t.Errorf("verify says %s", findings(r))
	}
}

func TestManifestFormat(t *testing.T) {
	es := []sealedEntry{{0, 10, 500, 1, 2}, {10, 10, 0, 0, 0}, {12, 1 << 40, 1 << 31, 7, 9}}
	b := encodeManifest(es)
	got, err := decodeManifest(b)
	if err != nil || !slices.Equal(got, es) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range [][]sealedEntry{{{5, 4, 0, 0, 0}}, {{-1, 4, 0, 0, 0}}, {{0, 4, -1, 0, 0}}, {{0, 4, 1, 0, 0}, {3, 5, 1, 0, 0}}} {
		if _, err := decodeManifest(encodeManifest(bad)); !errors.Is(err, errBadManifest) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
