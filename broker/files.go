package broker

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"sluice/catalog"
	"sluice/kproto"
	"sluice/log"
)

// partitionFiles is a directory in the data directory that is named like a partition's.
type partitionFiles struct {
	topic     string
	partition int32
}

// listPartitionFiles lists the data directory. Topics may contain dashes; the number is after the last one.
func (b *Broker) listPartitionFiles() ([]partitionFiles, error) {
	entries, err := b.opts.FS.ReadDir(b.opts.DataDir)
	if err != nil {
		return nil, fmt.Errorf("list the data directory: %w", err)
	}
	var out []partitionFiles
	for _, e := range entries {
		if p, ok := parsePartitionFiles(e.Name()); ok && e.IsDir() && p.topic != catalogTopic {
			out = append(out, p)
		}
	}
	return out, nil
}

func parsePartitionFiles(name string) (partitionFiles, bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return partitionFiles{}, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != name[i+1:] {
		return partitionFiles{}, false
	}
	return partitionFiles{topic: name[:i], partition: int32(n)}, true
}

// maxPartitionMetadata bounds what is read of a partition.metadata file: two short lines.
const maxPartitionMetadata = 4 << 10

// idOf reads the topic id of a partition's directory; zero when it cannot be told.
func (b *Broker) idOf(p partitionFiles) kproto.TopicID {
	dir := fmt.Sprintf("%s-%d", p.topic, p.partition)
	text, err := readSmallFile(b.opts.FS, filepath.Join(b.opts.DataDir, dir, "partition.metadata"), maxPartitionMetadata)
	if err != nil {
		return kproto.TopicID{}
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "topic_id:"); ok {
			id, _ := kproto.ParseTopicID(strings.TrimSpace(v)) // zero on error
			return id
		}
	}
	return kproto.TopicID{}
}

// reconcile goes through the directories at the start: those of deleted topics are finished, those of known topics are
// opened, so that what an unclean stop left is recovered before the broker says that it is ready; others are kept and reported.
func (b *Broker) reconcile() error {
	if err := b.finishDeletions(); err != nil {
		return err
	}
	found, err := b.listPartitionFiles()
	if err != nil {
		return err
	}
	for _, p := range found {
		if t := b.topics.byName(p.topic); t != nil && t.partition(p.partition) != nil {
			continue
		}
		b.logger.Warn("a partition directory belongs to no topic of the catalog; it is kept",
			"topic", p.topic, "partition", p.partition, "id", b.idOf(p).String())
	}
	return nil
}

// topicDeleted takes a topic out of the data path and its files out of the way. Every directory of a topic that was known when this run
// began, or was made in it, has a log here; what an earlier run left is found by finishDeletions.
func (b *Broker) topicDeleted(t catalog.Topic) {
	if x := b.topics.remove(t.ID); x != nil {
		b.removeFiles(t, x.close())
		return
	}
	b.deletions.add(t)
}

// deletions are deleted topics that this run never knew and whose files may still be there.
type deletions struct {
	mu     sync.Mutex
	topics []catalog.Topic
}

func (d *deletions) add(t catalog.Topic) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.topics = append(d.topics, t)
}

func (d *deletions) take() []catalog.Topic {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.topics
	d.topics = nil
	return t
}

// finishDeletions removes the files of deleted topics that the data path does not know. They are told by the id in them, since
// there may be a topic of the same name by now.
func (b *Broker) finishDeletions() error {
	deleted := b.deletions.take()
	if len(deleted) == 0 {
		return nil
	}
	found, err := b.listPartitionFiles()
	if err != nil {
		return err
	}
	byTopic := map[string][]partitionFiles{}
	for _, p := range found {
		byTopic[p.topic] = append(byTopic[p.topic], p)
	}
	for _, t := range deleted {
		var logs []*log.Log
		for _, p := range byTopic[t.Name] {
			if b.idOf(p) == t.ID {
				logs = append(logs, b.dir.Log(t.Name, t.ID, p.partition, b.settings.Load().topicLog))
			}
		}
		b.removeFiles(t, logs)
	}
	return nil
}

// removeFiles deletes the logs of a deleted topic and then has the catalog forget the deletion. If that fails, or the broker stops
// before, the catalog gives the order again at the next start.
func (b *Broker) removeFiles(t catalog.Topic, logs []*log.Log) {
	var err error
	for _, l := range logs {
		err = errors.Join(err, b.dir.Delete(l))
	}
	if err != nil {
		b.logger.Error("files of a deleted topic could not be removed; the next start tries again",
			"topic", t.Name, "id", t.ID.String(), "err", err)
		return
	}
	b.catalog.Do(catalog.TopicGone{ID: t.ID}, func(any, error) {}) // a failure is repaired as above
}
