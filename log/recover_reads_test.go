package log

import (
	iofs "io/fs"
	"path/filepath"
	"sync"
	"testing"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// readCounter counts the bytes read of each segment.
type readCounter struct {
	vfs.FS
	mu   sync.Mutex
	read map[string]int64
}

type countedFile struct {
	vfs.File
	c *readCounter
}

func (c *readCounter) OpenFile(name string, flag int, perm iofs.FileMode) (vfs.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil || filepath.Ext(name) != logSuffix {
		return f, err
	}
	return countedFile{f, c}, nil
}

func (f countedFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.c.read[filepath.Base(f.Name())] += int64(n)
	return n, err
}

// TestRecoveryReadsWhatMayBeUnflushed: after an unclean stop the segments below the recovery point are not read, but for the header of their first batch, which
// tells whether they are the segments that were there.
func TestRecoveryReadsWhatMayBeUnflushed(t *testing.T) {
	mem := vfs.NewMem()
	d := openDir(t, mem)
	l := d.Log("t", testTopic, 0, small())
	for range 12 {
		mustWait(t, mustAppend(t, l, batchSpec{size: 700}))
	}
	l.awaitSealed(t.Context())
	l.mu.Lock()
	recovery, bases := l.recovery, len(l.segs)
	l.mu.Unlock()
	must(t, d.slots.sync(d.slots.puts))
	c := &readCounter{FS: mem.Crash(vfs.KeepEverything), read: map[string]int64{}}
	d = openDir(t, c)
	l = d.Log("t", testTopic, 0, small())
	must(t, d.Recover(t.Context()))
	if d.Clean() || mustOffsets(t, l).End != 12 || recovery == 0 || bases < 4 {
		t.Fatalf("clean %v, end %d, recovery point %d, %d segments", d.Clean(), mustOffsets(t, l).End, recovery, bases)
	}
	for _, s := range l.segs {
		n := c.read[segmentName(s.base, logSuffix)]
		if below := s.base < recovery; below && n > kproto.HeaderSize || !below && s.size > 0 && n < s.size {
			t.Errorf("segment %d, recovery point %d: %d of %d bytes were read", s.base, recovery, n, s.size)
		}
	}
}
