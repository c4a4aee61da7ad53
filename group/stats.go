package group

// Stats count what a machine holds, for metrics.
type Stats struct {
	Groups  map[State]int
	Members int
	Offsets int // committed, over all groups
}

// Stats counts.
func (m *Machine) Stats() Stats {
	s := Stats{Groups: map[State]int{}}
	for _, g := range m.groups {
		s.Groups[g.state]++
		s.Members += len(g.members)
		for _, t := range g.offsets {
			s.Offsets += len(t.partitions)
		}
	}
	return s
}
