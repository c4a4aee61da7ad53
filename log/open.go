package log

import (
	"cmp"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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
		err := s.eachHeader(func(h kproto.Batch) { l.epochs.assign(h.LeaderEpoch(), h.BaseOffset()) })
		s.shut()
		if err != nil {
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
