package log

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"sluice/kproto"
)

// ReservedID is the topic id of the catalog's own log (Kafka's id of its metadata topic). Its directory needs no partition.metadata.
var ReservedID = kproto.TopicID{15: 1}

// state of a Log: how each is answered, and what leads out.
//
//	idle     untouched since start; the first call opens it (-> open, or offline if the files are not what they should be)
//	open     served
//	cut      a sync failed and the unsynced tail could not be taken back yet; what is durable is read, appends get ErrStorage and may try again (-> open)
//	frozen   a sync failed after its records were shown; they are read on, appends get ErrStorage until the log was read anew from the disk (-> open, or offline if some are lost)
//	offline  ErrOffline until the next start
//	deleted  ErrDeleted
type state uint8

const (
	stateIdle state = iota
	stateOpen
	stateCut
	stateFrozen
	stateOffline
	stateDeleted
)

// Log is one partition.
type Log struct {
	dir       *Dir
	topic     string
	id        kproto.TopicID
	partition int32
	cfg       atomic.Pointer[Config]

	manifest sync.Mutex // held while the list of sealed segments is written; before mu

	mu      sync.Mutex // guards all below
	state   state
	offline error // why, in stateOffline, stateCut and stateFrozen
	retry   time.Time
	failed  bool // opening it failed: a sync may have, and must not be trusted the next time

	segs      []*segment // by base; the last one is appended to; empty until the first append
	sealing   []sealing  // rolled, indexes not yet in files
	start     int64
	nextStart int64 // being made durable by AdvanceStart
	end       int64
	visible   visible
	durable   int64 // every offset below is synced
	damage    *damage

	gen  uint32  // raised when a tail is taken back: tickets of it fail
	cuts []int64 // durable offset at the end of each generation

	producers   producers
	epochs      epochs
	epochsDirty bool
	epochsSum   uint32 // of the checkpoint as it is on disk

	waiters  []waiting
	watchers *Watch // the first of a list
	tail     tail

	queued    bool      // in the syncer's queue or being synced
	again     bool      // appended to since the sync in progress began
	force     bool      // the next sync covers the active segment in mode OS too
	seals     *syncWork // what is being sealed, or waits for it
	syncDone  *sync.Cond
	syncTimer *time.Timer
	reserved  int64 // files that are counted as open, and are to be opened by who holds mu
	enlisted  bool  // in the queue of logs with open files
	newDir    bool  // the directory's own entry and partition.metadata are not durable yet
	newFiles  bool  // entries in the directory are not durable yet
	unlisted  bool  // there are sealed segments that are not in the list of them
	slotIndex int   // -1: none yet
	idle      *idleLook
	recovery  int64
	fill      fullness

	cleaned cleanPoint
	cleaner cleanerHold
}

// visible is where consumers stop, as an offset and as a place.
type visible struct {
	offset int64
	seg    *segment
	pos    int64
}

// sealing is a rolled segment and the producers' state at its end.
type sealing struct {
	seg       *segment
	producers producers
}

type waiting struct {
	end int64
	w   Waiter
}

func (l *Log) Topic() string      { return l.topic }
func (l *Log) ID() kproto.TopicID { return l.id }
func (l *Log) Partition() int32   { return l.partition }
func (l *Log) path() string       { return filepath.Join(l.dir.path, partitionDir(l.topic, l.partition)) }

// SetConfig swaps the settings. What is not synced is synced: the new mode may never do it, and somebody may be waiting since the old one.
func (l *Log) SetConfig(c *Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg.Store(c)
	l.fill = fullness{}
	if l.state == stateOpen && l.durable < l.end {
		l.scheduleSync(true)
	}
}

// ready opens the log if need be. Called with mu held.
func (l *Log) ready() error {
	switch l.state {
	case stateOpen:
		return nil
	case stateIdle:
		return l.open()
	case stateCut:
		return l.retryCut()
	case stateFrozen:
		return l.reopen()
	case stateDeleted:
		return ErrDeleted
	}
	if errors.Is(l.offline, ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%s-%d: %w: %w", l.topic, l.partition, ErrOffline, l.offline)
}

// readable is ready for those who read: while the end of the log is in doubt, what was shown stands as before, and only appends
// wait for the disk. Called with mu held.
func (l *Log) readable() error {
	if l.state == stateCut || l.state == stateFrozen {
		return nil
	}
	return l.ready()
}

// goOffline ends service until the next start. Called with mu held; the waiters are answered by the caller through takeWaiters.
func (l *Log) goOffline(cause error) {
	l.become(stateOffline)
	l.offline = cause
	l.dir.logger.Error("partition is offline", "topic", l.topic, "partition", l.partition, "error", cause)
	l.fire()
}

// Offsets is a consistent view: Start <= Stable <= High <= End.
type Offsets struct {
	Start  int64 // first offset that can be read
	Stable int64 // last stable offset: where read_committed stops
	High   int64 // high watermark: what consumers may see
	End    int64 // next offset to be given
}

// Offsets fails with ErrStorage, ErrOffline, ErrDeleted or ErrClosed.
func (l *Log) Offsets() (Offsets, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readable(); err != nil {
		return Offsets{}, err
	}
	high := l.visible.offset
	return Offsets{Start: l.start, Stable: high, High: high, End: l.end}, nil
}

// Size is the bytes of all segments.
func (l *Log) Size() (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readable(); err != nil {
		return 0, err
	}
	return l.bytes(), nil
}

// Epoch is the leader epoch of the log's latest batch, or -1 when it has none.
func (l *Log) Epoch() (int32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readable(); err != nil {
		return -1, err
	}
	return l.epochs.last(), nil
}

// EpochEnd gives the largest epoch <= e that the log knows and its end offset, or -1, -1 (KIP-101, KIP-320). The end of the latest epoch is the high watermark.
func (l *Log) EpochEnd(e int32) (epoch int32, end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readable(); err != nil {
		return -1, -1, err
	}
	epoch, end = l.epochs.from(l.start).end(e, l.visible.offset)
	return epoch, min(end, l.visible.offset), nil
}

// Ticket resolves when the append may be acknowledged. The zero Ticket is resolved.
type Ticket struct {
	log *Log
	end int64
	gen uint32
}

// Waiter is told once. The call comes from the sync path: it must not block and must not call into the log.
type Waiter interface{ Resolved(err error) }

// Notify asks for w to be told. It reports true if the ticket was resolved already (err is its result, w is not called).
func (t Ticket) Notify(w Waiter) (done bool, err error) {
	if t.log == nil {
		return true, nil
	}
	l := t.log
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case t.gen != l.gen && t.end <= l.cuts[t.gen], t.gen == l.gen && t.end <= l.durable:
		return true, nil
	case l.state == stateFrozen:
		return true, l.lost()
	case t.gen != l.gen, l.state == stateCut:
		return true, ErrNotDurable
	case l.state != stateOpen:
		return true, l.ready()
	}
	l.waiters = append(l.waiters, waiting{t.end, w})
	return false, nil
}

// Wait blocks until the ticket is resolved or ctx ends (the append stands then, and may yet become durable).
func (t Ticket) Wait(ctx context.Context) error {
	w := make(chanWaiter, 1)
	if done, err := t.Notify(w); done {
		return err
	}
	select {
	case err := <-w:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

type chanWaiter chan error

func (c chanWaiter) Resolved(err error) { c <- err }

// takeWaiters removes and returns the waiters whose append ends at or below end, in order. Called with mu held.
func (l *Log) takeWaiters(end int64) []waiting {
	var ready []waiting
	rest := l.waiters[:0]
	for _, w := range l.waiters {
		if w.end <= end {
			ready = append(ready, w)
		} else {
			rest = append(rest, w)
		}
	}
	clear(l.waiters[len(rest):])
	l.waiters = rest
	return ready
}

func resolve(ws []waiting, err error) {
	for _, w := range ws {
		w.w.Resolved(err)
	}
}

// delete makes every later call answer ErrDeleted; it gives the partition's slot, or -1.
func (l *Log) delete() int {
	l.mu.Lock()
	l.become(stateDeleted)
	l.stopCleaning() // before the segments go from under it
	waiters := l.takeWaiters(maxOffset)
	l.dropSegments(l.segs)
	l.segs, l.sealing, l.producers = nil, nil, nil
	l.visible.seg = nil
	l.tail = tail{}
	l.stopTimer()
	l.fire()
	index := l.slotIndex
	if index < 0 {
		if i, _, ok := l.dir.slots.claim(l.id, l.partition); ok {
			index = i
		}
	}
	l.mu.Unlock()
	resolve(waiters, ErrDeleted)
	return index
}

// dropSegments gives the log's references back.
func (l *Log) dropSegments(segs []*segment) {
	for _, s := range segs {
		s.release()
	}
}

func (l *Log) stopTimer() {
	if l.syncTimer != nil {
		l.syncTimer.Stop()
		l.syncTimer = nil
	}
}

// removeFiles unlinks a segment's files; readers keep what they have open.
func (l *Log) removeFiles(s *segment) error {
	for _, suffix := range []string{logSuffix, indexSuffix, timeSuffix} {
		if err := l.dir.fs.Remove(s.path(suffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return storageError("remove segment", err)
		}
	}
	return nil
}
