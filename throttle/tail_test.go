package throttle

import (
	"testing"
	"time"
)

// A consumer's fetches and answers in turn: the offset it asks for, where the log ends, and whether it is exempt.
func TestTail(t *testing.T) {
	type step struct {
		at       time.Duration
		fetch    int64 // offset; or with answered set: the next offset after the answer
		end      int64
		answered bool
		exempt   bool
	}
	const ms = time.Millisecond
	for _, c := range []struct {
		name      string
		threshold int64
		steps     []step
	}{
		{"at the end", 0, []step{{0, 100, 100, false, true}}},
		{"far behind", 0, []step{{0, 0, 100, false, false}}},
		{"one behind is backlog as long as it never was at the end", 0, []step{{0, 99, 100, false, false}}},
		{"keeps up with a producer", 0, []step{
			{0, 100, 100, false, true}, {5 * ms, 101, 101, true, true},
			{6 * ms, 101, 103, false, true}, // two came in the meantime
			{7 * ms, 103, 103, true, true}, {9 * ms, 103, 110, false, true}}},
		{"falls behind", 0, []step{
			{0, 100, 100, false, true}, {5 * ms, 105, 300, true, true}, // the answer did not hold all
			{6 * ms, 105, 301, false, false},
			{7 * ms, 301, 301, true, false}, {8 * ms, 301, 302, false, true}}}, // an answer reached the end
		{"was away for long", 0, []step{
			{0, 100, 100, false, true}, {5 * ms, 101, 101, true, true},
			{10 * time.Second, 101, 1101, false, false}, {10 * time.Second, 111, 1101, true, false},
			{11 * time.Second, 1100, 1101, false, false}, {11 * time.Second, 1101, 1101, true, false}, {11 * time.Second, 1101, 1101, false, true}}},
		{"was away while nothing came", 0, []step{{0, 100, 100, false, true}, {time.Hour, 100, 100, false, true}}},
		{"within the threshold", 50, []step{{0, 60, 100, false, true}, {time.Hour, 60, 110, false, true}, {2 * time.Hour, 60, 111, false, false}}},
		{"seeks back", 0, []step{{0, 100, 100, false, true}, {ms, 0, 100, false, false}}},
	} {
		th := New(func(Instant) {})
		th.Configure(Settings{ExemptTail: true, TailThreshold: c.threshold, Topic: msgs(10)}, 0)
		topic := th.Topic("t")
		for i, s := range c.steps {
			if s.answered {
				topic.Answered(0, "g", s.fetch, s.end, Instant(s.at))
			} else if got := topic.Arrived(0, "g", s.fetch, s.end, Instant(s.at)); got != s.exempt {
				t.Errorf("%s: step %d: exempt %v", c.name, i, got)
			}
		}
		if topic.Arrived(1, "g", 0, 100, 0) || topic.Arrived(0, "other", 0, 100, 0) {
			t.Errorf("%s: another partition or group is exempt too", c.name)
		}
	}
}

func TestTailIsThrottledByDefault(t *testing.T) {
	th := New(func(Instant) {})
	th.Configure(Settings{Topic: msgs(10)}, 0)
	topic := th.Topic("t")
	topic.Answered(0, "g", 100, 100, 0)
	if topic.Arrived(0, "g", 100, 100, 0) || topic.find(0) != nil {
		t.Error("exempt, or state was made")
	}
}
