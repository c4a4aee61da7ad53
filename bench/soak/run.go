package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// run is a soak and what was measured in it.
type run struct {
	o      options
	s      *server
	probe  *prober
	feeds  []*feed // of the phases that roll
	tally  tally
	phases []phase

	mu      sync.Mutex // guards samples
	samples []sample
	errs    []error // of sampling
}

// phase is a stretch of time with one kind of load; its beginning is not counted.
type phase struct {
	control    bool
	begin, end time.Time
	written    int64 // bytes acknowledged, of all feeds
	read       int64 // bytes checked
}

// load are the feeds of a phase: the one at full rate, and two with keys. The control has the same on topics where segments do not roll, nothing is
// deleted and nothing compacted. number tells its values from those of other feeds.
func (o options) load(control bool, number int32) []*feed {
	mib := func(n int64) string { return fmt.Sprint(n << 20) }
	dense := map[string]string{"segment.bytes": mib(o.segmentMiB), "retention.bytes": mib(o.retentionMiB), "file.delete.delay.ms": fmt.Sprint(o.deleteDelay.Milliseconds())}
	keyed := map[string]string{"cleanup.policy": "compact", "segment.bytes": mib(o.keyedSegmentMiB()), "min.cleanable.dirty.ratio": "0.2"}
	both := map[string]string{
		"cleanup.policy": "compact,delete", "segment.bytes": mib(o.keyedSegmentMiB()), "min.cleanable.dirty.ratio": "0.2",
		"retention.bytes": mib(4 * o.keyedSegmentMiB()), "file.delete.delay.ms": fmt.Sprint(o.deleteDelay.Milliseconds()),
	}
	prefix := ""
	if control {
		flat := map[string]string{"segment.bytes": fmt.Sprint(1<<31 - 1), "retention.ms": "-1"}
		dense, keyed, both, prefix = flat, flat, flat, fmt.Sprintf("control-%d-", number)
	}
	return []*feed{
		{number: number, topic: prefix + "full", partitions: o.partitions, size: o.size, configs: dense},
		{number: number + 1, topic: prefix + "keyed", partitions: 2, size: 1000, keys: o.keys, rate: o.keyedRate * 1e6, configs: keyed},
		{number: number + 2, topic: prefix + "both", partitions: 2, size: 1000, keys: o.keys, rate: o.keyedRate * 1e6, configs: both},
	}
}

// probeFeeds are the topics of the probe.
func (o options) probeFeeds() []*feed {
	rolling := map[string]string{
		"internal.segment.bytes": fmt.Sprint(rollingSegment), "retention.bytes": fmt.Sprint(4 * rollingSegment), "file.delete.delay.ms": fmt.Sprint(o.deleteDelay.Milliseconds()),
	}
	return []*feed{{topic: plainTopic, partitions: 1}, {topic: rollingTopic, partitions: 1, configs: rolling}}
}

// keyedSegmentMiB is small, so that segments of the compacted topics roll every few seconds too.
func (o options) keyedSegmentMiB() int64 { return max(1, o.segmentMiB/8) }

// play runs phases in turn, the control second, until the time is over, and reads the compacted topics once more in the end.
func (r *run) play(ctx context.Context) error {
	r.feeds = r.o.load(false, 0)
	if err := r.createAll(ctx, append(r.feeds, r.o.probeFeeds()...)); err != nil {
		return err
	}
	var err error
	if r.probe, err = startProbe(r.s.addr, r.o.perSecond); err != nil {
		return err
	}
	sampling, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { r.sampleAll(sampling) })
	err = r.playPhases(ctx)
	stop()
	background.Wait()
	return errors.Join(err, r.probe.stop(), errors.Join(r.errs...))
}

func (r *run) playPhases(ctx context.Context) error {
	end := time.Now().Add(r.o.duration)
	for n := int32(10); time.Now().Before(end); n += 10 {
		if err := r.playPhase(ctx, phase{}, r.feeds); err != nil {
			return err
		}
		if err := r.control(ctx, n); err != nil {
			return err
		}
	}
	for _, f := range r.feeds[1:] {
		if err := r.rebuildOnce(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// control plays the same load on topics of its own, and deletes them.
func (r *run) control(ctx context.Context, number int32) error {
	feeds := r.o.load(true, number)
	if err := r.createAll(ctx, feeds); err != nil {
		return err
	}
	if err := r.playPhase(ctx, phase{control: true}, feeds); err != nil {
		return err
	}
	for _, f := range feeds {
		if err := f.remove(ctx, r.s.addr); err != nil {
			return fmt.Errorf("delete topic %s: %w", f.topic, err)
		}
	}
	return nil
}

func (r *run) createAll(ctx context.Context, feeds []*feed) error {
	for _, f := range feeds {
		f.init(r.s.alive, &r.tally)
		if err := f.create(ctx, r.s.addr); err != nil {
			return fmt.Errorf("create topic %s: %w", f.topic, err)
		}
	}
	return nil
}

// playPhase lets the feeds run for the length of a phase, and until all is read.
func (r *run) playPhase(ctx context.Context, p phase, feeds []*feed) error {
	writing, stopWriting := context.WithTimeout(ctx, r.o.phase)
	defer stopWriting()
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	before := volumes(feeds)
	var writers, readers sync.WaitGroup
	errs := make(chan error, 3*len(feeds)) // one for each goroutine
	for _, f := range feeds {
		readers.Go(func() { errs <- f.follow(reading, r.s.addr) })
		writers.Go(func() { errs <- f.write(writing, r.s.addr) })
	}
	for _, f := range r.feeds[1:] { // in the control too: those topics rest then, and reading them is a load like the others
		readers.Go(func() { errs <- r.rebuildAgain(reading, f) })
	}
	r.settle(writing)
	p.begin = time.Now()
	r.awaitEnd(writing, p.control, feeds, before)
	p.end = time.Now()
	after := volumes(feeds)
	p.written, p.read = after.written-before.written, after.read-before.read
	stopWriting()
	writers.Wait()
	stopReading()
	readers.Wait()
	close(errs)
	select {
	case <-r.s.ended:
		return fmt.Errorf("the broker ended: %w", r.s.err)
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	for err := range errs {
		if err != nil {
			return err
		}
	}
	r.phases = append(r.phases, p)
	fmt.Println(r.phaseText(p))
	return nil
}

func (r *run) settle(ctx context.Context) {
	pause(ctx, min(r.o.settle, r.o.phase/2))
}

// awaitEnd waits until the phase is over, the control has written what it may, or the broker has ended.
func (r *run) awaitEnd(ctx context.Context, control bool, feeds []*feed, before volume) {
	for ctx.Err() == nil {
		if control && volumes(feeds).written-before.written > r.o.controlMiB<<20 {
			return
		}
		select {
		case <-r.s.ended:
			return
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// volume is how much was written and read.
type volume struct{ written, read int64 }

func volumes(feeds []*feed) (v volume) {
	for _, f := range feeds {
		v.written += f.produced.Load()
		v.read += f.consumed.Load()
	}
	return v
}

// rebuildPause is how long a reader of a whole compacted topic rests.
const rebuildPause = 5 * time.Second

func (r *run) rebuildAgain(ctx context.Context, f *feed) error {
	for {
		pause(ctx, rebuildPause)
		if ctx.Err() != nil {
			return nil
		}
		if err := r.rebuildOnce(r.s.alive, f); err != nil {
			return err
		}
	}
}

func (r *run) rebuildOnce(ctx context.Context, f *feed) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	return f.rebuild(ctx, r.s.addr)
}

// sampleAll takes a sample each second.
func (r *run) sampleAll(ctx context.Context) {
	m := sampler{s: r.s}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		x, err := m.take()
		r.mu.Lock()
		if err == nil {
			r.samples = append(r.samples, x)
		} else if ctx.Err() == nil {
			r.errs = append(r.errs, fmt.Errorf("sample: %w", err))
		}
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-r.s.ended:
			return
		case <-tick.C:
		}
	}
}
