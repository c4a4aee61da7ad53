package broker

import "slices"

// Slots: where nothing tells several groups apart, each connection that reads the partition gets one of them for itself. Then every
// group has an allowance of its own, though perhaps under another one's name; that matters only where the groups' limits differ.

// slot picks a group for a subscription. It keeps the one it has unless a better reader has the same and another group has
// none; else it takes the oldest group that has none. With more readers than groups, the rest share the slot that was given last.
func (r *resolver) slot(s *subscription, own []*claim, now stamp) *resolution {
	mine := slices.IndexFunc(own, func(c *claim) bool { return c.group == s.group() })
	if mine >= 0 && !r.betterHolds(s, own[mine], now) {
		return s.slotted(own, mine)
	}
	if len(own) > maxMarked {
		slices.Reverse(own) // of so many the newest is likely to be the one that has none, and found at once
		mine = len(own) - 1 - mine
	}
	free := slices.IndexFunc(own, func(c *claim) bool { return c.group != s.group() && !c.held(now) })
	switch {
	case free >= 0:
		return s.slotted(own, free)
	case mine >= 0 && mine < len(own):
		return s.slotted(own, mine)
	}
	return s.slotted(own, r.lastGiven(s.topicPartition, own))
}

// held tells whether a subscription keeps others from a group: one has it, and the group was read lately, since its member there
// is the one it is.
func (c *claim) held(now stamp) bool {
	read := stamp(c.read.Load())
	return c.readers > 0 && read >= c.since && now-read < stamp(drainTime)
}

// betterHolds tells whether another subscription in use has the group of this one, and is older, or known to be the group's, or
// has taken it while this one was idle.
func (r *resolver) betterHolds(s *subscription, c *claim, now stamp) bool {
	others := c.readers
	if s.result.Load().mark == c.mark {
		others--
	}
	if others == 0 {
		return false
	}
	idle := !s.reads(c, now)
	return slices.ContainsFunc(r.readers[s.topicPartition], func(x *subscription) bool {
		better := idle || x.order < s.order || open(x.result.Load()) < open(s.result.Load())
		return better && x != s && x.group() == c.group && x.reads(c, now)
	})
}

// reads tells whether a subscription was read lately, since the group's member there is the one it is.
func (s *subscription) reads(c *claim, now stamp) bool {
	read := stamp(s.fetched.Load())
	return read >= c.since && now-read < stamp(drainTime)+stamp(s.conn.wait.Load())
}

// lastGiven finds the group whose label was given last.
func (r *resolver) lastGiven(k topicPartition, own []*claim) (last int) {
	newest := uint64(0)
	for _, x := range r.readers[k] {
		if x.labelled <= newest {
			continue
		}
		if i := slices.IndexFunc(own, func(c *claim) bool { return c.group == x.group() }); i >= 0 {
			newest, last = x.labelled, i
		}
	}
	return last
}

func (s *subscription) slotted(own []*claim, i int) *resolution {
	res := own[i].is(bySlot)
	if old := s.result.Load(); old != nil && old.settled && old.key == res.key {
		res.settled = true
		return res
	}
	for j := range own {
		if g := own[j].group; len(res.rivals) < maxRivals && !slices.Contains(res.rivals, g) {
			res.rivals = append(res.rivals, g)
		}
	}
	return res
}

// settle takes what a commit tells: who commits a position has read up to it, so of the unsettled subscriptions that may be the
// group's, it is the one that has read least beyond. If that one has another group's label, the two change labels. It
// happens once to each; where two have read equally far nothing is told.
func (r *resolver) settle(groupID string, k topicPartition, offset int64, id identity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reader := r.committer(groupID, k, offset, id)
	if reader == nil {
		return
	}
	old := reader.result.Load()
	key := groupKey{true, groupID}
	if old.key == key {
		r.settleAs(reader, key, old.mark)
		return
	}
	m, _ := r.owners.markOf(groupID, k.topic.name, k.partition)
	if other := r.holder(k, key); other != nil {
		x := other.result.Load()
		if open(x) == 0 {
			return // it is known who reads for the group
		}
		m = x.mark
		r.settleAs(other, old.key, old.mark)
	}
	r.settleAs(reader, key, m)
}

// holder finds a subscription that has a label, or nil; an unsettled one if there is one.
func (r *resolver) holder(k topicPartition, key groupKey) (holder *subscription) {
	for _, x := range r.readers[k] {
		if res := x.result.Load(); res.key == key && (holder == nil || open(res) == 1) {
			holder = x
		}
	}
	return holder
}

// committer finds the unsettled subscription that has read least beyond an offset; nil when there are two, or none.
func (r *resolver) committer(groupID string, k topicPartition, offset int64, id identity) (best *subscription) {
	least, twice := int64(0), false
	for _, x := range r.readers[k] {
		beyond := x.position.Load() - offset
		if beyond < 0 || x.conn.who() != id || !slices.Contains(x.result.Load().rivals, groupID) {
			continue
		}
		switch {
		case best == nil || beyond < least:
			best, least, twice = x, beyond, false
		case beyond == least:
			twice = true
		}
	}
	if twice {
		return nil
	}
	return best
}

func (r *resolver) settleAs(s *subscription, k groupKey, m *mark) {
	old := s.result.Load()
	r.label(s, &resolution{key: k, method: bySlot, settled: true, mark: m, version: old.version, until: old.until})
}
