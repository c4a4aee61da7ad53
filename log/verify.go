package log

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// Finding is something that Verify saw.
type Finding struct {
	// Damage: acknowledged data is lost or wrong. Otherwise it is what a crash may leave behind and the next start sets right.
	Damage   bool   `json:"damage"`
	File     string `json:"file"`
	Position int64  `json:"position"` // bytes, -1 when it is about the whole file
	Offset   int64  `json:"offset"`   // of the first record concerned, -1 when it is about none
	End      int64  `json:"end"`      // offset after the last record concerned, -1 when that is not known
	Bytes    int64  `json:"bytes"`    // that are damaged, from Position on
	Message  string `json:"message"`
}

// Verified is one partition as Verify found it.
type Verified struct {
	Directory string    `json:"directory"`
	Segments  int       `json:"segments"`
	Batches   int64     `json:"batches"`
	Bytes     int64     `json:"bytes"`
	Start     int64     `json:"start"`   // log start offset
	End       int64     `json:"end"`     // offset after the last good batch
	Durable   int64     `json:"durable"` // recorded durable offset, -1 when none is
	Findings  []Finding `json:"findings"`
}

// Report is the result of Verify.
type Report struct {
	Directory  string     `json:"directory"`
	Clean      bool       `json:"clean"` // the last stop was a clean one
	Partitions []Verified `json:"partitions"`
	Findings   []Finding  `json:"findings"` // about the data directory itself
}

// Damaged tells whether anything that was acknowledged is lost or wrong.
func (r *Report) Damaged() bool {
	isDamage := func(f Finding) bool { return f.Damage }
	return slices.ContainsFunc(r.Findings, isDamage) ||
		slices.ContainsFunc(r.Partitions, func(v Verified) bool { return slices.ContainsFunc(v.Findings, isDamage) })
}

// ErrNoLog: there is neither a data directory nor a partition to verify.
var ErrNoLog = errors.New("no data directory and no partition directory")

// Verify checks a data directory, or one partition directory, byte by byte. It writes nothing. An error means that it could not be
// checked: ErrInUse while a broker runs, ErrNewer, os.ErrPermission, ErrNoLog, or another error of the disk.
func Verify(fs vfs.FS, dir string) (*Report, error) {
	v, partitions, unlock, err := lockForVerify(fs, dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return v.report, v.run(partitions)
}

// lockForVerify finds the data directory and the partitions in it that are meant, and keeps brokers out.
func lockForVerify(fs vfs.FS, dir string) (v *verifier, partitions []string, unlock func(), err error) {
	entries, err := fs.ReadDir(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	data, partitions := dir, partitionDirs(entries)
	if isPartition(dir, entries) {
		data, partitions = filepath.Dir(dir), []string{filepath.Base(dir)}
	} else if len(partitions) == 0 && !has(entries, lockFile) {
		return nil, nil, nil, fmt.Errorf("%s: %w", dir, ErrNoLog)
	}
	if unlock, err = LockUnused(fs, data); err != nil {
		return nil, nil, nil, err
	}
	return newVerifier(fs, dir, data), partitions, unlock, nil
}

func newVerifier(fs vfs.FS, dir, data string) *verifier {
	return &verifier{fs: fs, data: data, report: &Report{Directory: dir}}
}

func partitionDirs(entries []iofs.DirEntry) []string {
	var names []string
	for _, e := range entries {
		if _, _, ok := parsePartitionDir(e.Name()); ok && e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func isPartition(dir string, entries []iofs.DirEntry) bool {
	_, _, named := parsePartitionDir(filepath.Base(dir))
	return named && slices.ContainsFunc(entries, func(e iofs.DirEntry) bool {
		return e.Name() == metadataFile || strings.HasSuffix(e.Name(), logSuffix)
	})
}

func has(entries []iofs.DirEntry, name string) bool {
	return slices.ContainsFunc(entries, func(e iofs.DirEntry) bool { return e.Name() == name })
}

// LockUnused holds the lock of a data directory, if there is one, so that no broker starts meanwhile. It makes no file.
func LockUnused(fs vfs.FS, data string) (unlock func(), err error) {
	nothing := func() {}
	there, err := vfs.Exists(fs, filepath.Join(data, lockFile))
	if err != nil || !there {
		return nothing, err
	}
	lock, err := fs.Lock(filepath.Join(data, lockFile))
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return nil, fmt.Errorf("%s: %w", data, ErrInUse)
	case errors.Is(err, syscall.EROFS):
		return nothing, nil // no broker runs on a disk that cannot be written
	case err != nil:
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
}

// verifier collects a Report.
type verifier struct {
	fs     vfs.FS
	data   string
	slots  map[slotKey]slot
	last   *lastSegments // that have no side files
	report *Report
	parts  []*partVerifier
}

func (v *verifier) run(partitions []string) error {
	var err error
	if err = v.readMark(); err != nil {
		return err
	}
	defer v.last.close()
	if err := v.readSlots(); err != nil {
		return err
	}
	for _, name := range partitions {
		p := &partVerifier{v: v, dir: filepath.Join(v.data, name)}
		v.parts = append(v.parts, p)
		if err := p.run(name); err != nil {
			return err
		}
		v.report.Partitions = append(v.report.Partitions, p.out)
	}
	return nil
}

// readMark tells whether the last stop was clean. A mark that does not check is none to the next start.
func (v *verifier) readMark() error {
	last, err := openMark(v.fs, v.data)
	v.last = &lastSegments{}
	switch {
	case err == nil:
		v.report.Clean, v.last = true, last
	case errors.Is(err, errBadMark):
		v.report.Findings = append(v.report.Findings, Finding{File: filepath.Join(v.data, cleanFile), Position: -1, Offset: -1, End: -1,
			Message: err.Error() + ": the next start recovers, as if the last stop had not been clean"})
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	return nil
}

func (v *verifier) readSlots() error {
	name := filepath.Join(v.data, durableFile)
	v.slots = map[slotKey]slot{}
	data, err := vfs.ReadFile(v.fs, name, maxSlotFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = checkSlotVersions(name, data)
	}
	if err != nil {
		return err
	}
	for i := range len(data) / slotSize {
		raw := data[i*slotSize : (i+1)*slotSize]
		if s, ok := decodeSlot(raw); ok {
			v.slots[slotKey{s.id, s.partition}] = s
		} else if !isZero(raw) {
			v.report.Findings = append(v.report.Findings, Finding{Damage: true, File: name, Position: int64(i) * slotSize, Offset: -1, End: -1, Bytes: slotSize,
				Message: "a partition's durable offset and log start cannot be read"})
		}
	}
	return nil
}

// partVerifier checks one partition.
type partVerifier struct {
	v       *verifier
	dir     string
	out     Verified
	slot    slot
	known   bool
	marked  bool // the mark of a clean stop stands in for the last segment's side files
	entries []iofs.DirEntry

	losses    []loss // what repair would cut out
	list      sealedList
	segs      []*segment
	sizes     []int64        // of segs, as far as they were checked
	swapped   map[int64]bool // segments, by base, whose file still has the name of a swap
	epochs    epochs
	producers producers
	buf       []byte
}

func (p *partVerifier) run(name string) error {
	p.out = Verified{Directory: p.dir, Durable: -1, Findings: []Finding{}}
	p.producers = producers{}
	var err error
	if p.entries, err = p.v.fs.ReadDir(p.dir); err != nil {
		return err
	}
	if err := p.findSlot(name); err != nil {
		return err
	}
	if err := p.checkSegments(); err != nil {
		return err
	}
	if err := p.checkEpochs(); err != nil {
		return err
	}
	return p.checkFiles()
}

func (p *partVerifier) note(file string, pos, offset int64, format string, args ...any) {
	p.out.Findings = append(p.out.Findings, Finding{File: file, Position: pos, Offset: offset, End: -1, Message: fmt.Sprintf(format, args...)})
}

func (p *partVerifier) damage(file string, pos, offset int64, format string, args ...any) {
	p.note(file, pos, offset, format, args...)
	p.out.Findings[len(p.out.Findings)-1].Damage = true
}

func (p *partVerifier) findSlot(name string) error {
	_, partition, _ := parsePartitionDir(name)
	id, err := readMetadata(p.v.fs, p.dir)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, errBadMetadata):
		if _, reserved := p.v.slots[slotKey{ReservedID, partition}]; reserved && strings.HasPrefix(name, "__") {
			id = ReservedID
			break
		}
		p.note(filepath.Join(p.dir, metadataFile), -1, -1, "%v: which topic the directory belongs to is not known from it", err)
	case err != nil:
		return err
	}
	last, err := p.v.last.find(slotKey{id, partition})
	if errors.Is(err, ErrStorage) {
		return err
	}
	if p.marked = err != nil || last != nil; err != nil {
		p.note(filepath.Join(p.v.data, cleanFile), -1, -1, "what it says of %s cannot be read (%v): the next start recovers the partition", p.dir, err)
	}
	if p.slot, p.known = p.v.slots[slotKey{id, partition}]; p.known {
		p.out.Start, p.out.End, p.out.Durable = p.slot.start, p.slot.start, p.slot.durable
	}
	return nil
}

func (p *partVerifier) checkSegments() error {
	for _, e := range p.entries {
		if base, ok := parseSegmentName(e.Name(), logSuffix); ok {
			p.segs = append(p.segs, newSegment(p.v.fs, p.dir, base))
		}
	}
	if err := p.settleSwaps(); err != nil {
		return err
	}
	for len(p.segs) > 1 && p.segs[1].base <= p.out.Start {
		p.note(p.name(p.segs[0]), -1, -1, "lies below the log start: a crash kept it from being removed")
		p.segs = p.segs[1:]
	}
	if err := p.loadList(); err != nil {
		return err
	}
	p.out.Segments = len(p.segs)
	if len(p.segs) == 0 {
		if p.known && p.slot.durable > p.slot.start {
			p.damage(p.dir, -1, p.slot.start, "no segments, and offsets up to %d were durable", p.slot.durable)
			p.lose(loss{offset: p.slot.start, end: p.slot.durable, reason: "no segments"})
		}
		return nil
	}
	if first := p.segs[0]; first.base > p.out.Start {
		if p.known && p.slot.durable > p.out.Start {
			p.damage(p.name(first), -1, p.out.Start, "the log starts at offset %d, and the first segment begins at %d", p.out.Start, first.base)
			p.lose(loss{offset: p.out.Start, end: first.base, reason: "no segment has them"})
		}
		p.out.Start = first.base
	}
	p.out.End = p.segs[0].base
	p.allowGaps()
	for i, s := range p.segs {
		next := int64(maxOffset)
		if i+1 < len(p.segs) {
			next = p.segs[i+1].base
		}
		if s.base != p.out.End {
			if p.suspect(p.name(s), 0, "the segment begins at offset %d, the one before ends at %d", s.base, p.out.End) {
				p.lose(p.between(i, s.base))
			}
			p.out.End = s.base
		}
		if err := p.checkSegment(s, next); err != nil {
			return err
		}
	}
	if p.known && p.out.End < p.slot.durable {
		p.damage(p.name(p.segs[len(p.segs)-1]), -1, p.out.End, "the log ends at offset %d, and was durable up to %d", p.out.End, p.slot.durable)
		p.lose(loss{offset: p.out.End, end: p.slot.durable, reason: "no segment has them"})
	}
	return nil
}

// between is the loss of the offsets before the i-th segment. The one before gets the gap, so that its line in the list of segments is the one that changes.
func (p *partVerifier) between(i int, next int64) loss {
	x := loss{offset: p.out.End, end: next, reason: "no segment has them"}
	if i > 0 && next-p.segs[i-1].base <= math.MaxInt32 {
		x.seg = p.segs[i-1]
		x.pos, x.posEnd = p.sizes[i-1], p.sizes[i-1]
	}
	return x
}

// suspect is damage if what lies at the end of the good part was durable; else it may be what a power cut leaves of what was never acknowledged.
func (p *partVerifier) suspect(file string, pos int64, format string, args ...any) (isDamage bool) {
	if p.v.report.Clean || p.known && p.out.End < p.slot.durable {
		p.damage(file, pos, p.out.End, format, args...)
		return true
	}
	p.note(file, pos, p.out.End, format+" (above the durable offset: the next start cuts it off and keeps it aside)", args...)
	return false
}

// stepOver reports a bad batch, and goes on behind the damage if something there can be read.
func (p *partVerifier) stepOver(s *segment, bad *badBatch, w *walker, next int64) (again bool, err error) {
	if !p.suspect(p.name(s), bad.pos, "%s", bad.reason) {
		return false, nil
	}
	index := offsets{}
	if !p.swapped[s.base] {
		f, n, err := openIndexFile(p.v.fs, s.path(indexSuffix), offsetEntrySize)
		switch {
		case err == nil:
			defer f.Close()
			index = offsets{file: f, n: n}
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrInvalid):
			return false, err // more might be lost than has to be
		}
	}
	x := extent{seg: s, index: index, size: w.end, next: next}
	posEnd, end, err := x.resync(bad.pos, p.out.End)
	if err != nil {
		return false, err
	}
	d := &p.out.Findings[len(p.out.Findings)-1]
	d.Bytes = posEnd - bad.pos
	lost := loss{seg: s, pos: bad.pos, posEnd: posEnd, offset: p.out.End, end: end, reason: bad.reason}
	if end == maxOffset {
		lost.end = p.slot.durable // beyond it the next start cuts the log
		p.lose(lost)
		return false, nil
	}
	p.lose(lost)
	d.End, p.out.End, w.pos, s.next = end, end, posEnd, end
	return posEnd < w.end, nil
}

// checkSegment reads every batch, beyond damage too if the batches can be told there.
func (p *partVerifier) checkSegment(s *segment, next int64) error {
	f, err := p.v.fs.OpenFile(p.name(s), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	s.file = f
	size, err := f.Size()
	if err != nil {
		return err
	}
	p.out.Bytes += size
	size = p.listedSize(s, size)
	p.sizes = append(p.sizes, size)
	if err := p.walk(s, size, next); err != nil {
		return err
	}
	p.checkListed(s, size)
	s.noteTime()
	if p.swapped[s.base] || p.marked && next == maxOffset {
		return nil // the indexes there are those of the segment that it replaces, or of an earlier stop
	}
	return p.checkIndexes(s, next != maxOffset || p.v.report.Clean)
}

func (p *partVerifier) walk(s *segment, size, next int64) error {
	w := newWalker(s.file, 0, size)
	defer w.close()
	oldEpoch := false
	for {
		at := w.pos
		h, pos, n, err := w.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = p.checkBatch(s, h, pos, n)
		}
		var bad *badBatch
		switch isBad := errors.As(err, &bad); {
		case err != nil && !isBad:
			return err
		case p.out.End >= next && (!p.known || s.base >= p.slot.recovery):
			p.note(p.name(s), at, next, "%d bytes overlap the next segment: they were taken back after a failed sync", size-at)
			return nil
		case isBad:
			if again, err := p.stepOver(s, bad, &w, next); !again || err != nil {
				return err
			}
			continue
		case h.LeaderEpoch() < p.epochs.last() && !oldEpoch: // once: this one is wrong, or the one before, and then all that follow are lower
			p.suspect(p.name(s), pos, "leader epoch %d after %d", h.LeaderEpoch(), p.epochs.last())
			oldEpoch = true
		}
		s.note(h, pos, n, -1) // every batch into the indexes, the first one too
		p.producers.note(h, 0, replayTime(h))
		p.epochs.assign(h.LeaderEpoch(), h.BaseOffset())
		p.out.End = h.NextOffset()
		p.out.Batches++
	}
}

func (p *partVerifier) checkBatch(s *segment, h kproto.Batch, pos, n int64) error {
	if !s.follows(h, p.out.End) {
		return &badBatch{pos, fmt.Sprintf("offset %d where %d was expected", h.BaseOffset(), p.out.End)}
	}
	b, err := readBatch(s.file, pos, n, p.buf)
	if err == nil {
		p.buf = b
	}
	return err
}
