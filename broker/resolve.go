package broker

import (
	"slices"
	"strconv"
)

// Whom a Fetch belongs to. The first rule that gives an answer holds:
//
//	hint       the client id names the group, by a pattern that the operator set
//	affinity   the connection carried requests of a member of a group that owns the partition: clients with one connection
//	           for everything, as sarama
//	identity   a member with the same client id and principal owns the partition, and all such members are of one group
//	tiebreak   of several groups, all but one fall out when their members are compared with the connection by, in this order,
//	           host, rack, the offset that the group was told or committed last and that this connection fetched first, and
//	           the client's software
//	slot       each connection gets a group that no other has, and keeps it; a commit may tell better, once (slots.go)
//	simple     no such member owns the partition, but a group without members commits for it, from this host and identity
//	fallback   what dispatch.throttling.unresolved.subscription says
//
// Clients share default client ids (kgo, rdkafka, sarama), so several groups with one identity are common. The group is wanted,
// not the member, so two members of one group are no ambiguity. A host is no more than a tie-breaker: behind NAT, or with
// several interfaces, a client's connections differ in it.
//
// What was found stays while it can be true: the group has the partition by this identity, or had it until lately. It is no
// security boundary: who changes its client id at will evades it.

// Values of dispatch.throttling.unresolved.subscription.
const (
	fallbackClientID   = "client-id"
	fallbackConnection = "connection"
	fallbackShared     = "shared"
	fallbackNone       = "none"
)

// candidate is a group that a subscription may belong to.
type candidate struct {
	group                string
	host, rack, software string
	since                stamp
	past                 bool
	*mark
}

// decide applies the rules. The lock is held, and it is the reader of the subscription's connection that runs; nothing changes.
func (r *resolver) decide(s *subscription, now stamp) *resolution {
	f := &r.found
	r.owners.lookup(f, s.topic.name, s.partition, now.time())
	res := r.byRules(s, f, now)
	res.version, res.until = f.version, never
	for i := range f.claims {
		if c := &f.claims[i]; !c.until.IsZero() {
			res.until = min(res.until, stampOf(c.until))
		}
	}
	if res.method == bySimple {
		res.until = min(res.until, now+stamp(simpleTime))
	}
	return res
}

func (r *resolver) byRules(s *subscription, f *found, now stamp) *resolution {
	if g := r.hinted(s.conn.clientID); g != "" {
		return &resolution{key: groupKey{true, g}, method: byHint, mark: markIn(f.claims, g)}
	}
	if own := r.owning(f.claims, func(c *claim) bool { return slices.Contains(s.conn.carries, c.group) }); len(own) > 0 {
		return r.among(s, own, byAffinity, now)
	}
	if own := r.owning(f.claims, func(c *claim) bool { return c.identity == s.conn.identity }); len(own) > 0 {
		return r.among(s, s.present(own), byIdentity, now)
	}
	var own []candidate
	for _, x := range slices.Backward(f.simple) {
		if x.identity == s.conn.identity && x.host == s.conn.host {
			own = append(own, candidate{group: x.group, host: x.host, mark: x.mark})
		}
	}
	if len(own) > 0 {
		res := r.among(s, own, bySimple, now)
		res.method = bySimple
		return res
	}
	return &resolution{key: r.fallback(s.conn), method: byFallback}
}

// hinted gives the group that a client id names by the operator's pattern, or "".
func (r *resolver) hinted(clientID string) string {
	pattern := r.hint()
	if pattern == nil {
		return ""
	}
	if m := pattern.FindStringSubmatch(clientID); len(m) > 1 {
		return m[1]
	}
	return ""
}

func markIn(claims []claim, groupID string) *mark {
	for i := range claims {
		if claims[i].group == groupID {
			return claims[i].mark
		}
	}
	return nil
}

// owning gives the claims that pass, the newest first.
func (r *resolver) owning(claims []claim, pass func(*claim) bool) (own []candidate) {
	for i := range slices.Backward(claims) {
		if c := &claims[i]; pass(c) {
			own = append(own, candidate{c.group, c.host, c.rack, c.software, c.since, !c.until.IsZero(), c.mark})
		}
	}
	return own
}

// present leaves those out that own the partition no more, if another does, unless the subscription was theirs: its reader may
// read on for a moment.
func (s *subscription) present(own []candidate) []candidate {
	mine := s.group()
	if standing := keep(own, func(c *candidate) bool { return !c.past || c.group == mine }); len(standing) > 0 {
		return standing
	}
	return own
}

// group is whose the subscription was found to be; "" before, and when it is of none.
func (s *subscription) group() string {
	if res := s.result.Load(); res != nil && res.key.group {
		return res.key.name
	}
	return ""
}

// among picks one of the groups that a rule leaves.
func (r *resolver) among(s *subscription, own []candidate, how method, now stamp) *resolution {
	if oneGroup(own) {
		return own[0].is(how)
	}
	if old := s.result.Load(); old != nil && old.method == byTiebreak {
		if i := slices.IndexFunc(own, func(c candidate) bool { return c.group == old.key.name }); i >= 0 {
			return own[i].is(byTiebreak)
		}
	}
	for _, tie := range []func(*candidate) bool{
		func(c *candidate) bool { return c.host == s.conn.host },
		func(c *candidate) bool { return c.rack == s.conn.rack && c.rack != "" },
		func(c *candidate) bool { return s.result.Load() == nil && c.offset.Load() == s.first && s.first >= 0 },
		func(c *candidate) bool { return c.software == s.conn.software && c.software != "" },
	} {
		if left := keep(own, tie); len(left) > 0 {
			own = left
		}
	}
	if oneGroup(own) {
		return own[0].is(byTiebreak)
	}
	return r.slot(s, own, now)
}

func (c *candidate) is(how method) *resolution {
	return &resolution{key: groupKey{true, c.group}, method: how, mark: c.mark}
}

func oneGroup(own []candidate) bool {
	return !slices.ContainsFunc(own, func(c candidate) bool { return c.group != own[0].group })
}

func keep(own []candidate, pass func(*candidate) bool) (left []candidate) {
	for i := range own {
		if pass(&own[i]) {
			left = append(left, own[i])
		}
	}
	return left
}

// fallback is the stand-in for a group that is not known.
func (r *resolver) fallback(c *connState) groupKey {
	switch r.unresolved() {
	case fallbackConnection:
		return groupKey{name: "connection:" + strconv.FormatUint(c.id, 10)}
	case fallbackShared:
		return groupKey{name: "shared"}
	case fallbackNone:
		return groupKey{}
	}
	return groupKey{name: "client:" + c.principal + "/" + c.clientID}
}
