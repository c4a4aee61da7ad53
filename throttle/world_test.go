package throttle

import (
	"time"
)

// world is a broker of one throttle, with virtual time and clients that fetch as Kafka clients do.
type world struct {
	now     Instant
	events  queue[*event]
	serial  int
	th      *Throttle
	clients []*client
}

type event struct {
	at     Instant
	serial int // of two at the same instant the older comes first
	do     func()
	place  int32
}

func newWorld(s Settings) *world {
	w := &world{}
	w.events = queue[*event]{
		less: func(a, b *event) bool {
			return a.at < b.at || a.at == b.at && a.serial < b.serial
		},
		place: func(e *event) *int32 { return &e.place },
	}
	w.th = New(func(at Instant) { w.at(at, w.wake) })
	w.th.Configure(s, 0)
	return w
}

func (w *world) wake() {
	if next := w.th.Wake(w.now); next != Never {
		w.at(next, w.wake)
	}
}

func (w *world) at(at Instant, do func()) {
	w.serial++
	w.events.put(&event{max(at, w.now), w.serial, do, -1})
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now+Instant(d), do) }

// run lets the virtual time go on until d after its start.
func (w *world) run(d time.Duration) {
	for len(w.events.items) > 0 && w.events.items[0].at < Instant(d) {
		e := w.events.items[0]
		w.events.remove(e)
		w.now = e.at
		e.do()
	}
	w.now = Instant(d)
}

// client is one consumer. The zero values of its settings make one that asks again after a millisecond.
type client struct {
	w          *world
	topic      *Topic
	partitions []int32
	group      string
	gap        time.Duration // between an answer and the next poll
	wait       time.Duration // max_wait_ms
	records    int64         // in each batch
	size       int64         // of each batch
	most       int           // batches that fit into one answer for one partition
	backlog    func() int64  // batches there are, beyond those it got; nil: without end
	// sent tells whether what was reserved reached the client. One that tells false sees to the refund. nil: all does.
	sent func(partition int32, p *Plan, g *Grant) bool
	asks func(partition int32, now Instant) // is called before each plan and each reservation
	lag  func() time.Duration               // between a plan and its reservation, which has the plan's clock; nil: none
	list bool                               // plans what there is as one list, if it fits
	away func() (until time.Duration)       // when it polls next, if not after the gap

	watches []Watch
	parked  bool
	looking bool
	over    bool // the wait was over during a look
	poll    int  // number of the poll under way
	first   int  // partition, to rotate
	got     []delivery
}

// delivery is what one answer brought.
type delivery struct {
	at   Instant
	cost Cost // messages, whether they were counted or not, and bytes
}

// total is what a client got in all.
func (c *client) total() (sum Cost) {
	for _, d := range c.got {
		sum = sum.Plus(d.cost)
	}
	return sum
}

// windows are the messages that a client got in each of the first n windows.
func (c *client) windows(n int, period time.Duration) []int64 {
	list := make([]int64, n)
	for _, d := range c.got {
		if k := int(d.at / Instant(period)); k < n {
			list[k] += d.cost[messages]
		}
	}
	return list
}

// longest is the longest time without data between the first answer that had some and until.
func (c *client) longest(until time.Duration) (gap time.Duration) {
	for i, d := range c.got {
		next := Instant(until)
		if i+1 < len(c.got) {
			next = c.got[i+1].at
		}
		gap = max(gap, time.Duration(next-d.at))
	}
	return gap
}

func (w *world) client(c client) *client {
	c.w = w
	if c.gap == 0 {
		c.gap = time.Millisecond
	}
	if c.wait == 0 {
		c.wait = 500 * time.Millisecond
	}
	c.records = max(c.records, 1)
	c.size = max(c.size, 1)
	if c.most == 0 {
		c.most = 1000
	}
	if c.partitions == nil {
		c.partitions = []int32{0}
	}
	c.watches = make([]Watch, len(c.partitions))
	x := &c
	w.clients = append(w.clients, x)
	w.at(w.now, x.fetch)
	return x
}

// Fire implements Waiter.
func (c *client) Fire() {
	if c.parked && !c.looking {
		c.looking = true
		c.w.at(c.w.now, func() {
			c.looking = false
			if c.parked {
				c.look(false)
			}
		})
	}
}

func (c *client) fetch() {
	c.poll++
	c.parked, c.over = true, false
	c.first++
	poll := c.poll
	c.w.after(c.wait, func() {
		switch {
		case !c.parked || c.poll != poll:
		case c.looking:
			c.over = true
		default:
			c.look(true)
		}
	})
	c.look(false)
}

// look plans, and answers if there is something or the wait is over; else it waits on.
func (c *client) look(last bool) {
	plans, refused := c.plans()
	if c.lag == nil {
		c.finish(plans, refused, c.w.now, last)
		return
	}
	c.looking = true
	now := c.w.now
	c.w.after(c.lag(), func() {
		c.looking = false
		c.finish(plans, refused, now, last)
	})
}

// finish reserves what was planned at a time that may be over by now.
func (c *client) finish(plans []Plan, refused []Refusal, now Instant, last bool) {
	if c.reserve(plans, refused, now) || last || c.over {
		c.answer()
		return
	}
	waits := true
	for i, r := range refused {
		if r.claim == nil {
			c.watches[i].Cancel(now)
		} else if !c.watches[i].On(r, c, now) {
			waits = false
		}
	}
	if !waits {
		c.look(false)
	}
}

// plans plans all partitions, as the broker does.
func (c *client) plans() (plans []Plan, refused []Refusal) {
	n := len(c.partitions)
	plans, refused = make([]Plan, n), make([]Refusal, n)
	var ahead Cost
	for i := range n {
		i = (i + c.first) % n
		if c.backlog == nil || c.backlog() > 0 {
			path := c.path(i, c.w.now)
			plans[i], refused[i] = c.plan(&path, ahead)
			ahead = ahead.Plus(plans[i].cost)
		}
	}
	return plans, refused
}

func (c *client) path(i int, now Instant) Path {
	if c.asks != nil {
		c.asks(c.partitions[i], now)
	}
	return c.topic.Path(c.partitions[i], c.group, now)
}

// reserve takes what was planned.
func (c *client) reserve(plans []Plan, refused []Refusal, now Instant) (took bool) {
	n := len(c.partitions)
	for i := range n {
		i = (i + c.first) % n
		if plans[i].cost == (Cost{}) {
			continue
		}
		path := c.path(i, now)
		grant, r, ok := path.Reserve(plans[i], now)
		if !ok {
			refused[i] = r
			continue
		}
		took = true
		if c.sent == nil || c.sent(c.partitions[i], &plans[i], &grant) {
			batches := plans[i].cost[bytes] / c.size
			c.got = append(c.got, delivery{c.w.now, Cost{batches * c.records, plans[i].cost[bytes]}})
		}
	}
	return took
}

// plan plans one partition.
func (c *client) plan(path *Path, ahead Cost) (Plan, Refusal) {
	plan, r, ok := path.Plan(ahead, c.w.now)
	if !ok {
		return Plan{}, r
	}
	there := int64(c.most)
	if c.backlog != nil {
		there = min(there, c.backlog())
	}
	counted := c.records
	if plan.ByBatch() {
		counted = min(counted, 1)
	}
	if !c.list || !plan.AddAll(there*counted, there*c.size) {
		for n := int64(0); n < there && plan.Add(c.records, c.size); n++ {
		}
	}
	plan.More = plan.More || c.backlog == nil || c.backlog() > there
	return plan, r
}

func (c *client) answer() {
	c.parked = false
	for i := range c.watches {
		c.watches[i].Cancel(c.w.now)
	}
	next := c.w.now + Instant(c.gap)
	if c.away != nil {
		next = max(next, Instant(c.away()))
	}
	c.w.at(next, c.fetch)
}
