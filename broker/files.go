package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sluice/catalog"
	"sluice/kproto"
	"sluice/log"
)

// reconcile goes through the partition directories at the start. What earlier runs deleted is finished; what belongs to a
// topic is registered and recovered if the last stop was unclean; the rest is kept and reported.
func (b *Broker) reconcile() error {
	if err := b.finishDeletions(); err != nil {
		return err
	}
	if err := b.settleImports(); err != nil {
		return err
	}
	found, err := b.dir.Partitions()
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.Topic != catalogTopic && !b.register(f) {
			b.logger.Warn("a partition directory belongs to no topic of the catalog; it is kept", "path", f.Path, "id", f.ID.String())
		}
	}
	if err := b.dir.Recover(context.Background()); err != nil {
		return fmt.Errorf("recover partitions: %w", err)
	}
	return nil
}

// register opens the log of a directory that belongs to a topic. Without an id it is the topic's that has the name: its
// creation was cut short.
func (b *Broker) register(f log.Found) bool {
	t := b.topics.byName(f.Topic)
	return t != nil && (f.ID == t.id || f.ID.IsZero()) && t.partition(f.Partition) != nil
}

// topicDeleted takes a topic out of the data path, its offsets out of the groups and its files out of the way. Every
// directory of a topic that was known when this run began, or was made in it, has a log here; what an earlier run left is
// found by finishDeletions.
func (b *Broker) topicDeleted(t catalog.Topic) {
	x := b.topics.remove(t.ID)
	if x == nil {
		b.deletions.add(t)
		return
	}
	forgotten := make(chan error, 1)
	b.groups.topicDeleted(t.Name, func(err error) { forgotten <- err })
	logs := x.close()
	err := removeFiles(len(logs), func(i int) error { return b.dir.Delete(logs[i]) })
	select {
	case e := <-forgotten:
		err = errors.Join(err, e)
	case <-time.After(forgetTimeout):
		err = errors.Join(err, errForgetTimeout)
	}
	b.deletionDone(t, err)
}

// forgetTimeout is how long the deletion of a topic holds back later changes of the catalog, for a group's shard that is
// still being replayed.
const forgetTimeout = 10 * time.Second

var errForgetTimeout = errors.New("the groups have not forgotten the topic's offsets in time")

// deletions are deleted topics whose files or offsets may still be there: this run never knew the topics, or could not
// remove what was theirs.
type deletions struct {
	// turn is held by whoever brings topics and files together: a change of the catalog, or another try of what failed. It comes before all locks.
	turn sync.Mutex

	mu     sync.Mutex
	topics []catalog.Topic
	told   map[kproto.TopicID]bool // whose failure was logged
}

func (d *deletions) waiting() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.topics) > 0
}

// forget is firstFailure undone.
func (d *deletions) forget(id kproto.TopicID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.told, id)
}

// firstFailure tells whether the topic's deletion has not failed before.
func (d *deletions) firstFailure(id kproto.TopicID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.told == nil {
		d.told = map[kproto.TopicID]bool{}
	}
	first := !d.told[id]
	d.told[id] = true
	return first
}

func (d *deletions) add(t ...catalog.Topic) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.topics = append(d.topics, t...)
}

func (d *deletions) take() []catalog.Topic {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.topics
	d.topics = nil
	return t
}

// finishDeletions removes the files of deleted topics that the data path does not know. They are told by the id in
// them, since there may be a topic of the same name by now.
func (b *Broker) finishDeletions() error {
	deleted := b.deletions.take()
	if len(deleted) == 0 {
		return nil
	}
	err := b.dir.SettleDeletions()
	var found []log.Found
	if err == nil {
		found, err = b.dir.Partitions()
	}
	if err != nil {
		b.deletions.add(deleted...)
		return err
	}
	for _, t := range deleted {
		files := slices.DeleteFunc(slices.Clone(found), func(f log.Found) bool { return f.ID != t.ID && !b.unfinished(f, t) })
		err := removeFiles(len(files), func(i int) error { return b.dir.Discard(files[i]) })
		if b.topics.byName(t.Name) != nil {
			b.deletionDone(t, err) // offsets under the name are another topic's by now
			continue
		}
		b.groups.topicDeleted(t.Name, func(e error) { b.deletionDone(t, errors.Join(err, e)) })
	}
	return nil
}

// unfinished tells whether a directory is what a power cut left of a first append, and may be a deleted topic's. It has
// no id yet, so nothing in it was acknowledged, and the next topic of that name would take it for its own. While requests
// are served that topic may be making it just now; before, even what is its own may go.
func (b *Broker) unfinished(f log.Found, deleted catalog.Topic) bool {
	return f.ID.IsZero() && f.Topic == deleted.Name && (!b.ready.Load() || b.topics.byName(f.Topic) == nil)
}

// removeFiles removes n partitions' files.
func removeFiles(n int, remove func(i int) error) error {
	errs := make([]error, n)
	inParallel(n, func(i int) { errs[i] = remove(i) })
	return errors.Join(errs...)
}

// deletionDone has the catalog forget a deletion that has been carried out. What failed is tried again soon. If the broker stops before, the catalog
// gives the order again at the next start.
func (b *Broker) deletionDone(t catalog.Topic, err error) {
	if err != nil {
		level := slog.LevelDebug
		if b.deletions.firstFailure(t.ID) {
			level = slog.LevelError
		}
		b.logger.Log(context.Background(), level, "what belonged to a deleted topic could not be removed yet; it is tried again every few seconds",
			"topic", t.Name, "id", t.ID.String(), "err", err)
		b.deletions.add(t)
		return
	}
	b.deletions.forget(t.ID)
	b.catalog.Do(catalog.TopicGone{ID: t.ID}, func(any, error) {}) // a failure is repaired as above
}

// deletionRetry is how often deletions that failed are tried again.
const deletionRetry = 2 * time.Second

// diskParallelism is how many partitions one piece of work has the disk work on at a time: enough to share syncs, few
// enough that one request does not crowd out the others.
const diskParallelism = 16

// inParallel runs job(0) to job(n-1) side by side and returns when all are done.
func inParallel(n int, job func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, diskParallelism)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			job(i)
		})
	}
	wg.Wait()
}
