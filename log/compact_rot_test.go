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
		offsets := r.baseOffsets(t)
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

// baseOffsets gives the bytes of the segments that are batches' base offsets.
func (r *rotten) baseOffsets(t testing.TB) map[string]map[int64]bool {
	all := map[string]map[int64]bool{}
	for name, size := range r.files {
		if filepath.Ext(name) != logSuffix {
			continue
		}
		all[name] = map[int64]bool{}
		f, err := r.disk.OpenFile(name, os.O_RDONLY, 0)
		must(t, err)
		w := newWalker(f, 0, size)
		for {
			_, pos, _, err := w.next()
			if err != nil {
				break
			}
			for i := range int64(8) {
				all[name][pos+i] = true
			}
		}
		w.close()
	}
	return all
}
