package broker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/log"
)

// firstRetention is the longest that the first check waits after a start: Kafka's log.initial.task.delay.ms.
const firstRetention = 30 * time.Second

// idleFiles is how often files that were not used since the last time are closed. They go on at the cost of an open, some 10 us.
const idleFiles = time.Minute

// retention is the background pass that deletes old segments: one goroutine for all partitions. It also finishes deletions of topics that
// have failed, and closes the files of partitions that nobody uses.
type retention struct {
	clock retentionClock // of the goroutine

	cancel context.CancelFunc
	done   sync.WaitGroup
	passes atomic.Int64
	took   atomic.Int64 // by the last pass, ns
	doubt  atomic.Bool  // the wall clock is not believed
}

func (r *retention) start(b *Broker) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.clock = retentionClock{wall: b.dir.LastRun()}
	began := time.Now()
	r.done.Go(func() {
		interval := b.config().RetentionCheckInterval
		timer := time.NewTimer(min(interval, firstRetention))
		defer timer.Stop()
		retry := time.NewTicker(deletionRetry)
		defer retry.Stop()
		idle := time.NewTicker(idleFiles)
		defer idle.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-retry.C:
				b.retryDeletions()
			case <-b.dir.Overfull():
				b.dir.RetainOverfull(ctx)
			case <-idle.C:
				b.dir.CloseIdle()
			case <-timer.C:
				r.pass(ctx, b, time.Since(began))
				timer.Reset(interval)
			}
		}
	})
}

func (r *retention) pass(ctx context.Context, b *Broker, passed time.Duration) {
	begin := time.Now()
	now := r.now(b, b.opts.Clock(), passed)
	b.dir.Retain(ctx, now)
	r.took.Store(int64(time.Since(begin)))
	r.passes.Add(1)
}

// now is the time to hold timestamps against. A doubt is told when it begins and when it ends.
func (r *retention) now(b *Broker, wall time.Time, passed time.Duration) time.Time {
	grace := clockGrace(b.config().RetentionCheckInterval)
	now, jump := r.clock.read(wall.Round(0), passed, grace)
	switch doubted := r.doubt.Swap(jump > 0); {
	case jump > 0 && !doubted:
		b.logger.Error("the wall clock has jumped ahead, or the broker was stopped that long; retention by time goes by the old time for now",
			"clock", wall.UTC(), "believed", now.UTC(), "jump", jump, "until it is believed", grace)
	case jump == 0 && doubted:
		b.logger.Warn("retention by time goes by the wall clock again", "clock", wall.UTC())
	}
	return now
}

func (r *retention) close() {
	if r.cancel != nil {
		r.cancel()
	}
	r.done.Wait()
}

// retentionMetrics are the figures of retention.
type retentionMetrics struct{ b *Broker }

var (
	deletedSegments = prometheus.NewDesc("sluice_retention_deleted_segments_total", "Segments deleted, by cause.", []string{"cause"}, nil)
	deletedBytes    = prometheus.NewDesc("sluice_retention_deleted_bytes_total", "Bytes of the segments deleted, by cause.", []string{"cause"}, nil)
	waitingFiles    = prometheus.NewDesc("sluice_retention_waiting_files", "Files of deleted segments that wait for file.delete.delay.ms.", nil, nil)
	retentionPasses = prometheus.NewDesc("sluice_retention_passes_total", "Checks of all partitions for segments to delete.", nil, nil)
	retentionTook   = prometheus.NewDesc("sluice_retention_last_pass_seconds", "How long the last check took.", nil, nil)
	retentionDoubt  = prometheus.NewDesc("sluice_retention_clock_doubted", "1 while the wall clock is not believed because it has jumped ahead.", nil, nil)
)

func (m retentionMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{deletedSegments, deletedBytes, waitingFiles, retentionPasses, retentionTook, retentionDoubt} {
		ch <- d
	}
}

func (m retentionMetrics) Collect(ch chan<- prometheus.Metric) {
	if m.b.dir == nil {
		return
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	for _, why := range log.Causes {
		n := m.b.dir.Deleted(why)
		counter(deletedSegments, float64(n.Segments), why.String())
		counter(deletedBytes, float64(n.Bytes), why.String())
	}
	r := &m.b.retention
	counter(retentionPasses, float64(r.passes.Load()))
	gauge(waitingFiles, float64(m.b.dir.WaitingFiles()))
	gauge(retentionTook, time.Duration(r.took.Load()).Seconds())
	doubt := 0.0
	if r.doubt.Load() {
		doubt = 1
	}
	gauge(retentionDoubt, doubt)
}
