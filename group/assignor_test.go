package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"sluice/kproto"
)

// assignorCase is members, what they are subscribed to, and topics, at random.
type assignorCase struct {
	rand *rand.Rand
	assignorInput
	next int
}

func newAssignorCase(seed uint64, alike bool) *assignorCase {
	c := &assignorCase{rand: rand.New(rand.NewPCG(seed, 7))}
	c.partitions = map[kproto.TopicID]int32{}
	var topics []kproto.TopicID
	for i := range 1 + c.rand.IntN(4) {
		id := testTopicID(fmt.Sprint("t", i))
		topics = append(topics, id)
		c.partitions[id] = int32(c.rand.IntN(12))
	}
	for range 1 + c.rand.IntN(7) {
		c.join(topics, alike)
	}
	return c
}

func (c *assignorCase) join(topics []kproto.TopicID, alike bool) {
	c.next++
	m := assignorMember{id: fmt.Sprintf("m%02d", c.next)}
	for _, t := range topics {
		if alike || c.rand.IntN(2) == 0 {
			m.topics = append(m.topics, t)
		}
	}
	if c.rand.IntN(4) == 0 {
		instance := fmt.Sprint("i", 100-c.next)
		m.instance = &instance
	}
	c.members = append(c.members, m)
}

// assign runs an assignor and checks what holds of every assignment: each partition that somebody wants is given to exactly one
// of those that want it, and nothing else is given.
func (c *assignorCase) assign(t *testing.T, name string) []partitionSet {
	t.Helper()
	out := assignors[name](c.assignorInput)
	owners := map[topicPartition]int{}
	for i, set := range out {
		for _, p := range set {
			owners[p]++
			if !slices.Contains(c.members[i].topics, p.topic) || p.partition >= c.partitions[p.topic] || owners[p] > 1 {
				t.Fatalf("%s: %v goes to %s among %d", name, p, c.members[i].id, owners[p])
			}
		}
	}
	for topic, n := range c.partitions {
		if slices.ContainsFunc(c.members, func(m assignorMember) bool { return slices.Contains(m.topics, topic) }) {
			for p := range n {
				if owners[topicPartition{topic, p}] != 1 {
					t.Fatalf("%s: %v:%d is nobody's", name, topic, p)
				}
			}
		}
	}
	return out
}

func loads(out []partitionSet) (least, most int) {
	least = len(out[0])
	for _, s := range out {
		least, most = min(least, len(s)), max(most, len(s))
	}
	return least, most
}

// TestUniformWithEqualSubscriptions: the loads differ by at most one, and no partition moves that need not: what a
// member keeps is all it had, up to its share.
func TestUniformWithEqualSubscriptions(t *testing.T) {
	for seed := range uint64(2_000) {
		c := newAssignorCase(seed, true)
		for range 4 {
			out := c.assign(t, assignorUniform)
			if least, most := loads(out); most > least+1 {
				t.Fatalf("seed %d: loads from %d to %d", seed, least, most)
			}
			if got, want := moved(c.members, out), c.fewestMoves(); got != want {
				t.Fatalf("seed %d: %d partitions move, and %d must", seed, got, want)
			}
			c.change(out, true)
		}
	}
}

// moved counts the partitions that a member had and has no more.
func moved(members []assignorMember, out []partitionSet) (n int) {
	for i, m := range members {
		n += len(m.had.minus(out[i]))
	}
	return n
}

// fewestMoves is what members have beyond their share, where as many of those with most as there are larger shares keep one
// more; and what is gone.
func (c *assignorCase) fewestMoves() (n int) {
	total := 0
	for _, p := range c.partitions {
		total += int(p)
	}
	share, larger := total/len(c.members), total%len(c.members)
	var has []int
	for _, m := range c.members {
		left := m.had.filter(func(p topicPartition) bool { return p.partition < c.partitions[p.topic] })
		n += len(m.had) - len(left)
		has = append(has, len(left))
	}
	slices.SortFunc(has, func(a, b int) int { return b - a })
	for i, h := range has {
		allowed := share
		if i < larger {
			allowed++
		}
		n += max(0, h-allowed)
	}
	return n
}

// change takes the assignment over, and lets something happen.
func (c *assignorCase) change(out []partitionSet, alike bool) {
	for i := range c.members {
		c.members[i].had = out[i]
	}
	var topics []kproto.TopicID
	for t := range c.partitions {
		topics = append(topics, t)
	}
	slices.SortFunc(topics, func(a, b kproto.TopicID) int { return slices.Compare(a[:], b[:]) })
	switch c.rand.IntN(3) {
	case 0:
		c.join(topics, alike)
	case 1:
		if len(c.members) > 1 {
			i := c.rand.IntN(len(c.members))
			c.members = slices.Delete(c.members, i, i+1)
		}
	case 2:
		c.partitions[topics[c.rand.IntN(len(topics))]] += int32(c.rand.IntN(5))
	}
}

// TestUniformWithOtherSubscriptions: no single move makes it more even, and an assignment that is even stays as it is.
func TestUniformWithOtherSubscriptions(t *testing.T) {
	for seed := range uint64(2_000) {
		c := newAssignorCase(seed, false)
		for range 4 {
			out := c.assign(t, assignorUniform)
			for i, s := range out {
				for _, p := range s {
					for j, m := range c.members {
						if slices.Contains(m.topics, p.topic) && len(out[j])+1 < len(out[i]) {
							t.Fatalf("seed %d: %s has %d partitions, and %s, which could have %v, has %d", seed, c.members[i].id, len(s), m.id, p, len(out[j]))
						}
					}
				}
			}
			c.change(out, false)
			for i := range c.members {
				if i < len(out) {
					c.members[i].had = nil
				}
			}
			even := c.assign(t, assignorUniform)
			for i := range c.members {
				c.members[i].had = even[i]
			}
			if again := c.assign(t, assignorUniform); moved(c.members, again) != 0 {
				t.Fatalf("seed %d: partitions move, and nothing has happened", seed)
			}
		}
	}
}

// TestRange: a member has neighbouring partitions of each topic, and members with equal subscriptions the same of topics with the same number.
func TestRange(t *testing.T) {
	for seed := range uint64(500) {
		c := newAssignorCase(seed, seed%2 == 0)
		out := c.assign(t, assignorRange)
		for i, s := range out {
			byCount := map[int32][]int32{}
			s.byTopic(func(topic kproto.TopicID, partitions []int32) {
				if last := partitions[len(partitions)-1]; int(last-partitions[0]) != len(partitions)-1 {
					t.Fatalf("seed %d: %s has %v of a topic", seed, c.members[i].id, partitions)
				}
				n := c.partitions[topic]
				if before, ok := byCount[n]; ok && seed%2 == 0 && !slices.Equal(before, partitions) {
					t.Fatalf("seed %d: %s has %v and %v of topics with %d", seed, c.members[i].id, before, partitions, n)
				}
				byCount[n] = partitions
			})
		}
	}
}

// A static member that comes back under another id has the same place in the ranges.
func TestRangeOfStaticMembers(t *testing.T) {
	one, two := "one", "two"
	topic := testTopicID("t")
	in := assignorInput{partitions: map[kproto.TopicID]int32{topic: 5}, members: []assignorMember{
		{id: "a", topics: []kproto.TopicID{topic}},
		{id: "b", instance: &two, topics: []kproto.TopicID{topic}},
		{id: "c", instance: &one, topics: []kproto.TopicID{topic}},
	}}
	out := assignByRange(in)
	if len(out[0]) != 1 || out[2][0].partition != 0 || out[1][0].partition != 2 {
		t.Errorf("%v", out)
	}
}

func TestPreferredAssignor(t *testing.T) {
	uniform, byRange := []string{assignorUniform, assignorRange}, []string{assignorRange, assignorUniform}
	for _, x := range []struct {
		votes, want string
		offered     []string
	}{
		{"", "uniform", uniform}, {"r", "range", uniform}, {"ru", "uniform", uniform}, {"rru", "range", uniform}, {"r--", "range", uniform}, {"uu-r", "uniform", uniform},
		{"", "range", byRange}, {"u", "uniform", byRange}, {"ru--", "range", byRange}, {"uur", "uniform", byRange},
		{"rr", "uniform", uniform[:1]}, // recorded before range was taken off the list
	} {
		var members []*consumerMember
		for _, v := range x.votes {
			members = append(members, &consumerMember{assignor: map[rune]string{'r': assignorRange, 'u': assignorUniform, '-': ""}[v]})
		}
		if got := preferredAssignor(members, x.offered); got != x.want {
			t.Errorf("%q: %s", x.votes, got)
		}
	}
}

// BenchmarkUniform is of as many members as partitions, in what costs most: one more member comes; all partitions are one member's; and
// they are, and half of the members are subscribed to another topic as well.
func BenchmarkUniform(b *testing.B) {
	t, u := testTopicID("t"), testTopicID("u")
	for _, n := range []int{100, 1000, 10_000} {
		in := assignorInput{partitions: map[kproto.TopicID]int32{t: int32(n), u: int32(n)}}
		for i := range n {
			in.members = append(in.members, assignorMember{id: fmt.Sprintf("%04d", i), topics: []kproto.TopicID{t}})
		}
		run := func(name string) {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				for b.Loop() {
					assignUniform(in)
				}
			})
		}
		all := assignUniform(assignorInput{members: in.members[:1], partitions: in.partitions})[0]
		for i, s := range assignUniform(in) {
			in.members[i].had = s
		}
		in.members[n-1].had = nil
		run("join")
		for i := range in.members {
			in.members[i].had = nil
		}
		in.members[0].had = all
		run("all-of-one")
		for i := range n / 2 {
			in.members[2*i].topics = []kproto.TopicID{t, u}
		}
		run("differing")
	}
}
