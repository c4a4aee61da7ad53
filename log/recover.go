package log

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// open reads the partition's files. After a clean stop it trusts them (looking only at the last bytes of the last segment); otherwise it reads everything
// from the recovery point on. Called with mu held.
//
// Storage errors leave the log idle, to be tried again; files that are not what they should be take it offline.
func (l *Log) open() error {
	if _, dying := l.dir.dying.Load(l.path()); dying {
		return fmt.Errorf("%w: %s is still being deleted for a topic of the same name", ErrStorage, l.path())
	}
	if l.offline != nil && time.Now().Before(l.retry) {
		return l.offline
	}
	err := l.openFiles()
	if err == nil {
		l.become(stateOpen)
		l.offline, l.failed = nil, false
		l.dir.last.drop(slotKey{l.id, l.partition})
		l.leaveRoom()
		return nil
	}
	l.dropSegments(l.segs)
	l.segs, l.sealing, l.epochs, l.damage, l.failed = nil, nil, nil, nil, true
	if !errors.Is(err, ErrStorage) {
		l.goOffline(err)
		return l.ready()
	}
	l.offline, l.retry = err, time.Now().Add(l.dir.retryGap)
	return err
}

func (l *Log) openFiles() error {
	index, sl, known := l.dir.slots.claim(l.id, l.partition)
	if known {
		l.slotIndex, l.start, l.recovery = index, sl.start, sl.recovery
		if l.cleaned == 0 { // else an earlier try to open has gone on from there
			l.cleaned = sl.cleaned
		}
	}
	return l.openFrom(sl, known, l.dir.clean)
}

// openFrom opens the files given what is known of them. clean: they are as a clean stop left them.
func (l *Log) openFrom(sl slot, known, clean bool) error {
	l.producers = producers{}
	if err := l.finishSwaps(sl, known); err != nil {
		return err
	}
	entries, err := l.list()
	if err != nil {
		return err
	}
	bases := segmentBases(entries)
	if err := l.checkIdentity(len(bases)); err != nil {
		return err
	}
	bases = l.dropBelowStart(bases, entries)
	m := l.loadManifest(sl, known)
	bases = l.expect(bases, &m, sl.recovery)
	if len(bases) > 0 && bases[0] > l.start {
		if bases, err = l.missingFront(bases, sl, known); err != nil {
			return err
		}
	}
	if len(bases) == 0 {
		return l.openEmpty(sl, known)
	}
	return l.openSegments(bases, m, sl, known, clean)
}

// dropBelowStart finishes what a crash left of the deletion of segments: those below the start, and files that have lost their segment. What lies
// above the recovery point stays until it is sealed: nothing else tells of the producers that wrote there.
func (l *Log) dropBelowStart(bases []int64, entries []iofs.DirEntry) []int64 {
	var failed error
	n := 0
	for ; n+1 < len(bases) && bases[n+1] <= min(l.start, l.recovery); n++ {
		failed = cmp.Or(failed, l.removeFiles(newSegment(l.dir.fs, l.path(), bases[n])))
	}
	bases = bases[n:]
	left := leftovers(entries, bases, l.start)
	for _, name := range left {
		if err := l.dir.fs.Remove(filepath.Join(l.path(), name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = cmp.Or(failed, err)
		}
	}
	if n > 0 || len(left) > 0 {
		failed = cmp.Or(failed, l.dir.fs.SyncDir(l.path()))
	}
	if failed != nil {
		l.warn("segments below the log start remain", failed)
	}
	return bases
}

// leftovers are the files of deleted segments: renamed, or indexes below the start without their segment.
func leftovers(entries []iofs.DirEntry, bases []int64, start int64) (names []string) {
	for _, e := range entries {
		base, isIndex := parseSegmentName(e.Name(), indexSuffix)
		if !isIndex {
			base, isIndex = parseSegmentName(e.Name(), timeSuffix)
		}
		_, there := slices.BinarySearch(bases, base)
		if strings.HasSuffix(e.Name(), deletedSuffix) || isIndex && base < start && !there {
			names = append(names, e.Name())
		}
	}
	return names
}

// missingFront decides about segments that begin above the log's start. A start that moved is durable before a segment below it goes, so this
// is damage, unless nothing from the start on was ever synced: then a power cut has kept the entries of later segments and lost that of the first.
func (l *Log) missingFront(bases []int64, sl slot, known bool) ([]int64, error) {
	if known && sl.durable > l.start {
		return nil, fmt.Errorf("%w: the log starts at offset %d, and the first segment in %s begins at %d", ErrDamaged, l.start, l.path(), bases[0])
	}
	synced, err := l.everSynced()
	if err != nil {
		return nil, err
	}
	if synced && !known {
		l.dir.logger.Error("log start is unknown; it is taken from the first segment", "topic", l.topic, "partition", l.partition, "start", bases[0])
		l.start = bases[0]
		return bases, nil
	}
	for _, base := range bases {
		if err := l.setAside(newSegment(l.dir.fs, l.path(), base)); err != nil {
			return nil, err
		}
	}
	if err := l.dir.fs.SyncDir(l.path()); err != nil {
		return nil, storageError("sync partition directory", err)
	}
	return nil, nil
}

// everSynced tells whether there are files that are written only after a sync of the log and its directory.
func (l *Log) everSynced() (bool, error) {
	entries, err := l.dir.fs.ReadDir(l.path())
	if err != nil {
		return false, storageError("list partition directory", err)
	}
	return slices.ContainsFunc(entries, func(e iofs.DirEntry) bool {
		suffix := filepath.Ext(e.Name())
		return e.Name() == epochFile || suffix == indexSuffix || suffix == timeSuffix || suffix == producerSuffix
	}), nil
}

// setAside renames a segment that was never acknowledged.
func (l *Log) setAside(s *segment) error {
	name := s.path(logSuffix)
	l.dir.logger.Warn("segment without what comes before it was never acknowledged: it is set aside", "file", name, "kept", name+tornSuffix)
	if err := l.dir.fs.Rename(name, name+tornSuffix); err != nil {
		return storageError("set segment aside", err)
	}
	return l.removeFiles(s) // its indexes
}

// openEmpty is a partition without segments: never written to, or never durably.
func (l *Log) openEmpty(sl slot, known bool) error {
	if known && sl.durable > sl.start {
		return fmt.Errorf("%w: offsets %d to %d were durable, and %s has no segments", ErrDamaged, sl.start, sl.durable, l.path())
	}
	l.end, l.durable = l.start, l.start
	l.visible = visible{offset: l.start}
	l.recovery = l.start
	l.newDir, l.newFiles = true, true // a directory left by a crash may not be durable
	return nil
}

// list gives the entries of the partition's directory, none if it is missing.
func (l *Log) list() ([]iofs.DirEntry, error) {
	entries, err := l.dir.fs.ReadDir(l.path())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, storageError("list partition directory", err)
	}
	return entries, nil
}

func segmentBases(entries []iofs.DirEntry) []int64 {
	var bases []int64
	for _, e := range entries {
		if base, ok := parseSegmentName(e.Name(), logSuffix); ok {
			bases = append(bases, base)
		}
	}
	return bases
}

// checkIdentity refuses a directory that belongs to another topic id: a re-created topic never shows its predecessor's data.
func (l *Log) checkIdentity(segments int) error {
	if l.id == ReservedID {
		return nil
	}
	id, err := readMetadata(l.dir.fs, l.path())
	switch {
	case err == nil && id == l.id:
		return nil
	case err == nil:
		// It is on its way out, or was put there: the log opens once it is gone.
		return fmt.Errorf("%w: %s belongs to topic id %s, not %s", ErrStorage, l.path(), id, l.id)
	case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errBadMetadata):
		return storageError("read "+metadataFile, err)
	case segments > 0:
		// The file is synced before the first append is acknowledged, so it was lost or nothing was acknowledged; write it again with the next sync.
		l.newDir = true
	}
	return nil
}

func (l *Log) openSegments(bases []int64, m sealedList, sl slot, known, clean bool) error {
	if !known && len(bases) > 1 {
		// Nobody knows whether the log was ever compacted. The last segment was not.
		l.cleaned = missingBelow(bases[len(bases)-1])
	}
	for i, base := range bases {
		s := l.newSegment(base)
		s.gaps = l.cleaned.gaps()
		l.segs = append(l.segs, s)
		if i+1 < len(bases) {
			s.next = bases[i+1]
		}
	}
	first := 0 // the first segment to be read
	if known {
		first = max(0, lastAtOrBelow(bases, sl.recovery))
	}
	if clean {
		first = len(bases) - 1
	}
	for _, s := range l.segs[:first] {
		if err := l.openSealed(s, &m); err != nil {
			return err
		}
	}
	l.checkLengths()
	if err := l.loadEpochs(first, sl); err != nil {
		return err
	}
	if clean {
		l.active().recall(m.all)
		err := l.openClean()
		if err == nil && known && l.end != sl.durable {
			err = fmt.Errorf("%w: the log ends at offset %d, it was closed at %d", errNotClean, l.end, sl.durable)
		}
		if !errors.Is(err, errNotClean) {
			return err
		}
		l.warn("recovering in spite of a clean stop", err)
	}
	r := recovery{log: l, cfg: l.cfg.Load(), slot: sl, known: known, first: first}
	return r.run()
}

// loadEpochs reads the checkpoint or, if it is missing or not as it was written, the headers of the segments that recovery will not read.
func (l *Log) loadEpochs(first int, sl slot) error {
	es, sum, err := readEpochs(l.dir.fs, l.path())
	if err == nil && sum == sl.epochs {
		l.epochs, l.epochsSum = es, sum
		return nil
	}
	l.epochs = nil
	for _, s := range l.segs[:first] {
		if err := s.eachHeader(func(h kproto.Batch) { l.epochs.assign(h.LeaderEpoch(), h.BaseOffset()) }); err != nil {
			return err
		}
	}
	l.epochsDirty = len(l.epochs) > 0
	return nil
}

// lastAtOrBelow is the index of the last base <= offset, or -1.
func lastAtOrBelow(bases []int64, offset int64) int {
	i, found := slices.BinarySearch(bases, offset)
	if found {
		return i
	}
	return i - 1
}

// openSealed takes a segment that was sealed before the last stop; its indexes are opened when they are needed.
func (s *segment) openSealed() error {
	size, err := s.fileSize()
	if err != nil {
		return err
	}
	s.size, s.synced, s.sealed = size, size, true
	s.checks.need(size)
	return nil
}

var errNotClean = errors.New("not as a clean stop leaves it")

// openClean loads the last segment after a clean stop: its indexes and the producers, from the mark of the stop or else from side files, and the few headers
// after the last index entry.
func (l *Log) openClean() error {
	s := l.active()
	last, err := l.dir.last.find(slotKey{l.id, l.partition})
	switch {
	case errors.Is(err, ErrStorage):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errNotClean, err)
	case last != nil && last.entry.base != s.base:
		return fmt.Errorf("%w: the last segment is %s, it was that of offset %d", errNotClean, s.path(logSuffix), last.entry.base)
	case last != nil:
		s.listed = &last.entry
	}
	if err := s.openSealed(); err != nil {
		return err
	}
	if err := s.open(os.O_RDWR); err != nil {
		return err
	}
	s.sealed = false
	if e := s.listed; e != nil {
		s.listed = nil // it will be longer
		if s.other = s.isOther(e); s.other {
			return fmt.Errorf("%w: %s is not the segment that was there", errNotClean, s.path(logSuffix))
		}
		s.head, s.sum, s.summed = e.head, e.sum, e.size == s.size && s.size > 0
	}
	if last != nil {
		s.useLast(last)
	} else if err := s.loadIndexes(); err != nil {
		return fmt.Errorf("%w: %w", errNotClean, err)
	}
	var from int64
	if n := len(s.offsets.mem); n > 0 {
		from = int64(s.offsets.mem[n-1].pos)
	}
	newest, err := s.walkTail(from)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotClean, err)
	}
	l.end, l.durable = s.next, s.next
	l.visible = visible{s.next, s, s.size}
	l.recovery = s.base
	if last != nil {
		l.producers = last.producers
		l.epochsDirty = l.epochsSum == 0 || !slices.Equal(l.epochs, last.epochs)
		l.epochs = last.epochs
		return nil
	}
	if newest > l.epochs.last() { // the checkpoint is lost
		if err := s.eachHeader(func(h kproto.Batch) { l.epochs.assign(h.LeaderEpoch(), h.BaseOffset()) }); err != nil {
			return err
		}
		l.epochsDirty = true
	}
	return l.loadProducers(l.segs, l.end)
}

// useLast takes the indexes of a segment from the mark of a clean stop.
func (s *segment) useLast(x *lastSegment) {
	s.offsets, s.times = offsets{mem: x.offsets}, times{mem: x.times}
	if n := len(x.times); n > 0 {
		s.maxTime, s.maxTimeOffset = x.times[n-1].time, s.base+int64(x.times[n-1].rel)
	}
}

// loadIndexes reads the index files of a segment that will be appended to into memory.
func (s *segment) loadIndexes() error {
	if err := func() error { s.sealed = true; defer func() { s.sealed = false }(); return s.openIndexes(0) }(); err != nil {
		return err
	}
	o, t := s.offsets, s.times
	s.offsets, s.times = offsets{}, times{}
	defer s.gave(o.files() + t.files())
	defer closeAll(o.file, t.file)
	for i := range o.len() {
		e, err := o.at(i)
		if err != nil {
			return err
		}
		s.offsets.mem = append(s.offsets.mem, e)
	}
	for i := range t.len() {
		e, err := t.at(i)
		if err != nil {
			return err
		}
		s.times.mem = append(s.times.mem, e)
	}
	return nil
}

// walkTail goes over the headers from a batch's position to the end, which must be a batch's end. It gives the last one's leader epoch, -1 if there is none.
func (s *segment) walkTail(from int64) (epoch int32, err error) {
	if s.size > 0 {
		first := newWalker(s.file, 0, s.size)
		h, _, _, err := first.next()
		if err == nil {
			s.firstTime = h.MaxTimestamp()
		}
		first.close()
	}
	w := newWalker(s.file, from, s.size)
	defer w.close()
	for epoch = -1; ; {
		h, pos, size, err := w.next()
		if errors.Is(err, io.EOF) {
			return epoch, nil
		}
		if err != nil {
			return -1, err
		}
		s.next, epoch = h.NextOffset(), h.LeaderEpoch()
		s.sinceIndex = pos + size - from
		if h.MaxTimestamp() > s.maxTime && h.Count() > 0 {
			s.maxTime, s.maxTimeOffset = h.MaxTimestamp(), h.LastOffset()
		}
	}
}

// loadProducers makes the producers' state at the offset end: the newest readable snapshot at or below it, then the headers of the batches after that.
func (l *Log) loadProducers(segs []*segment, end int64) error {
	snapshots, err := l.snapshots()
	if err != nil {
		return err
	}
	l.producers = producers{}
	from := int64(0)
	for _, o := range slices.Backward(snapshots) {
		name := filepath.Join(l.path(), segmentName(o, producerSuffix))
		if o > end {
			continue
		}
		data, err := vfs.ReadFile(l.dir.fs, name, maxProducersFile)
		if err != nil {
			return storageError("read producer snapshot", err)
		}
		ps, err := decodeProducers(data)
		if err != nil {
			l.warn("producer snapshot ignored", err)
			continue
		}
		l.producers, from = ps, o
		break
	}
	return l.replayProducers(segs, from, end)
}

func (l *Log) replayProducers(segs []*segment, from, end int64) error {
	now := time.Now().UnixMilli()
	for _, s := range segs {
		if s.next <= from || s.base >= end || s.size == 0 {
			continue
		}
		err := s.eachHeader(func(h kproto.Batch) {
			if h.BaseOffset() >= from && h.BaseOffset() < end {
				l.producers.note(h, now, replayTime(h))
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// replayTime is the time that the reply to the batch's Produce said.
func replayTime(h kproto.Batch) int64 {
	if h.LogAppendTime() {
		return h.MaxTimestamp()
	}
	return -1
}

// recovery reads the segments from first on, batch by batch, and decides what the log is.
type recovery struct {
	log   *Log
	cfg   *Config
	slot  slot
	known bool
	first int

	renewing bool        // in this segment
	expected int64       // next offset
	rolled   []producers // at the end of each segment but the last
	buf      []byte
	scanned  int64
}

func (r *recovery) run() error {
	l := r.log
	segs := l.segs
	if err := l.loadProducers(segs[:r.first], segs[r.first].base); err != nil {
		return err
	}
	l.epochs.cut(segs[r.first].base)
	r.expected = segs[r.first].base
	for i := r.first; i < len(segs); i++ {
		next := int64(maxOffset)
		if i+1 < len(segs) {
			next = segs[i+1].base
		}
		bad, err := r.scan(segs[i], next)
		if err != nil {
			return err
		}
		switch {
		case bad != nil:
		case i+1 < len(segs) && r.expected != next:
			bad = &badBatch{segs[i].size, fmt.Sprintf("the segment ends at offset %d, the next one begins at %d", r.expected, next)}
		case i+1 == len(segs) && r.known && r.expected < r.slot.durable:
			bad = &badBatch{segs[i].size, fmt.Sprintf("the log ends at offset %d, and was durable up to %d", r.expected, r.slot.durable)}
		}
		if bad != nil && next <= l.start {
			return r.skip(i + 1)
		}
		if bad != nil {
			if err := r.stop(i, bad); err != nil {
				return err
			}
			break
		}
		if i+1 < len(segs) {
			r.rolled = append(r.rolled, l.copyProducers(r.cfg, time.Now()))
		}
	}
	return r.settle()
}

// skip begins anew without the first n segments, which lie below the log's start: a crash has left only part of them, or they are damaged.
func (r *recovery) skip(n int) error {
	l := r.log
	for _, s := range l.segs[:n] {
		if err := l.removeFiles(s); err != nil {
			return err
		}
	}
	l.dropSegments(l.segs[:n])
	l.segs = l.segs[n:]
	r.first, r.rolled = 0, nil
	return r.run()
}

// scan takes the batches of one segment in. What overlaps the next segment was taken back after a failed sync and is dropped.
func (r *recovery) scan(s *segment, limit int64) (*badBatch, error) {
	if err := s.open(os.O_RDWR); err != nil {
		return nil, err
	}
	size, err := s.file.Size()
	if err != nil {
		return nil, storageError("size of segment", err)
	}
	if r.renewing, err = r.mustRenew(s); err != nil {
		return nil, err
	}
	s.forget()
	if s.other {
		return &badBatch{0, "it is not the segment that was there at the last stop"}, nil
	}
	s.checks.all()
	w := newWalker(s.file, 0, size)
	defer w.close()
	for {
		h, pos, n, err := w.next()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err == nil {
			err = r.check(s, h, pos, n)
		}
		var bad *badBatch
		switch isBad := errors.As(err, &bad); {
		case err != nil && !isBad:
			return nil, err
		case r.expected >= limit:
			return nil, r.keepTail(s, s.size, "overlaps the next segment")
		case isBad:
			return bad, nil
		}
		if err := r.renew(s, pos); err != nil {
			return nil, err
		}
		r.take(s, h, pos, n)
	}
}

// check reads the whole batch.
func (r *recovery) check(s *segment, h kproto.Batch, pos, n int64) error {
	if !s.follows(h, r.expected) {
		return &badBatch{pos, fmt.Sprintf("offset %d where %d was expected", h.BaseOffset(), r.expected)}
	}
	// The CRC does not cover the epoch. The catalog's log is read before the broker knows its epoch.
	if newest := r.log.dir.epoch.Load(); h.LeaderEpoch() < r.log.epochs.last() || newest > 0 && h.LeaderEpoch() > newest {
		return &badBatch{pos, fmt.Sprintf("leader epoch %d between %d and %d", h.LeaderEpoch(), r.log.epochs.last(), newest)}
	}
	b, err := readBatch(s.file, pos, n, r.buf)
	if err == nil {
		r.buf = b
	}
	return err
}

// renew writes the batch just read once more if it is not known to be durable. After a failed sync the kernel may give bytes that count as clean
// and are not on the disk, and no later sync would bring them there.
func (r *recovery) renew(s *segment, pos int64) error {
	if !r.renewing || r.known && kproto.Batch(r.buf).NextOffset() <= r.slot.durable {
		return nil
	}
	if _, err := s.file.WriteAt(r.buf, pos); err != nil {
		return storageError("write recovered batch again", err)
	}
	return nil
}

// mustRenew tells whether batches of s may not be durable. Without a recorded durable offset an index tells: it is made after a sync.
func (r *recovery) mustRenew(s *segment) (bool, error) {
	if r.known {
		return true, nil
	}
	sealed, err := vfs.Exists(s.fs, s.path(indexSuffix))
	if err != nil {
		return false, storageError("look for index", err)
	}
	return !sealed, nil
}

func (r *recovery) take(s *segment, h kproto.Batch, pos, n int64) {
	s.note(h, pos, n, r.cfg.IndexInterval)
	r.log.producers.note(h, time.Now().UnixMilli(), replayTime(h))
	if r.log.epochs.assign(h.LeaderEpoch(), h.BaseOffset()) {
		r.log.epochsDirty = true
	}
	r.expected = s.next
	r.scanned += n
}

// stop ends the log at the first bad batch. Below the recorded durable offset that is damage: everything is kept, nothing after it is served, and nothing is appended;
// unless nothing above the log's start was durable: what lies below it is nobody's any more.
// At or above it, it is what a power cut leaves of writes that were never acknowledged: cut off, loudly, and kept aside.
func (r *recovery) stop(i int, bad *badBatch) error {
	l := r.log
	s := l.segs[i]
	if r.known && max(r.expected, l.start) < r.slot.durable {
		l.damage = &damage{offset: r.expected, end: maxOffset, file: s.path(logSuffix), pos: bad.pos, posEnd: bad.pos, reason: bad.reason}
		l.dir.damaged.Store(l, nil)
		l.dir.logger.Error("data is damaged: earlier offsets can be read, nothing can be appended", "topic", l.topic, "partition", l.partition, "damage", l.damage.Error())
		l.dropSegments(l.segs[i+1:])
		l.segs = l.segs[: i+1 : i+1]
		return nil
	}
	if err := r.keepTail(s, bad.pos, bad.reason); err != nil {
		return err
	}
	for _, later := range l.segs[i+1:] {
		if err := l.setAside(later); err != nil {
			return err
		}
	}
	l.dropSegments(l.segs[i+1:])
	l.segs = l.segs[: i+1 : i+1]
	return nil
}

// keepTail cuts a segment at pos, after copying what is cut off into a .torn file.
func (r *recovery) keepTail(s *segment, pos int64, reason string) error {
	size, err := s.file.Size()
	if err != nil {
		return storageError("size of segment", err)
	}
	if size == pos {
		return nil
	}
	name := fmt.Sprintf("%s.%d%s", s.path(logSuffix), pos, tornSuffix)
	r.log.dir.logger.Warn("log cut at a batch that was never acknowledged; its bytes are kept", "topic", r.log.topic, "partition", r.log.partition,
		"offset", r.expected, "bytes", size-pos, "reason", reason, "kept", name)
	if err := copyRange(r.log.dir.fs, name, s.file, pos, size); err != nil {
		return err
	}
	if err := r.log.dir.fs.SyncDir(r.log.path()); err != nil {
		return storageError("sync partition directory", err)
	}
	if err := s.file.Truncate(pos); err != nil {
		return storageError("cut torn tail", err)
	}
	return nil
}

// copyChunk is how much of a torn tail is in memory at a time.
const copyChunk = 1 << 20

func copyRange(fs vfs.FS, name string, from vfs.File, pos, end int64) error {
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return storageError("create torn file", err)
	}
	defer f.Close()
	buf := make([]byte, min(copyChunk, end-pos))
	for at := pos; at < end; {
		n, err := from.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
		if n == 0 && err != nil {
			return storageError("read torn tail", err)
		}
		if _, err := f.WriteAt(buf[:n], at-pos); err != nil {
			return storageError("write torn file", err)
		}
		at += int64(n)
	}
	if err := f.Sync(); err != nil {
		return storageError("sync torn file", err)
	}
	return nil
}

// settle makes what was kept durable before anybody may see it, and publishes the log.
func (r *recovery) settle() error {
	l := r.log
	for _, s := range l.segs[r.first:] {
		if err := r.sync(s); err != nil {
			return storageError("sync recovered segment", err)
		}
		s.synced = s.size
	}
	if l.damage == nil {
		if err := l.dropSnapshotsAbove(r.expected); err != nil {
			return err
		}
	}
	if err := l.dir.fs.SyncDir(l.path()); err != nil {
		return storageError("sync recovered directory", err)
	}
	if err := l.dir.fs.SyncDir(l.dir.path); err != nil {
		return storageError("sync data directory", err)
	}
	s := l.active()
	l.end, l.durable = r.expected, r.expected
	l.visible = visible{l.end, s, s.size}
	if l.damage != nil {
		l.end, l.durable = r.slot.durable, r.slot.durable
		l.visible = visible{offset: l.end}
	}
	if l.start > l.end {
		return r.restartAtStart()
	}
	for i, rolled := range l.segs[r.first : len(l.segs)-1] {
		l.toSeal(rolled, r.rolled[i])
	}
	l.recovery = l.segs[r.first].base
	if l.damage == nil {
		if l.failed {
			if err := l.beginSegment(); err != nil {
				return err
			}
		}
		l.noteSlot()
	}
	l.dir.logger.Info("recovered partition", "topic", l.topic, "partition", l.partition, "end", l.end, "bytes", r.scanned)
	return nil
}

// sync makes a segment durable as it is now. Only the second time its size may be one that a failed sync has forgotten.
func (r *recovery) sync(s *segment) error {
	if r.log.failed && r.log.damage == nil {
		return truncateSynced(s.file, s.size)
	}
	return s.file.Sync()
}

// restartAtStart is for a log whose start was moved past what survived: it goes on empty at its start, so that no offset is given twice.
func (r *recovery) restartAtStart() error {
	l := r.log
	for _, s := range l.segs {
		if err := l.removeFiles(s); err != nil {
			return err
		}
	}
	if err := l.dir.fs.SyncDir(l.path()); err != nil {
		return storageError("sync partition directory", err)
	}
	l.dropSegments(l.segs)
	l.segs, l.sealing = nil, nil
	l.producers, l.epochs, l.epochsDirty = producers{}, nil, false
	l.end, l.durable = l.start, l.start
	l.visible = visible{offset: l.start}
	l.recovery = l.start
	l.newFiles = true
	return nil
}

// dropSnapshotsAbove removes producer snapshots of offsets that the log no longer has.
func (l *Log) dropSnapshotsAbove(end int64) error {
	snapshots, err := l.snapshots()
	if err != nil {
		return err
	}
	for _, o := range snapshots {
		if o > end {
			if err := l.dir.fs.Remove(filepath.Join(l.path(), segmentName(o, producerSuffix))); err != nil {
				return storageError("remove producer snapshot", err)
			}
		}
	}
	return nil
}
