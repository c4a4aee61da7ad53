package log

// Trouble is a state in which a partition is not served as it should be.
type Trouble uint8

const (
	Cut     Trouble = iota // a sync or a write failed: it is read, and takes appends again when the disk lets it
	Frozen                 // the same, with records in doubt that were acknowledged: it is read, and read anew from the disk before it takes appends
	Offline                // neither read nor appended to until the next start
)

// Troubles are all of them.
var Troubles = [...]Trouble{Cut, Frozen, Offline}

func (t Trouble) String() string { return [...]string{"cut", "frozen", "offline"}[t] }

// Troubled is how many partitions are in that state.
func (d *Dir) Troubled(t Trouble) int { return int(d.troubled[t].Load()) }

func (s state) trouble() (Trouble, bool) {
	switch s {
	case stateCut:
		return Cut, true
	case stateFrozen:
		return Frozen, true
	case stateOffline:
		return Offline, true
	}
	return 0, false
}

// become changes the state, and the counts with it. Called with mu held.
func (l *Log) become(s state) {
	if t, ok := l.state.trouble(); ok {
		l.dir.troubled[t].Add(-1)
	}
	if t, ok := s.trouble(); ok {
		l.dir.troubled[t].Add(1)
	}
	l.state = s
}
