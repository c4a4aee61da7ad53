package broker

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/throttle"
)

// throttleJSON is the body of /v1/throttle/{topic}/{partition}: the limits between a partition and those who read it, how
// they stand, and what their fetches have waited for.
type throttleJSON struct {
	Topic     string      `json:"topic"`
	Partition int32       `json:"partition"`
	Counting  string      `json:"counting"` // approximate, precise, batches
	Levels    []levelJSON `json:"levels"`
	Waits     []waitJSON  `json:"waits"` // of the topic, all partitions
}

// levelJSON is the limits of a level. The subscription's is there once for each subscription that was asked for.
type levelJSON struct {
	Level        string        `json:"level"`
	Subscription string        `json:"subscription,omitempty"`
	Source       string        `json:"source"`              // none: no limit
	Namespace    string        `json:"namespace,omitempty"` // the prefix, if that is the source
	CaughtUp     bool          `json:"caught_up,omitempty"` // the subscription has no backlog, and such are not throttled
	Period       float64       `json:"period_seconds"`
	Counters     []counterJSON `json:"counters"` // of what is limited
}

// counterJSON is how a limit stands. Times are seconds from now.
type counterJSON struct {
	Unit       string  `json:"unit"`
	Limit      int64   `json:"limit"` // in a period
	Used       int64   `json:"used"`  // in this period, debts included
	Left       int64   `json:"left"`
	Owed       int64   `json:"owed"` // by later periods
	NextWindow float64 `json:"next_window_seconds"`
	OpensIn    float64 `json:"opens_in_seconds"` // until something may leave; 0: now
	Waiters    int     `json:"waiters"`          // fetches that wait for this limit first of all
	Waiting    float64 `json:"waiting_seconds"`  // of the one that waits longest
	Sharing    int     `json:"sharing"`          // those who share it, if somebody was refused lately
}

// waitJSON is how long the fetches of a group were held for one cause since the broker's start.
type waitJSON struct {
	Group   string  `json:"group"` // or what stands in for one
	Cause   string  `json:"cause"`
	Seconds float64 `json:"seconds"`
}

// serveThrottle explains the limits of a partition. ?group= asks for one group, or what stands in for one; without it all are shown that have drawn on a limit
// of their own lately.
func (b *Broker) serveThrottle(w http.ResponseWriter, q *http.Request) {
	t := b.topics.byName(q.PathValue("topic"))
	i, err := strconv.ParseInt(q.PathValue("partition"), 10, 32)
	missing := ""
	switch {
	case t == nil:
		missing = "no such topic or partition"
	case err != nil || i < 0 || int32(i) >= t.partitions():
		missing = fmt.Sprintf("no such topic or partition: %s has %d, numbered from 0", t.name, t.partitions())
	case t.limits == nil:
		missing = "internal topics are not throttled"
	}
	if missing != "" {
		writeJSON(w, http.StatusNotFound, map[string]string{"error": missing})
		return
	}
	writeJSON(w, http.StatusOK, b.explain(t, int32(i), q.FormValue("group"), instant()))
}

func (b *Broker) explain(t *topic, i int32, group string, now throttle.Instant) throttleJSON {
	subs, known := []string{group}, t.limits.Subscriptions(i)
	switch {
	case group == "":
		subs = append(known, "")
	case !slices.Contains(known, group) && slices.Contains(known, standIn+group): // what stands in for a group, by the name that is shown
		subs[0] = standIn + group
	}
	x := throttleJSON{Topic: t.name, Partition: i, Levels: []levelJSON{}, Waits: b.dispatch.waits.show(t, group)}
	for n, sub := range subs {
		e := t.limits.Explain(i, sub, now)
		if n == 0 {
			x.Counting = e.Mode.String()
			x.Levels = append(x.Levels, showLevel(e.Levels[throttle.BrokerLevel], ""), showLevel(e.Levels[throttle.TopicLevel], ""))
		}
		if l := e.Levels[throttle.SubscriptionLevel]; sub != "" || len(subs) == 1 {
			shown := showLevel(l, sub)
			shown.CaughtUp = e.CaughtUp
			x.Levels = append(x.Levels, shown)
		}
	}
	return x
}

func showLevel(l throttle.LevelState, sub string) levelJSON {
	x := levelJSON{
		Level: l.Level.String(), Subscription: strings.TrimPrefix(sub, standIn), Source: l.Source.String(), Namespace: l.Namespace, Period: l.Period.Seconds(), Counters: []counterJSON{},
	}
	for _, c := range l.Counters {
		if c.Limit == throttle.Unlimited {
			continue
		}
		x.Counters = append(x.Counters, counterJSON{
			Unit: c.Unit.String(), Limit: c.Limit, Used: c.Used, Left: c.Left, Owed: c.Owed,
			NextWindow: c.NextWindow.Seconds(), OpensIn: max(0, c.OpensIn.Seconds()),
			Waiters: c.Waiters, Waiting: c.Waiting.Seconds(), Sharing: c.Claims,
		})
	}
	return x
}

// show gives what the fetches of a topic waited for, of all or of one group and what stands in for one under the same name.
func (w *fetchWaits) show(t *topic, group string) []waitJSON {
	list := []waitJSON{}
	w.each(func(topic string, g groupKey, _ int64, by [causes]time.Duration) {
		if topic != t.name || group != "" && g.name != group {
			return
		}
		for c, d := range by {
			if d > 0 {
				list = append(list, waitJSON{g.name, cause(c).String(), d.Seconds()})
			}
		}
	})
	slices.SortFunc(list, func(a, b waitJSON) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(b.Seconds, a.Seconds))
	})
	return list
}
