package log

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// Loss is a range of offsets that repair cuts out, or would.
type Loss struct {
	Directory string `json:"directory"`
	File      string `json:"file"`     // the segment; a new one where none has the offsets
	Position  int64  `json:"position"` // bytes; -1: there are none
	Bytes     int64  `json:"bytes"`
	Offset    int64  `json:"offset"`
	End       int64  `json:"end"` // offset after the last
	Reason    string `json:"reason"`
	Kept      string `json:"kept,omitempty"` // file with the bytes that are cut out
}

// Repaired is the result of Repair.
type Repaired struct {
	Directory string    `json:"directory"`
	Executed  bool      `json:"executed"` // false: nothing was written
	Losses    []Loss    `json:"losses"`
	Left      []Finding `json:"left"` // damage that repair does nothing about, or would not
}

// loss is what the verifier knows of a Loss. Offsets that a bad end of the log had above its durable offset are none: a start deals with them.
type loss struct {
	seg         *segment // nil: none has the offsets
	pos, posEnd int64
	offset, end int64
	epoch       int32 // of the batches before
	reason      string
}

// lose notes a loss. What is bad at the log's end is met twice, as bytes and as missing offsets.
func (p *partVerifier) lose(x loss) {
	if n := len(p.losses); x.offset >= x.end || n > 0 && p.losses[n-1].end >= x.end {
		return
	}
	x.epoch = max(p.epochs.last(), 0)
	p.losses = append(p.losses, x)
}

// Repair cuts damage out of a data directory, or one partition directory, so that consumers step over it and a partition that took no appends takes
// them again. The bytes are kept beside the segment. A segment is replaced by the steps of compaction, so that a crash leaves it as it was or repaired, and
// repair can be called again. Unless execute is set nothing is written. It fails as Verify does.
func Repair(fs vfs.FS, dir string, execute bool) (*Repaired, error) {
	v, partitions, unlock, err := lockForVerify(fs, dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r := &repairer{fs: fs, out: &Repaired{Directory: dir, Executed: execute, Losses: []Loss{}, Left: []Finding{}}}
	if execute {
		if err := r.finishSwaps(v.data, partitions); err != nil {
			return nil, err
		}
	}
	if err := v.run(partitions); err != nil {
		return nil, err
	}
	if execute {
		if err := r.takeMark(v); err != nil {
			return nil, err
		}
	}
	for _, p := range v.parts {
		if err := r.partition(p, execute); err != nil {
			return nil, err
		}
	}
	if execute {
		v = newVerifier(fs, dir, v.data)
		if err := v.run(partitions); err != nil {
			return nil, err
		}
	}
	r.left(v, execute)
	return r.out, nil
}

type repairer struct {
	fs  vfs.FS
	out *Repaired
}

// left lists the damage that is still there, or of which a repair would leave it there.
func (r *repairer) left(v *verifier, executed bool) {
	take := func(fs []Finding, losses []loss) {
		for _, f := range fs {
			cut := !executed && slices.ContainsFunc(losses, func(x loss) bool { return f.Offset >= x.offset && f.Offset < x.end })
			if f.Damage && !cut {
				r.out.Left = append(r.out.Left, f)
			}
		}
	}
	take(v.report.Findings, nil)
	for _, p := range v.parts {
		take(p.out.Findings, p.losses)
	}
}

// bareLog is enough of a Log for the steps that replace a segment's file.
func bareLog(fs vfs.FS, path string) *Log {
	topic, n, _ := parsePartitionDir(filepath.Base(path))
	return &Log{dir: &Dir{fs: fs, path: filepath.Dir(path), logger: slog.New(slog.DiscardHandler)}, topic: topic, partition: n, slotIndex: -1}
}

// finishSwaps does what a start would do first: it ends compactions, and repairs, that a crash has interrupted.
func (r *repairer) finishSwaps(data string, partitions []string) error {
	slots, err := openSlots(r.fs, data, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	for _, name := range partitions {
		l := bareLog(r.fs, filepath.Join(data, name))
		l.dir.slots = slots
		if l.id, err = readMetadata(r.fs, l.path()); err != nil {
			l.id = ReservedID
		}
		index, sl, known := slots.claim(l.id, l.partition)
		if known {
			l.slotIndex, l.cleaned = index, sl.cleaned
		}
		if err := l.finishSwaps(sl, known); err != nil && !errors.Is(err, ErrDamaged) {
			return errors.Join(err, slots.close())
		}
	}
	return slots.close()
}

// takeMark removes the mark of a clean stop if anything is to be repaired: a last segment will not be the one that it tells of.
func (r *repairer) takeMark(v *verifier) error {
	if !slices.ContainsFunc(v.parts, func(p *partVerifier) bool { return len(p.losses) > 0 }) {
		return nil
	}
	err := r.fs.Remove(filepath.Join(v.data, cleanFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = r.fs.SyncDir(v.data)
	}
	if err != nil {
		return storageError("remove clean shutdown mark", err)
	}
	return nil
}

// partition repairs one partition, or lists what it would do.
func (r *repairer) partition(p *partVerifier, execute bool) error {
	for i := 0; i < len(p.losses); {
		n := i + 1
		for p.losses[i].seg != nil && n < len(p.losses) && p.losses[n].seg == p.losses[i].seg {
			n++
		}
		run := p.losses[i:n]
		i = n
		if execute {
			if err := r.replace(p, run); err != nil {
				return fmt.Errorf("repair %s: %w", p.dir, err)
			}
		}
		for _, x := range run {
			r.out.Losses = append(r.out.Losses, p.describe(x, execute))
		}
	}
	return nil
}

func (p *partVerifier) describe(x loss, execute bool) Loss {
	d := Loss{Directory: p.dir, Position: -1, Offset: x.offset, End: x.end, Reason: x.reason}
	if x.seg == nil {
		d.File = filepath.Join(p.dir, segmentName(x.offset, logSuffix))
		return d
	}
	d.File, d.Position, d.Bytes = p.name(x.seg), x.pos, x.posEnd-x.pos
	if execute && d.Bytes > 0 {
		d.Kept = x.kept()
	}
	return d
}

func (x *loss) kept() string {
	return fmt.Sprintf("%s.%d%s", x.seg.path(logSuffix), x.pos, damagedSuffix)
}

// replace puts a segment in the place of the one that the losses are in, or where there is none.
func (r *repairer) replace(p *partVerifier, run []loss) error {
	seg := run[0].seg
	if seg == nil {
		return r.fill(p, run[0])
	}
	if run[len(run)-1].end-seg.base > math.MaxInt32 {
		return fmt.Errorf("%s cannot have offsets up to %d", seg.path(logSuffix), run[len(run)-1].end)
	}
	f, err := r.fs.OpenFile(seg.path(logSuffix), os.O_RDONLY, 0)
	if err != nil {
		return storageError("open segment", err)
	}
	defer f.Close()
	for _, x := range run {
		if x.posEnd > x.pos {
			if err := copyRange(r.fs, x.kept(), f, x.pos, x.posEnd); err != nil {
				return err
			}
		}
	}
	if err := r.fs.SyncDir(p.dir); err != nil {
		return storageError("sync partition directory", err)
	}
	size := p.sizes[slices.Index(p.segs, seg)]
	return r.write(p.dir, seg.base, func(w *repairWriter) {
		at := int64(0)
		for _, x := range run {
			w.copy(f, at, x.pos)
			w.gap(x.offset, x.end, x.epoch)
			at = x.posEnd
		}
		w.copy(f, at, size)
	})
}

// fill makes segments that hold nothing but a gap.
func (r *repairer) fill(p *partVerifier, x loss) error {
	for base := x.offset; base < x.end; {
		end := min(x.end, base+math.MaxInt32)
		if err := r.write(p.dir, base, func(w *repairWriter) { w.gap(base, end, x.epoch) }); err != nil {
			return err
		}
		base = end
	}
	return nil
}

// write makes a segment beside its place, puts it there, and writes its indexes.
func (r *repairer) write(dir string, base int64, content func(w *repairWriter)) error {
	l := bareLog(r.fs, dir)
	s := newSegment(r.fs, dir, base)
	defer s.release()
	f, err := r.fs.OpenFile(s.path(cleanedSuffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return storageError("create repaired segment", err)
	}
	s.file = f
	w := &repairWriter{file: f}
	content(w)
	if w.err == nil {
		w.err = f.Sync()
	}
	if w.err != nil {
		_ = r.fs.Remove(s.path(cleanedSuffix)) // else the next start does it
		return storageError("write repaired segment", w.err)
	}
	if err := r.fs.Rename(s.path(cleanedSuffix), s.path(swapSuffix)); err != nil {
		return storageError("rename repaired segment", err)
	}
	if err := r.fs.SyncDir(dir); err != nil {
		return storageError("sync partition directory", err)
	}
	s.size, s.next, s.gaps = w.at, maxOffset, maxOffset // the verifier has seen the order of the offsets
	if err := l.replaceFiles(s, nil, func() error { return l.relist(s) }); err != nil {
		return err
	}
	if err := s.rebuild(DefaultConfig().IndexInterval); err != nil {
		return err
	}
	if err := s.writeIndexes(); err != nil {
		return err
	}
	if err := r.fs.SyncDir(dir); err != nil {
		return storageError("sync partition directory", err)
	}
	return nil
}

// repairWriter writes a segment from pieces. The first error stays.
type repairWriter struct {
	file vfs.File
	at   int64
	err  error
}

func (w *repairWriter) copy(from vfs.File, pos, end int64) {
	block := crcBlocks.Get().(*[crcBlock]byte)
	defer crcBlocks.Put(block)
	for pos < end && w.err == nil {
		b := block[:min(crcBlock, end-pos)]
		if _, w.err = from.ReadAt(b, pos); w.err == nil {
			w.bytes(b)
		}
		pos += int64(len(b))
	}
}

// gap writes a batch without records, as compaction leaves them too: a consumer steps over its offsets.
func (w *repairWriter) gap(offset, end int64, epoch int32) {
	b := kproto.NewBuilder(kproto.None)
	b.LeaderEpoch = epoch
	b.SetOffsets(offset, end-1)
	w.bytes(b.Batch())
}

func (w *repairWriter) bytes(b []byte) {
	if w.err == nil {
		_, w.err = w.file.WriteAt(b, w.at)
		w.at += int64(len(b))
	}
}
