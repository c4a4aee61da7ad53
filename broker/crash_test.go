package broker

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/vfs"
)

const (
	ofTopic  = kmsg.ConfigResourceTypeTopic
	ofBroker = kmsg.ConfigResourceTypeBroker
)

// scenario is a script each of whose disk operations is a moment for a power cut.
type scenario struct {
	name string
	run  func(w *world)
}

var scenarios = []scenario{
	{"first start", func(w *world) {
		w.mustStart()
	}},
	{"create topics", func(w *world) {
		w.addAlien()
		w.mustStart()
		w.create(spec{"a", 1, nil})
		w.create(spec{"b", 3, map[string]string{"retention.ms": "1000000", "max.message.bytes": "5000"}}, spec{"c", 1, nil}, spec{"d.e", 2, nil})
		w.autoCreate("auto")
		w.restart()
	}},
	{"first appends", func(w *world) {
		w.mustStart()
		w.create(spec{"a", 3, nil})
		w.produce("a", 0, 1)
		w.produce("a", 2, 4)
		w.produce("a", 0, 2)
		slotsSync()
		w.produce("a", 1, 1)
	}},
	{"configs", func(w *world) {
		w.mustStart()
		w.create(spec{"a", 1, map[string]string{"retention.ms": "1000000"}}, spec{"b", 1, nil})
		w.produce("a", 0, 1)
		w.alter(change{typ: ofTopic, name: "a", set: map[string]string{"max.message.bytes": "6000", "cleanup.policy": "compact"}, unset: []string{"retention.ms"}})
		w.alter(change{typ: ofBroker, name: "1", set: map[string]string{"log.retention.ms": "2000000", "message.max.bytes": "70000"}},
			change{typ: ofTopic, name: "b", set: map[string]string{"retention.ms": "5"}})
		w.alter(change{typ: ofTopic, name: "a", set: map[string]string{"max.message.bytes": "6500"}})
		w.replace(change{typ: ofTopic, name: "a", set: map[string]string{"max.message.bytes": "7000"}})
		w.replace(change{typ: ofBroker, name: "", set: map[string]string{"log.retention.ms": "3000000"}})
		w.restart()
		w.alter(change{typ: ofBroker, name: "1", unset: []string{"log.retention.ms", "message.max.bytes"}})
		w.replace(change{typ: ofTopic, name: "a"})
	}},
	{"quotas", func(w *world) {
		w.mustStart()
		w.limit("a", 1000)
		w.limit("b", 2000)
		w.limit("a", 3000)
		w.restart()
		w.limit("b", 0)
		w.limit("a", 4000)
	}},
	{"add partitions", func(w *world) {
		w.mustStart()
		w.create(spec{"a", 1, nil})
		w.produce("a", 0, 1)
		w.addPartitions("a", 3)
		w.produce("a", 2, 2)
		w.addPartitions("a", 4)
		w.produce("a", 3, 1)
	}},
	{"delete records", func(w *world) {
		w.mustStart()
		w.create(spec{"a", 2, nil})
		w.produce("a", 0, 3)
		w.produce("a", 0, 3)
		w.deleteRecords("a", 0, 2)
		w.produce("a", 1, 2)
		w.deleteRecords("a", 1, 2)
		w.produce("a", 0, 1)
		w.deleteRecords("a", 0, 6)
		w.restart()
		w.deleteRecords("a", 0, 7)
		w.produce("a", 1, 1)
	}},
	{"delete topics", func(w *world) {
		w.addAlien()
		w.mustStart()
		w.create(spec{"a", 2, nil}, spec{"b", 1, nil}, spec{"c", 1, nil})
		w.produce("a", 0, 1)
		w.produce("a", 1, 1)
		w.produce("b", 0, 1)
		w.deleteTopics("a")
		w.deleteTopics("b", "c")
		w.restart()
	}},
	{"delete and create again", func(w *world) {
		w.mustStart()
		w.create(spec{"a", 2, nil})
		for i := range 3 {
			w.produce("a", 0, 2+i)
			w.produce("a", 1, 1)
			if i == 1 {
				w.deleteRecords("a", 0, 1)
				slotsSync()
			}
			w.deleteTopics("a")
			w.create(spec{"a", 2, map[string]string{"retention.ms": strconv.Itoa(1000000 + i)}})
		}
		w.produce("a", 0, 1)
		w.restart()
		w.deleteTopics("a")
		w.create(spec{"a", 2, nil})
		w.produce("a", 1, 1)
	}},
	{"delete during the first append", func(w *world) {
		w.mustStart()
		for range 3 {
			w.create(spec{"a", 1, nil})
			w.produceAndDelete("a")
		}
		w.create(spec{"a", 1, nil})
		w.produce("a", 0, 1)
	}},
	{"create again during the deletion", func(w *world) {
		w.mustStart()
		w.create(spec{"a", 1, nil})
		for range 2 {
			old := w.b.topics.byName("a")
			created := make(chan struct{})
			go func() {
				for w.b.topics.byName("a") == old {
					runtime.Gosched()
				}
				w.create(spec{"a", 1, nil})
				close(created)
			}()
			w.produceAndDelete("a")
			<-created
			w.produce("a", 0, 1)
		}
	}},
	{"producer ids", func(w *world) {
		w.mustStart()
		for range 3 {
			w.initProducerID()
			w.drainBlock()
			w.initProducerID()
			w.initProducerID()
			w.restart()
		}
		w.initProducerID()
	}},
	{"failed syncs of the catalog", func(w *world) {
		w.mustStart()
		w.create(spec{"a", 1, nil}, spec{"b", 1, nil})
		w.produce("a", 0, 1)
		for i, step := range []func(){
			func() { w.create(spec{"c", 1, nil}, spec{"d", 1, nil}) },
			func() { w.autoCreate("e") },
			func() { w.addPartitions("a", 2) },
			func() { w.alter(change{typ: ofTopic, name: "a", set: map[string]string{"retention.ms": "1000000"}}) },
			func() { w.drainBlock(); w.initProducerID() },
			func() { w.deleteTopics("a") },
			w.restart,
		} {
			w.in.Add(vfs.Fault{Ops: vfs.OpSync, Path: crashDir + "/" + catalogTopic + "-0/*.log"})
			w.lenient = true
			step()
			w.in.Heal()
			w.lenient = false
			time.Sleep(2 * time.Second) // the catalog is replayed within one
			w.create(spec{fmt.Sprintf("after%d", i), 1, nil})
			w.spy.Load().look()
			w.produce("b", 0, 1)
			w.initProducerID()
		}
	}},
	{"a random life", func(w *world) {
		w.mustStart()
		w.create(spec{"a", 2, nil}, spec{"b", 1, nil})
		for i := range 25 {
			w.randomStep(i)
		}
	}},
	{"stop and start", func(w *world) {
		w.mustStart()
		w.create(spec{"a", 2, nil})
		for range 3 {
			w.produce("a", 0, 2)
			w.restart()
		}
		w.produce("a", 1, 1)
		check(w.t, w.stop())
	}},
}

// randomStep does one thing to one of two topics; a deleted one is made again.
func (w *world) randomStep(i int) {
	w.t.Helper()
	name := [...]string{"a", "b"}[w.rng.IntN(2)]
	topic := w.book.read().current(name)
	if topic == nil {
		w.create(spec{name, 1 + w.rng.Int32N(2), nil})
		return
	}
	partition := w.rng.Int32N(topic.partitions[0])
	setting := map[string]string{"retention.ms": strconv.Itoa(1000000 + i)}
	switch w.rng.IntN(16) {
	case 0:
		w.deleteTopics(name)
	case 1:
		w.produceAndDelete(name)
	case 2:
		w.addPartitions(name, topic.partitions[0]+1)
	case 3:
		w.alter(change{typ: ofTopic, name: name, set: setting})
	case 4:
		w.replace(change{typ: ofTopic, name: name, set: setting})
	case 5:
		w.restart()
	case 6:
		w.drainBlock()
		w.initProducerID()
	case 7:
		slotsSync()
	case 8, 9:
		part := topic.parts[partition]
		end := int64(0)
		for _, x := range part.tries {
			end = max(end, x.base+int64(x.records))
		}
		w.deleteRecords(name, partition, w.rng.Int64N(end+1))
	default:
		w.produce(name, partition, 1+w.rng.IntN(4))
	}
}

// slotsSync lets the time pass after which durable offsets are synced.
func slotsSync() { time.Sleep(100 * time.Millisecond) }

// produceAndDelete deletes a topic while an append to it is under way.
func (w *world) produceAndDelete(name string) {
	w.t.Helper()
	x := w.askToProduce(name, 0, 2)
	if x == nil {
		return
	}
	q := w.askToDelete(name)
	first, other := w.dial(), w.dial()
	defer first.conn.Close()
	defer other.conn.Close()
	deleted := make(chan *kmsg.DeleteTopicsResponse, 1)
	go func() {
		resp, _ := other.try(q, 5)
		r, _ := resp.(*kmsg.DeleteTopicsResponse)
		deleted <- r
	}()
	x.maybeAnswered(do[*kmsg.ProduceResponse](first, x.q, 9))
	if r := <-deleted; r != nil {
		w.deleted(r)
	} else {
		w.t.Error("the deletion got no answer")
	}
}

// powerCuts cuts the power at every operation of a run and has some of the disks that this may leave examined: nothing
// and everything kept at each moment, and of the others as many as rate says.
type powerCuts struct {
	x     examiner
	seeds int
	rate  float64
	// moments is the share of the operations that is looked at.
	moments float64

	mu     sync.Mutex
	images int
	points map[string]int
	errs   []string
}

// attach watches w from now on.
func (s *powerCuts) attach(w *world) {
	w.mem.OnOp(func(op vfs.Op) {
		if s := w.spy.Load(); s != nil {
			s.kick()
		}
		s.cut(w, fmt.Sprintf("operation %d (%v %s)", op.N, op.Kind, op.Name), class(op))
	})
}

// maxViolations ends it: the first few tell all.
const maxViolations = 3

func (s *powerCuts) cut(w *world, moment, point string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.x.rng.Float64() >= s.moments {
		return
	}
	if s.points != nil {
		s.points[point]++
	}
	p := w.book.read()
	for name, img := range w.mem.Images(s.seeds) {
		if len(s.errs) >= maxViolations {
			return
		}
		if name == "nothing" || name == "everything" || s.x.rng.Float64() < s.rate {
			s.images++
			if err := s.x.examine(img, p); err != nil {
				s.errs = append(s.errs, fmt.Sprintf("power cut before %s, image %q: %v", moment, name, err))
			}
		}
		// What is told while the operation stands still must be safe as well, so the book is read anew, always before the image is made.
		p = w.book.read()
	}
}

func (s *powerCuts) report(t testing.TB) {
	for _, e := range s.errs {
		t.Error(e)
	}
}

// class names a moment by what is done to which kind of file.
func class(op vfs.Op) string {
	name := op.Name
	if i := strings.LastIndexByte(name, '/'); i >= 0 && len(name)-i > 20 {
		name = name[:i+1] + "*" + name[strings.LastIndexByte(name, '.'):]
	}
	return op.Kind.String() + " " + name
}

func env(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// TestPowerCuts cuts the power before every operation of every scenario. SLUICE_CRASH_IMAGES asks for that many images and more, SLUICE_CRASH_SEED
// for another choice of them.
func TestPowerCuts(t *testing.T) {
	seed := uint64(env("SLUICE_CRASH_SEED", 1))
	want := env("SLUICE_CRASH_IMAGES", 0)
	rate, seeds, moments := 0.03, 2, 1.0
	if testing.Short() {
		rate, seeds, moments = 0, 0, 0.12
	}
	if want > 0 {
		rate, seeds = 0.1, 4
	}
	begin := time.Now()
	total, points := 0, map[string]int{}
	for round := uint64(0); round == 0 || total < want; round++ {
		for i, sc := range scenarios {
			t.Run(sc.name, func(t *testing.T) {
				s := &powerCuts{rate: rate, seeds: seeds, moments: moments, points: points, x: examiner{rng: rand.New(rand.NewPCG(seed+round, uint64(i)))}}
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.rng = rand.New(rand.NewPCG(seed+round, 1))
					s.attach(w)
					sc.run(w)
					s.cut(w, "the end", "the end")
					w.mem.OnOp(nil)
				})
				s.report(t)
				t.Logf("%d images", s.images)
				total += s.images
			})
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("seed %d: %d images at %d named points, %.0f a second", seed, total, len(points), float64(total)/time.Since(begin).Seconds())
}
