package log

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/vfs"
)

// slotDisk holds every write to the durable-offsets file until open is closed, as a file system does that lets no page change while it is written back.
func slotDisk() (disk *vfs.Mem, held chan struct{}, open chan struct{}) {
	disk, held, open = vfs.NewMem(), make(chan struct{}, 1), make(chan struct{})
	disk.OnOp(func(o vfs.Op) {
		if o.Kind == vfs.OpWrite && o.Name == "data/"+durableFile {
			select {
			case held <- struct{}{}:
			default:
			}
			<-open
		}
	})
	return disk, held, open
}

// within fails the test if f does not come back.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: waits for the write of a slot", what)
	}
}

// TestSlotWritesHoldNobodyUp: while a write of a slot waits for the disk, logs take appends, acknowledge and show them. What is said on the strength of the
// slot, a log start, is not said before it is durable.
func TestSlotWritesHoldNobodyUp(t *testing.T) {
	disk, held, open := slotDisk()
	d := openDir(t, disk)
	l, other := d.Log("a", testTopic, 0, DefaultConfig()), d.Log("a", testTopic, 1, DefaultConfig())
	moved := make(chan error, 1)
	within(t, "appends", func() {
		mustWait(t, mustAppend(t, l, batchSpec{size: 100}))
		<-held
		for range 20 {
			mustWait(t, mustAppend(t, l, batchSpec{size: 100}))
			mustWait(t, mustAppend(t, other, batchSpec{size: 100}))
		}
	})
	go func() {
		_, err := l.AdvanceStart(context.Background(), 5)
		moved <- err
	}()
	within(t, "the notes of the log start", func() {
		for l.slotOf().start != 5 {
			time.Sleep(time.Millisecond)
		}
	})
	within(t, "reads", func() {
		if o := mustOffsets(t, l); o.Start != 0 || o.High != 21 {
			t.Errorf("%+v while the start is not durable", o)
		}
	})
	select {
	case err := <-moved:
		t.Errorf("DeleteRecords answered (%v) before its slot was written", err)
	default:
	}
	close(open)
	must(t, <-moved)
	abandon(d)
	if o := mustOffsets(t, openDir(t, disk.Crash(vfs.KeepNothing)).Log("a", testTopic, 0, DefaultConfig())); o.Start != 5 {
		t.Errorf("the start that was answered is %d after a power cut", o.Start)
	}
}

func (l *Log) slotOf() slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slot()
}

// TestSlotsOutliveErrors: what was put when a sync failed is in the file after the next one that succeeds, be it put again or not: whichever operation failed,
// and whichever then failed of writing the file anew.
func TestSlotsOutliveErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no timer comes between
		failed := 0
		for _, fresh := range []bool{true, false} {
			for first := 1; failSlots(t, fresh, first, 1) > 0; first++ {
				for then := 1; ; then++ {
					fired := failSlots(t, fresh, first, then)
					failed += fired
					if fired < 2 {
						break
					}
				}
			}
		}
		if failed < 20 {
			t.Errorf("only %d operations failed", failed)
		}
	})
}

// failSlots fails one operation of a sync, and one of the syncs after. It tells how many came to that. fresh: the first sync makes the file.
func failSlots(t *testing.T, fresh bool, first, then int) (fired int) {
	const ops = vfs.OpOpen | vfs.OpMutating
	disk, in := vfs.NewMem(), &vfs.Injector{}
	must(t, disk.Mkdir("data", 0o700), disk.SyncDir("."))
	s, err := openSlots(vfs.Inject(disk, in), "data", slog.New(slog.DiscardHandler))
	must(t, err)
	s.gap = 0
	if !fresh {
		must(t, s.sync(s.put(0, slot{durable: 1})))
	}
	in.Add(vfs.Fault{Ops: ops, Nth: first})
	n := s.put(1, slot{durable: 2})
	if s.sync(n) != nil {
		in.Heal()
		s.put(2, slot{durable: 3})
		in.Add(vfs.Fault{Ops: ops, Nth: then})
		for s.sync(n) != nil {
			n = s.put(3, slot{durable: 4})
		}
	}
	got, err := vfs.ReadFile(disk.Crash(vfs.KeepNothing), "data/"+durableFile, maxSlotFile)
	must(t, err)
	if !bytes.Equal(got, s.image) {
		t.Errorf("operation %d failed, then operation %d: the file is not what was put", first, then)
	}
	in.Heal()
	must(t, s.close())
	return in.Fired()
}

// TestSlotsAreWrittenOnce: however many slots change, in whatever order, a sync leaves the file as the image says, and slots beside each other cost one write.
func TestSlotsAreWrittenOnce(t *testing.T) {
	disk := vfs.NewMem()
	must(t, disk.Mkdir("data", 0o700), disk.SyncDir("."))
	s, err := openSlots(disk, "data", nil)
	must(t, err)
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 50 {
		var n uint64
		changed := map[int]bool{}
		for range 1 + rng.IntN(40) {
			i := rng.IntN(64)
			n, changed[i] = s.put(i, slot{partition: int32(i), durable: rng.Int64()}), true
		}
		runs, writes := 0, 0
		for i := range changed {
			if !changed[i-1] {
				runs++
			}
		}
		disk.OnOp(func(o vfs.Op) {
			if o.Kind == vfs.OpWrite {
				writes++
			}
		})
		must(t, s.sync(n), s.sync(n))
		disk.OnOp(nil)
		if writes != runs {
			t.Errorf("round %d: %d writes for %d runs of slots", round, writes, runs)
		}
		got, err := vfs.ReadFile(disk.Crash(vfs.KeepNothing), "data/"+durableFile, maxSlotFile)
		must(t, err)
		if !bytes.Equal(got, s.image) {
			t.Fatalf("round %d: the file is not what was put", round)
		}
	}
	must(t, s.close())
	if err := s.sync(s.put(0, slot{})); err != ErrClosed {
		t.Errorf("a change after the end: %v", err)
	}
}
