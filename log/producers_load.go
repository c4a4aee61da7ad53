package log

import (
	"path/filepath"
	"slices"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// loadProducers makes the producers' state at the offset end: the newest readable snapshot at or below it, then the headers of the batches after that.
func (l *Log) loadProducers(segs []*segment, end int64) error {
	snapshots, err := l.snapshots()
	if err != nil {
		return err
	}
	l.producers = producers{}
	from := int64(0)
	for _, o := range slices.Backward(snapshots) {
		name := filepath.Join(l.path(), segmentName(o, producerSuffix))
		if o > end {
			continue
		}
		data, err := vfs.ReadFile(l.dir.fs, name, maxProducersFile)
		if err != nil {
			return storageError("read producer snapshot", err)
		}
		ps, err := decodeProducers(data)
		if err != nil {
			l.warn("producer snapshot ignored", err)
			continue
		}
		l.producers, from = ps, o
		break
	}
	return l.replayProducers(segs, from, end)
}

func (l *Log) replayProducers(segs []*segment, from, end int64) error {
	now := time.Now().UnixMilli()
	for _, s := range segs {
		if s.next <= from || s.base >= end || s.size == 0 {
			continue
		}
		err := s.eachHeader(func(h kproto.Batch) {
			if h.BaseOffset() >= from && h.BaseOffset() < end {
				l.producers.note(h, now, replayTime(h))
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// replayTime is the time that the reply to the batch's Produce said.
func replayTime(h kproto.Batch) int64 {
	if h.LogAppendTime() {
		return h.MaxTimestamp()
	}
	return -1
}
