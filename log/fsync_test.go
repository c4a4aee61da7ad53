package log

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"sluice/internal/vfs"
)

// injectionsPerLife bounds how long a log of one life gets, and with it what an image costs.
const injectionsPerLife = 20

// TestFailedSyncs has a thousand syncs of logs fail once and then succeed, as on Linux: the pages of the failed one count as clean and never reach the disk. Nothing of
// a failed sync is acknowledged, then or later; who waits is told; the log ends where it was durable and goes on in a new file.
func TestFailedSyncs(t *testing.T) {
	lives := 50
	if testing.Short() {
		lives = 2
	}
	told, acked := 0, 0
	for seed := range lives {
		n, ok, err := failSyncs(t, uint64(seed))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		told, acked = told+n, acked+ok
	}
	t.Logf("%d failed syncs: %d appends were told so, %d were acknowledged, none falsely", lives*injectionsPerLife, told, acked)
}

// failSyncs is one life. It counts the appends that were told of a failed sync and those that were acknowledged.
func failSyncs(t *testing.T, seed uint64) (told, acked int, err error) {
	w, rng := newWorld(t), rand.New(rand.NewPCG(seed, 9))
	w.gap = 0
	w.boot()
	defer w.kill()
	parts := []*part{w.create("a", 1, 0, tiny()), w.create("a", 1, 1, DefaultConfig())}
	for w.in.Fired() < injectionsPerLife {
		fired := w.in.Fired()
		w.in.Add(vfs.Fault{Ops: vfs.OpSync, Path: "*.log", Nth: 1 + rng.IntN(2)})
		failed, ok, err := w.burst(rng, parts)
		told, acked = told+failed, acked+ok
		if err != nil {
			return told, acked, err
		}
		if w.in.Fired() > fired && failed == 0 {
			return told, acked, errors.New("a sync failed and nobody was told")
		}
		w.in.Heal()
		for name, keep := range map[string]vfs.Chooser{"nothing": vfs.KeepNothing, "everything": vfs.KeepEverything} {
			if err := checkImage(w.mem.Crash(keep), w.promises(), false); err != nil {
				return told, acked, fmt.Errorf("after %d failed syncs, a power cut that keeps %s: %w", w.in.Fired(), name, err)
			}
		}
	}
	return told, acked, nil
}

// burst appends to all partitions and waits for the answers. A log whose last append was lost must be where it was durable.
func (w *world) burst(rng *rand.Rand, parts []*part) (failed, acked int, err error) {
	for _, p := range parts {
		var waiting []*pending
		for range 1 + rng.IntN(4) {
			if x, err := p.append(batchSpec{records: 1 + rng.IntN(2), size: rng.IntN(300), pid: 1, seq: p.nextSequence(1)}); err == nil {
				waiting = append(waiting, x)
			}
		}
		lost := false // the last one; after an earlier one the log may have gone on
		for _, x := range waiting {
			err := x.wait()
			switch lost = err != nil; {
			case err == nil:
				acked++
			case errors.Is(err, ErrNotDurable):
				failed++
			default:
				return failed, acked, fmt.Errorf("an append was answered: %w", err)
			}
		}
		if lost {
			if err := p.isCut(); err != nil {
				return failed, acked, err
			}
		}
	}
	return failed, acked, nil
}

// isCut: the log ends at its durable offset, in a segment that nothing was written to.
func (p *part) isCut() error {
	p.log.finishSync()
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	s := p.log.active()
	if p.log.end != p.log.durable || s.base != p.log.end || s.size != 0 {
		return fmt.Errorf("after a failed sync the log ends at %d and is durable up to %d; its last segment begins at %d and has %d bytes", p.log.end, p.log.durable, s.base, s.size)
	}
	return nil
}
