package broker

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/vfs"
)

// everything uses all that the catalog and the logs can do, on a disk that may fail.
func everything(w *world) {
	w.addAlien()
	w.startSomehow()
	w.create(spec{"a", 2, map[string]string{"retention.ms": "1000000"}}, spec{"b", 1, nil})
	w.autoCreate("c")
	w.produce("a", 0, 3)
	w.produce("b", 0, 1)
	w.produce("a", 0, 2)
	w.initProducerID()
	w.alter(change{typ: ofTopic, name: "a", set: map[string]string{"max.message.bytes": "6000"}, unset: []string{"retention.ms"}},
		change{typ: ofBroker, name: "1", set: map[string]string{"log.retention.ms": "2000000"}})
	w.addPartitions("b", 3)
	w.produce("b", 2, 1)
	w.deleteRecords("a", 0, 2)
	slotsSync()
	w.restart()
	w.produce("a", 0, 1)
	w.produce("a", 1, 1)
	w.deleteTopics("b")
	w.create(spec{"b", 1, nil})
	w.produce("b", 0, 2)
	w.replace(change{typ: ofBroker, name: "", set: map[string]string{"log.retention.ms": "3000000"}})
	w.drainBlock()
	w.initProducerID()
	w.produceAndDelete("c")
	w.create(spec{"c", 1, nil})
	w.produce("c", 0, 1)
	w.produce("a", 0, 1)
}

// TestDiskErrors fails the operations of a run, one in each run, once or from then on. Every request gets an answer with a Kafka code; nothing that was
// answered with success, or seen, is missing afterwards; a single error is got over without a restart, and any after one. Nothing is left
// running: the bubble would not end.
func TestDiskErrors(t *testing.T) {
	stride, rare := 7, 35 // rare: of errors that nothing tells from EIO
	if testing.Short() {
		stride, rare = 150, 500
	}
	if env("SLUICE_CRASH_IMAGES", 0) > 0 {
		stride, rare = 1, 1
	}
	seed := env("SLUICE_CRASH_SEED", 1)
	n := countOperations(t)
	runs := 0
	for i, f := range diskErrors() {
		stride := stride
		if f.Err != syscall.EIO && f.Err != syscall.ENOSPC {
			stride = rare
		}
		t.Run(fmt.Sprintf("%v sticky=%v", f.Err, f.Sticky), func(t *testing.T) {
			for at := 1 + (seed+5*i)%stride; at <= n && !t.Failed(); at += stride {
				f.Nth = at
				failing(t, f)
				runs++
			}
		})
	}
	t.Logf("seed %d: %d runs of %d operations", seed, runs, n)
}

// diskErrors are those that the operations of a run fail with, once and from then on. EINTR leaves a part of a batch.
func diskErrors() (fs []vfs.Fault) {
	for _, sticky := range []bool{false, true} {
		for _, err := range []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EMFILE, syscall.EINTR} {
			f := vfs.Fault{Ops: vfs.OpAny, Err: err, Sticky: sticky}
			if err == syscall.EINTR {
				f.Ops, f.Path, f.Partial = vfs.OpWrite, "*.log", 50
			}
			fs = append(fs, f)
		}
	}
	return fs
}

// countOperations counts those of a run without errors.
func countOperations(t *testing.T) (n int) {
	synctest.Test(t, func(t *testing.T) {
		w := newFailingWorld(t)
		everything(w)
		check(t, w.stop())
		n = w.in.Count(vfs.OpAny)
	})
	return n
}

func newFailingWorld(t *testing.T) *world {
	w := newWorld(t)
	w.lenient = true
	return w
}

func failing(t *testing.T, f vfs.Fault) {
	synctest.Test(t, func(t *testing.T) {
		w := newFailingWorld(t)
		defer func() {
			if t.Failed() {
				t.Logf("operation %d failed with %v, sticky %v; the broker logged %q", f.Nth, f.Err, f.Sticky, w.logs.errors())
			}
		}()
		w.in.Add(f)
		everything(w)
		if f.Sticky && f.Err == syscall.EIO {
			_ = w.stop() // all fails since that operation: it was a kill
			w.in.Heal()
			w.cutStart(f.Nth)
		} else {
			w.in.Heal()
			time.Sleep(3 * time.Second) // the logs and the catalog look again within a second
			w.resolve()
			if !f.Sticky {
				w.works("live")
			}
			w.examine(f.Nth)
			_ = w.stop()
			w.examine(f.Nth)
			w.mustStart()
		}
		w.resolve()
		w.works("restarted")
		check(t, w.stop())
	})
}

// cutStart starts the broker after a kill and cuts the power before some of the operations of that start: what the killed one wrote may be lost yet.
func (w *world) cutStart(seed int) {
	s := &powerCuts{x: examiner{rng: rand.New(rand.NewPCG(uint64(seed), 0))}, rate: 0.02, seeds: 1, moments: 0.3}
	s.attach(w)
	w.mustStart()
	s.cut(w, "the end", "the end")
	w.mem.OnOp(nil)
	s.report(w.t)
}

// works makes a topic and writes to all.
func (w *world) works(name string) {
	w.t.Helper()
	w.lenient = false
	w.create(spec{name, 1, nil})
	for _, other := range []string{name, "a", "b", "c"} {
		if w.lenient = true; w.current(other) != nil {
			w.lenient = false
			w.produce(other, 0, 1)
		}
	}
	w.initProducerID()
	w.lenient = true
	w.resolve()
}

// examine looks at what a power cut now would leave.
func (w *world) examine(seed int) {
	w.t.Helper()
	x := examiner{rng: rand.New(rand.NewPCG(uint64(seed), 0))}
	for _, choice := range []vfs.Chooser{vfs.KeepNothing, vfs.KeepEverything, vfs.Seeded(uint64(seed))} {
		p := w.book.read()
		check(w.t, x.examine(w.mem.Crash(choice), p))
	}
}

// A topic whose files could not be removed does not stand in the way of the next one of its name, nor does its directory come back.
func TestDeletionIsTriedAgain(t *testing.T) {
	for _, f := range []vfs.Fault{
		{Ops: vfs.OpRename, Path: crashDir + "/a-0", Sticky: true},
		{Ops: vfs.OpSyncDir, Path: crashDir, Sticky: true},
		{Ops: vfs.OpRemove, Sticky: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.mustStart()
			w.create(spec{"a", 1, nil})
			w.produce("a", 0, 3)
			w.in.Add(f)
			w.deleteTopics("a")
			w.in.Heal()
			time.Sleep(2 * deletionRetry) // nothing else happens to the catalog
			synctest.Wait()
			w.examine(1)
			w.create(spec{"a", 1, nil})
			w.produce("a", 0, 1)
			w.examine(1)
			check(t, w.stop())
			w.examine(1)
		})
	}
}
