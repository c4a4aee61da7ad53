package log

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// A log that has outgrown retention.bytes by its oldest segment is looked at at once: between two checks of all partitions a fast producer would write
// more than the disk holds. So such a log is as large as retention.bytes and one segment, and what is appended while that segment is let go.

// fullness tells when a log is to be looked at, so that an append need not add up its segments. The zero value is to be computed.
type fullness struct {
	known bool
	at    int64 // bytes of the last segment
}

// noteFill has the log looked at, once, when its oldest segment may go by size. Called with mu held after an append.
func (l *Log) noteFill(c *Config) {
	if !c.Delete || c.RetentionBytes < 0 || len(l.segs) < 2 {
		return
	}
	size := l.active().size
	if !l.fill.known {
		l.fill = fullness{true, c.RetentionBytes + l.segs[0].size - (l.bytes() - size)}
	}
	if size >= l.fill.at {
		l.fill.at = math.MaxInt64
		l.dir.overfull.add(l)
	}
}

// overfull are the logs to be looked at.
type overfull struct {
	signal chan struct{} // of one place

	mu   sync.Mutex
	logs map[*Log]bool
}

func newOverfull() *overfull {
	return &overfull{signal: make(chan struct{}, 1), logs: map[*Log]bool{}}
}

func (o *overfull) add(l *Log) {
	o.mu.Lock()
	o.logs[l] = true
	o.mu.Unlock()
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

func (o *overfull) take() []*Log {
	o.mu.Lock()
	defer o.mu.Unlock()
	logs := slices.Collect(maps.Keys(o.logs))
	clear(o.logs)
	return logs
}

// Overfull says that there are logs for RetainOverfull.
func (d *Dir) Overfull() <-chan struct{} { return d.overfull.signal }

// RetainOverfull is Retain of the logs that have outgrown retention.bytes by a segment since it was last called. Time does not count: it is the
// checks of all partitions that know whether the clock can be believed.
func (d *Dir) RetainOverfull(ctx context.Context) {
	if logs := d.overfull.take(); len(logs) > 0 {
		d.retain(ctx, logs, time.UnixMilli(0))
	}
}
