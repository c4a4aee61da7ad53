package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
	"sluice/log"
)

// kafkaOnMem puts the log directory of a real broker of Kafka, which testdata of cmd/sluice has, on a disk.
func kafkaOnMem(t *testing.T) *vfs.Mem {
	t.Helper()
	const source = "../cmd/sluice/testdata/kafka"
	m := vfs.NewMem()
	err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		name := filepath.Join("kafka", strings.TrimPrefix(path, source))
		if err != nil || d.IsDir() {
			return errors.Join(err, m.Mkdir(name, 0o700))
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return vfs.WriteFileAtomic(m, name, data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir := range dirsOf(t, m, "kafka") {
		if err := m.SyncDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	return m
}

func dirsOf(t *testing.T, m *vfs.Mem, dir string) map[string]bool {
	dirs := map[string]bool{dir: true}
	entries, err := m.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			dirs[filepath.Join(dir, e.Name())] = true
		}
	}
	return dirs
}

// importedStarts are the log starts of the topics that are imported; one is within a segment, one is of a log that was compacted.
var importedStarts = map[string]int64{"compacted": 0, "plain": 0, "trimmed": 15}

// importOptions take those.
func importOptions(m *vfs.Mem) ImportOptions {
	return ImportOptions{DataDir: "data", FS: m, Sources: []string{"kafka"}, Topics: []string{"compacted", "plain", "trimmed"}, Lost: LostRefuse, Offsets: true}
}

// TestPowerCutsInImport cuts the power before every operation of an import. The next start finds no topic or all of them, whole, with the offsets of the groups; if
// there is none, the import can be called again.
func TestPowerCutsInImport(t *testing.T) {
	synctest.Test(t, cutPowerInImport) // no timer syncs what the import itself must sync
}

func cutPowerInImport(t *testing.T) {
	m := kafkaOnMem(t)
	var done atomic.Bool
	s := &crashtest.Sweep[bool]{Name: "import", Promises: done.Load, Seeds: 1, Stride: 7}
	least := 50
	if testing.Short() {
		s.Stride, s.Seeds, s.Every, least = 21, 0, 5, 15
	}
	s.Check = func(img *vfs.Mem, done, _ bool) error { return afterImport(t.Context(), img, done) }
	s.Attach(m)
	if _, err := ImportKafka(t.Context(), importOptions(m)); err != nil {
		t.Fatal(err)
	}
	done.Store(true)
	s.Cut(m, "the end", 0)
	if err := s.Err(); err != nil {
		t.Error(err)
	}
	t.Logf("%d images", s.Images())
	if s.Images() < least {
		t.Error("the power was hardly cut")
	}
}

// afterImport starts a broker twice: on what there is, and after another import if there was nothing.
func afterImport(ctx context.Context, img *vfs.Mem, done bool) error {
	there, err := importedThere(ctx, img)
	if err != nil || there {
		return err
	}
	if done {
		return errors.New("the import had ended, and there is no topic")
	}
	if _, err := ImportKafka(ctx, importOptions(img)); err != nil {
		return fmt.Errorf("import again: %w", err)
	}
	if there, err = importedThere(ctx, img); err == nil && !there {
		err = errors.New("there is no topic after another import")
	}
	return err
}

// importedThere starts and stops a broker, and tells whether it has the topics.
func importedThere(ctx context.Context, img *vfs.Mem) (bool, error) {
	b, err := Start(Options{DataDir: "data", FS: img})
	if err != nil {
		return false, err
	}
	there, err := wholeTopics(b)
	if err = errors.Join(err, b.Close(ctx)); err != nil {
		return there, err
	}
	report, err := log.Verify(img, "data")
	if err == nil && report.Damaged() {
		err = fmt.Errorf("damage: %+v", report)
	}
	return there, errors.Join(err, nothingStaged(img))
}

func nothingStaged(img *vfs.Mem) error {
	entries, err := img.ReadDir("data")
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".import") {
			err = errors.Join(err, fmt.Errorf("%s is left", e.Name()))
		}
	}
	return err
}

// wholeTopics compares what is there with Kafka's files, batch by batch.
func wholeTopics(b *Broker) (bool, error) {
	fs, found := b.opts.FS, 0
	for name, start := range importedStarts {
		t := b.topics.byName(name)
		if t == nil {
			continue
		}
		found++
		o, err := t.partition(0).Offsets()
		if err != nil || o.Start != start || o.High != 40 {
			return false, fmt.Errorf("%s: %+v, %w", name, o, err)
		}
		want, err := batchesOf(fs, "kafka/"+name+"-0", start)
		if err != nil {
			return false, err
		}
		if got, err := batchesOf(fs, "data/"+name+"-0", start); err != nil || !reflect.DeepEqual(got, want) {
			return false, fmt.Errorf("%s: %v, want %v, %w", name, got, want, err)
		}
		if t.config().SegmentAge > 100*time.Second {
			return false, fmt.Errorf("%s has not Kafka's settings", name)
		}
	}
	switch {
	case found > 0 && found < len(importedStarts):
		return false, errors.New("some of the topics are there")
	case found > 0 && !hasOffsets(b):
		return false, errors.New("the committed offsets are not there")
	}
	return found > 0, nil
}

// batchesOf are a partition's batches from its log start on.
func batchesOf(fs vfs.FS, dir string, start int64) (all []string, err error) {
	err = log.Dump(fs, dir, log.Dumper{Batch: func(b log.DumpedBatch) error {
		if b.LastOffset < start {
			return nil
		}
		all = append(all, fmt.Sprint(b.BaseOffset, b.LastOffset, b.LeaderEpoch, b.CRC, b.Count, b.Valid))
		return nil
	}})
	return all, err
}

// hasOffsets tells whether any partition of __consumer_offsets holds a record.
func hasOffsets(b *Broker) bool {
	t := b.topics.byName(offsetsTopic)
	if t == nil {
		return false
	}
	for i := range t.partitions() {
		if o, err := t.partition(i).Offsets(); err == nil && o.High > 0 {
			return true
		}
	}
	return false
}

// TestImportDiskErrors: whatever the disk refuses, there is an error and no topic, or a later start finds them all.
func TestImportDiskErrors(t *testing.T) {
	stride := 3
	if testing.Short() {
		stride = 11
	}
	for _, kind := range []vfs.Kind{vfs.OpCreate, vfs.OpMkdir, vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpRename} {
		for n := 1; ; n += stride {
			m, faults := kafkaOnMem(t), &vfs.Injector{}
			faults.Add(vfs.Fault{Ops: kind, Nth: n})
			o := importOptions(m)
			o.FS = vfs.Inject(m, faults)
			_, err := ImportKafka(t.Context(), o)
			if err := afterImport(t.Context(), m, err == nil); err != nil {
				t.Errorf("%v %d: %v", kind, n, err)
			}
			if faults.Count(kind) < n {
				break
			}
		}
	}
}
