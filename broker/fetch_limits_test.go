package broker

import (
	"testing"
	"time"

	"sluice/throttle"
)

// msgs is a policy of so many messages in a second.
func msgs(n int64) throttle.Policy { return throttle.Policy{Messages: throttle.PerPeriod(n)} }

// A topic's limit holds for each partition by itself.
func TestTopicLimitIsPerPartition(t *testing.T) {
	t.Parallel()
	inBubble(t, throttle.Settings{Topic: msgs(10)}, func(b *bubble) {
		x := b.topic("a", 2, nil)
		b.backlog(x, 700, 1, 10)
		r := b.read("a", time.Minute, nil, at(x, 0, 0), at(x, 1, 0))
		b.readers.Wait()
		if r.of(x, 0) != 600 || r.of(x, 1) != 600 {
			t.Errorf("%d and %d messages in a minute, want 600 each", r.of(x, 0), r.of(x, 1))
		}
	})
}

// All that a broker dispatches draws on its own limit, whoever reads.
func TestBrokerLimitIsShared(t *testing.T) {
	t.Parallel()
	inBubble(t, throttle.Settings{Broker: msgs(10)}, func(b *bubble) {
		x, y := b.topic("x", 1, nil), b.topic("y", 1, nil)
		b.backlog(x, 700, 1, 10)
		b.backlog(y, 700, 1, 10)
		one := b.read("one", time.Minute, nil, at(x, 0, 0), at(y, 0, 0))
		two := b.read("two", time.Minute, nil, at(x, 0, 0), at(y, 0, 0))
		b.readers.Wait()
		if n := one.total() + two.total(); n != 600 {
			t.Errorf("%d messages in a minute, want 600", n)
		}
		for _, r := range []*reader{one, two} {
			for _, z := range []*topic{x, y} {
				if n := r.of(z, 0); n < 140 || n > 160 {
					t.Errorf("%s got %d messages of %s, want about 150", r.w.id, n, z.name)
				}
			}
		}
	})
}

// A topic's limit is shared by all who read a partition, a subscription's is not.
func TestTopicAndSubscriptionLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		s         throttle.Settings
		each, all int64
		off       int64
	}{
		"topic":        {throttle.Settings{Topic: msgs(10)}, 300, 600, 10},
		"subscription": {throttle.Settings{Subscription: msgs(10)}, 600, 1200, 0},
		"both":         {throttle.Settings{Topic: msgs(10), Subscription: msgs(4)}, 240, 480, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.s, func(b *bubble) {
				x := b.topic("x", 1, nil)
				b.backlog(x, 700, 1, 10)
				one, two := b.read("one", time.Minute, nil, at(x, 0, 0)), b.read("two", time.Minute, nil, at(x, 0, 0))
				b.readers.Wait()
				if n := one.total() + two.total(); n != c.all {
					t.Errorf("%d messages in a minute, want %d", n, c.all)
				}
				if n := one.total(); n < c.each-c.off || n > c.each+c.off {
					t.Errorf("one got %d messages, want about %d", n, c.each)
				}
			})
		})
	}
}
