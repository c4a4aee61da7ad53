package log

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// newCompactedRotten is a data directory with a partition of which the front was compacted.
func newCompactedRotten(t testing.TB, clean bool) *rotten {
	r := &rotten{disk: vfs.NewMem(), files: map[string]int64{}}
	d := openDir(t, r.disk)
	c := tiny()
	c.Compact = true
	l := d.Log("a", testTopic, 0, c)
	put := func(i int) {
		mustWait(t, mustAppendBatch(t, l, keyed(kproto.None, 5, int32(2*i), false, fmt.Sprintf("a%d=x", i%5), fmt.Sprintf("b%d=%0100d", i%7, i))))
	}
	for i := range 20 {
		put(i)
	}
	l.finishSync()
	if done, err := l.Clean(context.Background(), CleanOptions{Now: time.Now(), MapBytes: 1 << 16}); err != nil || done.Dropped == 0 {
		t.Fatal(done, err)
	}
	put(20)
	put(21)
	r.want = append(r.want, contentOf(t, d, 0))
	r.stop(t, d, clean)
	return r
}

func mustAppendBatch(t testing.TB, l *Log, b kproto.Batch) Appended {
	t.Helper()
	a, err := l.Append(b, AppendOptions{})
	must(t, err)
	return a
}

// TestBitRotOfACompactedLog is TestBitRot where offsets may be missing. What it cannot see is a base offset that became another one between
// its neighbours'. Without a checkpoint to be trusted, a leader epoch begins with its first batch that is left.
func TestBitRotOfACompactedLog(t *testing.T) {
	for _, clean := range []bool{true, false} {
		r := newCompactedRotten(t, clean)
		offsets := map[string]map[int64]bool{}
		for name := range r.files {
			if filepath.Ext(name) == logSuffix {
				offsets[name] = batchBytes(t, r.disk, name, 0, 8)
			}
		}
		unseen := 0
		cases := r.spoil(t, func(name string, bit int64, err error) bool {
			lostEpochs := filepath.Base(name) == durableFile || filepath.Base(name) == epochFile
			if undetectable(name, err) || lostEpochs && errors.Is(err, errEpochs) {
				return true
			}
			if bit >= 0 && offsets[name][bit/8] {
				unseen++
				return true
			}
			return false
		})
		t.Logf("clean %v: %d cases in %d files, %d wrong base offsets not seen", clean, cases, len(r.files), unseen)
	}
}

// batchBytes gives the bytes of a segment that lie so far into a batch.
func batchBytes(t testing.TB, disk *vfs.Mem, name string, from, to int64) map[int64]bool {
	f, err := disk.OpenFile(name, os.O_RDONLY, 0)
	must(t, err)
	size, err := f.Size()
	must(t, err)
	w := newWalker(f, 0, size)
	defer w.close()
	bytes := map[int64]bool{}
	for {
		_, pos, _, err := w.next()
		if err != nil {
			return bytes
		}
		for i := from; i < to; i++ {
			bytes[pos+i] = true
		}
	}
}

// TestCompactionOfRot flips a bit of a sealed segment and has the cleaner come to it: it refuses, loudly, or what it leaves is right. It never
// carries rot into a new segment, nor drops a record because of it.
func TestCompactionOfRot(t *testing.T) {
	lives := uint64(200)
	if testing.Short() {
		lives = 30
	}
	refused, unseen := 0, 0
	for seed := range lives {
		m := newCompactModel(t, seed)
		m.cfg.Delete = false
		for range 30 {
			m.produce()
		}
		m.clean()
		for range 10 {
			m.produce()
		}
		m.log.finishSync()
		name, bit := m.anyBit()
		offsets, epochs := batchBytes(t, m.disk, name, 0, 8), batchBytes(t, m.disk, name, 12, 16)
		flipBit(t, m.disk, name, bit)
		_, err := m.log.Clean(context.Background(), CleanOptions{Now: time.UnixMilli(m.now), MapBytes: 1 << 16})
		switch {
		case errors.Is(err, ErrUncleanable):
			refused++
			flipBit(t, m.disk, name, bit) // as it was, all is there still
			m.restart()
		case err != nil:
			t.Fatal(err)
		case offsets[bit/8], epochs[bit/8]: // one that could be
			unseen++
			continue
		}
		if err := m.check(); err != nil {
			t.Fatalf("seed %d, bit %d of %s: %v", seed, bit, name, err)
		}
	}
	t.Logf("%d refused, %d not seen, of %d", refused, unseen, lives)
	if refused < int(lives)/2 {
		t.Errorf("%d of %d refused", refused, lives)
	}
}

// anyBit chooses a bit of a sealed segment.
func (m *compactModel) anyBit() (name string, bit int64) {
	sealed := m.log.segs[:len(m.log.segs)-1]
	s := sealed[m.rng.IntN(len(sealed))]
	return s.path(logSuffix), m.rng.Int64N(8 * s.size)
}
