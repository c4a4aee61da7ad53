package log

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// loadList reads the list of sealed segments. Without a slot nobody knows what of it still counts.
func (p *partVerifier) loadList() error {
	name := filepath.Join(p.dir, manifestFile)
	all, err := readManifest(p.v.fs, p.dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if p.known && slices.ContainsFunc(p.segs, func(s *segment) bool { return s.base < p.slot.recovery }) {
			p.note(name, -1, -1, "missing: it is made anew from the segments as they are")
		}
	case errors.Is(err, errBadManifest):
		p.note(name, -1, -1, "%v: it is made anew from the segments as they are", err)
	case err != nil:
		return err
	}
	for _, e := range all {
		if p.known && e.base < p.slot.recovery && e.next > p.out.Start {
			p.list.entries = append(p.list.entries, e)
		}
	}
	p.segs = slices.DeleteFunc(p.segs, func(s *segment) bool {
		foreign := slices.ContainsFunc(p.list.entries, func(e sealedEntry) bool { return e.base < s.base && s.base < e.next })
		if foreign {
			p.note(p.name(s), -1, -1, "no segment of the log: its offsets are in another. It is ignored")
		}
		return foreign
	})
	return nil
}

// listedSize is how much of a file counts.
func (p *partVerifier) listedSize(s *segment, size int64) int64 {
	e := p.list.find(s.base)
	if e == nil || p.swapped[s.base] || size <= e.size {
		return size
	}
	p.note(p.name(s), e.size, -1, "%d bytes behind the end of a sealed segment are ignored", size-e.size)
	return e.size
}

// checkListed tells whether a segment in which nothing is wrong is the one that was sealed.
func (p *partVerifier) checkListed(s *segment, size int64) {
	e := p.list.find(s.base)
	if e == nil || p.swapped[s.base] || size < e.size || slices.ContainsFunc(p.losses, func(x loss) bool { return x.seg == s }) {
		return
	}
	switch {
	case s.head != e.head:
		p.damage(p.name(s), 0, e.base, "it is not the segment that was sealed here")
		d := &p.out.Findings[len(p.out.Findings)-1]
		d.End, d.Bytes = e.next, size
		p.lose(loss{seg: s, pos: 0, posEnd: size, offset: e.base, end: e.next, reason: "not the segment that was sealed here"})
		p.out.End = e.next
	case s.sum != e.sum:
		p.damage(p.name(s), -1, e.base, "an offset or a leader epoch in it is not what was sealed")
	}
}
