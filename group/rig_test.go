package group

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
	"time"

	"sluice/internal/machine"
)

// epoch is when every test begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// rig drives a machine as internal/coord does, over a log in memory and in virtual time.
type rig struct {
	t        testing.TB
	m        *Machine
	settings Settings
	own      map[string]ConsumerSettings // of groups that have their own
	now      time.Time

	topics map[string]Topic // those that a new machine is told of before its replay, as the broker does

	log     []machine.Record
	durable int   // records of log that a crash leaves
	batches []int // lengths of log after each volatile append
	held    bool  // appends stay volatile
	// survive says how many volatile appends a crash leaves all the same.
	survive func(volatile int) int

	// twin, if there is one, sees what m sees and must do what it does.
	twin *Machine

	queue   []release
	waiting map[uint64]func(any, error)
	ticket  uint64
	orders  func(any)
	refuse  bool // appends fail
	ticks   int
	// stepBytes is of the records of the newest step.
	stepBytes int
	stepped   func() // runs after every step that has records
	reborn    func() // runs after every replay
}

// release is what leaves when the log is durable up to gate.
type release struct {
	gate int
	do   func()
	lost func()
}

var (
	errLost  = fmt.Errorf("not durable")
	testOpts = Settings{
		MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute,
		MaxSize: 1000, OffsetMetadataMaxBytes: 4096,
		OffsetsRetention: 7 * 24 * time.Hour,
		ConsumerSettings: ConsumerSettings{ConsumerSessionTimeout: 45 * time.Second, ConsumerHeartbeatInterval: 5 * time.Second}, ConsumerReconcileInterval: 200 * time.Millisecond,
		ConsumerMaxSize: 1000, ConsumerAssignors: []string{assignorUniform, assignorRange}, Upgrade: true, Downgrade: true,
	}
)

func newRig(t testing.TB) *rig {
	r := &rig{t: t, settings: testOpts, now: epoch, waiting: map[uint64]func(any, error){}, orders: func(any) {}, stepped: func() {}, reborn: func() {}, survive: func(int) int { return 0 }}
	r.load()
	return r
}

func (r *rig) fresh() *Machine {
	ofGroup := func(id string) (ConsumerSettings, bool) {
		own, ok := r.own[id]
		return own, ok
	}
	return New(Options{Settings: func() Settings { return r.settings }, OfGroup: ofGroup, CompileRegex: compileTestRegex})
}

// load replaces the machine by one that is replayed from what is durable.
func (r *rig) load() {
	r.m = r.replayed(r.log)
	if r.twin != nil {
		r.twin = r.replayed(r.log)
	}
	e := r.both(func(m *Machine) machine.Effects { return m.Loaded(r.now) })
	r.reborn()
	r.commit(e)
}

// replayed gives a machine that has applied a log.
func (r *rig) replayed(log []machine.Record) *Machine {
	m := r.fresh()
	m.Step(r.now, Topics{r.topics})
	for _, rec := range log {
		if err := m.Apply(cloneRecord(rec)); err != nil {
			r.t.Fatal(err)
		}
	}
	return m
}

// asRecorded gives the machine that a restart would find, with no group called to join at once because it is too large.
func (r *rig) asRecorded(log []machine.Record) *Machine {
	m := r.replayed(log)
	limit := r.settings.MaxSize
	r.settings.MaxSize = 1 << 20
	m.Loaded(r.now)
	r.settings.MaxSize = limit
	return m
}

func cloneRecord(rec machine.Record) machine.Record {
	return machine.Record{Key: bytes.Clone(rec.Key), Value: bytes.Clone(rec.Value)}
}

// do steps a request; done hears of it once.
func (r *rig) do(ev any, done func(any, error)) {
	r.ticket++
	r.waiting[r.ticket] = done
	r.step(machine.Asked{Ticket: r.ticket, Event: ev})
}

func (r *rig) step(ev machine.Event) {
	r.commit(r.both(func(m *Machine) machine.Effects { return m.Step(r.now, ev) }))
}

// both does something to the machine and to its twin: equal state and equal events have equal effects.
func (r *rig) both(f func(*Machine) machine.Effects) machine.Effects {
	e := f(r.m)
	if r.twin != nil {
		if other := f(r.twin); !reflect.DeepEqual(e, other) {
			r.t.Fatalf("the same step has the effects\n%+v\nand\n%+v", e, other)
		}
		for _, rec := range e.Records {
			if err := r.twin.Apply(cloneRecord(rec)); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	return e
}

func (r *rig) commit(e machine.Effects) {
	if len(e.Records) > 0 && r.refuse {
		r.lose()
		return
	}
	r.stepBytes = 0
	for _, rec := range e.Records {
		r.stepBytes += len(rec.Key) + len(rec.Value)
		r.log = append(r.log, cloneRecord(rec))
		if err := r.m.Apply(rec); err != nil {
			r.t.Fatal(err)
		}
	}
	if len(e.Records) > 0 {
		r.stepped()
	}
	if len(e.Records) > 0 {
		r.batches = append(r.batches, len(r.log))
	}
	if !r.held {
		r.sync(-1)
	}
	for _, o := range e.Orders {
		r.push(func() { r.orders(o) }, func() {})
	}
	for _, reply := range e.Replies {
		done := r.waiting[reply.Ticket]
		if done == nil {
			r.t.Fatalf("a reply to ticket %d, which does not wait: %v", reply.Ticket, reply.Value)
		}
		delete(r.waiting, reply.Ticket)
		r.push(func() { done(reply.Value, nil) }, func() { done(nil, errLost) })
	}
	r.flush()
}

func (r *rig) push(do, lost func()) { r.queue = append(r.queue, release{len(r.log), do, lost}) }

func (r *rig) flush() {
	for len(r.queue) > 0 && r.queue[0].gate <= r.durable {
		item := r.queue[0]
		r.queue = r.queue[1:]
		item.do()
	}
}

// sync makes the n oldest volatile appends durable; negative: all.
func (r *rig) sync(n int) {
	if n < 0 || n > len(r.batches) {
		n = len(r.batches)
	}
	if n > 0 {
		r.durable = r.batches[n-1]
		r.batches = r.batches[n:]
	}
	r.flush()
}

// lose drops the machine and what is not durable, as a failed append and a crash do.
func (r *rig) lose() {
	if n := r.survive(len(r.batches)); n > 0 {
		r.durable = r.batches[n-1]
	}
	r.log, r.batches = r.log[:r.durable], nil
	for _, item := range r.queue {
		item.lost()
	}
	r.queue = nil
	waiting := r.waiting
	r.waiting = map[uint64]func(any, error){}
	for ticket := uint64(1); ticket <= r.ticket; ticket++ {
		if done := waiting[ticket]; done != nil {
			done(nil, errLost)
		}
	}
	r.load()
}

// advance lets time pass, with a tick at each deadline.
func (r *rig) advance(d time.Duration) {
	end := r.now.Add(d)
	for range 1_000_000 {
		at := r.m.Deadline()
		if at.IsZero() || at.After(end) {
			r.now = end
			return
		}
		if at.After(r.now) {
			r.now = at
		}
		r.ticks++
		r.step(machine.Tick{})
	}
	r.t.Fatal("the machine wants ticks without end")
}

// pause stops the process: time passes and nobody ticks until it is over.
func (r *rig) pause(d time.Duration) {
	r.now = r.now.Add(d)
	r.advance(0)
}
