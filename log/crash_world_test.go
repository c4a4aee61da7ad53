package log

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
	"sluice/kproto"
)

// world runs a script against a data directory on a Mem and keeps the books: what was tried, what was promised, what a consumer has seen.
type world struct {
	t     testing.TB
	mem   *vfs.Mem
	in    *vfs.Injector
	proc  *crashtest.Process
	dir   *Dir
	epoch int32
	gap   time.Duration // between tries to bring a log back
	files int           // how many may be open; 0: enough
	room  int64         // for last segments in the mark of a clean stop, bytes
	wait  time.Duration // for room to open another; images are looked at meanwhile

	mu     sync.Mutex // guards the books: all below and the parts
	parts  []*part
	closed bool // Dir.Close has returned nil and nothing was begun since
	lastID int64
}

// part is the book of one incarnation of a partition.
type part struct {
	w     *world
	topic string
	id    kproto.TopicID
	n     int32
	cfg   *Config
	log   *Log // of the living process

	tries    map[int64]*try // by batch id
	order    []*try
	acked    []*try // append-only
	gone     []*try // appends that were taken back, known since a later append was accepted. Append-only.
	seen     []sight
	next     int64 // what the consumer reads next
	start    int64 // acknowledged log start
	tryStart int64 // largest log start asked for
	durable  int64 // as the log itself said, for modes whose acknowledgement does not promise it
	dying    bool  // Delete was called
	dead     bool  // Delete has returned
}

// try is one append.
type try struct {
	id     int64
	batch  kproto.Batch // as given, without offset and epoch
	spec   batchSpec
	base   int64
	gen    uint32 // of its ticket
	failed bool   // answered ErrNotDurable by the process proc
	proc   *crashtest.Process
}

// sight is a batch that a consumer has read.
type sight struct{ base, id int64 }

func newWorld(t testing.TB) *world {
	w := &world{t: t, mem: vfs.NewMem(), in: &vfs.Injector{}, gap: retryGap, wait: never, room: maxMark}
	return w
}

// boot starts a process on the disk.
func (w *world) boot() {
	w.t.Helper()
	if err := w.tryBoot(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tryBoot() error {
	w.mu.Lock()
	w.closed = false
	w.epoch++
	w.mu.Unlock()
	w.proc = crashtest.NewProcess(vfs.Inject(w.mem, w.in))
	d, err := Open("data", Options{FS: w.proc, OpenFiles: w.files})
	if err != nil {
		return err
	}
	d.SetEpoch(w.epoch)
	d.retryGap, d.slots.gap = w.gap, w.gap
	d.files.wait, d.markRoom = w.wait, w.room
	w.mu.Lock()
	w.dir = d
	live := w.live()
	w.mu.Unlock()
	for _, p := range live {
		l := d.Log(p.topic, p.id, p.n, p.cfg)
		w.mu.Lock()
		p.log = l
		w.mu.Unlock()
	}
	return d.Recover(context.Background())
}

func (w *world) live() []*part {
	return slices.DeleteFunc(slices.Clone(w.parts), func(p *part) bool { return p.dying })
}

// kill ends the process; the disk keeps what was written.
func (w *world) kill() {
	w.proc.Kill()
	abandon(w.dir)
}

// finishAll waits until everything is synced and sealed that was to be.
func finishAll(d *Dir) {
	for _, l := range d.all() {
		l.finishSync()
	}
}

// abandon stops what a dead process would no longer do.
func abandon(d *Dir) {
	for _, l := range d.all() {
		l.mu.Lock()
		l.stopTimer()
		l.mu.Unlock()
	}
	d.syncer.close()
	d.sealer.close()
	d.reaper.stop()
	d.slots.mu.Lock()
	defer d.slots.mu.Unlock()
	d.slots.closed = true
	if d.slots.kick != nil {
		d.slots.kick.Stop()
	}
}

// shut closes the directory.
func (w *world) shut() error {
	err := w.dir.Close(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = err == nil
	return err
}

func (w *world) create(topic string, id byte, n int32, c *Config) *part {
	p := &part{w: w, topic: topic, id: kproto.TopicID{id, 9}, n: n, cfg: c, tries: map[int64]*try{}}
	w.mu.Lock()
	w.parts = append(w.parts, p)
	d := w.dir
	w.mu.Unlock()
	if d != nil {
		l := d.Log(topic, p.id, n, c)
		w.mu.Lock()
		p.log = l
		w.mu.Unlock()
	}
	return p
}

func (w *world) delete(p *part) error {
	w.mu.Lock()
	p.dying = true
	w.mu.Unlock()
	if err := w.dir.Delete(p.log); err != nil {
		return err
	}
	w.mu.Lock()
	p.dead = true
	w.mu.Unlock()
	return nil
}

// pending is an append that may not be acknowledged yet.
type pending struct {
	p   *part
	try *try
	a   Appended
	ch  chan error
}

// Resolved books the acknowledgement at once, in the sync path.
func (x *pending) Resolved(err error) {
	x.p.w.mu.Lock()
	switch {
	case err == nil:
		x.p.acked = append(x.p.acked, x.try)
	case errors.Is(err, ErrNotDurable) && !x.try.proc.Dead():
		x.try.failed = true
	}
	x.p.w.mu.Unlock()
	x.ch <- err
}

// newTry makes a batch whose first key names it.
func (p *part) newTry(s batchSpec) *try {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.lastID++
	tr := &try{id: p.w.lastID, spec: s, base: -1, batch: idBatch(p.w.lastID, s)}
	p.tries[tr.id] = tr
	p.order = append(p.order, tr)
	return tr
}

func idBatch(id int64, s batchSpec) kproto.Batch {
	b := kproto.NewBuilder(kproto.None)
	if s.pid > 0 {
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = s.pid, s.epoch, s.seq
	}
	for i := range max(1, s.records) {
		value := make([]byte, s.size)
		for j := range value {
			value[j] = byte(id) + byte(j*7+i)
		}
		b.Add(kproto.Record{Timestamp: s.time + int64(i), Key: fmt.Appendf(nil, "%08d", id), Value: value})
	}
	return b.Batch()
}

func batchID(b kproto.Batch) (id int64, err error) {
	err = b.EachRecord(func(r kproto.Record) bool {
		_, err := fmt.Sscanf(string(r.Key), "%d", &id)
		return err != nil
	})
	return id, err
}

// append tries a new batch.
func (p *part) append(s batchSpec) (*pending, error) {
	tr := p.newTry(s)
	x, err := p.retry(tr)
	if err != nil {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		p.order = slices.DeleteFunc(p.order, func(t *try) bool { return t == tr })
	}
	return x, err
}

// retry appends the same batch (again).
func (p *part) retry(tr *try) (*pending, error) {
	a, err := p.log.Append(slices.Clone(tr.batch), AppendOptions{})
	if err != nil {
		return nil, err
	}
	x := &pending{p: p, try: tr, a: a, ch: make(chan error, 1)}
	p.w.mu.Lock()
	tr.base, tr.failed, tr.proc, tr.gen = a.Base, false, p.w.proc, a.Ticket.gen
	for _, old := range p.order {
		// Of an older generation: this append was accepted after the tail was taken back, not just before the failure was told.
		if old.failed && old.proc == p.w.proc && old.gen < tr.gen && !slices.Contains(p.gone, old) {
			p.gone = append(p.gone, old)
		}
	}
	p.w.mu.Unlock()
	if done, err := a.Ticket.Notify(x); done {
		x.Resolved(err)
	}
	return x, nil
}

func (p *part) must(s batchSpec) *pending {
	p.w.t.Helper()
	x, err := p.append(s)
	if err != nil {
		p.w.t.Fatal(err)
	}
	return x
}

// wait gives the answer, and then reads as a consumer does.
func (x *pending) wait() error {
	for {
		before := checkedImages.Load()
		select {
		case err := <-x.ch:
			x.p.w.consume(inFull)
			return err
		case <-time.After(time.Minute):
		}
		if checkedImages.Load() == before { // an answer that never comes: show who should have given it
			debug.SetTraceback("all")
			panic(fmt.Sprintf("no answer for batch %d at %d; the log: %s", x.try.id, x.a.Base, x.a.Ticket.log.describe()))
		}
	}
}

// checkedImages tells a wait from a hang: the images of one moment are checked inside the operation that somebody waits for.
var checkedImages atomic.Int64

func (l *Log) describe() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("state %d (%v), durable %d, end %d, queued %v, again %v, waiters %d, generation %d, sealing %d",
		l.state, l.offline, l.durable, l.end, l.queued, l.again, len(l.waiters), l.gen, len(l.sealing))
}

func waitAll(t testing.TB, xs ...*pending) {
	t.Helper()
	for _, x := range xs {
		if err := x.wait(); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *part) advance(offset int64) error {
	p.w.mu.Lock()
	p.tryStart = max(p.tryStart, offset)
	p.w.mu.Unlock()
	start, err := p.log.AdvanceStart(context.Background(), offset)
	if err != nil {
		return err
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.start = max(p.start, start)
	return nil
}

// retain runs the retention pass for all partitions. Every one of them may move its start as far as its end.
func (w *world) retain(nowMs int64) {
	w.mu.Lock()
	live, d := w.live(), w.dir
	w.mu.Unlock()
	for _, p := range live {
		if o, err := p.log.Offsets(); err == nil {
			w.mu.Lock()
			p.tryStart = max(p.tryStart, o.End)
			w.mu.Unlock()
		}
	}
	d.Retain(context.Background(), time.UnixMilli(nowMs))
	for _, p := range live {
		if o, err := p.log.Offsets(); err == nil {
			w.mu.Lock()
			p.start = max(p.start, o.Start)
			w.mu.Unlock()
		}
	}
}

// observe lets a consumer of every partition read what is visible. It runs inside the log's own operations, whose caller may hold any lock of the log,
// as may somebody who waits for that caller. So it waits for nothing, and leaves out what it cannot have at once.
func (w *world) observe() { w.consume((*Log).glimpse) }

// consume reads on in every partition.
func (w *world) consume(read func(l *Log, from, limit int64) ([]byte, int64, error)) {
	w.mu.Lock()
	live := w.live()
	w.mu.Unlock()
	for _, p := range live {
		p.consume(read)
	}
}

func (p *part) consume(read func(l *Log, from, limit int64) ([]byte, int64, error)) {
	p.w.mu.Lock()
	l, next := p.log, p.next
	p.w.mu.Unlock()
	if l == nil || !l.mu.TryLock() {
		return
	}
	open, high, start, durable := l.state == stateOpen, l.visible.offset, l.start, l.durable
	l.mu.Unlock()
	if !open {
		return
	}
	next = max(next, start)
	var sights []sight
	for next < high {
		b, after, err := read(l, next, high)
		if err != nil || after == next {
			break
		}
		eachBatch(b, func(b kproto.Batch) {
			id, _ := batchID(b)
			sights = append(sights, sight{b.BaseOffset(), id})
		})
		next = after
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.durable = max(p.durable, durable)
	if next > p.next {
		p.seen = append(p.seen, sights...)
		p.next = next
	}
}

// inFull reads as any consumer does.
func inFull(l *Log, from, limit int64) ([]byte, int64, error) {
	return l.ReadBytes(nil, from, limit, observedBytes)
}

// observedBytes is the most that is read at a time, in bytes.
const observedBytes = 1 << 20

// errBusy: the lock is held.
var errBusy = errors.New("somebody is at work on the log")

// glimpse reads like inFull, and gives up where that would wait or make room for a file.
func (l *Log) glimpse(from, limit int64) ([]byte, int64, error) {
	v, err := l.tryView(from, limit)
	if err != nil {
		return nil, from, err
	}
	defer v.seg.release()
	r, err := v.read(from, observedBytes, true)
	if err != nil {
		return nil, from, err
	}
	b := make([]byte, r.Len)
	_, err = r.File.ReadAt(b, r.Pos)
	return b, r.Next, err
}

func (l *Log) tryView(from, limit int64) (view, error) {
	if !l.mu.TryLock() {
		return view{}, errBusy
	}
	defer l.mu.Unlock()
	if l.state != stateOpen || from < l.start || limit > l.visible.offset {
		return view{}, errBusy
	}
	s := l.segmentOf(from)
	if s == nil {
		return view{}, errRoomTaken
	}
	return l.viewOf(s, from, limit)
}

func eachBatch(b []byte, fn func(kproto.Batch)) {
	for len(b) > 0 {
		first, rest, err := kproto.SplitBatch(b)
		if err != nil {
			return
		}
		fn(first)
		b = rest
	}
}

// promises is the world's book at one moment.
type promises struct {
	closed bool
	epoch  int32
	parts  []partPromise
}

type partPromise struct {
	part       *part
	acked      []*try
	bases      []int64 // of acked
	gone       []*try
	seen       []sight
	start      int64
	durable    int64
	dying, old bool // old: Delete has returned
	dropped    bool // a sync failed: what the page cache shows, no image of the disk has
}

func (w *world) promises() promises {
	w.mu.Lock()
	defer w.mu.Unlock()
	ps := promises{closed: w.closed, epoch: w.epoch}
	for _, p := range w.parts {
		pp := partPromise{part: p, acked: p.acked, gone: p.gone, seen: p.seen, start: p.start, durable: p.durable, dying: p.dying, old: p.dead}
		pp.dropped = w.in.Fired() > 0
		for _, a := range p.acked {
			pp.bases = append(pp.bases, a.base)
		}
		ps.parts = append(ps.parts, pp)
	}
	return ps
}

// tried is what was tried until now.
func (p *part) tried() (tries map[int64]*try, order []*try, start int64) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return maps.Clone(p.tries), slices.Clone(p.order), p.tryStart
}

func (p *part) strict() bool { return p.cfg.Durability == Fsync }

// never is a sync interval that does not pass in a test.
const never = time.Hour
