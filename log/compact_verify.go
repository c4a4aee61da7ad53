package log

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// settleSwaps looks at what compaction left as the next start will: a committed swap file stands for the segments that it was to replace.
func (p *partVerifier) settleSwaps() error {
	p.swapped = map[int64]bool{}
	for _, e := range p.entries {
		name := filepath.Join(p.dir, e.Name())
		if strings.HasSuffix(e.Name(), cleanedSuffix) {
			p.note(name, -1, -1, "left by a compaction that was interrupted: the next start removes it")
		}
		base, ok := parseSegmentName(e.Name(), swapSuffix)
		if !ok {
			continue
		}
		fresh := newSegment(p.v.fs, p.dir, base)
		end, err := swapEnd(fresh)
		switch {
		case errors.Is(err, ErrDamaged):
			p.damage(name, -1, base, "%v", err)
			continue
		case err != nil:
			return err
		}
		p.note(name, -1, base, "a compaction was interrupted: the next start puts it in the place of the segments up to offset %d", end)
		p.swapped[base] = true
		p.segs = slices.DeleteFunc(p.segs, func(s *segment) bool { return base <= s.base && s.base < end })
		i, _ := slices.BinarySearchFunc(p.segs, base, func(s *segment, base int64) int { return cmp.Compare(s.base, base) })
		p.segs = slices.Insert(p.segs, i, fresh)
		p.slot.cleaned = cleanPoint(max(p.slot.cleaned.gaps(), end)) // as far as gaps go, which is all that counts here
	}
	return nil
}

// allowGaps tells the segments where compaction may have been. Without a slot that may be everywhere but in the last one.
func (p *partVerifier) allowGaps() {
	below := p.slot.cleaned.gaps()
	if !p.known {
		below = p.segs[len(p.segs)-1].base
	}
	for _, s := range p.segs {
		s.gaps = below
	}
}

// name is the segment's file.
func (p *partVerifier) name(s *segment) string {
	if p.swapped[s.base] {
		return s.path(swapSuffix)
	}
	return s.path(logSuffix)
}
