package group

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// phase is where a client believes to stand.
type phase int

const (
	outside phase = iota // to join
	joining
	joined // to sync
	syncing
	stable
)

// consumer is a client of the classic protocol.
type consumer struct {
	l        *life
	name     string
	group    string
	instance *string
	gone     bool // fenced, or it has crashed and not come back
	asleep   bool // its application is stuck; its heartbeats go on, and it does not hear what they are answered

	id         string
	ids        int
	generation int32
	phase      phase
	life       int      // replies to an earlier one are not heard
	roster     []string // of a leader
	skip       bool     // a leader that need not assign
}

// goOn does what comes next.
func (c *consumer) goOn() {
	if c.asleep {
		c.heartbeat()
		c.l.advance(2 * time.Second)
		return
	}
	switch c.phase {
	case outside:
		c.joinWith(c.id)
	case joined:
		c.syncUp()
	case stable:
		c.heartbeat()
	}
}

// behave is goOn of a client that is there, with the heartbeats that it owes.
func (c *consumer) behave() {
	if c.gone {
		return
	}
	c.asleep = false
	for range 4 {
		if c.phase == stable {
			break
		}
		c.goOn()
	}
	if c.generation >= 0 && c.phase != joining {
		c.heartbeat()
	}
}

// ask sends a request, and hears the reply unless it has crashed meanwhile.
func (c *consumer) ask(ev any, done func(v any)) {
	life := c.life
	c.l.do(ev, func(v any, err error) {
		switch {
		case life != c.life:
		case err != nil:
			c.phase = outside // it has lost its coordinator, and joins again
		default:
			done(v)
		}
	})
}

func (c *consumer) joinWith(id string) {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version = 9
	if c.l.rand.IntN(8) == 0 {
		r.Version = 3
	}
	r.Group, r.MemberID, r.InstanceID = c.group, id, c.instance
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = int32(lifeSession.Milliseconds()), int32(lifeRebalance.Milliseconds())
	r.ProtocolType = "consumer"
	metadata := kmsg.ConsumerMemberMetadata{Topics: []string{"t"}, UserData: []byte{byte(c.l.rand.IntN(2))}}
	for _, p := range []string{"range", "sticky"}[:1+c.l.rand.IntN(2)] {
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: metadata.AppendTo(nil)})
	}
	c.ids++
	c.phase, c.gone = joining, false
	c.ask(Join{r, Client{ID: c.name, Host: "/h"}, fmt.Sprintf("%s-%d", c.name, c.ids)}, func(v any) { c.joinAnswered(v.(*kmsg.JoinGroupResponse)) })
}

func (c *consumer) joinAnswered(r *kmsg.JoinGroupResponse) {
	if r.ErrorCode != kproto.NoError {
		if r.ErrorCode == kproto.MemberIDRequired {
			c.id = r.MemberID
		}
		c.refused(r.ErrorCode)
		return
	}
	c.id, c.generation, c.phase = r.MemberID, r.Generation, joined
	c.roster, c.skip = nil, r.SkipAssignment
	for _, m := range r.Members {
		c.roster = append(c.roster, m.MemberID)
	}
}

// refused takes what a code means to a consumer.
func (c *consumer) refused(code int16) {
	c.phase = outside
	switch code {
	case kproto.MemberIDRequired, kproto.RebalanceInProgress:
	case kproto.FencedInstanceID:
		c.gone, c.id = true, ""
		c.life++
	default:
		c.id, c.generation = "", -1
	}
}

func (c *consumer) syncUp() {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version = 5
	r.Group, r.MemberID, r.Generation, r.InstanceID = c.group, c.id, c.generation, c.instance
	if len(c.roster) > 0 && !c.skip {
		r.GroupAssignment = c.assignAll()
	}
	c.phase = syncing
	id, generation, deletions := c.id, c.generation, c.l.deletions[c.group]
	c.ask(Sync{r}, func(v any) {
		resp := v.(*kmsg.SyncGroupResponse)
		for _, p := range decodeAssignment(resp.MemberAssignment)["t"] {
			c.l.owns(c, id, deletions, generation, p)
		}
		switch {
		case c.phase != syncing || c.generation != generation: // the answer to another request came first, and has sent it elsewhere
		case resp.ErrorCode != kproto.NoError:
			c.refused(resp.ErrorCode)
		default:
			c.phase = stable
		}
	})
}

// assignAll deals the partitions out, beginning anywhere.
func (c *consumer) assignAll() (out []kmsg.SyncGroupRequestGroupAssignment) {
	start := c.l.rand.IntN(len(c.roster))
	for i, id := range c.roster {
		var parts []int32
		for p := range int32(lifePartitions) {
			if (int(p)+start)%len(c.roster) == i {
				parts = append(parts, p)
			}
		}
		if c.l.restless && c.l.rand.IntN(8) == 0 {
			c.l.careless[ledGeneration{c.group, c.generation}] = true
			continue
		}
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = id, assignment("t", parts...)
		out = append(out, a)
	}
	return out
}

func (c *consumer) heartbeat() {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group, r.MemberID, r.Generation, r.InstanceID = c.group, c.id, c.generation, c.instance
	phase := c.phase
	c.ask(Heartbeat{r}, func(v any) {
		code := v.(*kmsg.HeartbeatResponse).ErrorCode
		if c.asleep {
			return
		}
		if code != kproto.NoError && c.phase == phase && (phase == joined || phase == stable) {
			c.refused(code)
		}
	})
}

func (c *consumer) commit() {
	id, generation, instance := c.id, c.generation, c.instance
	if c.l.rand.IntN(4) == 0 {
		id, generation, instance = "", -1, nil
	}
	c.l.commits.commit(c.l.rig, c.group, int32(c.l.rand.IntN(lifePartitions)), id, generation, instance)
}

func (c *consumer) leave() {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group = 5, c.group
	r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: c.id, InstanceID: c.instance}}
	c.crash()
	c.l.do(Leave{r}, func(any, error) {})
}

// crash ends the client without a word; it may come back as somebody new.
func (c *consumer) crash() {
	c.life++
	c.id, c.generation, c.phase, c.gone = "", -1, outside, true
}

// stray sends what belongs to no order of things.
func (c *consumer) stray() {
	other := c.l.consumer()
	h := kmsg.NewPtrHeartbeatRequest()
	h.Group, h.MemberID, h.Generation = c.group, other.id, c.generation-1
	c.l.do(Heartbeat{h}, func(any, error) {})
	s := kmsg.NewPtrSyncGroupRequest()
	s.Group, s.MemberID, s.Generation = c.group, other.id, c.generation-1
	if other.group == c.group && other.generation == s.Generation { // the group was made again meanwhile, and other may lead it: nobody is assigned anything
		c.l.careless[ledGeneration{c.group, s.Generation}] = true
	}
	c.l.do(Sync{s}, func(any, error) {})
	j := kmsg.NewPtrJoinGroupRequest()
	j.Version, j.Group, j.MemberID = 9, c.group, "stranger"
	j.SessionTimeoutMillis = int32(lifeSession.Milliseconds())
	j.ProtocolType, j.Protocols = "connect", []kmsg.JoinGroupRequestProtocol{{Name: "x"}}
	c.l.do(Join{j, Client{}, "never"}, func(any, error) {})
}
