package log

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// comeback is how long after its disk is well again a partition may refuse appends.
const comeback = 5 * time.Second

// TestComesBackByItself has the disk fail in the middle of things, in every way, until it is healed. Producers are told at once, what was visible is
// read on, and when the disk is well again, so is every partition, without a restart. No promise is broken, whatever the power does then.
func TestComesBackByItself(t *testing.T) {
	stride := 3
	if testing.Short() {
		stride = 29
	}
	runs := 0
	for _, f := range []vfs.Fault{
		{Ops: vfs.OpMutating, Err: syscall.ENOSPC}, {Ops: vfs.OpMutating, Err: syscall.EDQUOT}, {Ops: vfs.OpMutating, Err: syscall.EROFS}, {Ops: vfs.OpAny},
		{Ops: vfs.OpWrite, Path: "*.log", Partial: 50}, {Ops: vfs.OpWrite | vfs.OpTruncate, Path: "*.log", Partial: 100},
		{Ops: vfs.OpSync}, {Ops: vfs.OpSync | vfs.OpSyncDir}, {Ops: vfs.OpSync | vfs.OpTruncate}, {Ops: vfs.OpWrite | vfs.OpSync, Path: durableFile + "*"},
		{Ops: vfs.OpCreate | vfs.OpMkdir}, {Ops: vfs.OpRename | vfs.OpRemove}, {Ops: vfs.OpOpen | vfs.OpCreate, Err: syscall.EMFILE},
	} {
		f.Sticky = true
		for fired := true; fired; f.Nth += stride {
			f.Nth = max(f.Nth, 1)
			runs++
			synctest.Test(t, func(t *testing.T) {
				var err error
				if fired, err = comeBack(t, f, runs%2*6); err != nil {
					t.Fatalf("%+v: %v", f, err)
				}
			})
		}
	}
	t.Logf("%d runs", runs)
}

// comeBack lives through one fault. At most so many files are open; 0: enough.
func comeBack(t *testing.T, f vfs.Fault, files int) (fired bool, err error) {
	w := newWorld(t)
	w.files, w.wait = files, 10*time.Millisecond
	w.boot()
	defer w.kill()
	var parts []*part
	for i, mode := range []Durability{Fsync, Fsync, Interval, OS} {
		c := keeping(-1, 2000, time.Second)
		c.Durability, c.SyncInterval = mode, time.Second
		parts = append(parts, w.create("a", 1, int32(i), c))
	}
	for _, p := range parts[1:] {
		for range 4 {
			waitAll(t, p.must(batchSpec{records: 2, size: 120, pid: 1, seq: p.nextSequence(1)}))
		}
	}
	w.in.Add(f)
	for range 3 {
		for _, p := range parts {
			if err := p.endure(f.Ops); err != nil {
				return true, err
			}
		}
		w.retain(0)
		time.Sleep(1500 * time.Millisecond)
	}
	fired = w.in.Fired() > 0
	w.in.Heal()
	time.Sleep(comeback)
	for _, p := range parts {
		err := p.appendNext()
		if errors.Is(err, ErrOutOfOrderSequence) {
			err = p.appendNext() // the first one had the log take its tail back, the producer's last batch with it
		}
		if err == nil {
			err = p.advance(1)
		}
		if err != nil {
			return fired, fmt.Errorf("%v, %v after the disk is well: %w", p.cfg.Durability, comeback, err)
		}
	}
	w.kill()
	ps := w.promises()
	for name, keep := range map[string]vfs.Chooser{"nothing": vfs.KeepNothing, "everything": vfs.KeepEverything} {
		if err := checkImage(w.mem.Crash(keep), ps, false); err != nil {
			return fired, fmt.Errorf("power cut that keeps %s: %w", name, err)
		}
	}
	return fired, nil
}

func (p *part) appendNext() error {
	x, err := p.append(batchSpec{records: 2, size: 120, pid: 1, seq: p.nextSequence(1)})
	if err != nil {
		return err
	}
	return x.wait()
}

// endure appends and reads while the disk may fail.
func (p *part) endure(failing vfs.Kind) error {
	for range 2 {
		err := p.appendNext()
		if err != nil && !errors.Is(err, ErrStorage) && !errors.Is(err, ErrNotDurable) && !errors.Is(err, ErrOutOfOrderSequence) {
			return fmt.Errorf("append: %w", err)
		}
	}
	o, err := p.log.Offsets()
	if err != nil && !errors.Is(err, ErrStorage) {
		return err
	}
	if err == nil && failing&(vfs.OpOpen|vfs.OpRead) == 0 {
		// With six descriptors for four partitions, what cannot be synced may hold them all.
		if _, err := readBatches(p.log, o); err != nil && !(p.w.files > 0 && errors.Is(err, ErrTooManyFiles)) {
			return fmt.Errorf("read: %w", err)
		}
	}
	if err == nil {
		_ = p.advance(o.Start + (o.High-o.Start)/4) // may fail, and must not lie
	}
	return nil
}

// TestFrozenLogThatLostRecords: what interval has shown and the disk has lost must not give its offsets to other records in this epoch.
func TestFrozenLogThatLostRecords(t *testing.T) {
	fs, in := vfs.NewMem(), &vfs.Injector{}
	d := openDir(t, vfs.Inject(fs, in))
	d.retryGap = 0
	l := d.Log("a", testTopic, 0, withMode(Interval))
	for range 2 {
		mustAppend(t, l, batchSpec{size: 200})
	}
	in.Add(vfs.Fault{Ops: vfs.OpSync, Path: "*.log"})
	l.SetConfig(withMode(Interval)) // syncs
	l.finishSync()
	if o := mustOffsets(t, l); l.state != stateFrozen || o.High != 2 {
		t.Fatalf("%+v, %s", o, l.describe())
	}
	f, err := fs.OpenFile(l.segs[0].path(logSuffix), os.O_RDWR, 0)
	must(t, err)
	must(t, f.Truncate(l.segs[0].size-1))
	if _, err := l.Append(makeBatch(batchSpec{}), AppendOptions{}); !errors.Is(err, ErrOffline) {
		t.Fatalf("%v, %s", err, l.describe())
	}
	abandon(d)
	after := openDir(t, fs.Crash(vfs.KeepEverything)).Log("a", testTopic, 0, DefaultConfig())
	if o := mustOffsets(t, after); o.End != 1 {
		t.Errorf("at the next start %+v", o)
	}
}

// A directory that belongs to another topic is in the way until it is gone, not until the next start.
func TestForeignDirectory(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	d.retryGap = 0
	l := d.Log("a", testTopic, 0, DefaultConfig())
	must(t, fs.Mkdir("data/a-0", 0o700))
	must(t, writeMetadata(fs, "data/a-0", kproto.TopicID{7}))
	if _, err := l.Append(makeBatch(batchSpec{}), AppendOptions{}); !errors.Is(err, ErrStorage) {
		t.Fatal(err)
	}
	must(t, fs.Rename("data/a-0", "data/elsewhere"))
	mustWait(t, mustAppend(t, l, batchSpec{}))
}
