package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// Versions of JoinGroup from which on it means something else.
const (
	joinKnownMember    = 4 // KIP-394: a dynamic member comes back with the id that it is given
	joinSkipAssignment = 9 // KIP-814: a static leader that returns is told everything, and not to assign
)

// joiner is a JoinGroup on its way.
type joiner struct {
	ticket uint64
	Join
}

func (m *Machine) join(ticket uint64, ev Join) {
	j := &joiner{ticket, ev}
	if code := m.checkJoin(ev); code != kproto.NoError {
		m.refuseJoin(j, ev.Req.MemberID, code)
		return
	}
	g := m.groups[ev.Req.Group]
	if g != nil && g.consumers != nil {
		if g.hasMembers() {
			m.joinMixed(g, j)
			return
		}
		if ev.Req.MemberID == "" {
			m.becomeClassic(g)
		}
	}
	if ev.Req.MemberID == "" {
		var ok bool
		if g, ok = m.obtain(ev.Req.Group); !ok {
			m.refuseJoin(j, "", kproto.PolicyViolation)
			return
		}
	}
	if g == nil {
		m.refuseJoin(j, ev.Req.MemberID, kproto.UnknownMemberID)
		return
	}
	m.joinGroup(g, j)
	m.forgetIfNothing(g)
}

// checkJoin judges what needs no group.
func (m *Machine) checkJoin(ev Join) int16 {
	r := ev.Req
	session := millis(r.SessionTimeoutMillis)
	switch {
	case r.Group == "", len(r.Group) > maxName:
		return kproto.InvalidGroupID
	case session < m.settings.MinSessionTimeout || session > m.settings.MaxSessionTimeout:
		return kproto.InvalidSessionTimeout
	case longName(r.ProtocolType, ev.Client.ID, ev.Client.Host), r.InstanceID != nil && longName(*r.InstanceID), !reasonable(r.Protocols):
		return kproto.InvalidRequest
	}
	return kproto.NoError
}

func longName(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return len(name) > maxName })
}

// reasonable refuses what no client sends: too much, or a protocol twice.
func reasonable(list []kmsg.JoinGroupRequestProtocol) bool {
	if len(list) > maxProtocols {
		return false
	}
	names := make(map[string]bool, len(list))
	for _, p := range list {
		names[p.Name] = true
		if longName(p.Name) {
			return false
		}
	}
	return sizeOf(list) <= maxMemberMetadata && len(names) == len(list)
}

func (m *Machine) joinGroup(g *group, j *joiner) {
	id := j.Req.MemberID
	switch {
	case !m.hasRoom(g, id) || g.saidWith(id, j.Req.Protocols) > maxGroupMetadata:
		m.refuseJoin(j, "", kproto.GroupMaxSizeReached)
		m.turnAway(g, id)
	case !g.accepts(j.Req.ProtocolType, j.Req.Protocols):
		m.refuseJoin(j, id, kproto.InconsistentGroupProtocol)
	case id != "":
		m.joinKnown(g, j)
	case j.Req.InstanceID != nil:
		m.joinStatic(g, j)
	case j.Req.Version >= joinKnownMember:
		m.giveID(g, j)
	default:
		m.joinNew(g, j, j.NewMemberID)
	}
}

// turnAway ends what an id stood for whose owner finds no room, so that nobody waits for it.
func (m *Machine) turnAway(g *group, id string) {
	if member := g.member(id); member != nil {
		m.removeAndGoOn(member)
	} else if p := g.pending[id]; p != nil {
		m.removePending(p)
		m.completeIfJoined(g)
	}
}

// hasRoom tells whether one more may join. While the group prepares, those that wait count and not those that may never come back.
func (m *Machine) hasRoom(g *group, id string) bool {
	member := g.member(id)
	switch g.state {
	case PreparingRebalance:
		return member != nil && member.joining != 0 || g.waiting < m.settings.MaxSize
	case CompletingRebalance, Stable:
		return member != nil || len(g.members) < m.settings.MaxSize
	}
	return true
}

// saidWith is the bytes of all that the members will have said with these protocols of one of them, or of another.
func (g *group) saidWith(id string, list []kmsg.JoinGroupRequestProtocol) int {
	said := g.said + sizeOf(list)
	if member := g.member(id); member != nil {
		for _, p := range member.protocols {
			said -= p.size()
		}
	}
	return said
}

func sizeOf(list []kmsg.JoinGroupRequestProtocol) (size int) {
	for _, p := range list {
		size += len(p.Name) + len(p.Metadata)
	}
	return size
}

// giveID has the client come back with an id, so that a client whose first JoinGroup was lost does not leave a member behind.
func (m *Machine) giveID(g *group, j *joiner) {
	if len(g.pending) >= maxPendingMembers {
		m.refuseJoin(j, "", kproto.GroupMaxSizeReached)
		return
	}
	p := &pending{g: g, id: j.NewMemberID}
	if g.pending == nil {
		g.pending = map[string]*pending{}
	}
	g.pending[p.id] = p
	m.start(&p.alive, millis(j.Req.SessionTimeoutMillis), p)
	m.refuseJoin(j, p.id, kproto.MemberIDRequired)
	if g.initial != nil && m.gathers() {
		m.comes(g)
	}
}

func (m *Machine) removePending(p *pending) {
	m.stop(&p.alive)
	delete(p.g.pending, p.id)
	if len(p.g.pending) == 0 {
		p.g.pending = nil
	}
}

// joinStatic lets a static member in that has no id, for it is new or was restarted.
func (m *Machine) joinStatic(g *group, j *joiner) {
	if old := g.statics[*j.Req.InstanceID]; old != nil {
		m.joinReplacing(g, old, j)
		return
	}
	m.joinNew(g, j, j.NewMemberID)
}

// joinNew adds a member and begins a rebalance for it, or joins the one that is under way.
func (m *Machine) joinNew(g *group, j *joiner, id string) {
	member := &member{
		g:         g,
		id:        id,
		instance:  j.Req.InstanceID,
		client:    j.Client,
		session:   millis(j.Req.SessionTimeoutMillis),
		rebalance: rebalanceTimeout(j.Req),
		protocols: copyProtocols(j.Req.Protocols),
		joining:   j.ticket,
		fresh:     true,
	}
	g.add(member, j.Req.ProtocolType)
	g.waiting++
	m.start(&member.alive, newMemberJoinTimeout, member)
	if g.initial != nil {
		m.comes(g)
		return
	}
	m.rebalance(g)
}

// joinKnown answers a JoinGroup with a member id: of a member, or one that was given out.
func (m *Machine) joinKnown(g *group, j *joiner) {
	id := j.Req.MemberID
	if p := g.pending[id]; p != nil && j.Req.InstanceID == nil {
		m.removePending(p)
		m.joinNew(g, j, id)
		return
	}
	member, code := g.check(id, j.Req.InstanceID)
	if code != kproto.NoError {
		m.refuseJoin(j, id, code)
		return
	}
	unchanged := member.speaks(j.Req.Protocols)
	switch {
	case g.state == CompletingRebalance && unchanged:
		m.answerJoin(j.ticket, member) // it may not have got the first answer
	case g.state == Stable && unchanged && g.leader != id:
		m.answerJoin(j.ticket, member)
	default: // the leader asks for a rebalance by joining
		m.update(g, member, j)
		m.rebalance(g)
	}
}

// update takes over what a member says in a new JoinGroup, and lets it wait.
func (m *Machine) update(g *group, member *member, j *joiner) {
	g.count(member.protocols, -1)
	member.protocols = copyProtocols(j.Req.Protocols)
	g.count(member.protocols, +1)
	member.rebalance = rebalanceTimeout(j.Req)
	member.session = millis(j.Req.SessionTimeoutMillis)
	m.endJoin(member, joinError(member.id, kproto.RebalanceInProgress)) // of an earlier JoinGroup, on a connection that is given up
	member.joining = j.ticket
	g.waiting++
}

// endJoin answers a member that waits in JoinGroup, if it does.
func (m *Machine) endJoin(member *member, r *kmsg.JoinGroupResponse) {
	if member.joining == 0 {
		return
	}
	m.reply(member.joining, r)
	member.joining = 0
	member.g.waiting--
}

// answerJoin tells a member of the current generation, and the leader of all its members.
func (m *Machine) answerJoin(ticket uint64, member *member) {
	g := member.g
	r := g.joined(member)
	if g.leader == member.id {
		r.Members = g.roster()
	}
	m.reply(ticket, r)
}

func (m *Machine) refuseJoin(j *joiner, memberID string, code int16) {
	m.reply(j.ticket, joinError(memberID, code))
}

func joinError(memberID string, code int16) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	r.ErrorCode = code
	r.Generation = -1
	r.MemberID = memberID
	return r
}

func (g *group) joined(member *member) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	r.Generation = g.generation
	r.ProtocolType = kmsg.StringPtr(g.protocolType)
	r.Protocol = kmsg.StringPtr(g.protocol)
	r.LeaderID = g.leader
	r.MemberID = member.id
	return r
}

// roster is what the leader needs to assign.
func (g *group) roster() []kmsg.JoinGroupResponseMember {
	out := make([]kmsg.JoinGroupResponseMember, len(g.members))
	for i, m := range g.members {
		out[i] = kmsg.NewJoinGroupResponseMember()
		out[i].MemberID = m.id
		out[i].InstanceID = m.instance
		out[i].ProtocolMetadata = m.metadata(g.protocol)
	}
	return out
}

// rebalanceTimeout of version 0, which has none, is the session timeout.
func rebalanceTimeout(r *kmsg.JoinGroupRequest) time.Duration {
	if r.RebalanceTimeoutMillis < 0 {
		return millis(r.SessionTimeoutMillis)
	}
	return millis(r.RebalanceTimeoutMillis)
}

func millis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }
