package coord

// item is one thing to release, or a gate that holds back all items behind it. An empty one is what a lost order leaves.
type item struct {
	gate   *gate                      // not nil: nothing else is set
	orders []any                      // for Options.Orders
	done   func(value any, err error) // for a request
	value  any
	err    error
}

// gate stands for one append until its ticket resolves.
type gate struct {
	ticket Ticket
	open   bool  // under Shard.mu
	next   *gate // in Shard.fresh, until Notify
}

// queue holds items in the order of the steps that made them.
type queue struct {
	items []item
	head  int // items[:head] are taken
}

func (q *queue) len() int { return len(q.items) - q.head }

// push appends. When the slice is full it moves the items down over the taken ones rather than growing, if that frees half of it.
func (q *queue) push(it item) {
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, it)
}

func (q *queue) pop() item {
	it := q.items[q.head]
	q.items[q.head] = item{}
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return it
}

// ready takes open gates off the front and tells whether an item to release stands there.
func (q *queue) ready() bool {
	for q.len() > 0 {
		g := q.items[q.head].gate
		if g == nil {
			return true
		}
		if !g.open {
			return false
		}
		q.pop()
	}
	return false
}

// takeReady moves everything that may be released to the end of dst.
func (q *queue) takeReady(dst []item) []item {
	for q.ready() {
		dst = append(dst, q.pop())
	}
	return dst
}

// loneReply tells whether the only item is a reply: what a read on an idle shard leaves, and not worth a goroutine.
func (q *queue) loneReply() bool { return q.len() == 1 && q.items[q.head].done != nil }

// fail makes an error of every reply behind the gate, drops every order there, and opens the gates, as an error has
// nothing to wait for. A nil gate stands for the first one that is closed.
func (q *queue) fail(g *gate, err error) {
	behind := false
	for i := q.head; i < len(q.items); i++ {
		it := &q.items[i]
		if it.gate != nil && (it.gate == g || g == nil && !it.gate.open) {
			behind = true
		}
		switch {
		case !behind:
		case it.gate != nil:
			it.gate.open = true
		case it.err == nil:
			*it = item{done: it.done, err: err}
		}
	}
}
