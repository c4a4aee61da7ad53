package group

import (
	"cmp"
	"container/heap"
	"slices"

	"sluice/kproto"
)

// assignUniform spreads all partitions evenly: with equal subscriptions the members' loads differ by at most one. It leaves
// everybody what it had as far as that allows. First it gives what nobody has to the least loaded, then it moves
// partitions from the most loaded to the least loaded, one at a time, until no move makes the assignment more even.
func assignUniform(in assignorInput) []partitionSet {
	u := newUniform(in)
	for _, topic := range u.topics {
		u.place(topic)
	}
	u.balance()
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

// maxMoves bounds the work of evening out subscriptions that differ, which nobody needs to be perfect.
const maxMoves = 100_000

// uniform is an assignment in the making. Members are named by their place in the input.
type uniform struct {
	assignorInput
	topics      []kproto.TopicID
	subscribers map[kproto.TopicID][]int
	load        []int
	has         []map[kproto.TopicID][]int32
	alike       bool // every member is subscribed to every topic
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
	for range maxMoves {
		if !u.move() {
			return
		}
	}
}

// move finds the most loaded member that can give something to one with at least two less, and moves one partition.
func (u *uniform) move() bool {
	givers := make([]int, len(u.load))
	for i := range givers {
		givers[i] = i
	}
	slices.SortStableFunc(givers, func(i, j int) int { return cmp.Compare(u.load[j], u.load[i]) })
	for _, from := range givers {
		topic, to := u.taker(from)
		if to >= 0 {
			list := u.has[from][topic]
			last := len(list) - 1
			u.give(to, topic, list[last])
			u.has[from][topic] = list[:last]
			u.load[from]--
			return true
		}
		if u.alike {
			return false // nobody with less has anything that the most loaded could not give
		}
	}
	return false
}

// taker gives the least loaded member that could take something of this one, and of which topic; -1: none.
func (u *uniform) taker(from int) (topic kproto.TopicID, to int) {
	to = -1
	for _, t := range u.topics {
		if len(u.has[from][t]) == 0 {
			continue
		}
		for _, i := range u.subscribers[t] {
			if u.load[i]+1 < u.load[from] && (to < 0 || u.load[i] < u.load[to]) {
				topic, to = t, i
			}
		}
		if u.alike && to >= 0 {
			return topic, to
		}
	}
	return topic, to
}
