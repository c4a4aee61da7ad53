package log

import (
	"errors"
	iofs "io/fs"
	"os"
	"time"
)

// idleLook is what retention must know of a log that was not opened since the start. Nothing changes it.
type idleLook struct {
	bytes   int64 // of all segments
	first   int64 // bytes of the oldest segment
	newest  int64 // largest timestamp of the oldest segment, ms
	undated bool  // there is no timestamp in the oldest segment
	odd     bool  // nothing can be told without opening
}

// neverWritten is the look at a partition without a directory, of which there may be very many.
var neverWritten = &idleLook{}

// idleDue tells whether retention has something to do in a log that nobody has opened: an idle partition costs a look at its directory, once, and
// keeps no file open. Called with mu held.
func (l *Log) idleDue(now time.Time) bool {
	c := l.cfg.Load()
	if !c.Delete || !l.dir.clean && !l.dir.recovered.Load() {
		return false
	}
	if l.idle == nil {
		l.idle = l.lookIdle()
	}
	k := l.idle
	switch {
	case k.odd, k.undated && c.Compact && c.RetentionMs >= 0: // compaction may have left it no records
		return true
	case k.first == 0:
		return false
	case c.RetentionBytes >= 0 && k.bytes-c.RetentionBytes >= k.first:
		return true
	}
	return c.RetentionMs >= 0 && tooOld(k.newest, now.UnixMilli(), c.RetentionMs)
}

func (l *Log) lookIdle() *idleLook {
	entries, err := l.dir.fs.ReadDir(l.path())
	if errors.Is(err, os.ErrNotExist) {
		return neverWritten
	}
	k := &idleLook{odd: err != nil}
	for _, e := range entries {
		if base, ok := parseSegmentName(e.Name(), logSuffix); ok && !k.odd {
			k.take(newSegment(l.dir.fs, l.path(), base), e)
		}
	}
	return k
}

// take adds a segment, the oldest first.
func (k *idleLook) take(s *segment, e iofs.DirEntry) {
	info, err := e.Info()
	if err != nil {
		k.odd = true
		return
	}
	if k.bytes == 0 {
		k.first = info.Size()
		k.newest, k.odd = lastTime(s)
		if k.undated = k.newest < 0; k.undated {
			k.newest = info.ModTime().UnixMilli()
		}
	}
	k.bytes += info.Size()
}

// lastTime reads the largest timestamp from a segment's time index, -1 when it has none.
func lastTime(s *segment) (newest int64, odd bool) {
	f, n, err := openIndexFile(s.fs, s.path(timeSuffix), timeEntrySize)
	if err != nil {
		return 0, true
	}
	defer f.Close()
	if n == 0 {
		return -1, false
	}
	e, err := times{file: f, n: n}.at(n - 1)
	return e.time, err != nil
}
