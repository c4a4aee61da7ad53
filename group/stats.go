package group

// Stats count what a machine holds, for metrics.
type Stats struct {
	Groups  map[State]int
	Members int
	Offsets int // committed, over all groups
}

// ConsumerMembers counts the members of groups of the consumer protocol.
func (m *Machine) ConsumerMembers() (n int) {
	for _, g := range m.groups {
		if g.consumers != nil {
			n += len(g.consumers.members)
		}
	}
	return n
}

// Stats counts.
func (m *Machine) Stats() Stats {
	s := Stats{Groups: map[State]int{}}
	for _, g := range m.groups {
		if c := g.consumers; c != nil {
			s.Groups[c.shown()]++
			s.Members += len(c.members)
		} else {
			s.Groups[g.state]++
			s.Members += len(g.members)
		}
		for _, t := range g.offsets {
			s.Offsets += len(t.partitions)
		}
	}
	return s
}
