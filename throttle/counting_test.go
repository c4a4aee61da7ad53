package throttle

import (
	"slices"
	"testing"
	"time"
)

// repeat is a pattern over n windows.
func repeat(n int, pattern ...int64) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = pattern[i%len(pattern)]
	}
	return list
}

func sum(list []int64) (n int64) {
	for _, x := range list {
		n += x
	}
	return n
}

// What a client with an endless backlog gets in each window.
func TestDeliveredByWindow(t *testing.T) {
	ten := Policy{Messages: PerPeriod(10)}
	for _, c := range []struct {
		name   string
		mode   Mode
		policy Policy
		batch  Cost // records and bytes of each batch
		period time.Duration
		want   []int64
	}{
		{"single records", Precise, ten, Cost{1, 100}, time.Second, repeat(60, 10)},
		// Batches of 6 in the three modes, as the specification has them.
		{"precise, batches of 6", Precise, ten, Cost{6, 600}, time.Second, repeat(60, 12, 12, 6)},
		{"approximate, batches of 6", Approximate, ten, Cost{6, 600}, time.Second, repeat(60, 60, 0, 0, 0, 0, 0)},
		{"counted by batch, batches of 6", Batches, ten, Cost{6, 600}, time.Second, repeat(60, 60)},
		{"precise, batches of 4", Precise, ten, Cost{4, 400}, time.Second, repeat(60, 12, 8)},
		{"a batch of a hundred windows", Precise, ten, Cost{1000, 1000}, time.Second, append([]int64{1000}, append(repeat(99, 0), 1000)...)},
		// Messages and bytes at once: the tighter one binds.
		{"bytes bind hard", Precise, Policy{Messages: PerPeriod(100), Bytes: PerPeriod(100_000)}, Cost{1, 10_000}, time.Second, repeat(20, 10)},
		{"bytes bind", Precise, Policy{Messages: PerPeriod(100), Bytes: PerPeriod(100_000)}, Cost{1, 5_000}, time.Second, repeat(20, 20)},
		{"messages bind", Precise, Policy{Messages: PerPeriod(100), Bytes: PerPeriod(100_000)}, Cost{1, 500}, time.Second, repeat(20, 100)},
		{"a batch larger than ten windows' bytes", Precise, Policy{Bytes: PerPeriod(100_000)}, Cost{1, 1_000_000}, time.Second, repeat(60, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)},
		{"10,000 a minute", Precise, Policy{Messages: PerPeriod(10_000), Period: time.Minute}, Cost{1, 1}, time.Minute, repeat(5, 10_000)},
	} {
		w := newWorld(Settings{Topic: c.policy, Mode: c.mode})
		x := w.client(client{topic: w.th.Topic("t"), group: "g", records: c.batch[messages], size: c.batch[bytes]})
		w.run(time.Duration(len(c.want)) * c.period)
		if got := x.windows(len(c.want), c.period); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %v\nwant %v", c.name, got, c.want)
		}
	}
}

// The first record of the second minute comes when that minute begins, and 30,000 are there a moment before the third ends.
func TestWindowOpensExactly(t *testing.T) {
	w := newWorld(Settings{Topic: Policy{Messages: PerPeriod(10_000), Period: time.Minute}, Mode: Precise})
	x := w.client(client{topic: w.th.Topic("t"), group: "g", wait: 5 * time.Second})
	w.run(179_900 * time.Millisecond)
	if n := x.total()[messages]; n != 30_000 {
		t.Errorf("%d after 179.9 s, want 30,000", n)
	}
	i := slices.IndexFunc(x.got, func(d delivery) bool { return d.at >= after(30*time.Second) })
	if at := x.got[i].at; at != after(time.Minute) {
		t.Errorf("the second minute's first record came at %v", time.Duration(at))
	}
}

// An approximate plan is bounded, so that a large allowance does not read all there is at once.
func TestApproximatePlansAreBounded(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Topic: Policy{Messages: PerPeriod(1000)}, MaxReadBatches: 7}, 0)
	path := th.Topic("t").Path(0, "g", 0)
	plan, _, _ := path.Plan(Cost{}, 0)
	n := 0
	for plan.Add(1, 1) {
		n++
	}
	if n != 7 || !plan.Cut() {
		t.Errorf("a plan of %d batches, cut %v; want 7", n, plan.Cut())
	}
}

func TestVisible(t *testing.T) {
	for _, c := range []struct {
		name        string
		records     int32
		last, fetch int64
		control     bool
		want        int64
	}{
		{"whole batch", 10, 109, 100, false, 10},
		{"fetch into the middle", 10, 109, 105, false, 5},
		{"last record only", 10, 109, 109, false, 1},
		{"compacted batch", 3, 109, 100, false, 3},
		{"control batch", 1, 100, 100, true, 0},
		{"aborted data is dispatched, and dropped by the client", 10, 109, 90, false, 10},
	} {
		if got := Visible(c.records, c.last, c.fetch, c.control); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// Control batches cost no messages and hold nobody up; aborted data costs what it holds.
func TestControlBatchesAreFree(t *testing.T) {
	for _, mode := range []Mode{Precise, Batches} {
		th := New(func(Instant) {})
		th.Configure(Settings{Topic: msgs(10), Mode: mode}, 0)
		topic := th.Topic("t")
		for window := range 3 {
			now := after(time.Duration(window) * time.Second)
			path := topic.Path(0, "g", now)
			plan, _, ok := path.Plan(Cost{}, now)
			if !ok {
				t.Fatalf("mode %v: window %d is closed", mode, window)
			}
			records := int64(0)
			for i := int64(0); plan.Add(i%2, 70); i++ { // a marker after each record
				records += i % 2
			}
			if _, _, ok := path.Reserve(plan, now); !ok || records != 10 {
				t.Errorf("mode %v, window %d: %d records, reserved %v; want 10", mode, window, records, ok)
			}
		}
	}
}

// Who reads the same records again is charged again.
func TestReadingAgainIsCharged(t *testing.T) {
	w := newWorld(Settings{Topic: Policy{Messages: PerPeriod(10)}, Mode: Precise})
	topic := w.th.Topic("t")
	first := int64(10)
	x := w.client(client{topic: topic, group: "g", backlog: func() int64 { return first }})
	w.at(after(100*time.Millisecond), func() { first = 1000 }) // a seek to 0
	w.run(2 * time.Second)
	if got := x.windows(2, time.Second); !slices.Equal(got, []int64{10, 10}) {
		t.Errorf("got %v, want 10 in each window", got)
	}
	if sum(x.windows(1, 100*time.Millisecond)) != 10 {
		t.Error("the first window was not used up before the seek")
	}
}
