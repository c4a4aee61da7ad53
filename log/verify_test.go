package log

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/vfs"
)

func mustVerify(t testing.TB, fs vfs.FS, dir string) *Report {
	t.Helper()
	before, err := contents(fs)
	must(t, err)
	r, err := Verify(fs, dir)
	must(t, err)
	after, err := contents(fs)
	must(t, err)
	if !maps.Equal(before, after) {
		t.Fatalf("verify changed files: %s", changed(before, after))
	}
	return r
}

func findings(r *Report) string {
	var all []string
	for _, p := range r.Partitions {
		for _, f := range append(r.Findings, p.Findings...) {
			all = append(all, fmt.Sprintf("damage %v: %s at %d, offset %d: %s", f.Damage, f.File, f.Position, f.Offset, f.Message))
		}
	}
	return strings.Join(all, "\n")
}

func TestVerifySound(t *testing.T) {
	for _, how := range endings {
		r := newRotten(t, how)
		report := mustVerify(t, r.disk, "data")
		if report.Damaged() || report.Clean == (how == killed) || len(report.Partitions) != 2 || findings(report) != "" {
			t.Errorf("%s: %+v\n%s", how, report, findings(report))
		}
		p := report.Partitions[0]
		if want := r.want[0]; p.Batches != int64(len(want.batches)) || p.End != want.offsets.End || p.Start != 0 || p.Durable != want.recorded {
			t.Errorf("%+v, want %+v", p, want.offsets)
		}
		one := mustVerify(t, r.disk, "data/a-1")
		if len(one.Partitions) != 1 || one.Damaged() || one.Partitions[0].End != r.want[1].offsets.End {
			t.Errorf("one partition: %+v\n%s", one, findings(one))
		}
	}
}

func TestVerifyFindings(t *testing.T) {
	const last = "data/a-0/00000000000000000018.log"
	for _, c := range []struct {
		name   string
		clean  bool
		spoil  func(fs vfs.FS)
		damage bool
		says   string
	}{
		{"torn tail", false, func(fs vfs.FS) { extend(t, fs, last, 100) }, false, "above the durable offset"},
		{"zeros after a clean stop", true, func(fs vfs.FS) { extend(t, fs, last, 100) }, true, "batch length"},
		{"a bit in a sealed segment", false, func(fs vfs.FS) { flipBit(t, fs, "data/a-0/00000000000000000006.log", 800) }, true, "CRC"},
		{"an offset in a sealed segment", true, func(fs vfs.FS) { flipBit(t, fs, "data/a-0/00000000000000000006.log", 57) }, true, "was expected"},
		{"an epoch in a sealed segment", true, func(fs vfs.FS) { flipBit(t, fs, "data/a-0/00000000000000000006.log", 8*12) }, true, "leader epoch"},
		{"durable end cut off", false, func(fs vfs.FS) { truncate(t, fs, last, 0) }, true, "was durable up to"},
		{"segment missing", true, func(fs vfs.FS) { must(t, fs.Remove("data/a-0/00000000000000000006.log")) }, true, "the one before ends"},
		{"first segment missing", true, func(fs vfs.FS) { must(t, fs.Remove("data/a-0/00000000000000000000.log")) }, true, "the log starts at"},
		{"all segments missing", true, func(fs vfs.FS) { removeAll(t, fs, "data/a-0", logSuffix) }, true, "no segments"},
		{"index", true, func(fs vfs.FS) { flipBit(t, fs, "data/a-0/00000000000000000006.index", 3) }, false, "names no batch"},
		{"index missing", true, func(fs vfs.FS) { must(t, fs.Remove("data/a-0/00000000000000000006.index")) }, false, "missing"},
		{"time index", true, func(fs vfs.FS) { flipBit(t, fs, "data/a-0/00000000000000000006.timeindex", 60) }, false, "no maximum"},
		{"time index cut between entries", true, func(fs vfs.FS) { truncate(t, fs, "data/a-0/00000000000000000006.timeindex", 0) }, false, "not the maximum"},
		{"epochs", true, func(fs vfs.FS) { flipBit(t, fs, "data/a-0/"+epochFile, 93) }, false, "differs"},
		{"snapshot", true, func(fs vfs.FS) { flipBit(t, fs, "data/a-0/00000000000000000024.producers", 93) }, false, "producer snapshot is damaged"},
		{"metadata", true, func(fs vfs.FS) { must(t, fs.Remove("data/a-0/"+metadataFile)) }, false, "which topic"},
		{"slot", true, func(fs vfs.FS) { flipBit(t, fs, "data/"+durableFile, 93) }, true, "cannot be read"},
	} {
		how := killed
		if c.clean {
			how = sideFiles
		}
		r := newRotten(t, how)
		c.spoil(r.disk)
		report := mustVerify(t, r.disk, "data")
		if report.Damaged() != c.damage || !strings.Contains(findings(report), c.says) {
			t.Errorf("%s: damage %v, findings\n%s", c.name, report.Damaged(), findings(report))
		}
	}
}

func extend(t testing.TB, fs vfs.FS, name string, bytes int64) {
	info, err := fs.Stat(name)
	must(t, err)
	truncate(t, fs, name, info.Size()+bytes)
}

func removeAll(t testing.TB, fs vfs.FS, dir, suffix string) {
	entries, err := fs.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			must(t, fs.Remove(filepath.Join(dir, e.Name())))
		}
	}
}

// TestVerifyAfterPowerCuts: what a power cut leaves is never damage.
func TestVerifyAfterPowerCuts(t *testing.T) {
	for _, sc := range scenarios {
		w := newWorld(t)
		s := sweepOf(w, sc.name)
		s.Stride = 3
		if testing.Short() {
			sample(s, 17)
		}
		s.Check = func(img *vfs.Mem, _ promises, _ bool) error {
			r, err := Verify(img, "data")
			if errors.Is(err, ErrNoLog) || errors.Is(err, os.ErrNotExist) {
				return nil
			}
			if err == nil && r.Damaged() {
				err = errors.New(findings(r))
			}
			return err
		}
		sc.run(w)
		w.kill()
		must(t, s.Err())
	}
}

func TestVerifyCannotCheck(t *testing.T) {
	fs := vfs.NewMem()
	if _, err := Verify(fs, "data"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	must(t, fs.Mkdir("data", 0o700))
	if _, err := Verify(fs, "data"); !errors.Is(err, ErrNoLog) {
		t.Errorf("empty directory: %v", err)
	}
	d := openDir(t, fs)
	mustWait(t, mustAppend(t, d.Log("a", testTopic, 0, tiny()), batchSpec{}))
	for _, dir := range []string{"data", "data/a-0"} {
		if _, err := Verify(fs, dir); !errors.Is(err, ErrInUse) {
			t.Errorf("%s with a running broker: %v", dir, err)
		}
	}
	must(t, d.Close(context.Background()))
	mustVerify(t, fs, "data")
	in := &vfs.Injector{}
	in.Add(vfs.Fault{Ops: vfs.OpOpen, Path: "*.log", Err: os.ErrPermission})
	if _, err := Verify(vfs.Inject(fs, in), "data"); !errors.Is(err, os.ErrPermission) {
		t.Errorf("no permission: %v", err)
	}
}

func TestDump(t *testing.T) {
	r := newRotten(t, sideFiles)
	var batches []DumpedBatch
	must(t, Dump(r.disk, "data/a-0", Dumper{Records: true, Batch: func(b DumpedBatch) error { batches = append(batches, b); return nil }}))
	if len(batches) != len(r.want[0].batches) {
		t.Fatalf("%d batches", len(batches))
	}
	for i, b := range r.want[0].batches {
		got := batches[i]
		if got.BaseOffset != b.BaseOffset() || got.Size != int64(len(b)) || !got.Valid || len(got.Records) != 2 || got.Records[1].Offset != b.LastOffset() || got.ProducerID != 5 {
			t.Errorf("batch %d: %+v", i, got)
		}
	}
	flipBit(t, r.disk, batches[0].File, 8*(batches[0].Size-1))
	n := 0
	must(t, Dump(r.disk, batches[0].File, Dumper{Batch: func(b DumpedBatch) error {
		if n++; b.Valid != (n > 1) {
			t.Errorf("batch %d: valid %v", n, b.Valid)
		}
		return nil
	}}))
	truncate(t, r.disk, batches[0].File, batches[0].Size+5)
	if err := Dump(r.disk, batches[0].File, Dumper{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a torn file: %v", err)
	}
}

func TestDumpIndexes(t *testing.T) {
	r := newRotten(t, sideFiles)
	at := map[int64]int64{}
	must(t, Dump(r.disk, "data/a-0/00000000000000000006.log", Dumper{Batch: func(b DumpedBatch) error { at[b.LastOffset] = b.Position; return nil }}))
	n := 0
	must(t, Dump(r.disk, "data/a-0/00000000000000000006.index", Dumper{Offset: func(e DumpedOffset) error {
		if n++; at[e.Offset] != e.Position {
			t.Errorf("%+v", e)
		}
		return nil
	}}))
	must(t, Dump(r.disk, "data/a-0/00000000000000000006.timeindex", Dumper{Time: func(e DumpedTime) error {
		if _, ok := at[e.Offset]; !ok || e.Timestamp < 1000 {
			t.Errorf("%+v", e)
		}
		n++
		return nil
	}}))
	if n < 2 {
		t.Errorf("%d entries", n)
	}
}
