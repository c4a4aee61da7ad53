package log

import (
	"context"
	"io/fs"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/vfs"
)

// slowFS is a disk on which every sync takes as long.
type slowFS struct {
	vfs.FS
	sync time.Duration
}

func (s slowFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := s.FS.OpenFile(name, flag, perm)
	return slowFile{f, s.sync}, err
}

func (s slowFS) SyncDir(name string) error {
	time.Sleep(s.sync)
	return s.FS.SyncDir(name)
}

type slowFile struct {
	vfs.File
	sync time.Duration
}

func (f slowFile) Sync() error {
	time.Sleep(f.sync)
	return f.File.Sync()
}

// TestRollHoldsNobodyUp: appends come at a steady pace, and no acknowledgement takes longer than the syncs that a roll itself needs, after those
// that are under way: of the old file, the new one and the directory. The side files of the old one are written beside that.
func TestRollHoldsNobodyUp(t *testing.T) {
	const each = 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		d := openDir(t, slowFS{vfs.NewMem(), each})
		c := tiny()
		c.SegmentBytes = 20_000
		l := d.Log("a", testTopic, 0, c)
		mustWait(t, mustAppend(t, l, batchSpec{}))
		l.finishSync()
		var mu sync.Mutex
		var longest time.Duration
		var waiting sync.WaitGroup
		for n := range 2000 {
			time.Sleep(time.Millisecond)
			a, begin := mustAppend(t, l, batchSpec{size: 40, pid: 1, seq: int32(n)}), time.Now()
			waiting.Go(func() {
				if err := a.Ticket.Wait(context.Background()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, time.Since(begin))
			})
		}
		waiting.Wait()
		if rolled := len(l.segs); rolled < 10 {
			t.Errorf("%d segments", rolled)
		}
		if longest > 6*each { // three that are under way and three of its own
			t.Errorf("an acknowledgement took %v, with syncs of %v", longest, each)
		}
		must(t, d.Close(context.Background()))
	})
}
