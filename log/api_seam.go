package log

import (
	"context"
	"log/slog"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// SEAM FILE: signatures only; bodies come with the implementation.

// Durability says when an append is acknowledged and visible (docs/storage.md).
type Durability uint8

const (
	Fsync    Durability = iota // after fdatasync of the data
	Interval                   // after write(2); synced within Config.SyncInterval
	OS                         // after write(2); synced when the kernel likes, and at every roll and close
)

// Config is what a partition must know of its settings. It is immutable; Log.SetConfig swaps it.
type Config struct {
	Durability         Durability
	SyncInterval       time.Duration // Interval mode
	SegmentBytes       int64         // roll when the next batch would pass it
	SegmentAge         time.Duration // roll when the first record's timestamp is older (segment.ms)
	IndexBytes         int64         // roll when the offset or time index is full (segment.index.bytes)
	IndexInterval      int64         // bytes between index entries (index.interval.bytes)
	LogAppendTime      bool          // message.timestamp.type=LogAppendTime
	ProducerExpiration time.Duration // producer.id.expiration.ms
}

// Options of a data directory.
type Options struct {
	FS     vfs.FS
	Logger *slog.Logger
	// Syncers is how many files may be synced at the same time; 0 means the default.
	Syncers int
}

// Dir is a data directory held by this process.
type Dir struct{}

// Open takes the lock of the data directory (created if missing).
func Open(path string, o Options) (*Dir, error) { panic("seam") }

// Close syncs everything, writes what a quick start needs, marks the directory clean and releases the lock.
func (d *Dir) Close(ctx context.Context) error { panic("seam") }

// SetEpoch is the leader epoch stamped on batches from now on: one durable catalog record per start.
func (d *Dir) SetEpoch(epoch int32) { panic("seam") }

// Log is the partition's log. It is registered at once and touches the disk when it is first used
// (or now, if an unclean stop left something to recover). It never fails: a partition that cannot be opened is offline,
// and its operations answer ErrOffline. The same arguments give the same *Log.
func (d *Dir) Log(topic string, id kproto.TopicID, partition int32, c *Config) *Log { panic("seam") }

// Delete takes the partition out: later calls on it answer ErrDeleted, watchers are woken, files are
// renamed out of the way durably and then removed once no reader holds them.
func (d *Dir) Delete(l *Log) error { panic("seam") }

// Log is one partition.
type Log struct{}

// Offsets is a consistent view: Start <= Stable <= High <= End.
type Offsets struct {
	Start  int64 // first offset that can be read
	Stable int64 // last stable offset: where read_committed stops
	High   int64 // high watermark: what consumers may see
	End    int64 // next offset to be given
}

// AppendOptions say what kind of append it is. The zero value is a client's Produce.
type AppendOptions struct {
	Internal bool // from the broker itself: no idempotence check, control batches allowed
}

// Appended is the answer of stage one.
type Appended struct {
	Base          int64 // offset of the first record; of the original for a duplicate
	LogAppendTime int64 // ms, or -1 with CreateTime
	Start         int64 // log start offset
	Duplicate     bool
	Ticket        Ticket
}

// Append is stage one for one checked batch (kproto.CheckBatch). It stamps the batch in place. It never waits for the
// disk to sync. Errors: ErrOffline, ErrDeleted, ErrOutOfOrderSequence, ErrInvalidProducerEpoch, ErrTooLarge (batch > SegmentBytes).
func (l *Log) Append(b kproto.Batch, o AppendOptions) (Appended, error) { panic("seam") }

// Ticket resolves when the append may be acknowledged.
type Ticket struct {
	log *Log
	end int64
	gen uint32
}

// Waiter is told once. The call comes from the sync path: it must not block and must not call into the log.
type Waiter interface{ Resolved(err error) }

// Notify asks for w to be told. It reports true if the ticket was resolved already (err is its result, w is not called).
func (t Ticket) Notify(w Waiter) (done bool, err error) { panic("seam") }

// Wait blocks until the ticket is resolved.
func (t Ticket) Wait(ctx context.Context) error { panic("seam") }

func (l *Log) Topic() string       { panic("seam") }
func (l *Log) ID() kproto.TopicID  { panic("seam") }
func (l *Log) Partition() int32    { panic("seam") }
func (l *Log) SetConfig(c *Config) { panic("seam") }

// Offsets fails only with ErrOffline or ErrDeleted.
func (l *Log) Offsets() (Offsets, error) { panic("seam") }

// Size is the bytes of all segments.
func (l *Log) Size() (int64, error) { panic("seam") }

// Epoch is the latest leader epoch of the log's data, or the current one if it has been appended to, or -1 when empty.
func (l *Log) Epoch() (int32, error) { panic("seam") }

// Range is whole batches in one file. It must be released.
type Range struct {
	File vfs.File
	Pos  int64
	Len  int64 // 0: nothing there
	Next int64 // offset after the last batch in the range
}

func (r *Range) Release() { panic("seam") }

// Read finds whole batches from the batch that holds offset `from`, at most max bytes, below the offset `limit`
// (usually Offsets.High). If whole is set the first batch is given even when it is larger than max. A range ends at a
// segment's end. from == limit gives an empty range. Errors: ErrOffsetOutOfRange (below Start or above limit), ErrOffline, ErrDeleted, ErrDamaged.
func (l *Log) Read(from, limit int64, max int, whole bool) (Range, error) { panic("seam") }

// ReadBytes is Read into memory, for replay and tests: appends to dst.
func (l *Log) ReadBytes(dst []byte, from, limit int64, max int) (b []byte, next int64, err error) {
	panic("seam")
}

// Watch has w.Fire called, without blocking, each time the visible end or the start moves, or the log goes offline or is deleted,
// until Unwatch.
func (l *Log) Watch(w Watcher)   { panic("seam") }
func (l *Log) Unwatch(w Watcher) { panic("seam") }

// Watcher is compared by identity. Fire must not block and must not call into the log.
type Watcher interface{ Fire() }

// Position of a record.
type Position struct {
	Offset    int64 // -1: none
	Timestamp int64 // ms, -1: none
	Epoch     int32 // -1: none
}

// FindTime gives the first record at or after Start and below limit whose timestamp is >= ms (KIP-79).
func (l *Log) FindTime(ms int64, limit int64) (Position, error) { panic("seam") }

// MaxTime gives the record with the largest timestamp (KIP-734); the first of equals.
func (l *Log) MaxTime(limit int64) (Position, error) { panic("seam") }

// EpochEnd gives the largest epoch <= e that the log knows and its end offset (-1, -1 when there is none or e is in the future).
func (l *Log) EpochEnd(e int32) (epoch int32, end int64, err error) { panic("seam") }

// AdvanceStart moves the log start offset (DeleteRecords); it is durable when it returns.
func (l *Log) AdvanceStart(ctx context.Context, offset int64) (start int64, err error) { panic("seam") }
