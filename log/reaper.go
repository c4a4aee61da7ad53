package log

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"sluice/internal/vfs"
)

// reapRetry is how long a file that could not be removed waits for the next try.
const reapRetry = 10 * time.Second

// reaper removes the files of deleted segments when their delay is over (file.delete.delay.ms): one queue and one timer for all partitions. What
// it has not removed when the process ends is removed when the partition is next opened. A partition that is deleted takes its files along;
// the reaper then finds nothing.
type reaper struct {
	fs     vfs.FS
	logger *slog.Logger

	mu     sync.Mutex
	queue  []doomed // by due
	timer  *time.Timer
	closed bool
}

type doomed struct {
	due  time.Time
	name string
}

// add removes the files after the delay; without one, now.
func (r *reaper) add(names []string, delay time.Duration) {
	if len(names) == 0 {
		return
	}
	due := time.Now().Add(delay)
	r.mu.Lock()
	for _, name := range names {
		r.insert(doomed{due, name})
	}
	r.mu.Unlock()
	if delay <= 0 {
		r.reap(due)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arm()
}

func (r *reaper) insert(d doomed) {
	at, _ := slices.BinarySearchFunc(r.queue, d, func(a, b doomed) int { return cmp.Or(a.due.Compare(b.due), -1) })
	r.queue = slices.Insert(r.queue, at, d)
}

// arm sets the timer to the first due. Called with mu held.
func (r *reaper) arm() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	if len(r.queue) > 0 && !r.closed {
		r.timer = time.AfterFunc(time.Until(r.queue[0].due), func() { r.reap(time.Now()) })
	}
}

// take gives the files that are due.
func (r *reaper) take(due func(doomed) bool) []doomed {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for n < len(r.queue) && due(r.queue[n]) {
		n++
	}
	taken := slices.Clone(r.queue[:n])
	r.queue = slices.Delete(r.queue, 0, n)
	return taken
}

// reap removes what is due by now. What cannot be removed is tried again later.
func (r *reaper) reap(now time.Time) {
	var failed []doomed
	var first error
	for _, d := range r.take(func(d doomed) bool { return !d.due.After(now) }) {
		if err := r.fs.Remove(d.name); err != nil && !errors.Is(err, os.ErrNotExist) {
			first = cmp.Or(first, err)
			failed = append(failed, doomed{time.Now().Add(reapRetry), d.name})
		}
	}
	if first != nil {
		r.logger.Warn("files of deleted segments remain for now", "files", len(failed), "error", first)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range failed {
		r.insert(d)
	}
	r.arm()
}

// hurry has everything that waits removed now.
func (r *reaper) hurry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.queue {
		r.queue[i].due = time.Time{}
	}
	r.arm()
}

// pending is how many files wait.
func (r *reaper) pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue)
}

// stop ends the timer; the files stay.
func (r *reaper) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.arm()
}

// close removes everything that waits: nobody reads any more.
func (r *reaper) close() {
	r.stop()
	for _, d := range r.take(func(doomed) bool { return true }) {
		_ = r.fs.Remove(d.name) // else at the partition's next opening
	}
}
