package broker

import "slices"

// Slots: where nothing tells several groups apart, each connection that reads the partition gets one of them for itself. Then every
// group has an allowance of its own, though perhaps under another one's name; that matters only where the groups' limits differ.

// slot picks a group for a subscription. It keeps the one it has unless an older reader has the same and another group has
// none; else it takes the oldest group that has none. With more readers than groups, the rest share the slot that was given last.
func (r *resolver) slot(s *subscription, own []*claim, now stamp) *resolution {
	all := r.readers[s.topicPartition]
	mine := slices.IndexFunc(own, func(c *claim) bool { return c.group == s.group() })
	if mine >= 0 && !all.hold(own[mine], now, func(x *subscription) bool { return x.order < s.order }) {
		return s.slotted(own, mine)
	}
	if len(own) > maxMarked {
		slices.Reverse(own) // of so many the newest is likely to be the one that has none, and found at once
		mine = len(own) - 1 - mine
	}
	free := slices.IndexFunc(own, func(c *claim) bool {
		return c.group != s.group() && !all.hold(c, now, func(x *subscription) bool { return x != s })
	})
	switch {
	case free >= 0:
		return s.slotted(own, free)
	case mine >= 0 && mine < len(own):
		return s.slotted(own, mine)
	}
	return s.slotted(own, lastGiven(all, own))
}

// hold tells whether one of those that pass keeps others from a group.
func (all readers) hold(c *claim, now stamp, pass func(*subscription) bool) bool {
	return slices.ContainsFunc(all[groupKey{true, c.group}], func(x *subscription) bool { return pass(x) && x.holds(c, now) })
}

// holds tells whether a subscription keeps others from a group: it was read lately, and since the group's member there is the
// one it is.
func (s *subscription) holds(c *claim, now stamp) bool {
	read := stamp(s.fetched.Load())
	return read >= c.since && now-read < stamp(drainTime)+stamp(s.conn.wait.Load())
}

func lastGiven(all readers, own []*claim) (last int) {
	newest := uint64(0)
	for i := range own {
		for _, x := range all[groupKey{true, own[i].group}] {
			if x.labelled > newest {
				newest, last = x.labelled, i
			}
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
	holders := r.readers[k][key]
	i := slices.IndexFunc(holders, func(x *subscription) bool { return open(x.result.Load()) == 1 })
	if i < 0 && len(holders) > 0 {
		return // it is known who reads for the group
	}
	m, _ := r.owners.markOf(groupID, k.topic.name, k.partition)
	if i >= 0 {
		other := holders[i]
		m = other.result.Load().mark
		r.settleAs(other, old.key, old.mark)
	}
	r.settleAs(reader, key, m)
}

// committer finds the unsettled subscription that has read least beyond an offset; nil when there are two, or none.
func (r *resolver) committer(groupID string, k topicPartition, offset int64, id identity) (best *subscription) {
	least, twice := int64(0), false
	for _, all := range r.readers[k] {
		for _, x := range all {
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
