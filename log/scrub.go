package log

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sluice/internal/vfs"
)

// ScrubSettings may change at any time.
type ScrubSettings struct {
	BytesPerSecond float64       // read; 0: nothing is
	Interval       time.Duration // from the beginning of one pass over everything to that of the next
}

// ScrubStats are what a Scrubber has done since it was made, and where it is.
type ScrubStats struct {
	Bytes, Segments int64 // checked
	Found           int64 // segments in which it met damage
	Unreadable      int64 // segments that the disk would not read
	Passes          int64 // that have come to their end
	Began, Ended    time.Time
	Total, Done     int64 // bytes of the pass that is under way, or of the last one
}

// Scrubber reads everything now and then and holds it against its CRCs, so that rot is found while there is still a backup. It is one goroutine for
// all partitions, opens a file at a time, and goes on after a restart where it was.
type Scrubber struct {
	dir      *Dir
	settings func() ScrubSettings
	budget   ioBudget
	stop     context.CancelFunc
	stopped  chan struct{}

	place scrubPlace
	saved time.Time
	buf   sealedReader
	owed  int // bytes read and not yet paid for

	mu    sync.Mutex // guards the rest
	stats ScrubStats
}

// scrubPlace is where a pass stands: everything before this segment of this partition was read since it began.
type scrubPlace struct {
	began     time.Time // zero: no pass is under way
	directory string
	base      int64
}

const (
	scrubFile     = "scrub-progress"
	scrubSaveGap  = time.Minute      // so much of a pass is done twice after a kill
	scrubLookGap  = 10 * time.Second // how often it looks whether a pass is due, or the settings have changed
	scrubPayBytes = 256 << 10        // it pays in such amounts: shorter pauses would be longer than asked for
)

// NewScrubber makes a scrubber; settings is asked again and again.
func (d *Dir) NewScrubber(settings func() ScrubSettings) *Scrubber {
	return &Scrubber{dir: d, settings: settings, place: readScrubPlace(d.fs, d.path)}
}

// Start lets it work in the background until Close, after a first pause.
func (s *Scrubber) Start(first time.Duration) {
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.stopped = stop, make(chan struct{})
	go func() {
		defer close(s.stopped)
		pause(ctx, first)
		for ctx.Err() == nil {
			if !s.due(time.Now()) || s.Pass(ctx) != nil {
				pause(ctx, scrubLookGap)
			}
		}
	}()
}

// Close ends the work, waits for its end, and notes how far it came. A Scrubber that was not started may be closed too.
func (s *Scrubber) Close() {
	if s.stop != nil {
		s.stop()
		<-s.stopped
		s.save()
	}
}

// Stats are a copy.
func (s *Scrubber) Stats() ScrubStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

func (s *Scrubber) update(fn func(*ScrubStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.stats)
}

// due tells whether a pass is under way or has to begin.
func (s *Scrubber) due(now time.Time) bool {
	c := s.settings()
	if c.BytesPerSecond <= 0 {
		return false
	}
	underway := s.place.directory != ""
	return underway || s.place.began.IsZero() || now.Sub(s.place.began) >= c.Interval || now.Before(s.place.began)
}

// Pass reads everything once, or what the last pass has left. It ends early, without an error, when ctx does or it is turned off, and with one that tells why it
// could not list the partitions.
func (s *Scrubber) Pass(ctx context.Context) error {
	parts, err := s.partitions()
	if err != nil {
		return err
	}
	if s.place.directory == "" {
		s.place.began = time.Now()
	}
	s.update(func(t *ScrubStats) { t.Began, t.Total, t.Done = s.place.began, 0, 0 })
	for _, p := range parts {
		s.update(func(t *ScrubStats) { t.Total += p.bytes; t.Done += p.bytes - p.left })
	}
	for _, p := range parts {
		if len(p.bases) > 0 && p.log.unlikeList() {
			_, _ = p.log.Offsets() // opens it, which tells what is missing
		}
		for _, base := range p.bases {
			if s.place = (scrubPlace{s.place.began, p.name, base}); ctx.Err() != nil {
				return nil
			}
			if err := s.segment(ctx, p, base); err != nil {
				return nil
			}
			if time.Since(s.saved) > scrubSaveGap {
				s.save()
			}
		}
	}
	s.place = scrubPlace{began: s.place.began}
	s.save()
	s.update(func(t *ScrubStats) { t.Passes, t.Ended, t.Done = t.Passes+1, time.Now(), t.Total })
	s.dir.logger.Info("all segments were read and checked", "began", s.place.began, "bytes", s.Stats().Total, "damaged ranges known", len(s.dir.Damages()))
	return nil
}

// scrubPart is a partition as a pass finds it.
type scrubPart struct {
	name  string
	log   *Log
	bases []int64 // of the segments still to be read
	bytes int64   // of all
	left  int64   // of those to be read
}

// partitions lists what is there, from the place where the pass stands on.
func (s *Scrubber) partitions() ([]scrubPart, error) {
	var parts []scrubPart
	logs, err := s.dir.written()
	if err != nil {
		return nil, err
	}
	for _, l := range logs {
		p := scrubPart{name: partitionDir(l.topic, l.partition), log: l}
		entries, err := l.list()
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			base, ok := parseSegmentName(e.Name(), logSuffix)
			info, err := e.Info()
			if !ok || err != nil {
				continue // gone meanwhile
			}
			p.bytes += info.Size()
			if at := cmp.Or(cmp.Compare(p.name, s.place.directory), cmp.Compare(base, s.place.base)); at >= 0 {
				p.bases = append(p.bases, base)
				p.left += info.Size()
			}
		}
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b scrubPart) int { return cmp.Compare(a.name, b.name) })
	return parts, nil
}

var errScrubOff = errors.New("the scrubber was turned off")

// segment reads one segment. The error is ctx's, or errScrubOff.
func (s *Scrubber) segment(ctx context.Context, p scrubPart, base int64) error {
	t := p.log.forScrub(base)
	if t == nil {
		return nil
	}
	defer t.close()
	spend := func(n int) error { return s.spend(ctx, n) }
	found := false
	for pos, expected := int64(0), base; ; {
		err := t.read(&s.buf, pos, expected, spend)
		var bad *badBatch
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errScrubOff):
			return err
		case errors.As(err, &bad):
			pos, expected, found = t.damaged(bad, pos)
		case err != nil:
			s.update(func(x *ScrubStats) { x.Unreadable++ })
			p.log.warn("segment could not be read to check it", err)
			return nil
		}
		if bad == nil || pos < 0 {
			break
		}
	}
	s.update(func(x *ScrubStats) {
		x.Segments++
		if found {
			x.Found++
		}
	})
	return nil
}

// spend waits until what was read is within the budget.
func (s *Scrubber) spend(ctx context.Context, n int) error {
	s.update(func(t *ScrubStats) { t.Bytes += int64(n); t.Done += int64(n) })
	if s.owed += n; s.owed < scrubPayBytes {
		return ctx.Err()
	}
	rate := s.settings().BytesPerSecond
	if rate <= 0 {
		return errScrubOff
	}
	s.budget.setRate(rate)
	n, s.owed = s.owed, 0
	return s.budget.spend(ctx, n)
}

// scrubTarget is a segment's file, opened for the scrubber alone, and what must hold of it.
type scrubTarget struct {
	log  *Log
	live *segment // of the log; nil: the log was not opened
	copy *segment
}

// forScrub opens a segment's file; nil: there is nothing to read. A log that nobody uses is not opened for it.
func (l *Log) forScrub(base int64) *scrubTarget {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &scrubTarget{log: l, copy: newSegment(l.dir.fs, l.path(), base)}
	t.copy.next = maxOffset // not known
	switch l.state {
	case stateIdle:
		t.copy.gaps = maxOffset
		if _, sl, known := l.dir.slots.claim(l.id, l.partition); known {
			t.copy.gaps = sl.cleaned.gaps()
		}
	case stateOpen, stateCut, stateFrozen:
		i, ok := slices.BinarySearchFunc(l.segs, base, func(s *segment, base int64) int { return cmp.Compare(s.base, base) })
		if !ok || l.segs[i].busy {
			return nil
		}
		t.live = l.segs[i]
		t.copy.gaps, t.copy.size = t.live.gaps, t.live.synced
		if t.live.synced == t.live.size && i+1 < len(l.segs) {
			t.copy.next = t.live.next
		}
	default:
		return nil
	}
	f, err := l.dir.fs.OpenFile(t.copy.path(logSuffix), os.O_RDONLY, 0) // with the lock held: afterwards the name may be another's
	if err != nil {
		return nil
	}
	t.copy.file = f
	if t.live == nil {
		if t.copy.size, err = f.Size(); err != nil {
			t.close()
			return nil
		}
	}
	return t
}

func (t *scrubTarget) close() { t.copy.release() }

// read checks the batches from one that begins at pos on, up to the end or the first bad one.
func (t *scrubTarget) read(r *sealedReader, pos, expected int64, spend func(int) error) error {
	r.spend = spend
	r.read(t.copy)
	r.pos, r.expected = pos, expected
	for {
		switch b, at, err := r.next(); {
		case err == nil:
			if t.live != nil {
				t.live.lacks.add(at, lackOf(b))
			}
		case !errors.Is(err, io.EOF):
			return err
		default:
			if t.live != nil && pos == 0 {
				t.live.checks.all()
			}
			return nil
		}
	}
}

// damaged has the log take damage in, and gives where to read on; below zero: nowhere.
func (t *scrubTarget) damaged(bad *badBatch, from int64) (pos, expected int64, found bool) {
	if t.live == nil {
		if _, err := t.log.Offsets(); err != nil {
			return -1, 0, true
		}
		t.log.mu.Lock()
		t.live = t.log.segmentOf(t.copy.base)
		t.log.mu.Unlock()
		if t.live == nil || t.live.base != t.copy.base {
			return -1, 0, true
		}
	}
	t.log.noteBad(t.live, bad)
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	for _, h := range t.live.holes {
		if h.pos <= bad.pos && bad.pos <= h.posEnd && h.posEnd > from && h.posEnd < t.copy.size {
			return h.posEnd, h.end, true
		}
	}
	return -1, 0, len(t.live.holes) > 0
}

// save notes how far the pass is. What is lost of it is read once more.
func (s *Scrubber) save() {
	s.saved = time.Now()
	text := fmt.Sprintf("0\n%d\n%s\n%d\n", s.place.began.UnixMilli(), cmp.Or(s.place.directory, "-"), s.place.base)
	if err := vfs.WriteFileAtomic(s.dir.fs, filepath.Join(s.dir.path, scrubFile), []byte(text), 0o600); err != nil {
		s.dir.logger.Warn("progress of the scrubber not noted", "error", err)
	}
}

// maxScrubFile is far above its four lines: a topic's name has at most 249 bytes.
const maxScrubFile = 4096

// readScrubPlace gives the zero place if there is none, or none that makes sense: then a pass begins.
func readScrubPlace(fs vfs.FS, dir string) (p scrubPlace) {
	data, err := vfs.ReadFile(fs, filepath.Join(dir, scrubFile), maxScrubFile)
	if err != nil {
		return p
	}
	var ms int64
	if n, err := fmt.Sscanf(string(data), "0\n%d\n%s\n%d\n", &ms, &p.directory, &p.base); n != 3 || err != nil {
		return scrubPlace{}
	}
	if p.directory == "-" {
		p.directory, p.base = "", 0
	}
	p.began = time.UnixMilli(ms)
	return p
}
