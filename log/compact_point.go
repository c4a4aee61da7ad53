package log

// cleanPoint says how far compaction has been, in one number of the partition's slot. From zero on: every offset below it was cleaned, and some
// below it may be missing. Below zero: the complement is the offset below which some may be missing, and nothing is known to be clean; so it
// is after a swap that a crash interrupted, and when the slot was lost.
type cleanPoint int64

// missingBelow makes the point of a log in which offsets may be missing and nothing is known to be clean.
func missingBelow(offset int64) cleanPoint { return cleanPoint(^offset) }

// clean is the offset below which no record has a newer one of the same key below it.
func (p cleanPoint) clean() int64 { return max(0, int64(p)) }

// gaps is the offset below which offsets may be missing.
func (p cleanPoint) gaps() int64 {
	if p < 0 {
		return int64(^p)
	}
	return int64(p)
}

// reach gives the point after everything below offset was cleaned. What may be missing above it stays allowed.
func (p cleanPoint) reach(offset int64) cleanPoint {
	if p < 0 && offset < p.gaps() {
		return p
	}
	return cleanPoint(max(p.clean(), offset))
}
