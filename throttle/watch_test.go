package throttle

import (
	"testing"
	"time"
)

// bell counts how often it was fired.
type bell int

func (b *bell) Fire() { *b++ }

func TestWaiterIsWokenWhenTheWindowOpens(t *testing.T) {
	var armed Instant
	th := New(func(at Instant) { armed = at })
	topic := th.Topic("t")
	topic.Configure(Policies{Topic: Policy{Messages: PerPeriod(10)}}, 0)
	path := topic.Path(0, "g", 0)
	plan, _, ok := path.Plan(Cost{}, 0)
	for ok && plan.Add(1, 100) {
	}
	if _, _, ok := path.Reserve(plan, 0); !ok || plan.cost[messages] != 10 {
		t.Fatalf("reserved %v %v, want 10 messages", plan.cost, ok)
	}
	_, refusal, ok := path.Plan(Cost{}, 0)
	if ok || refusal.At != (At{TopicLevel, Messages}) || refusal.ReadyAt != after(time.Second) {
		t.Fatalf("refusal is %+v", refusal)
	}
	var w Watch
	var b bell
	if !w.On(refusal, &b, 0) || armed != after(time.Second) {
		t.Fatalf("armed %v", armed)
	}
	if next := th.Wake(armed - 1); next != armed || b != 0 {
		t.Fatalf("woken early: next %v, fired %d", next, b)
	}
	if next := th.Wake(armed); next != Never || b != 1 {
		t.Fatalf("not woken: next %v, fired %d", next, b)
	}
	w.Cancel(armed)
}
