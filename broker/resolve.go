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
	if own := r.committing(f.simple, s.conn); len(own) > 0 {
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

// owning gives the claims that pass, the oldest first; they are good until the next look-up.
func (r *resolver) owning(claims []claim, pass func(*claim) bool) []*claim {
	r.own = r.own[:0]
	for i := range claims {
		if c := &claims[i]; pass(c) {
			r.own = append(r.own, c)
		}
	}
	return r.own
}

// committing gives the groups without members that a connection's client commits for, as claims.
func (r *resolver) committing(all []*simple, c *connState) []*claim {
	r.own = r.own[:0]
	for _, x := range all {
		if x.identity == c.identity && x.host == c.host {
			r.own = append(r.own, &claim{owner: &owner{group: x.group, host: x.host}, mark: x.mark})
		}
	}
	return r.own
}

// present leaves those out that own the partition no more, if another does, unless the subscription was theirs: its reader may
// read on for a moment.
func (s *subscription) present(own []*claim) []*claim {
	mine := s.group()
	return keep(own, func(c *claim) bool { return c.until.IsZero() || c.group == mine })
}

// group is whose the subscription was found to be; "" before, and when it is of none.
func (s *subscription) group() string {
	if res := s.result.Load(); res != nil && res.key.group {
		return res.key.name
	}
	return ""
}

// among picks one of the groups that a rule leaves.
func (r *resolver) among(s *subscription, own []*claim, how method, now stamp) *resolution {
	if oneGroup(own) {
		return own[0].is(how)
	}
	if old := s.result.Load(); old != nil && old.method == byTiebreak {
		if i := slices.IndexFunc(own, func(c *claim) bool { return c.group == old.key.name }); i >= 0 {
			return own[i].is(byTiebreak)
		}
	}
	isNew := s.result.Load() == nil
	for _, tie := range []func(*claim) bool{
		func(c *claim) bool { return c.host == s.conn.host },
		func(c *claim) bool { return c.rack == s.conn.rack && c.rack != "" },
		func(c *claim) bool { return isNew && s.first >= 0 && c.offset.Load() == s.first },
		func(c *claim) bool { return c.software == s.conn.software && c.software != "" },
	} {
		own = keep(own, tie)
	}
	if oneGroup(own) {
		return own[0].is(byTiebreak)
	}
	return r.slot(s, own, now)
}

func (c *claim) is(how method) *resolution {
	return &resolution{key: groupKey{true, c.group}, method: how, mark: c.mark}
}

func oneGroup(own []*claim) bool {
	return !slices.ContainsFunc(own, func(c *claim) bool { return c.group != own[0].group })
}

// keep takes out, in place, what does not pass; if nothing does, all stay.
func keep(own []*claim, pass func(*claim) bool) []*claim {
	if !slices.ContainsFunc(own, pass) {
		return own
	}
	return slices.DeleteFunc(own, func(c *claim) bool { return !pass(c) })
}

// fallback is the stand-in for a group that is not known.
func (r *resolver) fallback(c *connState) groupKey {
	switch r.unresolved() {
	case fallbackConnection:
		return groupKey{name: c.marked("connection:" + strconv.FormatUint(c.id, 10))[len(standIn):]}
	case fallbackShared:
		return groupKey{name: "shared"}
	case fallbackNone:
		return groupKey{}
	}
	return groupKey{name: c.marked("client:" + c.principal + "/" + c.clientID)[len(standIn):]} // one string for all partitions
}
