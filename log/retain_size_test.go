package log

import (
	"math/rand/v2"
	"testing"

	"sluice/internal/vfs"
)

// TestOverfull: whoever answers each signal has no oldest segment that could go by size after any append, and no signal comes where nothing can.
func TestOverfull(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 0))
		c := keeping(-1, rng.Int64N(3000), 0)
		c.SegmentBytes = 300 + rng.Int64N(700)
		d := openDir(t, vfs.NewMem())
		l := d.Log("a", testTopic, 0, c)
		for n := range 200 {
			if rng.IntN(20) == 0 {
				changed := *c
				changed.RetentionBytes = rng.Int64N(3000)
				c = &changed
				l.SetConfig(c)
			}
			mustWait(t, mustAppend(t, l, batchSpec{size: 1 + rng.IntN(150)}))
			before := mustOffsets(t, l).Start
			signalled := false
			select {
			case <-d.Overfull():
				signalled = true
				d.RetainOverfull(t.Context())
			default:
			}
			if moved := mustOffsets(t, l).Start > before; moved != signalled {
				t.Fatalf("seed %d, append %d: signalled %v, the log start moved %v", seed, n, signalled, moved)
			}
			l.mu.Lock()
			excess, oldest, segments := l.bytes()-c.RetentionBytes, l.segs[0].size, len(l.segs)
			l.mu.Unlock()
			if segments > 1 && excess >= oldest {
				t.Fatalf("seed %d, append %d: %d bytes more than retention.bytes, the oldest of %d segments has %d", seed, n, excess, segments, oldest)
			}
		}
		must(t, d.Close(t.Context()))
	}
}

// Time and other policies are none of it.
func TestOverfullBySizeOnly(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"by time":          func(c *Config) { c.RetentionMs = 0 },
		"no delete policy": func(c *Config) { c.Delete, c.RetentionBytes = false, 0 },
		"no limit":         func(c *Config) { c.RetentionBytes = -1 },
	} {
		d := openDir(t, vfs.NewMem())
		c := *each()
		set(&c)
		l := rolled(t, d, &c, 5)
		d.overfull.add(l)
		d.RetainOverfull(t.Context())
		if o := mustOffsets(t, l); o.Start != 0 {
			t.Errorf("%s: %+v", name, o)
		}
		if len(d.overfull.logs) != 0 {
			t.Errorf("%s: it is looked at again", name)
		}
	}
}
