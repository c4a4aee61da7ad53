package log

// tailLength is how many batches a tail remembers, 48 bytes each. A consumer that keeps up reads fewer at once.
const tailLength = 32

// tail remembers the last batches, so that a consumer at the end needs no index and no read to find its place, and who
// counts what it is given no read to count it.
type tail struct {
	ring *[tailLength]tailEntry // nil before the first push: it is most of what a partition weighs
	n    int                    // entries ever pushed
}

type tailEntry struct {
	seg *segment
	pos int64
	Header
}

func (t *tail) push(e tailEntry) {
	if t.ring == nil {
		t.ring = new([tailLength]tailEntry)
	}
	t.ring[t.n%tailLength] = e
	t.n++
}

// find gives the index of the batch that holds the offset, looking from the newest.
func (t *tail) find(offset int64) (i int, ok bool) {
	for i := t.n - 1; i >= 0 && i >= t.n-tailLength; i-- {
		e := &t.ring[i%tailLength]
		if offset > e.Last {
			break
		}
		if offset >= e.Base {
			return i, true
		}
	}
	return 0, false
}

func (t *tail) at(i int) *tailEntry { return &t.ring[i%tailLength] }
