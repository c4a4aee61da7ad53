package group

import (
	"cmp"
	"container/heap"
	"slices"

	"sluice/kproto"
)

// assignUniform spreads all partitions evenly: with equal subscriptions the members' loads differ by at most one. It leaves
// everybody what it had as far as that allows. With equal subscriptions it takes from each what is beyond its share, and then
// gives what nobody has to the least loaded; that takes time in proportion to the members and the partitions. With others it gives what
// nobody has, and then moves partitions from the most loaded to the least loaded, one at a time, until no move makes the
// assignment more even.
func assignUniform(in assignorInput) []partitionSet {
	u := newUniform(in)
	if u.alike {
		u.trim()
	}
	for _, topic := range u.topics {
		u.place(topic)
	}
	if !u.alike {
		u.balance()
	}
	out := make([]partitionSet, len(u.has))
	for i, byTopic := range u.has {
		var all []topicPartition
		for topic, partitions := range byTopic {
			for _, p := range partitions {
				all = append(all, topicPartition{topic, p})
			}
		}
		out[i] = newPartitionSet(all)
	}
	return out
}

// maxBalanceWork bounds the work of evening out subscriptions that differ, which nobody needs to be perfect: looks at a topic's subscriber. So
// many take some tenths of a second, in which the groups of the same partition wait.
const maxBalanceWork = 1 << 27

// uniform is an assignment in the making. Members are named by their place in the input.
type uniform struct {
	assignorInput
	topics      []kproto.TopicID
	subscribers map[kproto.TopicID][]int
	load        []int
	has         []map[kproto.TopicID][]int32
	alike       bool // every member is subscribed to every topic
	work        int  // of balancing, so far
}

// newUniform begins with what the members had and may keep.
func newUniform(in assignorInput) *uniform {
	u := &uniform{assignorInput: in, load: make([]int, len(in.members)), has: make([]map[kproto.TopicID][]int32, len(in.members))}
	u.topics, u.subscribers = in.subscribers()
	u.alike = true
	for _, topic := range u.topics {
		u.alike = u.alike && len(u.subscribers[topic]) == len(in.members)
	}
	taken := map[topicPartition]bool{}
	for i, m := range in.members {
		u.has[i] = map[kproto.TopicID][]int32{}
		mine := make(map[kproto.TopicID]bool, len(m.topics))
		for _, t := range m.topics {
			mine[t] = true
		}
		for _, p := range m.had {
			if mine[p.topic] && p.partition < in.partitions[p.topic] && !taken[p] {
				taken[p] = true
				u.give(i, p.topic, p.partition)
			}
		}
	}
	return u
}

// trim takes from each member what is beyond its share. Those with most may have the shares that are larger by one.
func (u *uniform) trim() {
	total := 0
	for _, topic := range u.topics {
		total += int(u.partitions[topic])
	}
	for rank, i := range u.byLoad() {
		share := total / len(u.members)
		if rank < total%len(u.members) {
			share++
		}
		for _, topic := range u.topics {
			for u.load[i] > share && len(u.has[i][topic]) > 0 {
				u.take(i, topic)
			}
		}
	}
}

// byLoad gives the members, the most loaded first, and of equals the last one.
func (u *uniform) byLoad() []int {
	order := make([]int, len(u.load))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Or(cmp.Compare(u.load[j], u.load[i]), cmp.Compare(j, i)) })
	return order
}

// take takes the last partition of a topic that a member has.
func (u *uniform) take(i int, topic kproto.TopicID) int32 {
	list := u.has[i][topic]
	last := len(list) - 1
	u.has[i][topic] = list[:last]
	u.load[i]--
	return list[last]
}

func (u *uniform) give(i int, topic kproto.TopicID, partition int32) {
	u.has[i][topic] = append(u.has[i][topic], partition)
	u.load[i]++
}

// place gives the partitions of a topic that nobody has to its subscribers.
func (u *uniform) place(topic kproto.TopicID) {
	taken := make([]bool, u.partitions[topic])
	queue := &loadQueue{load: u.load, members: slices.Clone(u.subscribers[topic])}
	for _, i := range queue.members {
		for _, p := range u.has[i][topic] {
			taken[p] = true
		}
	}
	heap.Init(queue)
	for p, have := range taken {
		if !have {
			u.give(queue.members[0], topic, int32(p))
			heap.Fix(queue, 0)
		}
	}
}

// loadQueue is a heap of members, the least loaded first.
type loadQueue struct {
	load    []int
	members []int
}

func (q *loadQueue) Len() int { return len(q.members) }
func (q *loadQueue) Less(a, b int) bool {
	i, j := q.members[a], q.members[b]
	return q.load[i] < q.load[j] || q.load[i] == q.load[j] && i < j
}
func (q *loadQueue) Swap(a, b int) { q.members[a], q.members[b] = q.members[b], q.members[a] }
func (q *loadQueue) Push(any)      {}
func (q *loadQueue) Pop() any      { return nil }

// balance moves partitions while that evens out loads.
func (u *uniform) balance() {
	for moved := true; moved && u.work < maxBalanceWork; {
		moved = false
		order := u.byLoad()
		for rank, from := range order {
			next := 0
			if rank+1 < len(order) {
				next = u.load[order[rank+1]]
			}
			moved = u.lower(from, next) || moved
		}
	}
}

// lower moves partitions from a member while it has more than the next one, but at least one if that evens out loads.
func (u *uniform) lower(from, next int) (moved bool) {
	for u.work < maxBalanceWork {
		topic, to := u.taker(from)
		if to < 0 {
			break
		}
		u.give(to, topic, u.take(from, topic))
		moved = true
		if u.load[from] <= next {
			break
		}
	}
	return moved
}

// taker gives the least loaded member that could take something of this one, and of which topic; -1: none.
func (u *uniform) taker(from int) (topic kproto.TopicID, to int) {
	to = -1
	for _, t := range u.topics {
		if len(u.has[from][t]) == 0 {
			continue
		}
		u.work += len(u.subscribers[t])
		for _, i := range u.subscribers[t] {
			if u.load[i]+1 < u.load[from] && (to < 0 || u.load[i] < u.load[to]) {
				topic, to = t, i
			}
		}
	}
	return topic, to
}
