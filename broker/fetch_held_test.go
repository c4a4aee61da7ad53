package broker

import (
	"testing"
	"time"

	"sluice/throttle"
)

// A partition without allowance is as one without data: it holds up no other, and nobody is told of a throttle time.
func TestThrottledBesideUnthrottled(t *testing.T) {
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		slow, fast := b.topic("slow", 1, nil), b.topic("fast", 1, nil)
		slow.limits.Configure(throttle.Policies{Topic: msgs(1)}, instant())
		b.backlog(slow, 100, 1, 10)
		r := b.read("r", 20*time.Second, func(r *reader) { r.wait = 5 * time.Second }, at(slow, 0, 0), at(fast, 0, 0))
		b.feed(fast.partition(0), 10*time.Millisecond, 19*time.Second)
		b.readers.Wait()
		if n := r.of(slow, 0); n != 20 {
			t.Errorf("%d slow messages in 20 s, want 20", n)
		}
		sent := 0
		for _, g := range r.got {
			if g.topic != fast.name {
				continue
			}
			// One is sent each 10 ms, and the reader is away for 1 ms after each answer.
			for range g.records {
				sent++
				if late := g.at - time.Duration(sent)*10*time.Millisecond; late > time.Millisecond {
					t.Fatalf("message %d came after %v", sent, late)
				}
			}
		}
		if sent != 1899 {
			t.Errorf("%d fast messages", sent)
		}
	})
}

// min_bytes is waited for as long as data lack; allowance would lapse meanwhile. That holds whether or not a partition may give as much.
func TestMinBytesDoesNotWaitForAllowance(t *testing.T) {
	for _, minBytes := range []int32{1 << 20, 4 << 20} { // and 1 MiB of a partition
		inBubble(t, throttle.Settings{Topic: msgs(10)}, func(b *bubble) {
			x, y := b.topic("x", 1, nil), b.topic("y", 1, nil)
			b.backlog(x, 700, 1, 10)
			lots := func(r *reader) { r.wait, r.minBytes, r.maxBytes = 5*time.Second, minBytes, 8<<20 }
			behind := b.read("behind", time.Minute, lots, at(x, 0, 0))
			b.feed(y.partition(0), time.Second, time.Minute)
			tail := b.read("tail", time.Minute, lots, at(y, 0, 0))
			b.readers.Wait()
			if behind.total() != 600 {
				t.Errorf("min bytes %d: %d messages in a minute, want 600", minBytes, behind.total())
			}
			if tail.polls > 13 { // there is allowance, and no data
				t.Errorf("the tail's reader polled %d times for %d bytes", tail.polls, minBytes)
			}
		})
	}
}

// Who waits for allowance is answered once a window, with all of it, and not asked to come again.
func TestOneAnswerAWindow(t *testing.T) {
	for name, s := range map[string]throttle.Settings{
		"broker": {Broker: msgs(10)}, "topic": {Topic: msgs(10)}, "subscription": {Subscription: msgs(10)},
		"all": {Broker: msgs(10), Topic: msgs(10), Subscription: msgs(10)},
	} {
		inBubble(t, s, func(b *bubble) {
			x := b.topic("x", 1, nil)
			b.backlog(x, 200, 1, 10)
			r := b.read("r", 10*time.Second, func(r *reader) { r.wait = 5 * time.Second }, at(x, 0, 0))
			b.readers.Wait()
			if r.total() != 100 || len(r.got) != 10 || r.polls != 11 { // the last one is answered when the time is over
				t.Errorf("%s: %d messages in %d answers to %d polls", name, r.total(), len(r.got), r.polls)
			}
		})
	}
}

// Who is invited and takes nothing, since it waits for more data, passes its turn on at once.
func TestTurnIsPassedOn(t *testing.T) {
	inBubble(t, throttle.Settings{Topic: msgs(1)}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 10, 1, 10)
		b.some(b.dial("first"), x, 1) // uses the first second
		b.read("few bytes", 3*time.Second, func(r *reader) { r.wait, r.minBytes = 10*time.Second, 1000 }, at(x, 0, 9))
		time.Sleep(10 * time.Millisecond)
		r := b.read("next", 3*time.Second, func(r *reader) { r.wait = 10 * time.Second }, at(x, 0, 0))
		b.readers.Wait()
		if len(r.got) == 0 || r.got[0].at != time.Second {
			t.Errorf("%+v, want a message after a second", r.got)
		}
	})
}

// Without max_wait nobody is parked: answers are empty, without error.
func TestNoAllowanceAndNoWait(t *testing.T) {
	inBubble(t, throttle.Settings{Topic: msgs(10)}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 100, 1, 10)
		r := b.read("r", 2*time.Second, func(r *reader) { r.wait = 0 }, at(x, 0, 0))
		b.readers.Wait()
		if r.polls < 1900 || r.total() != 20 {
			t.Errorf("%d polls brought %d messages, want 20", r.polls, r.total())
		}
	})
}

// A fetch that waits for allowance hears of each change that gives it some.
func TestChangesWakeFetches(t *testing.T) {
	minute := func(n int64) throttle.Policy {
		return throttle.Policy{Messages: throttle.PerPeriod(n), Period: time.Minute}
	}
	for name, change := range map[string]func(b *bubble, x *topic){
		"raised":          func(b *bubble, x *topic) { b.limit(throttle.Settings{Topic: minute(20)}) },
		"gone":            func(b *bubble, x *topic) { b.limit(throttle.Settings{}) },
		"shorter":         func(b *bubble, x *topic) { b.limit(throttle.Settings{Topic: msgs(10)}) },
		"a topic's own":   func(b *bubble, x *topic) { x.limits.Configure(throttle.Policies{Topic: minute(30)}, instant()) },
		"exempt":          func(b *bubble, x *topic) { b.limit(throttle.Settings{Topic: minute(10), ExemptClients: []string{"r"}}) },
		"topic unlimited": func(b *bubble, x *topic) { x.limits.Configure(throttle.Policies{Topic: msgs(-1)}, instant()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, throttle.Settings{Topic: minute(10)}, func(b *bubble) {
				x := b.topic("x", 1, nil)
				b.backlog(x, 100, 1, 10)
				r := b.read("r", 25*time.Second, func(r *reader) { r.wait = 40 * time.Second }, at(x, 0, 0))
				time.Sleep(20 * time.Second)
				change(b, x)
				b.readers.Wait()
				if len(r.got) < 2 || r.got[1].at != 20*time.Second {
					t.Errorf("not woken: %v", r.got)
				}
			})
		})
	}
}
