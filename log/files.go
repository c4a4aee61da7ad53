package log

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// descriptors bounds how many files of segments, their indexes among them, are open at a time. What was not used for the longest time is closed, as the
// clock algorithm tells it: a use sets a mark on the segment, a sweep takes the mark away, and closes what it finds without one.
//
// A file is closed under its log's lock, when nothing but the log holds its segment and everything in it is synced: so nobody can use a descriptor whose
// number belongs to another file by now, and no failed sync goes unnoticed because the file that would have told was closed.
type descriptors struct {
	limit  int64
	wait   time.Duration // of an append for room
	open   atomic.Int64
	opened atomic.Int64 // since the start

	turn  sync.Mutex // held by who sweeps; before any Log.mu
	again time.Time  // when room is looked for again; guarded by turn

	mu    sync.Mutex // guards queue; nothing is locked under it
	queue []*Log     // those with open files, the one to be looked at next first
}

// DefaultOpenFiles is the bound where nobody gives one.
const DefaultOpenFiles = 4096

const (
	// readShare of the bound, and no less than a sealed segment has, is kept for reads. Appends could else keep them out: they take what is free as soon as it
	// is, and while the disk refuses to sync, what they hold cannot be closed.
	readShare = 8
	minShare  = 3
	// sweepShare: a sweep goes on until this share of what appends may have is free, so that not every open pays for one.
	sweepShare = 8
	// roomWait is how long an append waits for files to be synced, so that one can be closed for it, before it is refused.
	roomWait = time.Second
	// roomTries is how often a read makes room that others take before it is refused.
	roomTries = 10
	// roomLook is how often an append looks.
	roomLook = time.Millisecond
	// sweepPause is for how many times as long as a sweep took that made no room there is no other, if it looked at more than fewLogs. A fetch may ask for room
	// for ten thousand partitions while everything is in use. A short sweep is repeated at once: others may have let go of something by then.
	sweepPause = 8
	fewLogs    = 500
)

// OpenFiles tells how many files of segments are open, how many may be, and how often one was opened since the start.
func (d *Dir) OpenFiles() (open, limit, opened int64) {
	return d.files.open.Load(), d.files.limit, d.files.opened.Load()
}

// CloseIdle closes the files that were not used since it was last called. What is not synced yet gets a sync, and is closed by the next call.
func (d *Dir) CloseIdle() {
	d.files.turn.Lock()
	defer d.files.turn.Unlock()
	d.files.sweep(1, 0)
}

// appendLimit is the bound for appends.
func (f *descriptors) appendLimit() int64 { return max(1, f.limit-max(minShare, f.limit/readShare)) }

func (f *descriptors) roomToAppend() bool { return f.open.Load() < f.appendLimit() }

// readLimit is the bound for reads: there is always room for one, if nothing else is open.
func (f *descriptors) readLimit() int64 { return max(f.limit, minShare) }

// roomToRead: for all files of a sealed segment.
func (f *descriptors) roomToRead() bool { return f.open.Load()+minShare <= f.readLimit() }

// reserveFiles counts n files as open before they are, unless that would be more than limit. So the bound holds however many logs open files at a time.
// Called with mu held, until endReserve.
func (l *Log) reserveFiles(n, limit int64) bool {
	f := l.dir.files
	for {
		open := f.open.Load()
		if n > 0 && open+n > limit {
			return false
		}
		if f.open.CompareAndSwap(open, open+n) {
			l.reserved += n
			return true
		}
	}
}

// endReserve gives back what was reserved and not opened.
func (l *Log) endReserve() {
	l.dir.files.open.Add(-l.reserved)
	l.reserved = 0
}

// took counts files that were opened. Some of them are counted as open already.
func (f *descriptors) took(n, reserved int64) {
	f.open.Add(n - reserved)
	f.opened.Add(n)
}

func (f *descriptors) push(l *Log) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, l)
}

func (f *descriptors) pop() *Log {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) == 0 {
		return nil
	}
	l := f.queue[0]
	f.queue[0] = nil
	f.queue = f.queue[1:]
	return l
}

func (f *descriptors) len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queue)
}

// sweep looks at all logs with open files, so many times, until no more than enough are open. A log that is at work is left alone. Called with turn held.
func (f *descriptors) sweep(rounds int, enough int64) {
	for n := rounds * f.len(); n > 0 && f.open.Load() > enough; n-- {
		l := f.pop()
		if l == nil {
			return
		}
		if !l.mu.TryLock() {
			f.push(l)
			continue
		}
		if l.enlisted = l.closeUnused(); l.enlisted {
			f.push(l)
		} else {
			l.tail = tail{} // nobody reads at its end
		}
		l.mu.Unlock()
	}
}

// makeRoom closes what was not used for the longest time, if room tells that there is none. Two rounds: the first may do no more than take marks away.
func (f *descriptors) makeRoom(room func() bool) {
	f.turn.Lock()
	defer f.turn.Unlock()
	began := time.Now()
	if room() || began.Before(f.again) { // others had their turn meanwhile
		return
	}
	limit := f.appendLimit()
	if f.sweep(2, limit-limit/sweepShare-1); !room() && f.len() > fewLogs {
		ended := time.Now()
		f.again = ended.Add(sweepPause * ended.Sub(began))
	}
}

// admitRead makes room for the file of a read, if it is not open. It does not wait: what is in the way may be held by the reader itself. Called without mu.
func (l *Log) admitRead(offset int64) error {
	f := l.dir.files
	room := func() bool { return f.open.Load()+l.lackingAt(offset) <= f.readLimit() }
	if f.roomToRead() || room() {
		return nil
	}
	if f.makeRoom(f.roomToRead); room() {
		return nil
	}
	return f.refused()
}

// untilRoom calls f until it does not say errRoomTaken, and makes room meanwhile. It waits while more partitions have unsynced appends than may have files
// open. Called without mu.
func (f *descriptors) untilRoom(room func() bool, open func() error) error {
	err := open()
	for began := time.Now(); errors.Is(err, errRoomTaken); err = open() {
		if time.Since(began) > f.wait {
			return f.refused()
		}
		if f.makeRoom(room); !room() {
			time.Sleep(roomLook)
		}
	}
	return err
}

func (f *descriptors) refused() error {
	return fmt.Errorf("%w: %w: %d", ErrStorage, ErrTooManyFiles, f.limit)
}

// lackingAt is how many files a read at the offset has to open.
func (l *Log) lackingAt(offset int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.segmentOf(offset); s != nil {
		return s.lacking()
	}
	return 1
}

func (s *segment) isOpen() bool { return s.file != nil }

// lacking is how many files a read of the segment has to open, of the data and of the indexes.
func (s *segment) lacking() (n int64) {
	if !s.isOpen() {
		n++
	}
	if !s.hasIndexes() {
		n += 2
	}
	return n
}

// leaveRoom closes the files that opening the log has needed, if there is no room for them. Called with mu held.
func (l *Log) leaveRoom() {
	if l.dir.files.roomToAppend() {
		return
	}
	for _, s := range l.segs {
		s.used = false
	}
	l.closeUnused()
}

// enlist has sweeps look at the log. Called with mu held.
func (l *Log) enlist() {
	if !l.enlisted {
		l.enlisted = true
		l.dir.files.push(l)
	}
}

// closeUnused closes the files of segments that nobody has used since the last look, and tells whether others are open. What cannot be closed because it
// is not synced gets a sync. Called with mu held.
func (l *Log) closeUnused() (left bool) {
	unsynced := false
	for _, s := range l.segs {
		switch {
		case s.files() == 0:
			continue
		case s.used:
			s.used = false
		case s.refs.Load() > 1 || s.busy: // references are only added with mu held
		case s.synced < s.size || s.torn:
			unsynced = true
		default:
			s.shut()
			continue
		}
		left = true
	}
	switch {
	case !unsynced:
	case l.state == stateOpen:
		l.scheduleSync(true)
	case l.state == stateCut || l.state == stateFrozen:
		_ = l.ready() // nobody else may ever ask whether the disk is well again, and what it holds is in the way of others
	}
	return left
}

// newSegment is a segment of the log, whose files count.
func (l *Log) newSegment(base int64) *segment {
	s := newSegment(l.dir.fs, l.path(), base)
	s.log = l
	return s
}

// open makes sure that file is there. flag is os.O_RDWR, and os.O_CREATE|os.O_TRUNC for a new segment. Called with Log.mu held.
func (s *segment) open(flag int) error {
	s.used = true
	if s.file != nil {
		return nil
	}
	f, err := s.fs.OpenFile(s.path(logSuffix), flag, 0o600)
	if err != nil {
		return storageError("open segment", err)
	}
	s.file = f
	s.took(1)
	if s.log != nil {
		s.log.enlist()
	}
	return nil
}

// took counts files that were opened. Called with Log.mu held.
func (s *segment) took(n int64) {
	if s.log == nil {
		return
	}
	reserved := min(n, s.log.reserved)
	s.log.reserved -= reserved
	s.log.dir.files.took(n, reserved)
}

func (s *segment) gave(n int64) {
	if s.log != nil {
		s.log.dir.files.open.Add(-n)
	}
}

// files counts those that are open.
func (s *segment) files() (n int64) {
	if s.file != nil {
		n++
	}
	return n + s.offsets.files() + s.times.files() + int64(len(s.replaced))
}

// shut closes the files; the next use opens them again. Called with Log.mu held, when nobody else holds the segment.
func (s *segment) shut() {
	s.closeFiles()
	s.tally.forget()
	s.file, s.replaced = nil, nil
	if s.offsets.file != nil || s.times.file != nil {
		s.offsets, s.times = offsets{}, times{}
	}
}

// closeAgain gives what closes the files of a segment after a look at it, if none was open before and nobody else has come to use it. Both called with
// Log.mu held, the log having the segment.
func (s *segment) closeAgain() func() {
	wasOpen := s.files() > 0
	return func() {
		if !wasOpen && s.idle() {
			s.shut()
		}
	}
}

// idle tells whether the files may be closed: only the log holds the segment, and all in it is synced. Called with Log.mu held: only then references are added.
func (s *segment) idle() bool {
	return s.refs.Load() == 1 && !s.busy && s.synced >= s.size && !s.torn
}

// closeIdle closes the files of a segment that nobody uses: who goes over many would else leave them all open.
func (l *Log) closeIdle(s *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.segs, s) && s.idle() {
		s.shut()
	}
}

// findNewest makes sure that the segment's largest timestamp is known. Called with Log.mu held.
func (s *segment) findNewest(indexInterval int64) error {
	if s.maxTime >= 0 {
		return nil
	}
	defer s.closeAgain()()
	return s.openIndexes(indexInterval)
}

// errSegmentGone: the log has let go of a segment, or has another in its place.
var errSegmentGone = errors.New("segment is gone")

// borrow opens the file of a segment for work without the lock, which may take long; release closes it if it was not open before. One who goes over many
// segments borrows one at a time, as there may be more of them than files that may be open.
func (l *Log) borrow(s *segment) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.segs, s) {
		return nil, errSegmentGone
	}
	closeAgain := s.closeAgain()
	if err := s.open(os.O_RDWR); err != nil {
		return nil, err
	}
	s.acquire()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.release(); slices.Contains(l.segs, s) {
			closeAgain()
		}
	}, nil
}

// closeFiles ends the use of the files. Nothing in them is unsynced: a segment is synced before the log lets go of it, or is being deleted.
func (s *segment) closeFiles() {
	s.gave(s.files())
	closeAll(s.file, s.offsets.file, s.times.file)
	closeAll(s.replaced...)
}

// useIndexes takes opened index files, or none.
func (s *segment) useIndexes(o offsets, t times) {
	s.took(o.files() + t.files())
	s.offsets, s.times = o, t
}

// replaceIndexes puts others in the place of index files that a reader may hold.
func (s *segment) replaceIndexes(o offsets, t times) {
	if s.offsets.file != nil {
		s.replaced = append(s.replaced, s.offsets.file)
	}
	if s.times.file != nil {
		s.replaced = append(s.replaced, s.times.file)
	}
	s.useIndexes(o, t)
}

func (o offsets) files() int64 {
	if o.file == nil {
		return 0
	}
	return 1
}

func (t times) files() int64 {
	if t.file == nil {
		return 0
	}
	return 1
}

// size of the segment's file without opening it.
func (s *segment) fileSize() (int64, error) {
	info, err := s.fs.Stat(s.path(logSuffix))
	if err != nil {
		return 0, storageError("size of segment", err)
	}
	return info.Size(), nil
}
