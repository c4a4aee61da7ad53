package log

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// CleanerSettings are those of log.cleaner.* that may change at any time.
type CleanerSettings struct {
	Threads        int           // 0: no more is cleaned, and runs that are under way end
	Backoff        time.Duration // how long to wait when there was nothing to clean
	MapBytes       int64         // memory for keys, of all threads together
	BytesPerSecond float64       // read and written, by all threads together
}

// CleanerStats are what a Cleaner has done since it was made, and what it saw when it last looked.
type CleanerStats struct {
	Runs          int64 // partitions cleaned
	Failures      int64
	Read, Written int64 // bytes
	Dropped       int64 // records
	Keyless       int64 // records without a key among them

	// Of the last run, as Apache Kafka's figures of these names.
	RecopyPercent float64 // what was written of what was read
	MapUsePercent float64 // buffer utilization
	Time          time.Duration

	// Of the last look at all logs.
	MaxDirtyPercent float64
	MaxDelay        time.Duration // max compaction delay
	Uncleanable     int           // partitions
	UncleanableSize int64         // bytes
	LastLook        time.Time
}

// Cleaner compacts the logs of a data directory, the dirtiest first.
type Cleaner struct {
	dir      *Dir
	settings func() CleanerSettings
	budget   ioBudget
	stop     context.CancelFunc
	stopped  chan struct{}

	mu    sync.Mutex // guards the rest, and is held while a thread chooses a log
	stats CleanerStats
}

// NewCleaner makes a cleaner; settings is asked again and again.
func (d *Dir) NewCleaner(settings func() CleanerSettings) *Cleaner {
	return &Cleaner{dir: d, settings: settings}
}

// Start lets it work in the background until Close.
func (c *Cleaner) Start() {
	ctx, stop := context.WithCancel(context.Background())
	c.stop, c.stopped = stop, make(chan struct{})
	go func() {
		defer close(c.stopped)
		for ctx.Err() == nil {
			if c.Pass(ctx) == 0 {
				pause(ctx, max(c.settings().Backoff, minBackoff))
			}
		}
	}()
}

// minBackoff keeps a backoff of zero from taking a processor.
const minBackoff = 10 * time.Millisecond

// Close ends the work and waits for its end. A Cleaner that was not started may be closed too.
func (c *Cleaner) Close() {
	if c.stop != nil {
		c.stop()
		<-c.stopped
	}
}

// Stats are a copy.
func (c *Cleaner) Stats() CleanerStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Pass cleans each log that needs it, once, and tells how many it cleaned.
func (c *Cleaner) Pass(ctx context.Context) (cleaned int) {
	s := c.settings()
	c.budget.setRate(s.BytesPerSecond)
	p := pass{Cleaner: c, ctx: ctx, mapBytes: s.MapBytes / int64(max(1, s.Threads)), taken: map[*Log]bool{}}
	var wg sync.WaitGroup
	for range s.Threads {
		wg.Go(p.work)
	}
	wg.Wait()
	return p.cleaned
}

// pass is one Pass. Its mutable fields are guarded by Cleaner.mu.
type pass struct {
	*Cleaner
	ctx      context.Context
	mapBytes int64
	taken    map[*Log]bool // none is tried twice
	cleaned  int
}

func (p *pass) work() {
	for p.ctx.Err() == nil {
		l := p.next(time.Now())
		if l == nil {
			return
		}
		p.clean(l)
	}
}

// next chooses the dirtiest log; what must be cleaned for its age comes before the rest.
func (p *pass) next(now time.Time) *Log {
	p.mu.Lock()
	defer p.mu.Unlock()
	looks := CleanerStats{LastLook: now}
	var best dirt
	for _, l := range p.dir.compacted() {
		d, ok := l.dirt(now)
		if !ok {
			continue
		}
		looks.MaxDirtyPercent = max(looks.MaxDirtyPercent, 100*d.ratio())
		looks.MaxDelay = max(looks.MaxDelay, d.delay)
		if d.broken {
			looks.Uncleanable++
			looks.UncleanableSize += d.dirty
		}
		if d.needs() && !p.taken[l] && (best.log == nil || d.before(best)) {
			best = d
		}
	}
	p.stats.MaxDirtyPercent, p.stats.MaxDelay, p.stats.LastLook = looks.MaxDirtyPercent, looks.MaxDelay, now
	p.stats.Uncleanable, p.stats.UncleanableSize = looks.Uncleanable, looks.UncleanableSize
	if best.log != nil {
		p.taken[best.log] = true
	}
	return best.log
}

func (d dirt) before(o dirt) bool {
	if (d.delay > 0) != (o.delay > 0) {
		return d.delay > 0
	}
	return d.ratio() > o.ratio()
}

// compacted gives the logs with the policy that hold something. That of the others costs one look at each.
func (d *Dir) compacted() []*Log {
	logs, err := d.written()
	if err != nil {
		d.logger.Warn("compaction waits", "error", err)
	}
	return slices.DeleteFunc(logs, func(l *Log) bool { return !l.cfg.Load().Compact })
}

func (p *pass) clean(l *Log) {
	begin := time.Now()
	done, err := l.Clean(p.ctx, CleanOptions{Now: begin, MapBytes: p.mapBytes, Spend: p.spend})
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.stats
	s.Read, s.Written, s.Dropped, s.Keyless = s.Read+done.Read, s.Written+done.Written, s.Dropped+done.Dropped, s.Keyless+done.Keyless
	if err != nil {
		if !leaving(err) {
			s.Failures++
			l.warn("compaction failed", err)
		}
		return
	}
	p.cleaned++
	s.Runs++
	s.Time, s.MapUsePercent = time.Since(begin), 100*done.MapUse
	if done.Read > 0 {
		s.RecopyPercent = 100 * float64(done.Written) / float64(done.Read)
	}
	if done.Keyless > 0 {
		l.dir.logger.Warn("records without a key were dropped by compaction", "topic", l.topic, "partition", l.partition, "records", done.Keyless)
	}
	l.dir.logger.Info("compacted partition", "topic", l.topic, "partition", l.partition, "rounds", done.Rounds, "read", done.Read, "written", done.Written,
		"dropped", done.Dropped, "took", s.Time)
}

// spend waits for the I/O budget, unless there is to be no cleaning any more.
func (p *pass) spend(ctx context.Context, n int) error {
	if p.settings().Threads == 0 {
		return context.Canceled
	}
	return p.budget.spend(ctx, n)
}

// leaving tells the errors of a run that was told to stop.
func leaving(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, ErrDeleted) || errors.Is(err, ErrClosed) || errors.Is(err, ErrCleaning)
}

// ioBudget spreads reading and writing over time.
type ioBudget struct {
	mu   sync.Mutex
	rate float64   // bytes a second; 0: no limit
	free time.Time // when what was spent is paid for
}

func (b *ioBudget) setRate(bytesPerSecond float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rate = bytesPerSecond
}

// spend waits until so many bytes may be read or written. It fails when ctx ends.
func (b *ioBudget) spend(ctx context.Context, n int) error {
	if wait := b.book(time.Now(), n); wait > 0 {
		pause(ctx, wait)
	}
	return ctx.Err()
}

func (b *ioBudget) book(now time.Time, n int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate <= 0 {
		return 0
	}
	if b.free.Before(now) {
		b.free = now
	}
	wait := b.free.Sub(now)
	b.free = b.free.Add(time.Duration(min(float64(n)/b.rate, maxDelay.Seconds()) * float64(time.Second)))
	return wait
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
