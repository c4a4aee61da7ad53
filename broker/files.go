package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"sluice/catalog"
	"sluice/log"
)

// reconcile goes through the partition directories at the start. What earlier runs deleted is finished; what belongs to a
// topic is registered and recovered if the last stop was unclean; the rest is kept and reported.
func (b *Broker) reconcile() error {
	if err := b.finishDeletions(); err != nil {
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

// topicDeleted takes a topic out of the data path and its files out of the way. Every directory of a topic that was
// known when this run began, or was made in it, has a log here; what an earlier run left is found by finishDeletions.
func (b *Broker) topicDeleted(t catalog.Topic) {
	if x := b.topics.remove(t.ID); x != nil {
		logs := x.close()
		b.removeFiles(t, len(logs), func(i int) error { return b.dir.Delete(logs[i]) })
		return
	}
	b.deletions.add(t)
}

// deletions are deleted topics whose files may still be there: this run never knew the topics, or could not remove the
// files.
type deletions struct {
	mu     sync.Mutex
	topics []catalog.Topic
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
		b.removeFiles(t, len(files), func(i int) error { return b.dir.Discard(files[i]) })
	}
	return nil
}

// unfinished tells whether a directory is what a power cut left of a first append, and may be a deleted topic's. It has
// no id yet, so nothing in it was acknowledged, and the next topic of that name would take it for its own. While requests
// are served that topic may be making it just now; before, even what is its own may go.
func (b *Broker) unfinished(f log.Found, deleted catalog.Topic) bool {
	return f.ID.IsZero() && f.Topic == deleted.Name && (!b.ready.Load() || b.topics.byName(f.Topic) == nil)
}

// removeFiles removes the n partitions' files of a deleted topic and then has the catalog forget the deletion. What
// fails is tried again with the next change of the catalog. If the broker stops before, the catalog gives the order
// again at the next start.
func (b *Broker) removeFiles(t catalog.Topic, n int, remove func(i int) error) {
	errs := make([]error, n)
	inParallel(n, func(i int) { errs[i] = remove(i) })
	if err := errors.Join(errs...); err != nil {
		b.logger.Error("files of a deleted topic could not be removed; the next change of a topic tries again",
			"topic", t.Name, "id", t.ID.String(), "err", err)
		b.deletions.add(t)
		return
	}
	b.catalog.Do(catalog.TopicGone{ID: t.ID}, func(any, error) {}) // a failure is repaired as above
}

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
