package throttle

import (
	"slices"
	"testing"
	"time"
)

// bell counts how often it was fired.
type bell int

func (b *bell) Fire() { *b++ }

// queueUp has n subscriptions wait for the messages of partition 0, which another one has used up at time zero.
func queueUp(t *testing.T, s Settings, n int) (th *Throttle, topic *Topic, armed *Instant, watches []Watch, bells []bell) {
	armed = new(Instant)
	th = New(func(at Instant) { *armed = at })
	th.Configure(s, 0)
	topic = th.Topic("t")
	reserve(t, topic, "first", 10, Cost{1, 1}, 0)
	watches, bells = make([]Watch, n), make([]bell, n)
	for i := range watches {
		path := topic.Path(0, string(rune('a'+i)), 0)
		_, refusal, ok := path.Plan(Cost{}, 0)
		if ok || !watches[i].On(refusal, &bells[i], 0) {
			t.Fatalf("%d does not wait", i)
		}
	}
	return th, topic, armed, watches, bells
}

func total(bells []bell) (n int) {
	for _, b := range bells {
		n += int(b)
	}
	return n
}

func TestWaiterIsWokenWhenTheWindowOpens(t *testing.T) {
	th, _, armed, watches, bells := queueUp(t, Settings{Topic: msgs(10), Mode: Precise}, 1)
	if *armed != after(time.Second) {
		t.Fatalf("armed %v", *armed)
	}
	if next := th.Wake(*armed - 1); next != *armed || bells[0] != 0 {
		t.Errorf("woken early: next %v, fired %d", next, bells[0])
	}
	if next := th.Wake(*armed); next != Never || bells[0] != 1 {
		t.Errorf("next %v, fired %d", next, bells[0])
	}
	watches[0].Cancel(*armed)
}

// A counter that opens invites as many as it may have something for, and more when those leave something.
func TestNoMoreAreWokenThanTheBalanceServes(t *testing.T) {
	th, topic, armed, watches, bells := queueUp(t, Settings{Topic: msgs(10), Mode: Precise}, 26)
	now := *armed
	th.Wake(now)
	if total(bells) != 10 {
		t.Fatalf("%d were invited for 10 messages", total(bells))
	}
	for i := range watches { // those who were invited find what they want elsewhere
		if bells[i] > 0 {
			watches[i].Cancel(now)
		}
	}
	if total(bells) != 20 {
		t.Errorf("%d were invited after the first 10 took nothing", total(bells))
	}
	for i := range watches {
		if bells[i] > 0 && watches[i].state == fired {
			reserve(t, topic, string(rune('a'+i)), 1, Cost{1, 1}, now)
			watches[i].Cancel(now)
		}
	}
	if total(bells) != 20 {
		t.Errorf("%d were invited after the balance was spent", total(bells))
	}
	if next := th.Wake(now); next != now+Instant(time.Second) {
		t.Errorf("the six that are left are woken at %v", next)
	}
}

// Whoever was served least comes first, however long others have waited.
func TestTheLeastServedIsWokenFirst(t *testing.T) {
	s := Settings{Topic: msgs(2), Mode: Precise}
	th := New(func(Instant) {})
	th.Configure(s, 0)
	topic := th.Topic("t")
	var order []string
	watches := map[string]*Watch{}
	queue := func(group string, now Instant) {
		path := topic.Path(0, group, now)
		_, refusal, ok := path.Plan(Cost{}, now)
		w := &Watch{}
		if watches[group] = w; ok || !w.On(refusal, ringer(func() { order = append(order, group) }), now) {
			t.Fatalf("%s does not wait", group)
		}
	}
	reserve(t, topic, "x", 1, Cost{2, 1}, 0)
	queue("a", 0)
	queue("b", 0)
	second := after(time.Second)
	th.Wake(second)
	watches["a"].Cancel(second)
	reserve(t, topic, "a", 1, Cost{3, 1}, second) // a debt of one
	watches["b"].Cancel(second)
	order = nil
	queue("a", second)
	queue("b", second)
	th.Wake(2 * second)
	if !slices.Equal(order, []string{"b"}) {
		t.Errorf("woken: %v, want b for the one message there is", order)
	}
}

type ringer func()

func (r ringer) Fire() { r() }

// Invitations that nobody followed do not keep others waiting for longer than a window.
func TestForgottenInvitation(t *testing.T) {
	th, _, _, watches, bells := queueUp(t, Settings{Topic: msgs(1), Mode: Precise}, 4)
	now := after(12 * time.Second) // the debt is paid
	for i := range 2 {
		next := th.Wake(now)
		if total(bells) != i+1 {
			t.Fatalf("%d were invited after %d windows", total(bells), i+1)
		}
		now = next
	}
	now -= Instant(time.Second)
	for i := range watches {
		if watches[i].state == fired && watches[i].claim.invitedAt == now {
			watches[i].Cancel(now)
		}
	}
	if total(bells) != 3 {
		t.Errorf("%d were invited after one of this window left", total(bells))
	}
}

// Nor do they keep a share when the window is not young any more.
func TestForgottenInvitationKeepsNoShare(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Topic: msgs(10), Mode: Precise}, 0)
	topic := th.Topic("t")
	late := after(900 * time.Millisecond)
	topic.Path(0, "a", 0) // the first window begins
	reserve(t, topic, "a", 10, Cost{1, 1}, late)
	path := topic.Path(0, "b", late)
	_, refusal, _ := path.Plan(Cost{}, late)
	new(Watch).On(refusal, new(bell), late)
	th.Wake(after(time.Second)) // b is invited, and never looks
	now := after(2600 * time.Millisecond)
	reserve(t, topic, "a", 6, Cost{1, 1}, now)
	if n := left(topic, "a", now); n != 4 {
		t.Errorf("%d left, want 4", n)
	}
}

// A crowd that ended is not joined any more.
func TestCrowdEnds(t *testing.T) {
	_, topic, armed, watches, _ := queueUp(t, Settings{Topic: msgs(10), Mode: Precise}, 1)
	c := watches[0].claim.counter
	cr := c.crowd.Load()
	watches[0].Cancel(*armed)
	left(topic, "a", after(time.Minute))
	if c.crowd.Load() != nil || !cr.gone {
		t.Error("it goes on")
	}
}

// A watch that waits for one counter and is refused by another moves there.
func TestWatchMoves(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Topic: Policy{Messages: PerPeriod(10), Bytes: PerPeriod(10), Period: time.Second}, Mode: Precise}, 0)
	topic := th.Topic("t")
	reserve(t, topic, "g", 1, Cost{10, 1}, 0)
	path := topic.Path(0, "g", 0)
	_, refusal, _ := path.Plan(Cost{}, 0)
	var w Watch
	var b bell
	w.On(refusal, &b, 0)
	second := after(time.Second)
	reserve(t, topic, "g", 1, Cost{1, 100}, second)
	th.Wake(second)
	_, refusal, ok := path.Plan(Cost{}, second)
	if ok || refusal.Unit != Bytes || b != 1 || !w.On(refusal, &b, second) {
		t.Fatalf("refusal %v, fired %d", refusal.At, b)
	}
	if next := th.Wake(11*second - 1); next != 11*second || b != 1 {
		t.Errorf("next %v, fired %d", next, b)
	}
	if th.Wake(11 * second); b != 2 {
		t.Errorf("fired %d times in all", b)
	}
	w.Cancel(11 * second)
	w.Cancel(11 * second)
	if !w.On(Refusal{}, &b, 11*second) || len(th.timers.all()) != 0 {
		t.Error("the zero refusal is waited for")
	}
}

// Late in a window those who are there are served in turn. One who asks out of turn gets his share and then waits.
func TestOutOfTurn(t *testing.T) {
	th, topic, armed, watches, bells := queueUp(t, Settings{Topic: msgs(10), Mode: Precise}, 2)
	late := *armed + after(700*time.Millisecond)
	th.Wake(late) // both are invited
	if total(bells) != 2 {
		t.Fatalf("%d were invited", total(bells))
	}
	reserve(t, topic, "first", 3, Cost{1, 1}, late) // its share, as one of three
	path := topic.Path(0, "first", late)
	if _, refusal, ok := path.Plan(Cost{}, late); ok || refusal.ReadyAt != *armed+after(time.Second) {
		t.Errorf("it may take more while others are about to look: %+v, %v", refusal, ok)
	}
	for i := range watches {
		watches[i].Cancel(late)
	}
	if n := left(topic, "first", late); n != 7 {
		t.Errorf("%d left when they want nothing", n)
	}
}

// Two that wait for one counter until different times are both woken at theirs.
func TestTheEarlierTimeCounts(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Topic: msgs(10), Mode: Precise}, 0)
	topic := th.Topic("t")
	for _, g := range []string{"a", "b", "c"} {
		reserve(t, topic, g, 1, Cost{3, 1}, 0)
		topic.Path(0, g, 0)
	}
	reserve(t, topic, "a", 1, Cost{1, 1}, 0)
	path := topic.Path(0, "c", 0)
	path.Plan(Cost{}, 0) // c is refused, and will be back
	second := after(time.Second)
	reserve(t, topic, "a", 1, Cost{5, 1}, second)
	path = topic.Path(0, "a", second)
	_, young, ok := path.Plan(Cost{}, second) // a has had more than its share of this window
	if ok || young.ReadyAt != second+after(time.Second/2) {
		t.Fatalf("refusal %+v, %v", young, ok)
	}
	var early, late Watch
	var first, second2 bell
	early.On(young, &first, second)
	reserve(t, topic, "c", 1, Cost{50, 1}, second)
	path = topic.Path(0, "b", second)
	_, refusal, _ := path.Plan(Cost{}, second)
	late.On(refusal, &second2, second)
	if next := th.Wake(second); next != young.ReadyAt {
		t.Errorf("woken next at %v, want %v", time.Duration(next), time.Duration(young.ReadyAt))
	}
}

// A change of one topic wakes those who wait for its counters, and nobody else.
func TestTopicChangeWakesItsOwn(t *testing.T) {
	ten := Policy{Messages: PerPeriod(10), Period: time.Hour}
	for _, c := range []struct {
		name     string
		settings Settings
		change   Policies
		woken    bool
	}{
		{"topic", Settings{Topic: ten}, Policies{Topic: msgs(-1)}, true},
		{"subscription", Settings{Subscription: ten}, Policies{Subscription: msgs(20)}, true},
		{"broker", Settings{Broker: ten}, Policies{Topic: msgs(20)}, false},
	} {
		c.settings.Mode = Precise
		th := New(func(Instant) {})
		th.Configure(c.settings, 0)
		changed, other := th.Topic("changed"), th.Topic("other")
		reserve(t, changed, "g", 10, Cost{1, 1}, 0)
		if c.settings.Broker == (Policy{}) {
			reserve(t, other, "g", 10, Cost{1, 1}, 0)
		}
		bells, watches := make([]bell, 2), make([]Watch, 2)
		for i, topic := range []*Topic{changed, other} {
			path := topic.Path(0, "g", 0)
			_, refusal, _ := path.Plan(Cost{}, 0)
			if !watches[i].On(refusal, &bells[i], 0) {
				t.Fatalf("%s: %d does not wait", c.name, i)
			}
		}
		changed.Configure(c.change, 1)
		if woken := bells[0] == 1; woken != c.woken || bells[1] != 0 {
			t.Errorf("%s: fired %v", c.name, bells)
		}
	}
}

// A fetch that comes between a change and its waking, and drops the counter, wakes those who wait for it.
func TestDroppedCounterWakes(t *testing.T) {
	th, topic, _, watches, bells := queueUp(t, Settings{Topic: msgs(10), Mode: Precise}, 2)
	topic.own = Policies{Topic: msgs(-1), Subscription: msgs(5)}
	th.version.Add(1)
	topic.Path(0, "a", 0)
	if total(bells) != 2 {
		t.Errorf("fired %v", bells)
	}
	for i := range watches {
		watches[i].Cancel(0)
	}
	if th.Wake(after(time.Hour)) != Never {
		t.Error("the dropped counter still has a timer")
	}
}
