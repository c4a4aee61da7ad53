package log

import (
	"fmt"
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
func (f *descriptors) roomToRead() bool   { return f.open.Load() < f.limit }

// took counts files that a segment has opened.
func (f *descriptors) took(n int64) {
	f.open.Add(n)
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
	if f.roomToRead() || l.opened(func() *segment { return l.segmentOf(offset) }, (*segment).readable) {
		return nil
	}
	if f.makeRoom(f.roomToRead); f.roomToRead() {
		return nil
	}
	return f.refused()
}

// admitAppend makes room for the file of an append, if it is not open. It waits while more partitions have unsynced appends than may have files open. The
// broker's own logs are few, and who appends to them must not wait for clients: they are let through. Called without mu.
func (l *Log) admitAppend(internal bool) error {
	f := l.dir.files
	if f.roomToAppend() || l.opened(l.last, (*segment).isOpen) {
		return nil
	}
	for began := time.Now(); ; time.Sleep(roomLook) {
		if f.makeRoom(f.roomToAppend); internal || f.roomToAppend() {
			return nil
		}
		if time.Since(began) > f.wait {
			return f.refused()
		}
	}
}

func (f *descriptors) refused() error {
	return fmt.Errorf("%w: %w: %d", ErrStorage, ErrTooManyFiles, f.limit)
}

func (l *Log) last() *segment {
	if len(l.segs) == 0 {
		return nil
	}
	return l.active()
}

// opened tells whether the files of a segment that are needed are open.
func (l *Log) opened(which func() *segment, needed func(*segment) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := which()
	return s != nil && needed(s)
}

func (s *segment) isOpen() bool { return s.file != nil }

// readable: a read opens no file, neither of the data nor of the indexes.
func (s *segment) readable() bool { return s.isOpen() && s.hasIndexes() }

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

func (s *segment) took(n int64) {
	if s.log != nil {
		s.log.dir.files.took(n)
	}
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
