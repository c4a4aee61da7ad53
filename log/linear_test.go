package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
	"sluice/kproto"
)

// A partition log is linearizable: whatever goroutines append, read, look up and delete at the same time, and whenever the power is cut or a sync
// fails, each answer is that of one log to which the operations came one after the other, each at a moment between its call and its answer. What a
// power cut leaves without an answer has happened before the next start, or never.
//
// SLUICE_LINEAR_HISTORIES sets the number of histories, SLUICE_LINEAR_SEED the first. A seed draws the operations and where the power is cut, not
// how goroutines interleave: a history that is illegal is kept as a picture in SLUICE_LINEAR_PICTURES, if that is set.
func TestLinearizable(t *testing.T) {
	histories, first := crashtest.Env("SLUICE_LINEAR_HISTORIES", 1500), crashtest.Env("SLUICE_LINEAR_SEED", 1)
	if testing.Short() {
		histories = min(histories, 20)
	}
	var ops, unknown, cuts, undecided int
	for seed := first; seed < first+histories; seed++ {
		h := newHistory(seed)
		if err := h.run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		result, info := porcupine.CheckOperationsVerbose(linearModel, h.ops, time.Minute)
		if result == porcupine.Unknown {
			undecided++
		}
		if result == porcupine.Illegal {
			if dir := os.Getenv("SLUICE_LINEAR_PICTURES"); dir != "" {
				must(t, porcupine.VisualizePath(linearModel, info, filepath.Join(dir, fmt.Sprintf("linear-%d.html", seed))))
			}
			t.Fatalf("seed %d: %s, %d operations\n%s", seed, result, len(h.ops), h.tail(info))
		}
		ops, unknown, cuts = ops+len(h.ops), unknown+h.unknown, cuts+h.cuts
	}
	t.Logf("%d histories from seed %d: %d operations, %d of them without an answer, %d power cuts; %d histories undecided", histories, first, ops, unknown, cuts, undecided)
	if !testing.Short() && (unknown == 0 || cuts == 0) {
		t.Error("no operation was cut short")
	}
	if undecided > int(histories)/100 {
		t.Error("too many histories could not be decided in time")
	}
}

const (
	linearClients = 6
	linearSteps   = 200 // operations in a history, about
	linearRuns    = 4   // starts in a history
)

// history is a log in several runs, and what its clients were answered.
type history struct {
	rng  *rand.Rand
	seed uint64
	cfg  Config
	disk *vfs.Mem
	dir  *Dir
	log  *Log

	clock atomic.Int64 // counts calls and answers
	cut   *sync.Once   // the power cut to come
	dead  atomic.Bool  // the power is off, or about to be: answers do not count
	after *vfs.Mem     // what the disk holds then
	cuts  int

	mu      sync.Mutex // guards the rest
	ops     []porcupine.Operation
	open    []int // operations without an answer
	unknown int
	failed  error
	clients [linearClients]linearClient
}

// linearClient is one goroutine, an idempotent producer.
type linearClient struct {
	n    int
	rng  *rand.Rand
	seq  int32
	last kproto.Batch // the one without an answer, to be sent again, or nil
	id   uint16
}

func newHistory(seed uint64) *history {
	h := &history{rng: rand.New(rand.NewPCG(seed, 31)), seed: seed, disk: vfs.NewMem(), cfg: *DefaultConfig()}
	h.cfg.SegmentBytes, h.cfg.IndexInterval = 300+h.rng.Int64N(3000), 1+h.rng.Int64N(300)
	h.cfg.FileDeleteDelay = time.Duration(h.rng.IntN(3)) * time.Millisecond
	for i := range h.clients {
		h.clients[i] = linearClient{n: i, rng: rand.New(rand.NewPCG(seed, 40+uint64(i)))}
	}
	return h
}

// run plays the history.
func (h *history) run() error {
	for n := range linearRuns {
		if err := h.start(int32(n + 1)); err != nil {
			return err
		}
		h.armPowerCut()
		var clients sync.WaitGroup
		for i := range h.clients {
			clients.Go(func() { h.clients[i].work(h, linearSteps/linearRuns/linearClients) })
		}
		if err := h.wait(&clients); err != nil {
			return err
		}
		if err := h.stop(); err != nil {
			return err
		}
	}
	return h.failed
}

// wait waits for the clients; who gets no answer at all hangs.
func (h *history) wait(clients *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(2 * time.Minute):
		return errors.New("an operation has no end: " + h.log.describe())
	}
}

func (h *history) start(epoch int32) error {
	in := &vfs.Injector{}
	d, err := Open("data", Options{FS: vfs.Inject(h.disk, in)})
	if err != nil {
		return err
	}
	d.retryGap, d.slots.gap = time.Millisecond, time.Millisecond
	d.SetEpoch(epoch)
	h.dir, h.log = d, d.Log("t", testTopic, 0, &h.cfg)
	if err := d.Recover(context.Background()); err != nil {
		return err
	}
	if h.rng.IntN(3) == 0 {
		in.Add(vfs.Fault{Ops: vfs.OpSync, Path: "*" + logSuffix, Nth: 1 + h.rng.IntN(20)})
	}
	h.settle()
	return nil
}

// settle ends the operations that the last run has left without an answer: from now on they have happened, or never will.
func (h *history) settle() {
	for _, i := range h.open {
		h.ops[i].Return = h.clock.Add(1)
	}
	h.unknown += len(h.open)
	h.open = nil
}

// armPowerCut has the power fail at some operation of the disk, if there are so many.
func (h *history) armPowerCut() {
	left := 1 + h.rng.IntN(120)
	choice := vfs.Seeded(h.rng.Uint64())
	disk, cut := h.disk, &sync.Once{} // the hook's own: it may still be called when h has others
	h.cut = cut
	var count atomic.Int64
	disk.OnOp(func(vfs.Op) {
		if count.Add(1) < int64(left) {
			return
		}
		cut.Do(func() {
			h.dead.Store(true) // before the image: what is answered until here is on it
			h.after = disk.Crash(choice)
			disk.PowerOff()
			h.cuts++
		})
	})
}

// stop ends a run; the disk goes on as the power cut has left it, or after a clean stop.
func (h *history) stop() error {
	h.disk.OnOp(nil)
	h.cut.Do(func() {}) // it may be under way, and comes no more
	if h.dead.Load() {
		h.dir.syncer.close()
		abandon(h.dir)
		h.disk, h.after = h.after, nil
		h.dead.Store(false)
		return nil
	}
	err := h.dir.Close(context.Background())
	if errors.Is(err, ErrStorage) || errors.Is(err, ErrNotDurable) { // the failed sync came last
		err = nil
	}
	h.disk = h.disk.Crash(vfs.KeepNothing)
	return err
}

// do has an operation done and notes it. nil: there was no answer, and it has changed nothing.
func (h *history) do(client int, in linearOp, f func() *linearAnswer) *linearAnswer {
	call := h.clock.Add(1)
	out := f()
	dead := h.dead.Load()
	end := h.clock.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !dead && out == nil, dead && (out == nil || out.refused || !in.changes()): // it has not happened, or nothing follows from it
		return nil
	case dead:
		out.unknown = true
		h.open = append(h.open, len(h.ops))
	}
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
	return out
}

func (h *history) wrong(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = errors.Join(h.failed, err)
}

// work does operations until the power is off.
func (c *linearClient) work(h *history, steps int) {
	for range steps {
		if h.dead.Load() {
			return
		}
		offsets := h.offsets(c.n)
		if offsets == nil {
			continue
		}
		switch c.rng.IntN(10) {
		case 0, 1, 2, 3:
			c.append(h)
		case 4, 5, 6:
			from := offsets.start - 1 + c.rng.Int64N(offsets.high-offsets.start+3)
			h.read(c.n, linearOp{kind: linearRead, offset: from, limit: offsets.high}, 1+c.rng.IntN(400))
		case 7:
			h.find(c.n, linearOp{kind: linearFind, time: c.rng.Int64N(linearTimes), limit: offsets.high})
		case 8:
			h.newest(c.n, linearOp{kind: linearNewest, limit: offsets.high})
		case 9:
			to := offsets.start + c.rng.Int64N(offsets.high-offsets.start+2)/2
			h.deleteRecords(c.n, linearOp{kind: linearDelete, offset: to})
		}
	}
}

// append sends the client's next batch, now and then twice at the same time, as a client does whose answer is late.
func (c *linearClient) append(h *history) {
	if c.last == nil {
		c.id++
		b := kproto.NewBuilder(kproto.None)
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = int64(c.n+1), 0, c.seq
		id := linearID(c.n, c.id)
		b.Add(kproto.Record{Timestamp: id.time(), Value: append([]byte{byte(id), byte(id >> 8)}, make([]byte, c.rng.IntN(100))...)})
		c.last = b.Batch()
	}
	var twice sync.WaitGroup
	if c.rng.IntN(4) == 0 {
		twice.Go(func() { h.append(c, bytes.Clone(c.last)) })
	}
	out := h.append(c, bytes.Clone(c.last))
	twice.Wait()
	if out != nil && !out.refused && !out.unknown {
		c.seq++
		c.last = nil
	}
}

func (h *history) append(c *linearClient, b kproto.Batch) *linearAnswer {
	return h.do(c.n, linearOp{kind: linearAppend, id: linearID(c.n, c.id)}, func() *linearAnswer {
		a, err := h.log.Append(b, AppendOptions{})
		if err != nil {
			return h.answer(linearAnswer{}, err, ErrStorage)
		}
		err = a.Ticket.Wait(context.Background())
		if h.dead.Load() {
			return &linearAnswer{base: a.Base} // it is written, and may survive there
		}
		return h.answer(linearAnswer{base: a.Base}, err, ErrNotDurable, ErrStorage)
	})
}

// answer makes an answer of what a call gave. The errors that are named say that nothing has happened.
func (h *history) answer(out linearAnswer, err error, refusals ...error) *linearAnswer {
	if err == nil {
		return &out
	}
	for _, r := range refusals {
		if errors.Is(err, r) {
			return &linearAnswer{refused: true}
		}
	}
	if !h.dead.Load() {
		h.wrong(err)
	}
	return nil
}

func (h *history) offsets(client int) *linearAnswer {
	return h.do(client, linearOp{kind: linearOffsets}, func() *linearAnswer {
		o, err := h.log.Offsets()
		return h.answer(linearAnswer{start: o.Start, high: o.High}, err)
	})
}

func (h *history) read(client int, in linearOp, most int) {
	h.do(client, in, func() *linearAnswer {
		data, _, err := h.log.ReadBytes(nil, in.offset, in.limit, most)
		out := linearAnswer{}
		eachBatch(data, func(b kproto.Batch) {
			err = errors.Join(err, b.EachRecord(func(r kproto.Record) bool {
				out.ids = append(out.ids, r.Value[0], r.Value[1])
				return true
			}))
		})
		return h.answer(out, err, ErrOffsetOutOfRange)
	})
}

func (h *history) find(client int, in linearOp) {
	h.do(client, in, func() *linearAnswer {
		p, err := h.log.FindTime(in.time, in.limit)
		return h.answer(linearAnswer{base: p.Offset}, err)
	})
}

func (h *history) newest(client int, in linearOp) {
	h.do(client, in, func() *linearAnswer {
		p, err := h.log.MaxTime(in.limit)
		return h.answer(linearAnswer{base: p.Offset}, err)
	})
}

func (h *history) deleteRecords(client int, in linearOp) {
	h.do(client, in, func() *linearAnswer {
		start, err := h.log.AdvanceStart(context.Background(), in.offset)
		if h.dead.Load() {
			return &linearAnswer{}
		}
		return h.answer(linearAnswer{start: start}, err, ErrOffsetOutOfRange)
	})
}

// tail shows the operations at the end of the longest order that was found.
func (h *history) tail(info porcupine.LinearizationInfo) string {
	var out bytes.Buffer
	best := []porcupine.Operation{}
	for _, orders := range info.PartialLinearizationsOperations() {
		for _, o := range orders {
			if len(o) > len(best) {
				best = o
			}
		}
	}
	placed := map[int64]bool{}
	for _, op := range best {
		placed[op.Call] = true
	}
	for _, op := range best[max(0, len(best)-20):] {
		fmt.Fprintf(&out, "%4d-%4d %s\n", op.Call, op.Return, describeLinear(op.Input, op.Output))
	}
	fmt.Fprintln(&out, "no place for:")
	for _, op := range h.ops {
		if !placed[op.Call] && op.Call < best[len(best)-1].Return+20 {
			fmt.Fprintf(&out, "%4d-%4d %s\n", op.Call, op.Return, describeLinear(op.Input, op.Output))
		}
	}
	return out.String()
}
