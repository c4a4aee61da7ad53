package throttle

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// cpu reports processor time as well: on a machine with other work the time on the clock says little.
func cpu(b *testing.B) {
	b.ReportAllocs()
	begin := used()
	b.Cleanup(func() { b.ReportMetric(float64(used()-begin)/float64(b.N), "cpu-ns/op") })
}

func used() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// never is a limit that does not bind.
var never = Policy{Messages: PerPeriod(1 << 50), Bytes: PerPeriod(1 << 50)}

func benchPath(b *testing.B, s Settings) {
	th := New(func(Instant) {})
	th.Configure(s, 0)
	topic := th.Topic("orders.eu")
	cpu(b)
	for b.Loop() {
		path := topic.Path(0, "group", 0)
		if path.Limited() && path.who.topic == nil {
			b.Fatal()
		}
	}
}

func BenchmarkPathNoLimits(b *testing.B) { benchPath(b, Settings{}) }
func BenchmarkPathBroker(b *testing.B)   { benchPath(b, Settings{Broker: never}) }
func BenchmarkPathAllLevels(b *testing.B) {
	benchPath(b, Settings{Broker: never, Topic: never, Subscription: never})
}

func BenchmarkBalance(b *testing.B) {
	tape := newTestTape(1<<50, time.Second)
	cpu(b)
	for b.Loop() {
		if tape.look(12345).balance() <= 0 {
			b.Fatal()
		}
	}
}

func BenchmarkTake(b *testing.B) {
	tape := newTestTape(1<<50, time.Second)
	cpu(b)
	for b.Loop() {
		tape.take(100, 99, 12345)
	}
}

func BenchmarkTakeRefused(b *testing.B) {
	tape := newTestTape(1, time.Second)
	tape.take(1, 0, 0)
	cpu(b)
	for b.Loop() {
		if _, ok := tape.take(1, 0, 12345); ok {
			b.Fatal()
		}
	}
}

func BenchmarkTakeParallel(b *testing.B) {
	tape := newTestTape(1<<50, time.Second)
	cpu(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			tape.take(100, 99, 12345)
		}
	})
}

// One partition of a fetch with all six counters: finding the path, a plan of one batch, the reservation.
func BenchmarkSixCounters(b *testing.B) {
	th := New(func(Instant) {})
	th.Configure(Settings{Broker: never, Topic: never, Subscription: never}, 0)
	topic := th.Topic("t")
	path := topic.Path(0, "g", 0)
	b.Run("reserve", func(b *testing.B) {
		plan, _, _ := path.Plan(Cost{}, 0)
		plan.Add(10, 1000)
		cpu(b)
		for b.Loop() {
			path.Reserve(plan, 0)
		}
	})
	b.Run("path, plan and reserve", func(b *testing.B) {
		cpu(b)
		for b.Loop() {
			fetchOnce(topic, 0)
		}
	})
}

// fetchOnce is what throttling does for one partition of a fetch.
func fetchOnce(topic *Topic, partition int32) bool {
	path := topic.Path(partition, "g", 0)
	plan, _, ok := path.Plan(Cost{}, 0)
	if !ok || !plan.Add(10, 1000) {
		return false
	}
	_, _, ok = path.Reserve(plan, 0)
	return ok
}

func BenchmarkSharedBrokerParallel(b *testing.B) {
	th := New(func(Instant) {})
	th.Configure(Settings{Broker: never, Topic: never, Subscription: never}, 0)
	topic := th.Topic("t")
	var next atomic.Int32
	cpu(b)
	b.RunParallel(func(pb *testing.PB) {
		partition := next.Add(1)
		path := topic.Path(partition, "g", 0)
		plan, _, _ := path.Plan(Cost{}, 0)
		plan.Add(10, 1000)
		for pb.Next() {
			path.Reserve(plan, 0)
		}
	})
}

// A counter that somebody was refused by lately: takes are booked to claims.
func BenchmarkTakeInACrowd(b *testing.B) {
	c := newCounter(New(func(Instant) {}), newPace(1<<50, time.Second, -1), 0)
	topic := &Topic{}
	for i := range int32(10) {
		c.deny(claimant{topic: topic, partition: i}, true, 0)
	}
	who := claimant{topic: topic, partition: 3}
	cpu(b)
	for b.Loop() {
		c.take(who, 1, 0, true, 0)
	}
}

// A request that is refused begins to wait, is invited when the window opens, and looks again.
func BenchmarkRefusedWaitWoken(b *testing.B) {
	th := New(func(Instant) {})
	th.Configure(Settings{Topic: msgs(1), Mode: Precise}, 0)
	topic := th.Topic("t")
	var w Watch
	var rung bell
	cpu(b)
	for now := Instant(0); b.Loop(); now += Instant(time.Second) {
		for {
			path := topic.Path(0, "g", now)
			plan, refusal, ok := path.Plan(Cost{}, now)
			if ok {
				plan.Add(1, 1)
				plan.More = true
				path.Reserve(plan, now)
				w.Cancel(now)
				continue
			}
			if w.On(refusal, &rung, now) {
				break
			}
		}
		th.Wake(now + Instant(time.Second))
	}
	if rung == 0 {
		b.Fatal("nobody was woken")
	}
}
