package throttle

import (
	"reflect"
	"testing"
	"time"
)

func TestExplain(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{
		Broker:     Policy{Bytes: PerPeriod(1000)},
		Namespaces: map[string]Policies{"orders": {Topic: Policy{Messages: PerPeriod(10), Period: 10 * time.Second}}},
		Mode:       Precise,
	}, 0)
	topic := th.Topic("orders.eu")
	got := topic.Explain(0, "g", 0)
	want := Explanation{Topic: "orders.eu", Subscription: "g", Mode: Precise, Levels: [3]LevelState{
		{Level: BrokerLevel, Source: FromBroker, Period: time.Second, Counters: [2]CounterState{
			{Unit: Messages, Limit: Unlimited},
			{Unit: Bytes, Limit: 1000, Left: 1000, NextWindow: time.Second}}},
		{Level: TopicLevel, Source: FromNamespace, Namespace: "orders", Period: 10 * time.Second, Counters: [2]CounterState{
			{Unit: Messages, Limit: 10, Left: 10}, // nobody has asked for it yet
			{Unit: Bytes, Limit: Unlimited}}},
		{Level: SubscriptionLevel, Source: NoSource, Counters: [2]CounterState{
			{Unit: Messages, Limit: Unlimited},
			{Unit: Bytes, Limit: Unlimited}}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("before: got\n%+v\nwant\n%+v", got, want)
	}

	reserve(t, topic, "g", 1, Cost{34, 100}, 0)
	for _, at := range []time.Duration{time.Second, 4 * time.Second} {
		path := topic.Path(0, "g", after(at))
		_, refusal, _ := path.Plan(Cost{}, after(at))
		new(Watch).On(refusal, new(bell), after(at))
	}
	state := topic.Explain(0, "g", after(25*time.Second/2)).Levels[TopicLevel].Counters[messages]
	if want := (CounterState{Unit: Messages, Limit: 10, Used: 24, Owed: 14, NextWindow: 15 * time.Second / 2, OpensIn: 35 * time.Second / 2,
		Waiters: 2, Waiting: 23 * time.Second / 2, Claims: 1}); state != want {
		t.Errorf("in debt: got\n%+v\nwant\n%+v", state, want)
	}
}
