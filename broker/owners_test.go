package broker

import (
	"fmt"
	"math/rand/v2"
	"reflect"
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
	for _, x := range o.lookup(nil, topic, partition, now) {
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
	o.set(1, group.Ownership{Group: "g", Members: []group.Owner{
		owns("x", 1, map[string][]int32{"a": {0, 1}, "b": {1}}), owns("y", 1, map[string][]int32{"a": {2, 3}}),
	}}, now)
	o.set(2, group.Ownership{Group: "h", Members: []group.Owner{owns("z", 7, map[string][]int32{"a": {0}})}}, now)
	expect("two groups", "a", 0, "g/x@1", "h/z@7")
	expect("one group", "b", 1, "g/x@1")
	if x := o.lookup(nil, "b", 1, now)[0]; x.clientID != "client-x" || x.host != "/10.0.0.1" || x.rack != "r1" {
		t.Errorf("%+v", x)
	}
	changes := o.changes.Load()

	now = now.Add(time.Second)
	o.set(1, group.Ownership{Group: "g", Members: []group.Owner{
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
	o.set(1, group.Ownership{Group: "g", Members: []group.Owner{owns("y", 2, map[string][]int32{"a": {2}})}}, now)
	expect("come again", "a", 2, "g/y@2")
	now = now.Add(drainTime)
	expect("come again for good", "a", 2, "g/y@2")
	expect("not come again", "a", 3)

	o.topicDeleted("a")
	expect("deleted", "a", 2)
	o.set(1, group.Ownership{Group: "g"}, now)
	o.set(2, group.Ownership{Group: "h"}, now)
	o.set(2, group.Ownership{Group: "h"}, now.Add(drainTime))
	if len(o.groups) > 0 || len(o.ending) > 1 {
		t.Errorf("remains: %v %v", o.groups, o.ending)
	}
}

// What a client assigns need not exist.
func TestOwnersOfNothing(t *testing.T) {
	o := testOwners()
	own := group.Ownership{Group: "g", Members: []group.Owner{owns("x", 1, map[string][]int32{"a": {-1, 4, 1 << 30, 3, 3}, "no": {0}})}}
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
		rnd := rand.New(rand.NewPCG(seed, 1))
		o, now := testOwners(), ownersEpoch
		model := map[string][2]map[string]string{} // by group: what was, what is; partition to owner
		lost := map[string]time.Time{}
		for step := range 30 {
			now = now.Add(time.Duration(rnd.Int64N(int64(20 * time.Second))))
			name := fmt.Sprint("g", rnd.IntN(3))
			own, is := randomOwnership(rnd, name, int32(step))
			o.set(0, own, now)
			model[name] = [2]map[string]string{model[name][1], is}
			lost[name] = now
			for _, topic := range []string{"a", "b"} {
				for p := range int32(4) {
					at := fmt.Sprint(topic, p)
					var want []string
					for g, m := range model {
						if m[1][at] != "" {
							want = append(want, m[1][at])
						}
						if was := m[0][at]; was != "" && now.Before(lost[g].Add(drainTime)) && member(was) != member(m[1][at]) {
							want = append(want, was)
						}
					}
					slices.Sort(want)
					if got := o.who(topic, p, now); !slices.Equal(got, want) {
						t.Fatalf("seed %d step %d: %s belongs to %v, want %v", seed, step, at, got, want)
					}
				}
			}
		}
		for name := range model {
			o.set(0, group.Ownership{Group: name}, now)
		}
		now = now.Add(drainTime)
		o.set(0, group.Ownership{Group: "other"}, now)
		for topic, all := range o.topics {
			for p, claims := range all {
				if len(claims) > 0 {
					t.Fatalf("seed %d: %s-%d still belongs to somebody", seed, topic, p)
				}
			}
		}
		if !reflect.DeepEqual(o.groups, map[string]*groupClaims{}) || len(o.ending) > 0 {
			t.Fatalf("seed %d: remains: %v %v", seed, o.groups, o.ending)
		}
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

// randomOwnership deals the partitions out to three members or nobody.
func randomOwnership(rnd *rand.Rand, name string, epoch int32) (group.Ownership, map[string]string) {
	is := map[string]string{}
	members := map[string]map[string][]int32{}
	for _, topic := range []string{"a", "b"} {
		for p := range map[string]int32{"a": 4, "b": 2}[topic] {
			id := []string{"", "x", "y", "z"}[rnd.IntN(4)]
			if id == "" {
				continue
			}
			if members[id] == nil {
				members[id] = map[string][]int32{}
			}
			members[id][topic] = append(members[id][topic], p)
			is[fmt.Sprint(topic, p)] = fmt.Sprintf("%s/%s@%d", name, id, epoch)
		}
	}
	own := group.Ownership{Group: name}
	for id, ps := range members {
		own.Members = append(own.Members, owns(id, epoch, ps))
	}
	return own, is
}
