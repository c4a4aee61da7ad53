package log

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"sluice/kproto"
)

// Compaction keeps the newest record of each key, at its offset and with its timestamp (KIP-58, KIP-280's default, KIP-534).
//
// A round goes over the sealed segments from the log's first on. It notes the newest offset of each key in the part that was not cleaned before, in
// bounded memory; if that is too little for all keys, the round ends where the memory is full and another follows. Then it writes the
// segments anew, several small ones into one, without the records that have a newer one below the round's end. docs/storage.md has the
// swap of the files.
//
// Beside the newest record of each key these stay:
//
//   - tombstones, until delete.retention.ms have passed since the first round that saw them;
//   - transaction markers, until the same time after the first round that found no data of their transaction;
//   - the last batch of each living producer, with or without records, so that its sequence goes on should the snapshots be lost;
//   - the last batch of each segment that is written, so that a segment always ends where the next begins.
//
// Not touched are the active segment, what consumers may not see yet, what is younger than min.compaction.lag.ms, and everything from the
// first transaction on that has not ended.

// CleanOptions are what a run of the cleaner may use.
type CleanOptions struct {
	Now      time.Time
	MapBytes int64                                      // memory for keys
	Spend    func(ctx context.Context, bytes int) error // called before so much is read or written; nil: no limit
}

// Cleaned is what a run of the cleaner did.
type Cleaned struct {
	Rounds        int
	Read, Written int64   // bytes
	Dropped       int64   // records
	Keyless       int64   // of them, those without a key, which a compacted topic cannot hold
	MapUse        float64 // the largest share of the map's memory that was used
}

// Errors of Clean, beside those of any call.
var (
	// ErrCleaning: another cleaner is at work on the log.
	ErrCleaning = errors.New("log is being cleaned")
	// ErrUncleanable: the log is not compacted any more until the next start; the log says why.
	ErrUncleanable = errors.New("log cannot be compacted")
)

// Clean compacts what may be compacted, and returns when it is durable. It stops between two batches when ctx ends or the log is closed or deleted;
// what was swapped in by then stands. Errors: ErrStorage (it may be tried again), ErrUncleanable, ErrCleaning, ErrOffline, ErrDeleted, ErrClosed, ctx's.
func (l *Log) Clean(ctx context.Context, o CleanOptions) (Cleaned, error) {
	var done Cleaned
	ctx, release, err := l.holdForCleaning(ctx)
	if err != nil {
		return done, err
	}
	defer release()
	for more := true; more && err == nil; {
		more, err = l.cleanRound(ctx, o, &done)
	}
	if errors.Is(err, errSegmentGone) {
		err = nil // the next run sees what is left
	}
	return done, l.afterCleaning(err)
}

// afterCleaning sorts the errors: what is wrong with the bytes will not be right at the next try.
func (l *Log) afterCleaning(err error) error {
	var bad *badBatch
	var refused *kproto.Error
	if errors.As(err, &bad) || errors.As(err, &refused) {
		err = fmt.Errorf("%w: %w", ErrUncleanable, err)
	}
	if errors.Is(err, ErrUncleanable) {
		l.dir.logger.Error("log is not compacted any more until the next start", "topic", l.topic, "partition", l.partition, "error", err)
		l.mu.Lock()
		l.cleaner.broken = err
		l.mu.Unlock()
	}
	return err
}

// round is one round over a log.
type round struct {
	log      *Log
	o        CleanOptions
	cfg      *Config
	done     *Cleaned
	ctx      context.Context
	start    int64 // first offset that was not cleaned before
	logStart int64 // log start: what lies below is deleted
	end      int64 // the round's end: what lies above is left as it is

	sources []*segment      // to be cleaned, from the log's first. They are sealed, and opened one at a time
	beyond  []sized         // all after them
	high    int64           // high watermark
	lastOf  map[int64]int64 // last offset of the last batch of each living producer

	txns    *transactions
	keys    *keyMap
	started map[int64]bool // producers of whose transaction data was seen since its last marker
	reader  sealedReader
	records kproto.Compactor
	due     int64 // ms: the earliest delete horizon that was kept, 0: none
}

// cleanRound does one round; more says that another one has to follow.
func (l *Log) cleanRound(ctx context.Context, o CleanOptions, done *Cleaned) (more bool, err error) {
	r := &round{log: l, o: o, ctx: ctx, done: done, started: map[int64]bool{}}
	if err := r.plan(); err != nil {
		return false, err
	}
	r.reader.spend = r.spendRead
	if err := r.findTransactions(); err != nil || len(r.sources) == 0 {
		return false, err
	}
	if err := r.findKeys(); err != nil {
		return false, err
	}
	done.Rounds++
	done.MapUse = max(done.MapUse, float64(r.keys.n)/float64(len(r.keys.entries)))
	for _, group := range r.groups() {
		if err := r.clean(group); err != nil {
			return false, err
		}
	}
	l.mu.Lock()
	l.cleaner.due = r.due
	l.mu.Unlock()
	return r.end < r.sources[len(r.sources)-1].next, nil
}

// plan takes what is needed of the log. Its segments may go meanwhile: borrow says so.
func (r *round) plan() error {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.cleanable(); err != nil {
		return err
	}
	r.cfg, r.high = l.cfg.Load(), l.visible.offset
	r.start, r.logStart = l.firstDirty(), l.start
	r.lastOf = l.lastBatches(r.o.Now)
	n, err := l.cleanableSegments(r.cfg, r.o.Now)
	if err != nil {
		return err
	}
	for i, s := range l.segs {
		if i < n {
			r.sources = append(r.sources, s)
		} else {
			r.beyond = append(r.beyond, sized{s, s.size})
		}
	}
	return nil
}

// cleanableSegments is how many segments, from the first on, may be cleaned.
func (l *Log) cleanableSegments(cfg *Config, now time.Time) (int, error) {
	newest := int64(maxOffset)
	if cfg.MinCompactionLag > 0 {
		newest = now.Add(-cfg.MinCompactionLag).UnixMilli()
	}
	n := 0
	for _, s := range l.segs[:max(0, len(l.segs)-1)] {
		if !s.sealed || s.next > l.visible.offset {
			break
		}
		if newest < maxOffset && s.next > l.firstDirty() {
			if err := s.findNewest(cfg.IndexInterval); err != nil {
				return 0, err
			}
			if s.maxTime > newest {
				break
			}
		}
		n++
	}
	return n, nil
}

// lastBatches gives the last offset of the last batch of each living producer.
func (l *Log) lastBatches(now time.Time) map[int64]int64 {
	oldest := now.Add(-l.cfg.Load().ProducerExpiration).UnixMilli()
	last := make(map[int64]int64, len(l.producers))
	for id, p := range l.producers {
		if p.n > 0 && p.appended >= oldest {
			last[id] = p.lastBatch().last
		}
	}
	return last
}

func (r *round) spendRead(n int) error {
	r.done.Read += int64(n)
	return r.spend(n)
}

func (r *round) spend(n int) error {
	if r.o.Spend != nil {
		return r.o.Spend(r.ctx, n)
	}
	return r.ctx.Err()
}

// findTransactions looks at all control batches, and gives up the segments that hold records of a transaction that has not ended.
func (r *round) findTransactions() error {
	var segs []sized
	for _, s := range r.sources {
		if s.next > r.start {
			segs = append(segs, sized{s, s.size})
		}
	}
	var err error
	if r.txns, err = scanTransactions(r.log, append(segs, r.beyond...), len(segs), r.high, r.spendRead); err != nil {
		return err
	}
	n := len(r.sources)
	for n > 0 && r.sources[n-1].next > r.txns.unstable {
		n--
	}
	r.sources = r.sources[:n]
	return nil
}

// findKeys notes the newest record of each key from start on, and sets end: to that of the sources, or to the first record for whose key there is no memory.
func (r *round) findKeys() error {
	r.keys = newKeyMap(r.o.MapBytes, r.txns.records)
	r.end = r.sources[len(r.sources)-1].next
	for _, s := range r.sources {
		if s.next <= r.start {
			continue
		}
		full, err := r.keysOf(s)
		if err != nil || full {
			return err
		}
	}
	return nil
}

func (r *round) keysOf(s *segment) (full bool, err error) {
	release, err := r.log.borrow(s)
	if err != nil {
		return false, err
	}
	defer release()
	r.reader.read(s)
	for {
		b, _, err := r.reader.next()
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, r.unreadable(s, err)
		case b.NextOffset() <= r.start, b.Control(), r.txns.isAborted(b):
			continue
		}
		err = r.records.Keys(b, func(k kproto.KeyedRecord) bool {
			if k.Key == nil || k.Offset < r.start {
				return true
			}
			if full = !r.keys.put(k.Key, k.Offset); full {
				r.end = k.Offset
			}
			return !full
		})
		if err != nil || full {
			return full, err
		}
	}
}

// groups puts together the segments that are written into one: as many as fit segment.bytes and the indexes by the bounds that appends keep too.
func (r *round) groups() [][]*segment {
	var groups [][]*segment
	var bytes int64
	for _, s := range r.sources {
		if s.base >= r.end {
			break
		}
		n := len(groups) - 1
		if n >= 0 && r.fits(groups[n][0], s, bytes+s.size) {
			groups[n], bytes = append(groups[n], s), bytes+s.size
			continue
		}
		groups, bytes = append(groups, []*segment{s}), s.size
	}
	return groups
}

func (r *round) fits(first, s *segment, bytes int64) bool {
	entries := bytes/max(r.cfg.IndexInterval, kproto.HeaderSize) + 2 // of each index, at most
	return bytes <= min(r.cfg.SegmentBytes, maxSegmentBytes) &&
		entries*timeEntrySize <= r.cfg.IndexBytes &&
		s.next-first.base <= math.MaxInt32
}

// clean writes a group anew and swaps it in, unless that would change nothing.
func (r *round) clean(group []*segment) error {
	end := group[len(group)-1].next
	w := newCleanedWriter(r, group)
	defer w.close()
	for _, s := range group {
		if err := r.copy(w, s, end); err != nil {
			return err
		}
	}
	reached := min(r.end, end)
	if !w.changed {
		return r.log.noteCleaned(reached)
	}
	fresh, err := w.finish(end, reached)
	if err != nil {
		return err
	}
	return r.log.swap(&swap{old: slices.Clone(group), fresh: fresh, reached: reached})
}

// unreadable has readers refused what the round could not read, if the bytes are bad.
func (r *round) unreadable(s *segment, err error) error {
	var bad *badBatch
	if errors.As(err, &bad) {
		r.log.noteBad(s, bad)
	}
	return fmt.Errorf("%s: %w", s.path(logSuffix), err)
}

// copy takes one segment of a group over. end is the group's.
func (r *round) copy(w *cleanedWriter, s *segment, end int64) error {
	release, err := r.log.borrow(s)
	if err != nil {
		return err
	}
	defer release()
	r.reader.read(s)
	for {
		b, pos, err := r.reader.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return r.unreadable(s, err)
		}
		kept, err := r.filter(b, b.NextOffset() == end)
		if err != nil {
			return fmt.Errorf("%s: batch at position %d: %w", s.path(logSuffix), pos, err)
		}
		if err := w.take(s, pos, b, kept); err != nil {
			return err
		}
	}
}
