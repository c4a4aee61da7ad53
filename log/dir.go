package log

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// Options of a data directory.
type Options struct {
	FS     vfs.FS
	Logger *slog.Logger
	// Syncers is how many partitions may be synced at the same time; 0 means defaultSyncers.
	Syncers int
	// OpenFiles is how many files of segments may be open at a time; 0 means DefaultOpenFiles. Beside them each syncer, the cleaner, the scrubber and a
	// recovery use a few for a moment.
	OpenFiles int
	// BallastBytes is the room that is kept for deletions on a full disk, at most a 64th of the disk. 0: none.
	BallastBytes int64
}

// Dir is a data directory held by this process.
//
// Lock order: Dir.mu before Log.mu before the small locks of slots and syncer. Nothing waits for the disk to sync while holding Dir.mu or a Log.mu.
type Dir struct {
	path   string
	fs     vfs.FS
	logger *slog.Logger
	lock   interface{ Close() error }
	clean  bool // the last stop was clean: files are as they were closed
	// recovered: no partition on disk is as an unclean stop left it. Without that a clean mark would be a lie.
	recovered atomic.Bool
	last      *lastSegments // that the last stop wrote down, and nobody has used yet
	stopping  atomic.Bool   // Close was called
	markRoom  int64         // bytes of last segments that the mark of a clean stop may have
	lastRun   time.Time     // when the last run wrote here for the last time; zero: never
	epoch     atomic.Int32
	slots     *slots
	syncer    *syncer
	sealer    *syncer // has the side files of rolled segments written
	reaper    *reaper
	overfull  *overfull
	files     *descriptors
	troubled  [len(Troubles)]atomic.Int64
	deleted   deletions
	damaged   sync.Map // the logs in which damage was found
	space     *space
	retryGap  time.Duration
	dying     sync.Map    // paths of partition directories that Delete is about to rename
	unsettled atomic.Bool // a deleted partition's directory was renamed, and that may not be durable

	mu     sync.Mutex
	logs   map[string]*Log // by directory name; a deleted partition's place is free again
	closed bool
}

// Open takes the lock of the data directory (created if missing). Errors: ErrInUse, ErrNewer, ErrStorage, or a sentence about
// permissions.
func Open(path string, o Options) (*Dir, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	made, err := vfs.MkdirAll(o.FS, path, 0o700)
	if err != nil {
		return nil, fmt.Errorf("make data directory %s: %w", path, err)
	}
	if err := syncMade(o.FS, made); err != nil {
		return nil, err
	}
	lock, err := o.FS.Lock(filepath.Join(path, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s: %w: stop it, or choose another --data-dir", path, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("lock data directory %s: %w", path, err)
	}
	d := &Dir{path: path, fs: o.FS, logger: o.Logger, lock: lock, logs: map[string]*Log{}, retryGap: retryGap, last: &lastSegments{}, markRoom: maxMark}
	d.syncer = newSyncer(cmp.Or(o.Syncers, defaultSyncers), (*Log).sync)
	d.sealer = newSyncer(sealers, (*Log).seal)
	d.files = &descriptors{limit: int64(cmp.Or(o.OpenFiles, DefaultOpenFiles)), wait: roomWait}
	d.reaper = &reaper{fs: o.FS, logger: o.Logger}
	d.overfull = newOverfull()
	d.space = &space{fs: o.FS, dir: path, name: filepath.Join(path, ballastFile), reaper: d.reaper, logger: o.Logger}
	if err := d.open(len(made) > 0); err != nil {
		d.last.close()
		_ = lock.Close()
		return nil, err
	}
	d.space.open(o.BallastBytes)
	return d, nil
}

// syncMade makes the directories that were just made durable, outermost first. If that cannot be, they go again: the next start would not know that it has to.
func syncMade(fs vfs.FS, made []string) error {
	for _, dir := range made {
		if err := fs.SyncDir(filepath.Dir(dir)); err != nil {
			for _, m := range slices.Backward(made) {
				_ = fs.Remove(m)
			}
			return storageError("sync parent of data directory", err)
		}
	}
	return nil
}

func (d *Dir) open(made bool) error {
	d.lastRun = d.newest(durableFile, cleanFile)
	var err error
	if d.slots, err = openSlots(d.fs, d.path, d.logger); err != nil { // before anything is changed
		return err
	}
	d.slots.noticed = d.space.noticed
	if err := d.takeCleanMark(); err != nil {
		return err
	}
	if !made && !d.clean {
		// A run that was killed may have made the directory. Where somebody else has, its parent may be closed to the broker.
		if err := d.fs.SyncDir(filepath.Dir(d.path)); err != nil && !errors.Is(err, os.ErrPermission) {
			return storageError("sync parent of data directory", err)
		}
	}
	if !d.clean {
		// The last run may have been killed before it synced what we have just read and found.
		if err := d.slots.settle(); err != nil {
			return err
		}
	}
	return d.sweep()
}

// newest is when the last of the files was written to, by the wall clock of that time.
func (d *Dir) newest(names ...string) (t time.Time) {
	for _, name := range names {
		if info, err := d.fs.Stat(filepath.Join(d.path, name)); err == nil && info.ModTime().After(t) {
			t = info.ModTime()
		}
	}
	return t
}

// LastRun is when the last run wrote to the directory for the last time, by the wall clock of that time; zero if there was none.
func (d *Dir) LastRun() time.Time { return d.lastRun }

// takeCleanMark reads and removes the mark of a clean stop; its removal is durable before the first append, or a power cut could bring it back.
func (d *Dir) takeCleanMark() error {
	name := filepath.Join(d.path, cleanFile)
	if err := d.fs.Remove(name + tempSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.logger.Warn("part of a mark of a clean stop remains", "file", name+tempSuffix, "error", err)
	}
	last, err := openMark(d.fs, d.path)
	damaged := errors.Is(err, errBadMark)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case damaged:
		d.logger.Error("the mark of a clean stop is damaged: partitions are recovered", "file", name, "error", err)
	case err != nil:
		return storageError("read clean shutdown mark", err)
	default:
		d.last = last
	}
	if err = d.fs.Remove(name); err == nil {
		err = d.fs.SyncDir(d.path)
	}
	if err != nil {
		return storageError("remove clean shutdown mark", err)
	}
	d.clean = !damaged
	d.recovered.Store(!damaged)
	return nil
}

// sweep removes what a crash left of deletions. After the end of the process alone their renames may not be durable yet.
func (d *Dir) sweep() error {
	entries, err := d.fs.ReadDir(d.path)
	if err != nil {
		return storageError("list data directory", err)
	}
	partitions := false
	var dying []os.DirEntry
	for _, e := range entries {
		_, _, named := parsePartitionDir(e.Name())
		partitions = partitions || named && e.IsDir()
		if e.IsDir() && strings.HasSuffix(e.Name(), deleteSuffix) {
			dying = append(dying, e)
		}
	}
	d.unsettled.Store(len(dying) > 0)
	if err := d.SettleDeletions(); err != nil {
		return err
	}
	for _, e := range dying {
		if err := vfs.RemoveAll(d.fs, filepath.Join(d.path, e.Name())); err != nil {
			d.logger.Warn("deleted partition's files remain", "directory", e.Name(), "error", err)
		}
	}
	if !partitions {
		d.recovered.Store(true)
	}
	return nil
}

// Clean tells whether the last stop was a clean one (or the directory is new).
func (d *Dir) Clean() bool { return d.clean }

// SetEpoch is the leader epoch stamped on batches from now on: one durable catalog record per start.
func (d *Dir) SetEpoch(epoch int32) { d.epoch.Store(epoch) }

// Log is the partition's log. It is registered at once and touches the disk when it is first used (or in Recover, after an unclean stop). It never fails:
// a partition that cannot be opened answers ErrStorage or ErrOffline. The same topic id and partition give the same *Log.
func (d *Dir) Log(topic string, id kproto.TopicID, partition int32, c *Config) *Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := partitionDir(topic, partition)
	if l := d.logs[name]; l != nil && l.id == id {
		return l
	}
	l := &Log{dir: d, topic: topic, id: id, partition: partition, slotIndex: -1}
	l.cfg.Store(c)
	if d.closed {
		l.become(stateOffline)
		l.offline = ErrClosed
		return l
	}
	d.logs[name] = l
	return l
}

// Found is a partition directory on disk.
type Found struct {
	Topic     string
	Partition int32
	ID        kproto.TopicID // zero when partition.metadata is missing or unreadable
	Path      string
}

// Partitions lists the partition directories on disk.
func (d *Dir) Partitions() ([]Found, error) {
	entries, err := d.fs.ReadDir(d.path)
	if err != nil {
		return nil, storageError("list data directory", err)
	}
	var found []Found
	for _, e := range entries {
		topic, partition, ok := parsePartitionDir(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		path := filepath.Join(d.path, e.Name())
		id, _ := readMetadata(d.fs, path) // zero: the caller reports it
		found = append(found, Found{topic, partition, id, path})
	}
	return found, nil
}

// Recover opens every registered partition that has files, in parallel, if the last stop was not clean. Call it when all are
// registered: after it, Close may say that the stop was clean.
func (d *Dir) Recover(ctx context.Context) error {
	if d.clean {
		return nil
	}
	work := make(chan *Log)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for l := range work {
				_, _ = l.Offsets() // opens; what is wrong stays with the partition and was logged
			}
		})
	}
	defer wg.Wait()
	defer close(work)
	for _, l := range d.all() {
		select {
		case work <- l:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.recovered.Store(true)
	return nil
}

// written gives the logs that have a directory: the others, of which there may be very many, hold nothing. It costs one listing, however many logs there are.
func (d *Dir) written() ([]*Log, error) {
	entries, err := d.fs.ReadDir(d.path)
	if err != nil {
		return nil, storageError("list data directory", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var logs []*Log
	for _, e := range entries {
		if l := d.logs[e.Name()]; l != nil {
			logs = append(logs, l)
		}
	}
	return logs, nil
}

func (d *Dir) all() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	logs := make([]*Log, 0, len(d.logs))
	for _, l := range d.logs {
		logs = append(logs, l)
	}
	slices.SortFunc(logs, func(a, b *Log) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	return logs
}

// Delete takes the partition out: later calls on it answer ErrDeleted, watchers are woken, and its directory is renamed out of the way durably, then removed.
// Readers that hold a Range go on reading.
func (d *Dir) Delete(l *Log) error {
	d.dying.Store(l.path(), nil) // until it is out of the way, no successor looks at the directory
	defer d.dying.Delete(l.path())
	index := l.delete()
	l.finishSync() // a sync under way writes side files by name: not into the directory of a successor
	name := partitionDir(l.topic, l.partition)
	d.mu.Lock()
	if d.logs[name] == l {
		delete(d.logs, name)
	}
	d.damaged.Delete(l)
	d.mu.Unlock()
	if index >= 0 {
		d.slots.release(index, slotKey{l.id, l.partition})
	}
	return d.discard(l.topic, l.partition, l.id)
}

// Discard removes the directory of a partition whose topic was deleted.
func (d *Dir) Discard(f Found) error { return d.discard(f.Topic, f.Partition, f.ID) }

// maxGoneName keeps the name of a directory on its way out, with its id and suffix, within the 255 bytes of a file name.
const maxGoneName = 180

func (d *Dir) discard(topic string, partition int32, id kproto.TopicID) error {
	d.last.drop(slotKey{id, partition})
	path := filepath.Join(d.path, partitionDir(topic, partition))
	found, err := readMetadata(d.fs, path)
	if there, eerr := vfs.Exists(d.fs, path); eerr == nil && !there {
		return nil // never written to
	}
	if err == nil && found != id {
		return nil // another incarnation's
	}
	gone := filepath.Join(d.path, fmt.Sprintf("%.*s-%d.%s%s", maxGoneName, topic, partition, id, deleteSuffix))
	err = d.fs.Rename(path, gone)
	if err != nil && d.space.noticed(err) {
		err = d.fs.Rename(path, gone)
	}
	if err != nil {
		return storageError("rename deleted partition", err)
	}
	if err := d.fs.SyncDir(d.path); err != nil {
		d.unsettled.Store(true)
		return storageError("sync data directory", err)
	}
	if err := vfs.RemoveAll(d.fs, gone); err != nil {
		return storageError("remove deleted partition", err)
	}
	return nil
}

// SettleDeletions makes durable that deleted partitions are out of the way, where that failed when they were deleted. A
// power cut could else bring back a directory that is no longer to be seen.
func (d *Dir) SettleDeletions() error {
	if !d.unsettled.Swap(false) {
		return nil
	}
	if err := d.fs.SyncDir(d.path); err != nil {
		d.unsettled.Store(true)
		return storageError("sync data directory", err)
	}
	return nil
}

// Close syncs everything, writes what a quick start needs, marks the directory clean and releases the lock. If something could not be
// made durable, an unclean stop was not recovered from, or a partition is damaged, the mark is left out, so that the next start recovers.
func (d *Dir) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	d.stopping.Store(true)
	mark := d.newMark()
	defer mark.close()
	allClean, failed := d.closeLogs(ctx, mark)
	d.syncer.close()
	d.sealer.close()
	d.reaper.close()
	d.space.close()
	if err := d.slots.close(); err != nil && failed == nil {
		failed = err
	}
	if failed == nil && allClean && d.recovered.Load() {
		failed = d.writeCleanMark(mark)
	}
	d.last.close()
	if err := d.lock.Close(); err != nil && failed == nil {
		failed = fmt.Errorf("unlock data directory: %w", err)
	}
	return failed
}

// closeLogs closes as many logs beside each other as are synced beside each other. It tells whether all are clean, and the first error.
func (d *Dir) closeLogs(ctx context.Context, mark *markWriter) (allClean bool, failed error) {
	allClean = true
	var mu sync.Mutex
	var wg sync.WaitGroup
	work := make(chan *Log)
	for range d.syncer.limit {
		wg.Go(func() {
			for l := range work {
				clean, err := l.close(ctx, mark)
				mu.Lock()
				allClean = allClean && clean
				if err != nil && failed == nil {
					failed = fmt.Errorf("close %s-%d: %w", l.topic, l.partition, err)
				}
				mu.Unlock()
			}
		})
	}
	for _, l := range d.all() {
		work <- l
	}
	close(work)
	wg.Wait()
	return allClean, failed
}

// newMark begins a mark with room for all that the one before had.
func (d *Dir) newMark() *markWriter {
	return &markWriter{fs: d.fs, name: filepath.Join(d.path, cleanFile), room: d.markRoom - d.last.size()}
}

// writeCleanMark comes when everything else is durable.
func (d *Dir) writeCleanMark(mark *markWriter) error {
	if err := d.last.copyTo(mark); err != nil {
		return err
	}
	if err := mark.finish(); err != nil {
		return err
	}
	if err := d.fs.SyncDir(d.path); err != nil {
		return storageError("sync data directory", err)
	}
	return nil
}
