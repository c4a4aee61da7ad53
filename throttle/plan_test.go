package throttle

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A list of batches that is added as one costs what its batches cost that are added one by one, and is refused where one of them would be.
func TestAddAllIsAddForEach(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 9))
	var added [3]int // by mode
	for range 20_000 {
		th := New(func(Instant) {})
		settings := Settings{Mode: Mode(rnd.IntN(3)), MaxReadBatches: 1000}
		for _, p := range []*Policy{&settings.Broker, &settings.Topic, &settings.Subscription} {
			if rnd.IntN(2) == 0 {
				p.Messages = PerPeriod(1 + rnd.Int64N(60))
			}
			if rnd.IntN(2) == 0 {
				p.Bytes = PerPeriod(1 + rnd.Int64N(6000))
			}
		}
		th.Configure(settings, 0)
		topic := th.Topic("t")
		all, one := planOf(t, topic), planOf(t, topic)
		var sum Cost
		ok := true
		for range rnd.IntN(12) {
			records, size := rnd.Int64N(8), 61+rnd.Int64N(600)
			n := records
			if one.ByBatch() {
				n = min(records, 1)
			}
			sum = sum.Plus(Cost{n, size})
			ok = ok && one.Add(records, size)
		}
		if !all.AddAll(sum[messages], sum[bytes]) {
			if all != planOf(t, topic) {
				t.Fatalf("a refused list has changed the plan: %+v", all)
			}
			continue
		}
		added[settings.Mode]++
		if !ok || all.Cost() != one.Cost() || all.Cut() {
			t.Fatalf("mode %v: all of %v added, one by one %v, %v", settings.Mode, sum, ok, one.Cost())
		}
		path := topic.Path(0, "g", 0)
		if _, _, ok := path.Reserve(all, 0); !ok {
			t.Fatalf("%v is planned and not reserved", sum)
		}
	}
	if slices.Min(added[:]) < 1000 {
		t.Errorf("only %d lists were added", added)
	}
}

func planOf(t *testing.T, topic *Topic) Plan {
	t.Helper()
	path := topic.Path(0, "g", 0)
	plan, _, ok := path.Plan(Cost{}, 0)
	if !ok {
		t.Fatal("an unused limit refuses")
	}
	return plan
}

// What others take between the plan and its reservation is not taken twice: a list that was added as one never passes the line.
func TestAddAllNeverPassesTheLine(t *testing.T) {
	for others := range int64(100) {
		th := New(func(Instant) {})
		th.Configure(Settings{Topic: Policy{Messages: PerPeriod(100)}, Mode: Precise}, 0)
		topic := th.Topic("t")
		plan, rival := planOf(t, topic), planOf(t, topic)
		if !plan.AddAll(60, 1000) {
			t.Fatal("60 of 100 are too many")
		}
		path := topic.Path(0, "g", 0)
		if others > 0 {
			rival.Add(others, 1)
			if _, _, ok := path.Reserve(rival, 0); !ok {
				t.Fatal("the first is refused")
			}
		}
		if _, _, ok := path.Reserve(plan, 0); ok != (others <= 40) {
			t.Errorf("60 more after %d of 100: %v", others, ok)
		}
	}
}
