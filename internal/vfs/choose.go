package vfs

import (
	"fmt"
	"iter"
	"math/rand/v2"
)

// Fate is what becomes of an Item, or of a sector of it, in a power cut.
type Fate uint8

const (
	Lost    Fate = iota
	Kept         // survives
	Garbage      // data: lost, and the sector is not zeros if it is new in the file; else as Lost
)

// Chooser decides over fates. It is asked once for each sector of each item, in order, so
// it may keep state, and then serves one Crash only.
type Chooser interface {
	Choose(it Item, sector int) Fate
}

// ChooserFunc is a function as Chooser.
type ChooserFunc func(it Item, sector int) Fate

func (f ChooserFunc) Choose(it Item, sector int) Fate { return f(it, sector) }

// keepIf keeps or loses items as a whole.
func keepIf(keep func(i int) bool) Chooser {
	return ChooserFunc(func(it Item, _ int) Fate {
		if keep(it.Index) {
			return Kept
		}
		return Lost
	})
}

var (
	// KeepNothing leaves what was synced.
	KeepNothing = keepIf(func(int) bool { return false })
	// KeepEverything is also what the end of the process alone leaves behind.
	KeepEverything = keepIf(func(int) bool { return true })
)

// KeepOnly keeps one item.
func KeepOnly(item int) Chooser { return keepIf(func(i int) bool { return i == item }) }

// DropOnly keeps all items but one.
func DropOnly(item int) Chooser { return keepIf(func(i int) bool { return i != item }) }

// Prefix keeps the n oldest items.
func Prefix(n int) Chooser { return keepIf(func(i int) bool { return i < n }) }

// Tear keeps every item, but of one only the sectors of one parity (0 or 1).
func Tear(item, parity int) Chooser {
	return ChooserFunc(func(it Item, sector int) Fate {
		if it.Index == item && sector%2 != parity {
			return Lost
		}
		return Kept
	})
}

// Seeded keeps a random part: items whole or torn, with odds that are drawn too; what is
// new and lost is zeros in one half of the seeds and often garbage in the other.
func Seeded(seed uint64) Chooser {
	rng := rand.New(rand.NewPCG(seed, 0))
	odds, dirty := rng.Float64(), 0.0
	if rng.IntN(2) == 1 {
		dirty = rng.Float64()
	}
	draw := func() Fate {
		switch {
		case rng.Float64() < odds:
			return Kept
		case rng.Float64() < dirty:
			return Garbage
		}
		return Lost
	}
	var fate Fate
	var torn bool
	return ChooserFunc(func(_ Item, sector int) Fate {
		if sector == 0 {
			torn = rng.IntN(2) == 1
		}
		if sector == 0 || torn {
			fate = draw()
		}
		return fate
	})
}

// Ordered makes of a choice that of a file system whose directories have a journal: once
// it loses an operation on a directory, all later ones on that directory are lost too.
func Ordered(c Chooser) Chooser { return &ordered{chooser: c, cut: map[*inode]bool{}} }

// Images yields the images of a crash now that find most bugs: nothing and everything kept,
// each item alone kept, alone lost or torn, each prefix, and as many random ones as seeds.
// The name says which. m must not change meanwhile.
func (m *Mem) Images(seeds int) iter.Seq2[string, *Mem] { return m.SomeImages(seeds, 1, 0) }

// SomeImages is Images with nothing and everything kept, and each every-th of the others: from says which of them is the first.
func (m *Mem) SomeImages(seeds, every, from int) iter.Seq2[string, *Mem] {
	return func(yield func(string, *Mem) bool) {
		n := -2 // of the others
		for name, choice := range choices(m.Unsynced(), seeds) {
			if (n < 0 || n%every == from%every) && !yield(name, m.Crash(choice)) {
				return
			}
			n++
		}
	}
}

func choices(items []Item, seeds int) iter.Seq2[string, Chooser] {
	return func(yield func(string, Chooser) bool) {
		ok := yield("nothing", KeepNothing) && yield("everything", KeepEverything)
		for i, it := range items {
			ok = ok && yield(fmt.Sprintf("only %v", it), KeepOnly(i))
			ok = ok && yield(fmt.Sprintf("without %v", it), DropOnly(i))
			ok = ok && (i == 0 || yield(fmt.Sprintf("before %v", it), Prefix(i)))
			ok = ok && (it.Sectors == 1 || yield(fmt.Sprintf("even sectors of %v", it), Tear(i, 0)))
			ok = ok && (it.Sectors == 1 || yield(fmt.Sprintf("odd sectors of %v", it), Tear(i, 1)))
		}
		for seed := range uint64(seeds) {
			ok = ok && yield(fmt.Sprintf("seed %d", seed), Seeded(seed))
		}
	}
}

type ordered struct {
	chooser Chooser
	cut     map[*inode]bool // directories that have lost an operation
}

func (o *ordered) Choose(it Item, sector int) Fate {
	fate := o.chooser.Choose(it, sector)
	for _, dir := range it.dirs {
		if dir != nil && o.cut[dir] {
			fate = Lost
		}
	}
	for _, dir := range it.dirs {
		if dir != nil && fate != Kept {
			o.cut[dir] = true
		}
	}
	return fate
}
