package vfs

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// Item is one thing that is not durable yet. A write past the end is two: its data and
// the new size, which survive apart.
type Item struct {
	Index   int    // position in Unsynced, in the order of the operations
	Kind    Kind   // OpWrite: data. OpTruncate: a size. OpCreate, OpMkdir, OpRename, OpRemove: entries.
	Name    string // from the root, without a slash in front
	NewName string // of a rename
	Off     int64  // data: its place in bytes
	Len     int    // data: its length in bytes
	Size    int64  // size: the new one in bytes
	Sectors int    // data: how many sectors it touches, each with a fate of its own; else 1

	dirs [2]*inode // entries: the directory, or the two of a rename
}

func (it Item) String() string {
	switch it.Kind {
	case OpWrite:
		return fmt.Sprintf("%d: write %s [%d,%d)", it.Index, it.Name, it.Off, it.Off+int64(it.Len))
	case OpTruncate:
		return fmt.Sprintf("%d: size %s = %d", it.Index, it.Name, it.Size)
	case OpRename:
		return fmt.Sprintf("%d: rename %s -> %s", it.Index, it.Name, it.NewName)
	}
	return fmt.Sprintf("%d: %v %s", it.Index, it.Kind, it.Name)
}

// Unsynced lists what a power cut now may undo, oldest first.
func (m *Mem) Unsynced() []Item {
	m.mu.Lock()
	defer m.mu.Unlock()
	var items []Item
	for _, c := range m.changes() {
		items = append(items, c.Item)
	}
	return items
}

// changes gathers the pending changes of every inode that is or may come back within reach of the root.
func (m *Mem) changes() []*change {
	var all []*change
	seen := map[*inode]bool{}
	var visit func(ino *inode)
	visit = func(ino *inode) {
		if ino == nil || seen[ino] {
			return
		}
		seen[ino] = true
		all = append(all, ino.pending...)
		for _, child := range ino.entries {
			visit(child)
		}
		for _, child := range ino.synced {
			visit(child)
		}
		for _, c := range ino.pending {
			for _, e := range c.edits {
				visit(e.to)
			}
		}
	}
	visit(m.root)
	slices.SortFunc(all, func(a, b *change) int { return cmp.Compare(a.seq, b.seq) })
	all = slices.Compact(all) // a rename between directories is pending in both
	for i, c := range all {
		c.Index = i
	}
	return all
}

// Crash returns the disk as a machine may find it after a power cut at this moment: what
// was durable, and of the rest what choice keeps. All of it is durable then. m goes on
// unchanged, and works also after PowerOff.
//
// What is legal:
//
//   - Data: each sector is as after one of the unsynced writes to it, the last that is
//     kept, or as before them all. A sector new in the file that is not kept reads as
//     zeros or, if chosen, as garbage.
//   - Size: as after the last kept change of it. A kept smaller size cuts the data before.
//   - Entries: each is as after the last kept operation on it, or as before them all. A
//     rename is kept for both names or neither: it is kept, whatever the choice, when a
//     later operation on one of its names is, or when either directory has been synced.
//   - A file without a surviving entry is gone, even if its data was synced.
func (m *Mem) Crash(choice Chooser) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	changes := m.changes()
	im := image{files: map[*inode]*blob{}, dirs: map[*inode]map[string]*inode{}}
	kept := make([]bool, len(changes))
	for i, c := range changes {
		switch c.Kind {
		case OpWrite:
			im.write(c, choice)
		case OpTruncate:
			if choice.Choose(c.Item, 0) == Kept {
				b := im.file(c.ino)
				b.cut(c.Size) // also what survived beyond a size that did not
				b.size = c.Size
			}
		default:
			kept[i] = choice.Choose(c.Item, 0) == Kept
		}
	}
	keepRenames(changes, kept)
	im.link(changes, kept)
	return &Mem{root: im.tree(m.root)}
}

// image is a disk in the making, as the parts that differ from what is durable.
type image struct {
	files map[*inode]*blob
	dirs  map[*inode]map[string]*inode
}

func (im *image) file(ino *inode) *blob {
	b := im.files[ino]
	if b == nil {
		copied := ino.durable.clone()
		b = &copied
		im.files[ino] = b
	}
	return b
}

func (im *image) write(c *change, choice Chooser) {
	b := im.file(c.ino)
	start := c.Off / sectorSize * sectorSize
	for s := range c.Sectors {
		off := start + int64(s)*sectorSize
		sector := c.image[s*sectorSize : (s+1)*sectorSize]
		switch choice.Choose(c.Item, s) {
		case Kept:
			b.write(sector, off)
		case Garbage:
			if off >= b.size { // else it holds what it held before
				b.write(garbage(c.seq, off), off)
			}
		}
	}
}

// garbage is bytes that nobody wrote, the same at each call and never all zeros.
func garbage(seq uint64, off int64) []byte {
	rng := rand.NewPCG(seq, uint64(off))
	p := make([]byte, sectorSize)
	for i := 0; i < len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], rng.Uint64())
	}
	p[0] |= 0x80
	return p
}

// keepRenames adds the renames that cannot be undone without tearing them: going back from
// the youngest change, those that a kept one builds on.
func keepRenames(changes []*change, kept []bool) {
	type entry struct {
		dir  *inode
		name string
	}
	later := map[entry]bool{}
	for i, c := range slices.Backward(changes) {
		for _, e := range c.edits {
			if len(c.edits) > 1 && (e.synced || later[entry{e.dir, e.name}]) {
				kept[i] = true
			}
		}
		if kept[i] {
			for _, e := range c.edits {
				later[entry{e.dir, e.name}] = true
			}
		}
	}
}

func (im *image) link(changes []*change, kept []bool) {
	for i, c := range changes {
		for _, e := range c.edits {
			if !kept[i] || e.synced {
				continue
			}
			if im.dirs[e.dir] == nil {
				im.dirs[e.dir] = maps.Clone(e.dir.durableEntries())
			}
			e.apply(im.dirs[e.dir])
		}
	}
}

func (ino *inode) durableEntries() map[string]*inode {
	if ino.synced != nil {
		return ino.synced
	}
	return ino.entries
}

// tree copies what is within reach of a directory. An inode has one name in an image,
// since of its renames, each building on the one before, a prefix is kept.
func (im *image) tree(dir *inode) *inode {
	entries := im.dirs[dir]
	if entries == nil {
		entries = dir.durableEntries()
	}
	copied := &inode{mode: dir.mode, mtime: dir.mtime, entries: make(map[string]*inode, len(entries))}
	for name, child := range entries {
		if child.isDir() {
			copied.entries[name] = im.tree(child)
		} else {
			copied.entries[name] = im.copyFile(child)
		}
	}
	return copied
}

func (im *image) copyFile(ino *inode) *inode {
	copied := &inode{mode: ino.mode, mtime: ino.mtime}
	if b := im.files[ino]; b != nil {
		b.cut(b.size) // data survived beyond the size that did
		copied.durable = *b
	} else {
		copied.durable = ino.durable.clone()
	}
	copied.content = copied.durable.clone()
	return copied
}
