package broker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sluice/group"
)

var ownersEpoch = time.Unix(1_000_000, 0)

func testOwners() *owners {
	return newOwners(func(topic string) int32 { return map[string]int32{"a": 4, "b": 2}[topic] })
}

func owns(member string, epoch int32, partitions map[string][]int32) group.Owner {
	return group.Owner{MemberID: member, Client: group.Client{ID: "client-" + member, Host: "/10.0.0.1"}, RackID: "r1", Epoch: epoch, Partitions: partitions}
}

// who tells the owners of a partition as "group/member@epoch".
func (o *owners) who(topic string, partition int32, now time.Time) []string {
	var out []string
	var f found
	o.lookup(&f, topic, partition, now)
	for _, x := range f.claims {
		out = append(out, fmt.Sprintf("%s/%s@%d", x.group, x.member, x.epoch))
	}
	slices.Sort(out)
	return out
}

func TestOwners(t *testing.T) {
	o, now := testOwners(), ownersEpoch
	expect := func(what, topic string, partition int32, want ...string) {
		t.Helper()
		if got := o.who(topic, partition, now); !slices.Equal(got, want) {
			t.Errorf("%s: %s-%d belongs to %v, want %v", what, topic, partition, got, want)
		}
	}
	expect("nothing yet", "a", 0)
	o.set(1, group.Ownership{All: true, Group: "g", Members: []group.Owner{
		owns("x", 1, map[string][]int32{"a": {0, 1}, "b": {1}}), owns("y", 1, map[string][]int32{"a": {2, 3}}),
	}}, now)
	o.set(2, group.Ownership{All: true, Group: "h", Members: []group.Owner{owns("z", 7, map[string][]int32{"a": {0}})}}, now)
	expect("two groups", "a", 0, "g/x@1", "h/z@7")
	expect("one group", "b", 1, "g/x@1")
	var f found
	o.lookup(&f, "b", 1, now)
	if x := f.claims[0]; x.clientID != "client-x" || x.host != "/10.0.0.1" || x.rack != "r1" {
		t.Errorf("%+v", x)
	}
	changes := o.changes.Load()

	now = now.Add(time.Second)
	o.set(1, group.Ownership{All: true, Group: "g", Members: []group.Owner{
		owns("x", 2, map[string][]int32{"a": {0}}), owns("y", 2, map[string][]int32{"a": {1, 2, 3}}),
	}}, now)
	if o.changes.Load() == changes {
		t.Error("a change does not show")
	}
	expect("kept, told of once", "a", 0, "g/x@2", "h/z@7")
	expect("moved, the last owner drains", "a", 1, "g/x@1", "g/y@2")
	expect("nobody's, the last owner drains", "b", 1, "g/x@1")

	now = now.Add(drainTime - 1)
	expect("still draining", "a", 1, "g/x@1", "g/y@2")
	now = now.Add(1)
	expect("drained", "a", 1, "g/y@2")
	expect("drained", "b", 1)

	o.forget(1, now) // the machine of g is lost, and comes again
	expect("lost", "a", 2, "g/y@2")
	expect("another shard", "a", 0, "g/x@2", "h/z@7")
	o.set(1, group.Ownership{All: true, Group: "g", Members: []group.Owner{owns("y", 2, map[string][]int32{"a": {2}})}}, now)
	expect("come again", "a", 2, "g/y@2")
	now = now.Add(drainTime)
	expect("come again for good", "a", 2, "g/y@2")
	expect("not come again", "a", 3)

	o.topicDeleted("a")
	expect("deleted", "a", 2)
	o.set(1, group.Ownership{All: true, Group: "g"}, now)
	o.set(2, group.Ownership{All: true, Group: "h"}, now)
	o.set(2, group.Ownership{All: true, Group: "h"}, now.Add(drainTime))
	if len(o.groups) > 0 || len(o.ended) > 0 {
		t.Errorf("remains: %v %v", o.groups, o.ended)
	}
}

// What a client assigns need not exist.
func TestOwnersOfNothing(t *testing.T) {
	o := testOwners()
	own := group.Ownership{All: true, Group: "g", Members: []group.Owner{owns("x", 1, map[string][]int32{"a": {-1, 4, 1 << 30, 3, 3}, "no": {0}})}}
	o.set(0, own, ownersEpoch)
	if got := o.who("a", 3, ownersEpoch); len(got) != 1 {
		t.Errorf("a-3 belongs to %v", got)
	}
	for _, p := range []int32{-1, 4, 1 << 30} {
		if got := o.who("a", p, ownersEpoch); got != nil {
			t.Errorf("a-%d belongs to %v", p, got)
		}
	}
	if len(o.topics) != 1 || len(o.topics["a"]) != 4 {
		t.Errorf("topics: %v", o.topics)
	}
}

// The index says what a list of all changes says, and holds nothing when all is over.
func TestOwnersModel(t *testing.T) {
	for seed := range uint64(300) {
		m := ownersModel{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), seed: seed, index: testOwners(), now: ownersEpoch,
			owns: map[modelKey]string{}, was: map[modelKey]string{}, lost: map[modelKey]time.Time{}}
		for range 40 {
			m.step()
		}
		m.end()
	}
}

type modelKey struct {
	group, topic string
	partition    int32
}

// ownersModel keeps for each group and partition who owns it, who did before, and since when not.
type ownersModel struct {
	t     *testing.T
	rnd   *rand.Rand
	seed  uint64
	epoch int32
	index *owners
	now   time.Time
	owns  map[modelKey]string
	was   map[modelKey]string
	lost  map[modelKey]time.Time
}

var modelPartitions = []modelKey{{"", "a", 0}, {"", "a", 1}, {"", "a", 2}, {"", "a", 3}, {"", "b", 0}, {"", "b", 1}}

// step deals out the partitions of a group anew: all of them, or those of two members.
func (m *ownersModel) step() {
	m.now = m.now.Add(time.Duration(m.rnd.Int64N(int64(12 * time.Second))))
	m.epoch++
	own := group.Ownership{Group: fmt.Sprint("g", m.rnd.IntN(3)), All: m.rnd.IntN(2) == 0}
	dealt := []string{"x", "y", "z"}
	if !own.All {
		dealt = dealt[:2]
	}
	has := map[string]map[string][]int32{}
	for _, id := range dealt {
		has[id] = map[string][]int32{}
	}
	for _, k := range modelPartitions {
		k.group = own.Group
		owner, dealer := m.owns[k], ""
		if !own.All && owner != "" && member(owner) == own.Group+"/z" {
			continue
		}
		if i := m.rnd.IntN(len(dealt) + 1); i < len(dealt) {
			id := dealt[i]
			has[id][k.topic] = append(has[id][k.topic], k.partition)
			dealer = fmt.Sprintf("%s/%s@%d", own.Group, id, m.epoch)
		}
		m.change(k, owner, dealer)
	}
	for _, id := range dealt {
		if !own.All || len(has[id]) > 0 {
			own.Members = append(own.Members, owns(id, m.epoch, has[id]))
		}
	}
	m.index.set(0, own, m.now)
	m.compare()
}

func (m *ownersModel) change(k modelKey, from, to string) {
	if from != "" && member(from) != member(to) {
		m.was[k], m.lost[k] = from, m.now
	}
	if m.was[k] != "" && member(m.was[k]) == member(to) {
		delete(m.was, k)
	}
	m.owns[k] = to
}

func (m *ownersModel) compare() {
	for _, at := range modelPartitions {
		var want []string
		for _, name := range []string{"g0", "g1", "g2"} {
			k := modelKey{name, at.topic, at.partition}
			if m.owns[k] != "" {
				want = append(want, m.owns[k])
			}
			if m.was[k] != "" && m.now.Before(m.lost[k].Add(drainTime)) {
				want = append(want, m.was[k])
			}
		}
		slices.Sort(want)
		if got := m.index.who(at.topic, at.partition, m.now); !slices.Equal(got, want) {
			m.t.Fatalf("seed %d, epoch %d: %s-%d belongs to %v, want %v", m.seed, m.epoch, at.topic, at.partition, got, want)
		}
	}
}

func (m *ownersModel) end() {
	for _, name := range []string{"g0", "g1", "g2"} {
		m.index.set(0, group.Ownership{All: true, Group: name}, m.now)
	}
	m.index.set(0, group.Ownership{Group: "other"}, m.now.Add(drainTime))
	for topic, all := range m.index.topics {
		for p, x := range all {
			if len(x.claims) > 0 {
				m.t.Fatalf("seed %d: %s-%d still belongs to somebody", m.seed, topic, p)
			}
		}
	}
	if len(m.index.groups) > 0 || len(m.index.ended) > 0 || m.index.past != 0 {
		m.t.Fatalf("seed %d: remains: %v %v %d", m.seed, m.index.groups, m.index.ended, m.index.past)
	}
}

func member(s string) string {
	for i := range s {
		if s[i] == '@' {
			return s[:i]
		}
	}
	return s
}
