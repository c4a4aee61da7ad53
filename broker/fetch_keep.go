package broker

import (
	"errors"
	"fmt"
	"io"

	"sluice/internal/server"
	"sluice/log"
)

// Between the look that finds them and the end of the answer the data of a partition are either in memory, if they are few, or in a file that is held. A fetch may
// find data in more partitions than files may be open, and others fetch at the same time. So it lets go of the files of small ranges at once, and holds a
// share of all files at most; what is beyond comes in the next answer, like what is beyond max_bytes.

const (
	// copyBelow is the size in bytes from which a range is worth a sendfile of its own.
	copyBelow = 16 << 10
	// maxCopied bounds the bytes of small ranges in one answer; what is beyond stays in its file,
	maxCopied = 256 << 10
	// but ranges below tinyRange bytes, which are no more than what an answer holds in memory for each of its partitions anyway, are bounded by maxTiny.
	tinyRange = 512
	maxTiny   = 1 << 20
	// heldShare of the files that may be open is the most that one answer holds.
	heldShare = 8
)

// holdable is how many ranges an answer may hold when so many files may be open.
func holdable(openFiles int) int { return max(1, openFiles/heldShare) }

// mayHold tells whether the answer may hold the file of another range.
func (f *fetchCall) mayHold() bool { return f.held < f.broker.holdable }

// keep sees to it that what was found in a partition is there when the answer is sent.
func (f *fetchCall) keep(p *fetchPart) {
	n := int(p.rng.Len)
	switch total := len(f.small) + n; {
	case n == 0:
	case n < copyBelow && total <= maxCopied, n < tinyRange && total <= maxTiny:
		if err := f.copyRange(p); err != nil {
			p.rng.Release()
			p.fail(f.codeFor(err))
		}
	default:
		f.held++
	}
}

// copyRange reads a range into memory and lets go of the file.
func (f *fetchCall) copyRange(p *fetchPart) error {
	at, n := len(f.small), int(p.rng.Len)
	f.small = server.GrowBuffer(f.small, n)[:at+n]
	if got, err := p.rng.File.ReadAt(f.small[at:], p.rng.Pos); got < n {
		f.small = f.small[:at]
		return fmt.Errorf("%w: %w", log.ErrStorage, errors.Join(err, io.ErrUnexpectedEOF))
	}
	p.rng.Release()
	p.rng = log.Range{Pos: int64(at), Len: int64(n), Next: p.rng.Next}
	return nil
}

// kept is a partition's data if they are in memory, or nil.
func (f *fetchCall) kept(p *fetchPart) []byte {
	if p.rng.File != nil || p.rng.Len == 0 {
		return nil
	}
	return f.small[p.rng.Pos:][:p.rng.Len]
}

// freeKept gives the memory back. A fetch that waits keeps nothing.
func (f *fetchCall) freeKept() {
	if f.small != nil {
		server.PutBuffer(f.small)
	}
	f.small, f.held = nil, 0
}
