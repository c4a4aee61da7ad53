package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/crashtest"
	"sluice/log"
)

// TestBrokerUnderASetClock has the wall clock jump, stand still and walk about. The times of limits (throttle) and subscriptions, and the age of fetch sessions,
// go by the monotonic clock; retention deletes nothing that is younger than retention.ms by a clock that it has not believed for the grace.
func TestBrokerUnderASetClock(t *testing.T) {
	for name, ahead := range crashtest.Clocks() {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			at := func(passed time.Duration) time.Time { return crashtest.SetClock(began.Add(passed), ahead(passed)) }
			for passed := time.Duration(0); passed < time.Hour; passed += time.Minute {
				if got, want := stampOf(at(passed)), stampOf(began.Add(passed)); got != want {
					t.Fatalf("after %v the stamp is %v, want %v", passed, got, want)
				}
			}
			sessionsAge(t, at)
			retainsUnder(t, ahead(time.Minute) > maxClockJump, at)
		})
	}
}

// sessionsAge: with one slot, a session of the same size gets it when the one that has it was not used for sessionStaleAfter, and not before.
func sessionsAge(t *testing.T, at func(time.Duration) time.Time) {
	t.Helper()
	var s fetchSessions
	first, other := &fetchSession{}, &fetchSession{}
	if s.add(first, 2, 1, at(0)) == noSession || !s.touch(first, 2, at(2*time.Second)) {
		t.Fatal("no room in an empty table")
	}
	if s.add(other, 1, 1, at(2*time.Second+sessionStaleAfter)) != noSession {
		t.Error("a session that is in use had to go")
	}
	if s.add(other, 1, 1, at(3*time.Second+sessionStaleAfter)) == noSession {
		t.Error("a session that nobody uses stays")
	}
}

// retainsUnder: records of the day before the clock was set stay for a week. A jump that lasts is believed in the end, and then they go.
func retainsUnder(t *testing.T, jumps bool, at func(time.Duration) time.Time) {
	t.Helper()
	n := startNode(t, nil)
	c := n.dial()
	c.mustCreate("a-week", "internal.segment.bytes", "200")
	for i := range 10 {
		if p := c.produce("a-week", 0, fmt.Sprint(i, strings.Repeat("x", 60))); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
	}
	var r retention
	grace := clockGrace(n.config().RetentionCheckInterval)
	look := func(passed time.Duration) int64 {
		n.dir.Retain(context.Background(), r.now(n.Broker, at(passed), passed))
		return n.dir.Deleted(log.ByTime).Segments
	}
	for passed := time.Duration(0); passed < grace; passed += time.Minute {
		if deleted := look(passed); deleted > 0 {
			t.Fatalf("after %v %d segments are deleted", passed, deleted)
		}
	}
	if deleted := look(2 * grace); (deleted > 0) != jumps {
		t.Errorf("after the grace %d segments are deleted", deleted)
	}
	if start, end := c.edges("a-week"); end != 10 || (start > 0) != jumps {
		t.Errorf("%d to %d", start, end)
	}
	n.logs.forget() // of the jump
}
