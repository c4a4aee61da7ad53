package log

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// A partition of another cluster is written into a directory "<topic id>-<partition>.import", whole and durable, with its slot. Then
// the catalog gets the topic: that is the moment at which it exists. Then the directories get their names. What a crash leaves is
// settled by whoever opens the data directory next: SettleImports.

// importName is the directory's name until the topic exists.
func importName(id kproto.TopicID, partition int32) string {
	return fmt.Sprintf("%s-%d%s", id, partition, importSuffix)
}

func parseImportName(name string) (id kproto.TopicID, partition int32, ok bool) {
	name, is := strings.CutSuffix(name, importSuffix)
	i := strings.LastIndexByte(name, '-')
	if !is || i < 0 {
		return id, 0, false
	}
	id, err := kproto.ParseTopicID(name[:i])
	n, nerr := strconv.ParseInt(name[i+1:], 10, 32)
	return id, int32(n), err == nil && nerr == nil && n >= 0
}

// Stage writes a partition that was surveyed, batch by batch as Kafka has it. With dropLost those of transactions that were aborted or have not ended lose
// their records, and keep their offsets. A partition without data, that begins at zero, needs nothing. Errors: ErrDamaged if the source is no longer
// as it was, ErrStorage.
func (d *Dir) Stage(s *Survey, dropLost bool) error {
	if s.End == 0 {
		return nil
	}
	p := s.partition
	st := &stage{dir: d, survey: s, dropLost: dropLost, path: filepath.Join(d.path, importName(p.ID, p.Partition)), producers: producers{}, now: time.Now().UnixMilli()}
	if err := vfs.RemoveAll(d.fs, st.path); err != nil {
		return storageError("remove an unfinished import", err)
	}
	if err := d.fs.Mkdir(st.path, 0o700); err != nil {
		return storageError("make directory of an import", err)
	}
	if err := st.write(); err != nil {
		return err
	}
	return d.writeSlot(slot{
		id: p.ID, partition: p.Partition, durable: s.End, recovery: st.last, start: s.Start, epochs: st.epochsSum, cleaned: st.cleaned(),
	})
}

// writeSlot records a slot of a partition that is not open, durably.
func (d *Dir) writeSlot(sl slot) error {
	index, _, known := d.slots.claim(sl.id, sl.partition) // of an earlier import that was not finished
	if !known {
		index = d.slots.assign()
	}
	return d.slots.sync(d.slots.put(index, sl))
}

// Unstage gives up an import: it removes what Stage has written of it.
func (d *Dir) Unstage(id kproto.TopicID, partition int32) error {
	if index, sl, known := d.slots.claim(id, partition); known {
		d.slots.release(index, slotKey{sl.id, sl.partition})
	}
	if err := vfs.RemoveAll(d.fs, filepath.Join(d.path, importName(id, partition))); err != nil {
		return storageError("remove an unfinished import", err)
	}
	return nil
}

// SettleImports ends imports: the partitions of topics that exist get their names, durably, the others are removed. nameOf gives "" for a topic that
// does not exist.
func (d *Dir) SettleImports(nameOf func(id kproto.TopicID) string) error {
	entries, err := d.fs.ReadDir(d.path)
	if err != nil {
		return storageError("list data directory", err)
	}
	renamed := false
	for _, e := range entries {
		id, partition, ok := parseImportName(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		name := nameOf(id)
		if name == "" {
			if err := d.Unstage(id, partition); err != nil {
				return err
			}
			continue
		}
		if err := d.fs.Rename(filepath.Join(d.path, e.Name()), filepath.Join(d.path, partitionDir(name, partition))); err != nil {
			return storageError("rename an imported partition", err)
		}
		renamed = true
	}
	if renamed {
		if err := d.fs.SyncDir(d.path); err != nil {
			return storageError("sync data directory", err)
		}
	}
	return nil
}

// Taken tells whether there is a directory by the name of a partition.
func (d *Dir) Taken(topic string, partition int32) (bool, error) {
	return vfs.Exists(d.fs, filepath.Join(d.path, partitionDir(topic, partition)))
}

// stage is a partition being written.
type stage struct {
	dir      *Dir
	survey   *Survey
	dropLost bool
	path     string
	now      int64

	sealed    []sealedEntry
	producers producers
	epochsSum uint32
	last      int64 // base of the last segment
	buf       []byte
}

// importBlock is how many bytes are gathered before they are written.
const importBlock = 1 << 20

func (st *stage) write() error {
	s := st.survey
	bases := s.bases
	if len(bases) == 0 {
		bases = []int64{s.Start} // the name keeps the log's end
	}
	for i, base := range bases {
		next := s.End
		if i+1 < len(bases) {
			next = bases[i+1]
		}
		if err := st.segment(base, next, len(s.bases) == 0); err != nil {
			return err
		}
	}
	st.last = bases[len(bases)-1]
	return st.finish()
}

// segment copies one segment and writes its indexes. Where Kafka's compaction left nothing at its end, a batch without records says so.
func (st *stage) segment(base, next int64, empty bool) error {
	to := &importSegment{segment: newSegment(st.dir.fs, st.path, base)}
	defer to.release()
	if err := to.open(os.O_RDWR | os.O_CREATE | os.O_TRUNC); err != nil {
		return err
	}
	if !empty {
		if err := st.copy(to); err != nil {
			return err
		}
	}
	if to.next < next {
		if err := st.fill(to, next); err != nil {
			return err
		}
	}
	if err := to.finish(); err != nil {
		return err
	}
	st.sealed = append(st.sealed, sealedEntry{to.base, to.next, to.size, to.head, to.sum})
	return nil
}

func (st *stage) copy(to *importSegment) error {
	from, size, err := st.survey.open(to.base)
	if err != nil {
		return err
	}
	defer from.release()
	w := newWalker(from.file, 0, size)
	defer w.close()
	for {
		_, pos, n, err := w.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var b kproto.Batch
		if err == nil {
			b, err = readBatch(from.file, pos, n, st.buf)
		}
		if err != nil {
			return fmt.Errorf("%s changed while it was read: %w: %w", from.path(logSuffix), ErrDamaged, err)
		}
		st.buf = b
		if st.dropLost && st.survey.lost(b) {
			b = b.Empty()
		}
		st.producers.note(b, st.now, replayTime(b))
		if err := to.add(b); err != nil {
			return err
		}
	}
}

// fill says that no record has the offsets up to next.
func (st *stage) fill(to *importSegment, next int64) error {
	if next-to.next > math.MaxInt32 {
		return fmt.Errorf("%w: no record has the offsets from %d to %d, which are too many for one batch", ErrDamaged, to.next, next-1)
	}
	b := kproto.NewBuilder(kproto.None)
	b.LeaderEpoch = max(0, st.survey.seen.at(to.next))
	b.SetOffsets(to.next, next-1)
	return to.add(b.Batch())
}

// cleaned says which offsets may be missing.
func (st *stage) cleaned() cleanPoint {
	if st.survey.gaps == 0 {
		return 0
	}
	return missingBelow(st.survey.gaps)
}

// finish writes what stands beside the segments, and makes the directory durable.
func (st *stage) finish() error {
	s, fs := st.survey, st.dir.fs
	name := filepath.Join(st.path, segmentName(s.End, producerSuffix))
	if err := writeSynced(fs, name, st.producers.encode()); err != nil {
		return err
	}
	if err := writeSynced(fs, filepath.Join(st.path, manifestFile), encodeManifest(st.sealed)); err != nil {
		return err
	}
	es := s.epochs.encode()
	st.epochsSum = crc32.Checksum(es, castagnoli)
	if err := writeSynced(fs, filepath.Join(st.path, epochFile), es); err != nil {
		return err
	}
	if err := writeMetadata(fs, st.path, s.partition.ID); err != nil {
		return err
	}
	for _, dir := range []string{st.path, st.dir.path} {
		if err := fs.SyncDir(dir); err != nil {
			return storageError("sync directory of an import", err)
		}
	}
	return nil
}

// importSegment is a segment that batches with offsets are added to.
type importSegment struct {
	*segment
	pending []byte // not yet written
	flushed int64
}

func (s *importSegment) add(b kproto.Batch) error {
	if s.size+int64(len(b)) > maxSegmentBytes {
		return fmt.Errorf("%w: %s has no room for a batch about offsets that are missing", ErrDamaged, s.path(logSuffix))
	}
	s.note(b, s.size, int64(len(b)), DefaultConfig().IndexInterval)
	s.pending = append(s.pending, b...)
	if len(s.pending) < importBlock {
		return nil
	}
	return s.flush()
}

func (s *importSegment) flush() error {
	if len(s.pending) == 0 {
		return nil
	}
	if _, err := s.file.WriteAt(s.pending, s.flushed); err != nil {
		return storageError("write "+s.file.Name(), err)
	}
	s.flushed += int64(len(s.pending))
	s.pending = s.pending[:0]
	return nil
}

func (s *importSegment) finish() error {
	if err := s.flush(); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return storageError("sync "+s.file.Name(), err)
	}
	s.noteTime()
	return s.writeIndexes()
}
