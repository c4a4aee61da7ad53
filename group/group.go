package group

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// group is what one group id stands for: offsets, and members that agree on who reads what by a protocol.
type group struct {
	id      string
	offsets offsets // hard
	writing bool    // records of it leave with this step

	classic
	modern
}

// classic is the part of the classic protocol in a group. All but recorded is soft.
type classic struct {
	recorded *generation // hard: what the newest GroupMetadata says; immutable; nil: there is none

	state State
	// since is when the state was last entered that matters for expiry, in milliseconds of the wall clock.
	since        int64
	generation   int32
	revived      bool   // the generation was found by a replay: members may have been told of a later one
	protocolType string // "" when nobody has ever joined
	protocol     string // chosen for this generation; "" when there are no members
	leader       string
	members      []*member           // in order of id
	known        map[string]int      // protocol name to the number of members that know it
	said         int                 // bytes of all that the members say for their protocols
	statics      map[string]*member  // by instance id
	pending      map[string]*pending // by id
	waiting      int                 // members that wait in JoinGroup
	unsynced     int                 // members that have yet to ask for their assignment
	assigned     int32               // the generation of the members' assignments
	owned        bool                // the newest Ownership order names somebody

	// phase is the time the members have to join or to sync.
	phase timer
	// initial is set during the first rebalance of an empty group.
	initial *initialDelay
}

// initialDelay is how long the first rebalance still waits for more members.
type initialDelay struct {
	since  time.Duration // running time at its start
	until  time.Duration // running time at which it ends, whoever comes
	last   time.Duration // running time at which somebody came last
	pause  time.Duration // the longest so far between two that came
	joined bool          // somebody did since the delay began
}

func newGroup(id string) *group { return &group{id: id, classic: classic{state: Empty}} }

func (g *group) find(id string) (int, bool) {
	return slices.BinarySearchFunc(g.members, id, func(m *member, id string) int { return cmp.Compare(m.id, id) })
}

// member gives nil when there is none.
func (g *group) member(id string) *member {
	if i, ok := g.find(id); ok {
		return g.members[i]
	}
	return nil
}

// check finds the member that a request comes from, as every request but a first join names it. The code is UNKNOWN_MEMBER_ID,
// or FENCED_INSTANCE_ID when the instance id has been taken over by another member.
func (g *group) check(id string, instance *string) (*member, int16) {
	if instance != nil {
		holder := g.statics[*instance]
		switch {
		case holder == nil:
			return nil, kproto.UnknownMemberID
		case holder.id != id:
			return nil, kproto.FencedInstanceID
		}
	}
	m := g.member(id)
	if m == nil {
		return nil, kproto.UnknownMemberID
	}
	return m, kproto.NoError
}

// checkMember is check for requests that also name a generation. The code is ILLEGAL_GENERATION when it is not this one, and
// REBALANCE_IN_PROGRESS, with the member, when it is one that the process before this one made and did not record: for those who
// were told of it the rebalance goes on. Kafka calls that illegal, too, after which clients give up what they have read without a commit.
func (g *group) checkMember(id string, instance *string, generation int32) (*member, int16) {
	m, code := g.check(id, instance)
	switch {
	case code != kproto.NoError, generation == g.generation:
		return m, code
	case g.revived && generation > g.generation:
		return m, kproto.RebalanceInProgress
	}
	return nil, kproto.IllegalGeneration
}

// add takes a member in. The first one decides the protocol type, and leads.
func (g *group) add(m *member, protocolType string) {
	if len(g.members) == 0 {
		g.protocolType = protocolType
	}
	i, _ := g.find(m.id)
	g.members = slices.Insert(g.members, i, m)
	g.count(m.protocols, +1)
	if m.static() {
		if g.statics == nil {
			g.statics = map[string]*member{}
		}
		g.statics[*m.instance] = m
	}
	if g.leader == "" {
		g.leader = m.id
	}
}

// remove takes a member out; who leads next is decided when the join is complete, by who is there.
func (g *group) remove(m *member) {
	i, ok := g.find(m.id)
	if !ok {
		return
	}
	g.members = slices.Delete(g.members, i, i+1)
	g.count(m.protocols, -1)
	g.expectSync(m, false)
	if m.static() && g.statics[*m.instance] == m {
		delete(g.statics, *m.instance)
	}
	if g.leader != m.id {
		return
	}
	g.leader = ""
	if len(g.members) > 0 {
		g.leader = g.members[0].id
	}
}

func (g *group) count(list []protocol, by int) {
	if g.known == nil {
		g.known = map[string]int{}
	}
	for _, p := range list {
		if g.known[p.name] += by; g.known[p.name] == 0 {
			delete(g.known, p.name)
		}
		g.said += by * p.size()
	}
}

// accepts tells whether a member with this type and these protocols can be with the others: they share a protocol.
func (g *group) accepts(protocolType string, list []kmsg.JoinGroupRequestProtocol) bool {
	if len(g.members) == 0 {
		return protocolType != "" && len(list) > 0
	}
	return g.protocolType == protocolType && slices.ContainsFunc(list, func(p kmsg.JoinGroupRequestProtocol) bool {
		return g.known[p.Name] == len(g.members)
	})
}

// choose lets each member vote for the protocol it likes best of those that all know. With equal votes the one wins that the
// first member likes better.
func (g *group) choose() string {
	votes := map[string]int{}
	for _, m := range g.members {
		for _, p := range m.protocols {
			if g.known[p.name] == len(g.members) {
				votes[p.name]++
				break
			}
		}
	}
	best := ""
	for _, p := range g.members[0].protocols {
		if votes[p.name] > votes[best] {
			best = p.name
		}
	}
	return best
}

// elect keeps the leader if it has joined, or else gives the lead to the first that has. It fails when nobody has.
func (g *group) elect() bool {
	if m := g.member(g.leader); m != nil && m.joining != 0 {
		return true
	}
	for _, m := range g.members {
		if m.joining != 0 {
			g.leader = m.id
			return true
		}
	}
	return false
}

// rebalanceTimeout is the longest of the members'.
func (g *group) rebalanceTimeout() (t time.Duration) {
	for _, m := range g.members {
		t = max(t, m.rebalance)
	}
	return t
}

// allJoined tells whether nobody is missing.
func (g *group) allJoined() bool { return g.waiting == len(g.members) && len(g.pending) == 0 }

// isConsumers tells whether the members assign topics, as Kafka's consumers do; Connect's workers for one do not.
func (g *group) isConsumers() bool { return g.protocolType == consumerProtocolType }
