package coord_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/coord"
	"sluice/internal/coord/coordtest"
	"sluice/internal/machine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDisk = errors.New("disk trouble")

// rig is a shard over a MemLog that notes what is released, in order.
type rig struct {
	t      *testing.T
	log    coordtest.MemLog
	faults faults
	shard  *coord.Shard
	slow   time.Duration // that each call of Orders takes

	mu    sync.Mutex
	lines []string
}

// inBubble runs a test with a rig whose shard is open, in a synctest bubble: time stands still until all wait.
func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t}
		if err := r.open(); err != nil {
			t.Fatal(err)
		}
		r.expect("loaded {0}")
		test(t, r)
		r.shard.Close()
	})
}

func (r *rig) open() (err error) {
	r.shard, err = coord.Open(newLedger(&r.faults), &r.log, r.options())
	return err
}

func (r *rig) options() coord.Options {
	return coord.Options{
		Logger: quiet,
		Orders: func(orders []any) {
			time.Sleep(r.slow)
			for _, o := range orders {
				r.note("%s %v", kind(o), o)
			}
		},
	}
}

func kind(o any) string {
	switch o.(type) {
	case stored:
		return "stored"
	case loaded:
		return "loaded"
	case rang:
		return "rang"
	}
	return "?"
}

func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *rig) do(name string, ev machine.Event) {
	r.shard.Do(ev, func(v any, err error) { r.answered(name, v, err) })
}

func (r *rig) view(name string) {
	r.shard.View(func(m machine.Machine) any { return len(m.(*ledger).entries) },
		func(v any, err error) { r.answered(name, v, err) })
}

func (r *rig) answered(name string, v any, err error) {
	for _, known := range []error{coord.ErrNotDurable, coord.ErrClosed, coord.ErrPanic} {
		if errors.Is(err, known) {
			err = known
		}
	}
	if err != nil {
		r.note("%s: %v", name, err)
		return
	}
	r.note("%s: %v", name, v)
}

// expect waits until nothing moves and compares what was released since the last time.
func (r *rig) expect(want ...string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.lines, want) {
		r.t.Fatalf("released\n\t%q\nwant\n\t%q", r.lines, want)
	}
	r.lines = nil
}

const (
	notDurable = ": coord: the step is not durable"
	isClosed   = ": coord: the shard is closed"
)

func TestReplyWaitsForDurability(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.log.Hold()
		r.do("a", put{1})
		r.do("b", put{2})
		r.expect()
		r.log.Sync(1)
		r.expect("stored {1}", "a: 1")
		r.log.Sync(1)
		r.expect("stored {2}", "b: 2")
	})
}

// A read sees the put before it, so it may not be answered before that is durable; nor may a view.
func TestReadsWaitForWhatTheySaw(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.do("idle", count{})
		r.expect("idle: 0")
		r.log.Hold()
		r.do("a", put{1})
		r.do("read", count{})
		r.view("view")
		r.expect()
		r.log.Sync(-1)
		r.expect("stored {1}", "a: 1", "read: 1", "view: 1")
		r.view("idle")
		r.expect("idle: 1")
	})
}

// The log may tell of a later batch first.
func TestTicketsResolveInAnyOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.log.Hold()
		for i := range 5 {
			r.do(fmt.Sprint("p", i), put{uint64(i)})
		}
		r.log.Sync(-1) // newest first
		r.expect("stored {0}", "p0: 1", "stored {1}", "p1: 2", "stored {2}", "p2: 3", "stored {3}", "p3: 4", "stored {4}", "p4: 5")
	})
}

func TestOneBatchForAStep(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.do("three", puts{[]uint64{1, 2, 3}})
		r.expect("stored {1}", "stored {2}", "stored {3}", "three: 3")
		if got := r.log.Appends(); got != 1 {
			t.Errorf("%d batches for one step", got)
		}
	})
}

func TestLateAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.log.Hold()
		r.do("w", wait{2})
		r.do("a", put{1})
		r.log.Sync(-1)
		r.expect("stored {1}", "a: 1")
		r.do("b", put{2})
		r.expect() // the machine has answered w; the log has not kept up
		r.log.Sync(-1)
		r.expect("stored {2}", "w: 2", "b: 2")
	})
}

func TestAppendRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.do("a", put{1})
		r.do("w", wait{9})
		r.expect("stored {1}", "a: 1")

		r.log.FailAppends(errDisk)
		r.do("b", put{2})
		r.do("later", count{})
		r.expect("b"+notDurable, "w"+notDurable)
		r.log.FailAppends(nil)
		time.Sleep(time.Second)
		r.expect("loaded {1}", "later: 1")
		r.do("c", put{3})
		r.expect("stored {3}", "c: 2")
	})
}

// What was appended before the refused batch is still on its way and must be in the machine that comes next.
func TestAppendRefusedBehindPending(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.log.Hold()
		r.do("a", put{1})
		r.log.FailAppends(errDisk)
		r.do("b", put{2})
		r.do("later", count{})
		r.log.FailAppends(nil)
		time.Sleep(time.Minute)
		r.expect()
		r.log.Sync(-1)
		time.Sleep(time.Minute)
		r.expect("stored {1}", "a: 1", "b"+notDurable, "loaded {1}", "later: 1")
	})
}

func TestSyncFails(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.log.Hold()
		r.do("w", wait{9})
		r.do("a", put{1})
		r.do("b", put{2})
		r.do("read", count{})
		r.log.Sync(1)
		r.expect("stored {1}", "a: 1")
		r.do("c", put{3})
		r.log.FailSync(errDisk)
		time.Sleep(time.Second)
		r.expect("b"+notDurable, "read"+notDurable, "c"+notDurable, "w"+notDurable, "loaded {1}")
		r.do("read", count{})
		r.expect("read: 1")
	})
}

func TestReplayFailsAndIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.do("a", put{1})
		r.log.FailAppends(errDisk)
		r.log.FailReplays(errDisk)
		r.do("b", put{2})
		r.do("c", count{})
		time.Sleep(time.Second)
		r.expect("stored {1}", "a: 1", "b"+notDurable, "c"+notDurable)

		r.do("d", count{}) // tries again, in vain
		time.Sleep(time.Second)
		r.expect("d" + notDurable)

		r.log.FailAppends(nil)
		r.log.FailReplays(nil)
		r.do("e", count{})
		time.Sleep(time.Second)
		r.expect("loaded {1}", "e: 1")
	})
}

func TestRecordsThatCannotBeApplied(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.faults.apply = errUnreadable
		r.do("a", put{1})
		time.Sleep(time.Second)
		r.expect("a" + notDurable)
		r.do("b", count{})
		time.Sleep(time.Second)
		r.expect("b" + notDurable)
	})
}

func TestPanicDropsTheMachine(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.do("a", put{1})
		r.do("w", wait{9})
		r.do("boom", boom{})
		time.Sleep(time.Second)
		r.expect("stored {1}", "a: 1", "boom: coord: the machine panicked", "w"+notDurable, "loaded {1}")
		r.shard.View(func(machine.Machine) any { panic("view") }, func(v any, err error) { r.answered("view", v, err) })
		r.expect("view: coord: the machine panicked")
	})
}

// While orders are carried out, which may take its time, nothing overtakes them, though it be durable; nor does it hold back a Do.
func TestSlowOrders(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.slow = time.Second
		r.do("a", put{1})
		synctest.Wait()
		r.do("b", put{2})
		r.do("read", count{})
		time.Sleep(time.Second)
		r.expect("stored {1}", "a: 1")
		time.Sleep(time.Second)
		r.expect("stored {2}", "b: 2", "read: 2")
	})
}

func TestCloseWaitsForOrders(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.slow = time.Second
		r.do("a", put{1})
		synctest.Wait()
		r.shard.Close()
		r.do("late", count{})
		r.expect("stored {1}", "a: 1", "late"+isClosed)
	})
}

func TestEventWithoutAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.shard.Do(put{1}, nil)
		r.expect("stored {1}")
		r.shard.Do(boom{}, nil)
		r.shard.Do(put{2}, nil) // parked
		time.Sleep(time.Second)
		r.expect("loaded {1}", "stored {2}")
	})
}

func TestTimer(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		start := time.Now()
		at := func(d time.Duration) string { return fmt.Sprint("rang ", rang{start.Add(d)}) }
		r.do("a", alarm{start.Add(time.Minute)})
		r.do("earlier", alarm{start.Add(10 * time.Second)})
		r.expect("a: <nil>", "earlier: <nil>")
		time.Sleep(10 * time.Second)
		r.expect(at(10 * time.Second))

		r.do("b", alarm{start.Add(time.Minute)})
		r.do("later", alarm{start.Add(2 * time.Minute)})
		time.Sleep(100 * time.Second)
		r.expect("b: <nil>", "later: <nil>")
		r.do("off", alarm{})
		time.Sleep(time.Hour)
		r.expect("off: <nil>")

		r.log.Hold()
		now := time.Now()
		r.do("past", alarm{now})
		time.Sleep(time.Second)
		r.expect("past: <nil>")
		r.log.Sync(-1)
		r.expect(at(now.Sub(start) + time.Millisecond))
	})
}

func TestClose(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.do("w", wait{9})
		r.log.Hold()
		r.do("a", put{1})
		r.log.Sync(1)
		r.do("b", put{2})
		r.do("read", count{})
		r.shard.Close()
		r.log.Sync(-1) // too late, and harmless
		r.do("c", count{})
		r.view("v")
		r.expect("stored {1}", "a: 1", "b"+isClosed, "read"+isClosed, "w"+isClosed, "c"+isClosed, "v"+isClosed)
		r.shard.Close()
	})
}

func TestCloseWhileParked(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.log.FailAppends(errDisk)
		r.do("a", put{1})
		r.do("b", count{})
		r.shard.Close()
		r.expect("a"+notDurable, "b"+isClosed)
	})
}

func TestCallsFromDoneAndOrders(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.shard.Do(count{}, func(any, error) {
			r.note("outer")
			r.do("inner", put{1})
			r.do("read", count{})
		})
		r.expect("outer", "stored {1}", "inner: 1", "read: 1")
	})
}

func TestOpen(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(r *rig)
		want  error
	}{
		{"replay fails", func(r *rig) { r.log.FailReplays(errDisk) }, errDisk},
		{"an unreadable record", func(r *rig) { r.log.Append([]machine.Record{{}}, time.Time{}) }, errUnreadable},
		{"Loaded's records are refused", func(r *rig) { r.faults.loadedRecord = 7; r.log.FailAppends(errDisk) }, coord.ErrNotDurable},
		{"Loaded's records are lost", func(r *rig) {
			r.faults.loadedRecord = 7
			r.log.Hold()
			go func() { synctest.Wait(); r.log.FailSync(errDisk) }()
		}, coord.ErrNotDurable},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rig{t: t}
				c.spoil(r)
				if err := r.open(); !errors.Is(err, c.want) {
					t.Fatalf("Open: %v, want %v", err, c.want)
				}
				r.expect()
			})
		})
	}
}

func TestOpenWaitsForWhatLoadedSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t}
		r.log.Append([]machine.Record{entry(1), entry(2)}, time.Time{})
		r.log.Hold()
		r.faults.loadedRecord = 7
		opened := false
		go func() {
			if err := r.open(); err != nil {
				t.Error(err)
			}
			opened = true
		}()
		synctest.Wait()
		if opened {
			t.Fatal("Open returned before the records of Loaded were durable")
		}
		r.expect()
		r.log.Sync(-1)
		r.expect("loaded {2}")
		if !opened {
			t.Fatal("Open still waits")
		}
		r.do("read", count{})
		r.expect("read: 3")
		r.shard.Close()
	})
}

// Calls wait for the replay that Start has begun; when it fails they are refused, and the next one begins another.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t}
		r.log.Append([]machine.Record{entry(1)}, time.Time{})
		r.log.FailReplays(errDisk)
		release := r.log.HoldReplays() // else it may have failed before anybody asks
		r.shard = coord.Start(newLedger(&r.faults), &r.log, r.options())
		r.do("a", put{2})
		r.expect()
		release()
		r.expect("a" + notDurable)
		r.log.FailReplays(nil)
		r.do("b", put{2})
		r.do("c", count{})
		r.expect()
		time.Sleep(time.Second)
		r.expect("loaded {1}", "stored {2}", "b: 2", "c: 2")
		r.shard.Close()
	})
}

func TestCloseDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t}
		r.log.FailReplays(errDisk)
		r.shard = coord.Start(newLedger(&r.faults), &r.log, r.options())
		r.expect() // nobody has asked
		r.do("a", put{2})
		r.shard.Close()
		r.do("b", put{2})
		r.expect("a"+isClosed, "b"+isClosed)
	})
}

func TestAsk(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		if v, err := r.shard.Ask(t.Context(), put{1}); v != 1 || err != nil {
			t.Errorf("Ask: %v, %v", v, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.shard.Ask(ctx, wait{2}); !errors.Is(err, context.Canceled) {
			t.Errorf("Ask: %v", err)
		}
		r.do("b", put{2}) // answers the one who left
		r.expect("stored {1}", "stored {2}", "b: 2")
	})
}
