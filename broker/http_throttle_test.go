package broker

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/throttle"
)

// asks gives an answer of the admin port.
func (b *bubble) asks(path string) (code int, body string) {
	w := httptest.NewRecorder()
	b.b.AdminHandler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

// What is used, left and owed, and who waits until when, is told as it is: a batch of 25 at 10 a second closes the limit until 2 s; the fetch that
// waits for it came right after.
func TestThrottleIsExplained(t *testing.T) {
	inBubble(t, throttle.Settings{Broker: throttle.Policy{Bytes: throttle.PerPeriod(1e6)}, Mode: throttle.Precise}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		x.limits.Configure(throttle.Policies{Topic: msgs(10), Subscription: msgs(100)}, instant())
		b.produce(x.partition(0), 25, 10)
		b.backlog(x, 20, 1, 10)
		b.read("c", 1500*time.Millisecond, func(r *reader) { r.wait = 5 * time.Second }, at(x, 0, 0))
		time.Sleep(1500 * time.Millisecond)
		code, body := b.asks("/v1/throttle/x/0")
		var got throttleJSON
		check(t, json.Unmarshal([]byte(body), &got))
		if code != 200 || got.Topic != "x" || got.Counting != "precise" || len(got.Levels) != 3 {
			t.Fatalf("%d %s", code, body)
		}
		topic, sub := got.Levels[1], got.Levels[2]
		want := counterJSON{Unit: "messages", Limit: 10, Used: 15, Owed: 5, NextWindow: 0.5, OpensIn: 0.5, Waiters: 1, Waiting: topic.Counters[0].Waiting, Sharing: 1}
		if topic.Source != "topic" || topic.Period != 1 || topic.Counters[0] != want || topic.Counters[0].Waiting < 1.4 {
			t.Errorf("topic: %+v, want %+v", topic, want)
		}
		if got.Levels[0].Source != "broker" || got.Levels[0].Counters[0].Unit != "bytes" || got.Levels[0].Counters[0].Limit != 1e6 {
			t.Errorf("broker: %+v", got.Levels[0])
		}
		if sub.Subscription != "client:User:ANONYMOUS/c" || sub.Counters[0].Limit != 100 || sub.Counters[0].Left != 100 || sub.Counters[0].Waiters != 0 {
			t.Errorf("subscription: %+v", sub)
		}
		_, body = b.asks("/v1/throttle/x/0?group=" + url.QueryEscape(sub.Subscription))
		var one throttleJSON
		check(t, json.Unmarshal([]byte(body), &one))
		if len(one.Levels) != 3 || one.Levels[2].Subscription != sub.Subscription || one.Levels[2].Counters[0].NextWindow != sub.Counters[0].NextWindow {
			t.Errorf("asked for by name: %s", body)
		}
		b.readers.Wait()
		if got := b.b.dispatch.waits.show(x, sub.Subscription); len(got) == 0 || len(b.b.dispatch.waits.show(x, "c")) != 0 {
			t.Errorf("waits by name: %+v", got)
		}
		if got := b.b.dispatch.waits.show(x, ""); !slices.ContainsFunc(got, func(w waitJSON) bool { return w.Cause == "topic messages" && w.Seconds > 1.9 }) {
			t.Errorf("waits: %+v", got)
		}
	})
}

func TestThrottleOfWhatIsNotThere(t *testing.T) {
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		b.topic("x", 1, nil)
		for _, path := range []string{"/v1/throttle/y/0", "/v1/throttle/x/1", "/v1/throttle/x/-1", "/v1/throttle/x/a"} {
			if code, body := b.asks(path); code != 404 || !strings.Contains(body, "no such topic or partition") {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
		if code, body := b.asks("/v1/throttle/x/0?group=g"); code != 200 || !strings.Contains(body, `"source":"none"`) {
			t.Errorf("without limits: %d %s", code, body)
		}
	})
}

// Of who reads at the end, where such are not throttled, that is told beside a limit that does not hold for it.
func TestThrottleTellsWhoIsCaughtUp(t *testing.T) {
	inBubble(t, throttle.Settings{Topic: msgs(10), ExemptTail: true}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 20, 1, 10)
		for offset, want := range map[int64]bool{20: true, 0: false} {
			q := fetchOf(at(x, 0, offset))
			q.MaxWaitMillis = 1
			b.dial(fmt.Sprint("from ", offset)).do(12, q)
			_, body := b.asks("/v1/throttle/x/0")
			var got throttleJSON
			check(t, json.Unmarshal([]byte(body), &got))
			i := slices.IndexFunc(got.Levels, func(l levelJSON) bool { return strings.HasSuffix(l.Subscription, fmt.Sprint("from ", offset)) })
			if i < 0 || got.Levels[i].CaughtUp != want {
				t.Errorf("from %d: %s", offset, body)
			}
		}
	})
}

// The sums by cause are those of all topics and groups, and only so many of these are told apart.
func TestDispatchMetrics(t *testing.T) {
	inBubble(t, throttle.Settings{Broker: msgs(10)}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.backlog(x, 20, 1, 10)
		b.read("c", 500*time.Millisecond, func(r *reader) { r.wait = 5 * time.Second }, at(x, 0, 0))
		time.Sleep(500 * time.Millisecond)
		if _, body := b.asks("/metrics"); !strings.Contains(body, "sluice_dispatch_held_fetches 1\n") {
			t.Errorf("a fetch is held:\n%s", metricLines(body, "dispatch"))
		}
		b.readers.Wait()
		_, body := b.asks("/metrics")
		for _, line := range []string{
			`sluice_dispatch_held_fetches 0`, `sluice_dispatch_held_fetches_total 1`,
			`sluice_dispatch_throttled_total{level="broker",unit="messages"} 1`, `sluice_dispatch_throttled_total{level="topic",unit="bytes"} 0`,
			`sluice_dispatch_wait_seconds_total{cause="broker messages"} 0.999`,
			`sluice_dispatch_group_wait_seconds_total{cause="broker messages",group="client:User:ANONYMOUS/c",topic="x"} 0.999`,
			`sluice_dispatch_broker_limit{unit="messages"} 10`, `sluice_dispatch_broker_left{unit="messages"} 0`, `sluice_dispatch_group_wait_omitted 0`,
		} {
			if !strings.Contains(body, line+"\n") {
				t.Errorf("%q is not in\n%s", line, metricLines(body, "dispatch"))
			}
		}
	})
}

func metricLines(body, part string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(body, "\n"), func(l string) bool { return !strings.Contains(l, part) || l[0] == '#' }), "\n")
}

// A topic may be deleted while fetches of it are held, and made again. What they waited counts in the sums, which never go down, and for no topic.
func TestWaitsOfADeletedTopic(t *testing.T) {
	var w fetchWaits
	x, y := &topic{name: "x"}, &topic{name: "x"}
	book := func(x *topic, d time.Duration) {
		a := w.of(waitKey{x, groupKey{true, "g"}})
		a.nanos[noData].Add(int64(d))
		a.held.Add(1)
	}
	book(x, time.Second)
	w.forget(x)
	book(x, 2*time.Second)
	book(y, 4*time.Second)
	list, sum, held := w.gather()
	want := []groupWaits{{"", "", [causes]time.Duration{3 * time.Second}}, {"x", "g", [causes]time.Duration{4 * time.Second}}}
	if !slices.Equal(list, want) || sum[noData] != 7*time.Second || held != 3 {
		t.Errorf("%+v, sum %v of %d; want %+v", list, sum[noData], held, want)
	}
}

// A group may be called like what stands in for another one: one series has both.
func TestMetricsOfAGroupNamedLikeAStandIn(t *testing.T) {
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		for _, isGroup := range []bool{false, true} {
			b.b.dispatch.waits.of(waitKey{x, groupKey{isGroup, "shared"}}).nanos[noData].Add(int64(time.Second))
		}
		code, body := b.asks("/metrics")
		if want := `sluice_dispatch_group_wait_seconds_total{cause="no data",group="shared",topic="x"} 2` + "\n"; code != 200 || !strings.Contains(body, want) {
			t.Errorf("%d, without %s:\n%s", code, want, metricLines(body, "group_wait"))
		}
	})
}
