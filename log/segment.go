package log

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// segment is one .log file and its indexes. Its fields are guarded by Log.mu, except those of a sealed segment, which no longer change.
// Readers that work outside the lock hold a reference, so that deleting a segment never pulls its file from under them.
type segment struct {
	base   int64
	dir    string
	fs     vfs.FS
	log    *Log     // whose files they are; nil where they do not count: in tools that look at files alone
	file   vfs.File // nil until first used, and after a time without use
	used   bool     // since files were last looked through for some to close
	size   int64    // bytes written
	next   int64    // offset after the last batch
	synced int64    // bytes known to be durable
	torn   bool     // there may be bytes after size that could not be taken back
	sealed bool     // indexes are in files; nothing is appended any more
	gaps   int64    // offsets below may be missing: compaction took them. Set before the segment is shown.
	busy   bool     // a swap is replacing its files: they are not to be removed meanwhile
	holes  []damage // where it is damaged, ascending; replaced, never changed in place. Guarded by Log.mu, in a sealed segment too.
	checks checks
	lacks  lacks
	tally  tally
	lost   bool         // its file is missing: it has a hole and nothing else
	other  bool         // it is not the file that a clean stop left
	listed *sealedEntry // what the list of sealed segments says of it; nil: it is not from there
	head   uint32       // CRC field of the first batch
	sum    uint32       // of all headers, as in sealedEntry
	summed bool         // head and sum are of all batches

	offsets  offsets
	times    times
	replaced []vfs.File // index files that were of no use, and may be in a reader's hands

	maxTime       int64 // largest batch max timestamp, -1 when empty
	maxTimeOffset int64 // last offset of the batch that holds it
	firstTime     int64 // max timestamp of the first batch, -1 when empty
	created       time.Time
	sinceIndex    int64 // bytes since the last index entry

	refs atomic.Int32 // the log's own and one for each reader
}

func newSegment(fs vfs.FS, dir string, base int64) *segment {
	s := &segment{base: base, next: base, dir: dir, fs: fs, maxTime: -1, maxTimeOffset: -1, firstTime: -1, created: time.Now()}
	s.refs.Store(1)
	return s
}

func (s *segment) path(suffix string) string {
	return filepath.Join(s.dir, segmentName(s.base, suffix))
}

func (s *segment) acquire() { s.refs.Add(1) }

// release gives a reference back; the last one closes the files.
func (s *segment) release() {
	if s.refs.Add(-1) == 0 {
		s.closeFiles()
	}
}

// rel is an offset as the indexes hold it.
func (s *segment) rel(offset int64) uint32 {
	return uint32(min(max(offset-s.base, 0), math.MaxInt32))
}

// note takes a batch that stands at pos into the indexes and the segment's figures.
func (s *segment) note(h kproto.Batch, pos, size, interval int64) {
	last := h.LastOffset()
	s.sumUp(h, pos)
	s.lacks.add(pos, lackOf(h))
	s.tally.add(pos, size, counts(h))
	if h.MaxTimestamp() > s.maxTime && h.Count() > 0 { // a batch that compaction emptied has the time of no record
		s.maxTime, s.maxTimeOffset = h.MaxTimestamp(), last
	}
	if pos == 0 {
		s.firstTime = h.MaxTimestamp()
	}
	if s.sinceIndex > interval {
		s.offsets.mem = append(s.offsets.mem, offsetEntry{s.rel(last), uint32(pos)})
		s.noteTime()
		s.sinceIndex = 0
	}
	s.sinceIndex += size
	s.size = pos + size
	s.next = last + 1
}

// follows tells whether a batch may come where the one before ended: at that offset or, where compaction has been, behind it.
func (s *segment) follows(h kproto.Batch, expected int64) bool {
	base := h.BaseOffset()
	return base == expected || base > expected && base <= s.gaps
}

// noteTime adds a time index entry if the maximum has grown: timestamps in the index strictly increase.
func (s *segment) noteTime() {
	if s.maxTime < 0 {
		return
	}
	if n := len(s.times.mem); n > 0 && s.times.mem[n-1].time >= s.maxTime {
		return
	}
	s.times.mem = append(s.times.mem, timeEntry{s.maxTime, s.rel(s.maxTimeOffset)})
}

// indexFull tells whether another entry would not fit the bound on index files.
func (s *segment) indexFull(limit int64) bool {
	return int64(len(s.offsets.mem)+1)*offsetEntrySize > limit || int64(len(s.times.mem)+2)*timeEntrySize > limit
}

// writeIndexes writes and syncs the index files of a segment that gets no more appends. The caller publishes the result with seal.
func (s *segment) writeIndexes() error {
	if err := writeSynced(s.fs, s.path(indexSuffix), encodeOffsets(s.offsets.mem)); err != nil {
		return err
	}
	return writeSynced(s.fs, s.path(timeSuffix), encodeTimes(s.times.mem))
}

// eachHeader gives fn the headers of the segment's batches, but for damage that is known, up to the first that is none. Errors: ErrStorage.
func (s *segment) eachHeader(fn func(kproto.Batch)) error {
	if s.lost {
		return nil
	}
	if err := s.open(os.O_RDWR); err != nil {
		return err
	}
	for _, x := range s.windows() {
		w := newWalker(s.file, x.pos, x.end)
		err := eachHeader(&w, fn)
		w.close()
		switch {
		case errors.Is(err, ErrStorage):
			return err
		case !errors.Is(err, io.EOF):
			return nil
		}
	}
	return nil
}

func eachHeader(w *walker, fn func(kproto.Batch)) error {
	for {
		h, _, _, err := w.next()
		if err != nil {
			return err
		}
		fn(h)
	}
}

// forget makes the segment as one that holds nothing, before its batches are noted again.
func (s *segment) forget() {
	s.size, s.next, s.sinceIndex = 0, s.base, 0
	s.offsets, s.times = offsets{}, times{}
	s.maxTime, s.maxTimeOffset, s.firstTime = -1, -1, -1
	s.head, s.sum, s.summed, s.listed = 0, 0, false, nil
	s.tally.forget()
}

// seal drops the indexes from memory once their files are durable.
func (s *segment) seal() {
	s.sealed = true
	s.offsets, s.times = offsets{}, times{}
}

// hasIndexes: they are in memory, or their files are open.
func (s *segment) hasIndexes() bool {
	return !s.sealed || s.offsets.file != nil || s.offsets.mem != nil
}

// openIndexes opens the files of a sealed segment for lookups; what is missing or misshapen is rebuilt from the log.
// Called with Log.mu held.
func (s *segment) openIndexes(interval int64) error {
	if s.hasIndexes() {
		return nil
	}
	of, on, oerr := openIndexFile(s.fs, s.path(indexSuffix), offsetEntrySize)
	tf, tn, terr := openIndexFile(s.fs, s.path(timeSuffix), timeEntrySize)
	if oerr != nil || terr != nil || tn == 0 {
		closeAll(of, tf)
		return s.rebuild(interval)
	}
	s.useIndexes(offsets{file: of, n: on}, times{file: tf, n: tn})
	last, err := s.times.at(tn - 1)
	if err != nil || !s.holdsNewest(last) {
		return s.rebuild(interval)
	}
	s.maxTime, s.maxTimeOffset = last.time, s.base+int64(last.rel)
	return nil
}

// holdsNewest tells whether the batch that the last time entry names has that time: searches skip the segment by it.
func (s *segment) holdsNewest(last timeEntry) bool {
	if s.open(os.O_RDWR) != nil {
		return false
	}
	v := view{seg: s, offsets: s.offsets, window: s.windowOf(s.base + int64(last.rel)), limit: maxOffset, from: -1}
	at, _, next, err := v.locate(s.base + int64(last.rel))
	if err != nil || next != s.base+int64(last.rel)+1 {
		return false
	}
	w := newWalker(s.file, at, s.size)
	defer w.close()
	h, _, _, err := w.next()
	return err == nil && h.MaxTimestamp() == last.time
}

func openIndexFile(fs vfs.FS, name string, entry int64) (vfs.File, int, error) {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Size()
	if err == nil && size%entry != 0 {
		err = os.ErrInvalid
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, int(size / entry), nil
}

func closeAll(files ...vfs.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// rebuild makes the indexes anew in memory by walking the headers. The files are left to the next seal; lookups do not need them.
func (s *segment) rebuild(interval int64) error {
	if err := s.open(os.O_RDWR); err != nil {
		return err
	}
	fresh := newSegment(s.fs, s.dir, s.base)
	fresh.gaps = s.gaps
	for _, x := range s.windows() {
		if err := fresh.noteAll(s.file, x, interval); err != nil {
			return err
		}
	}
	fresh.noteTime()
	if fresh.offsets.mem == nil {
		fresh.offsets.mem = []offsetEntry{}
	}
	s.replaceIndexes(fresh.offsets, fresh.times)
	s.maxTime, s.maxTimeOffset, s.firstTime = fresh.maxTime, fresh.maxTimeOffset, fresh.firstTime
	if !s.summed && len(s.holes) == 0 && fresh.size == s.size {
		s.head, s.sum, s.summed = fresh.head, fresh.sum, fresh.summed
	}
	return nil
}

// noteAll takes the batches of a window in, up to its end or to damage that is not known: what lies before that can be found.
func (s *segment) noteAll(file vfs.File, x window, interval int64) error {
	w := newWalker(file, x.pos, x.end)
	defer w.close()
	for s.next = x.base; ; {
		h, pos, size, err := w.next()
		if errors.Is(err, ErrStorage) {
			return err
		}
		if err != nil || !s.follows(h, s.next) {
			return nil
		}
		s.note(h, pos, size, interval)
	}
}

// writeSynced replaces a side file that can be rebuilt: its content is durable on return; a crash in between may leave part of it.
func writeSynced(fs vfs.FS, name string, data []byte) error {
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return storageError("create side file", err)
	}
	defer f.Close()
	if len(data) > 0 {
		if _, err := f.WriteAt(data, 0); err != nil {
			return storageError("write side file", err)
		}
	}
	if err := f.Sync(); err != nil {
		return storageError("sync side file", err)
	}
	return nil
}
