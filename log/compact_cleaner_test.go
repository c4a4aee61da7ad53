package log

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// fill appends n records, each of its own key and in its own segment, and waits until all but the last are sealed.
func (r *cleanRig) fill(n int, ms int64) {
	r.t.Helper()
	for range n {
		b := kproto.NewBuilder(kproto.None)
		b.Add(kproto.Record{Timestamp: ms, Key: fmt.Append(nil, mustOffsets(r.t, r.log).End), Value: make([]byte, 10)})
		r.append(b.Batch())
	}
	r.log.finishSync()
}

// When a log needs cleaning, by Kafka's settings.
func TestDirt(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	for _, c := range []struct {
		name    string
		change  func(*Config)
		clean   int   // batches that were cleaned before
		dirty   int   // batches since
		age     int64 // of those, ms
		needs   bool
		overdue bool
	}{
		{"empty", func(*Config) {}, 0, 0, 0, false, false},
		{"only the active segment", func(*Config) {}, 0, 1, 0, false, false},
		{"all dirty", func(*Config) {}, 0, 3, 0, true, false},
		{"not compacted", func(c *Config) { c.Compact = false }, 0, 3, 0, false, false},
		{"less than half", func(*Config) {}, 6, 5, 0, false, false},
		{"more than half", func(*Config) {}, 5, 7, 0, true, false},
		{"a ratio of zero", func(c *Config) { c.MinDirtyRatio = 0 }, 6, 1, 0, true, false},
		{"a ratio of one", func(c *Config) { c.MinDirtyRatio = 1 }, 0, 6, 0, false, false},
		{"too young", func(c *Config) { c.MinCompactionLag = time.Second }, 0, 6, 999, false, false},
		{"old enough", func(c *Config) { c.MinCompactionLag = time.Second }, 0, 6, 1000, true, false},
		{"not yet overdue", func(c *Config) { c.MaxCompactionLag = time.Second }, 6, 2, 1000, false, false},
		{"overdue", func(c *Config) { c.MaxCompactionLag = time.Second }, 6, 2, 1001, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := compacting()
			cfg.IndexInterval = 1
			r := newCleanRig(t, cfg)
			if c.clean > 0 {
				r.fill(c.clean+1, now.UnixMilli())
				_, err := r.log.Clean(context.Background(), CleanOptions{Now: now, MapBytes: 1 << 16})
				must(t, err)
			}
			r.fill(c.dirty, now.UnixMilli()-c.age)
			changed := *cfg
			c.change(&changed)
			r.log.SetConfig(&changed)
			d, ok := r.log.dirt(now)
			if ok && d.needs() != c.needs || !ok && c.needs || d.delay > 0 != c.overdue {
				t.Fatalf("needs it: %v %v, delay %v, %d clean and %d dirty bytes", ok, d.needs(), d.delay, d.clean, d.dirty)
			}
		})
	}
}

// Tombstones go when their time has come, though nothing else is dirty.
func TestDirtOfTombstones(t *testing.T) {
	r := newCleanRig(t, compacting())
	r.put(0, false, "a-")
	r.clean()
	for _, c := range []struct {
		now   int64
		needs bool
	}{{r.now + 99, false}, {r.now + 100, true}} {
		d, ok := r.log.dirt(time.UnixMilli(c.now))
		if d.dirty = 0; !ok || d.needs() != c.needs {
			t.Fatalf("at %d: %v, %+v", c.now, ok, d)
		}
	}
}

// The dirtiest log comes first, but for those that are overdue, and each once in a pass.
func TestCleanerOrder(t *testing.T) {
	r := newCleanRig(t, compacting())
	cfg := *compacting()
	cfg.MaxCompactionLag, cfg.MinDirtyRatio = time.Hour, 0
	logs := map[string]*Log{}
	for i, name := range []string{"little", "much", "overdue"} {
		logs[name] = r.dir.Log(name, testTopic, int32(i), &cfg)
	}
	now := time.Now()
	fill := func(name string, n int, ms int64) {
		r.log = logs[name]
		r.fill(n, ms)
	}
	for name := range logs {
		fill(name, 6, now.UnixMilli())
		_, err := logs[name].Clean(context.Background(), CleanOptions{Now: now, MapBytes: 1 << 16})
		must(t, err)
	}
	fill("little", 3, now.UnixMilli())
	fill("much", 9, now.UnixMilli())
	fill("overdue", 2, now.Add(-2*time.Hour).UnixMilli())
	c := r.dir.NewCleaner(nil)
	p := pass{Cleaner: c, taken: map[*Log]bool{}}
	var order []string
	for l := p.next(now); l != nil; l = p.next(now) {
		order = append(order, l.Topic())
	}
	if fmt.Sprint(order) != "[overdue much little]" {
		t.Fatal(order)
	}
}

// A log that nobody uses is opened only when its slot says that something is dirty.
func TestCleanerLeavesIdleLogsAlone(t *testing.T) {
	r := newCleanRig(t, compacting())
	r.put(0, false, "a=1")
	r.put(0, false, "a=2")
	r.fill(2, 0)
	clean := r.dir.Log("clean", testTopic, 1, compacting())
	mustWait(t, mustAppend(t, clean, batchSpec{}))
	must(t, r.dir.Close(context.Background()))
	r.open(compacting())
	clean = r.dir.Log("clean", testTopic, 1, compacting())
	c := r.dir.NewCleaner(func() CleanerSettings { return CleanerSettings{Threads: 2, MapBytes: 1 << 16} })
	if n := c.Pass(context.Background()); n != 1 || clean.state != stateIdle || r.log.state != stateOpen {
		t.Fatalf("%d cleaned, states %d and %d", n, clean.state, r.log.state)
	}
	if s := c.Stats(); s.Runs != 1 || s.Dropped == 0 || s.Read == 0 || s.MapUsePercent == 0 || s.LastLook.IsZero() {
		t.Fatalf("%+v", s)
	}
	if n := c.Pass(context.Background()); n != 0 {
		t.Fatalf("%d cleaned again", n)
	}
}

// A log that cannot be compacted is counted, and does not keep the cleaner from the others.
func TestCleanerCountsTheUncleanable(t *testing.T) {
	r := newCleanRig(t, compacting())
	r.fill(4, 0)
	flipBit(t, r.disk, "data/t-0/00000000000000000000.log", 8*70)
	bad := r.log
	r.log = r.dir.Log("good", testTopic, 1, compacting())
	r.fill(4, 0)
	c := r.dir.NewCleaner(func() CleanerSettings { return CleanerSettings{Threads: 1, MapBytes: 1 << 16} })
	for range 2 {
		c.Pass(context.Background())
	}
	if s := c.Stats(); s.Runs != 1 || s.Failures != 1 || s.Uncleanable != 1 || s.UncleanableSize == 0 || bad.cleaner.broken == nil {
		t.Fatalf("%+v", s)
	}
}

// The cleaner works by itself, rests when there is nothing to do, and ends.
func TestCleanerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := Open("data", Options{FS: vfs.NewMem()})
		must(t, err)
		r := &cleanRig{t: t, dir: d, log: d.Log("t", testTopic, 0, compacting())}
		c := d.NewCleaner(func() CleanerSettings {
			return CleanerSettings{Threads: 1, Backoff: 15 * time.Second, MapBytes: 1 << 16, BytesPerSecond: 100}
		})
		c.Start()
		time.Sleep(time.Second)
		r.fill(5, 0)
		time.Sleep(13 * time.Second)
		if s := c.Stats(); s.Runs != 0 {
			t.Errorf("%+v before the backoff is over", s)
		}
		time.Sleep(30 * time.Second) // reading and writing some 1000 bytes takes its time
		if s := c.Stats(); s.Runs != 1 || s.Time < time.Second || float64(s.Read+s.Written) > 100*(s.Time.Seconds()+10) {
			t.Errorf("%+v", s)
		}
		c.Close()
		must(t, d.Close(context.Background()))
	})
}

// With no threads a run ends that is under way, and no other begins: the files stay as they are.
func TestCleanerPauses(t *testing.T) {
	r := newCleanRig(t, compacting())
	r.fill(4, 0)
	asked := 0
	c := r.dir.NewCleaner(func() CleanerSettings {
		asked++
		return CleanerSettings{Threads: max(0, 3-asked), MapBytes: 1 << 16} // one run begins, and is to end while it reads
	})
	before, err := contents(r.disk)
	must(t, err)
	for range 3 {
		if n := c.Pass(context.Background()); n != 0 {
			t.Fatalf("%d cleaned", n)
		}
	}
	after, err := contents(r.disk)
	must(t, err)
	if s := c.Stats(); len(after) != len(before) || s.Failures != 0 || s.Read == 0 {
		t.Fatalf("%s; %+v", changed(before, after), s)
	}
}

func TestIOBudget(t *testing.T) {
	b := ioBudget{}
	now := time.Unix(100, 0)
	if w := b.book(now, 1<<30); w != 0 {
		t.Fatalf("%v without a limit", w)
	}
	b.setRate(1000)
	for i, c := range []struct {
		at   time.Duration
		n    int
		want time.Duration
	}{
		{0, 500, 0},                       // on credit
		{0, 500, 500 * time.Millisecond},  // until that is paid for
		{time.Second, 2000, 0},            // paid for
		{2 * time.Second, 1, time.Second}, // one second is left
		{time.Minute, 1 << 40, 0},         // nothing is saved up
		{time.Minute, 1, (1 << 40) * time.Millisecond},
	} {
		if w := b.book(now.Add(c.at), c.n); w.Round(time.Millisecond) != c.want.Round(time.Millisecond) {
			t.Errorf("%d: wait %v, want %v", i, w, c.want)
		}
	}
}

// TestCleaningThatIsCutOffGoesOn: a run that ends between two segments that it writes leaves the rest dirty, and the next run cleans it.
func TestCleaningThatIsCutOffGoesOn(t *testing.T) {
	for _, cutOff := range []bool{false, true} {
		r := newCleanRig(t, compacting())
		for i := range 12 {
			r.put(0, false, fmt.Sprintf("a=%d%s", i, strings.Repeat("x", 40)))
		}
		r.log.finishSync() // all segments but the last are sealed
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o := CleanOptions{Now: time.UnixMilli(r.now), MapBytes: 1 << 16}
		o.Spend = func(ctx context.Context, _ int) error {
			r.log.mu.Lock()
			defer r.log.mu.Unlock()
			if cutOff && r.log.firstDirty() > 0 {
				cancel()
			}
			return ctx.Err()
		}
		if _, err := r.log.Clean(ctx, o); errors.Is(err, context.Canceled) != cutOff {
			t.Fatalf("cut off %v: %v", cutOff, err)
		}
		o.Spend = nil
		_, err := r.log.Clean(t.Context(), o)
		must(t, err)
		if left := r.show(); strings.Count(left, "a=") != 1 { // the newest of what is sealed
			t.Errorf("cut off %v: %s", cutOff, left)
		}
	}
}
