package vfs

import "unsafe"

// Held is how many bytes of memory the disk takes, to be subtracted from what a program under test takes: the pages of all files, what is kept of changes
// that are not durable, and the entries. Pages that copies share count once. A file without a name is not counted, so that one kept open for ever shows.
func (m *Mem) Held() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	h := holding{inodes: map[*inode]bool{}, pages: map[*page]bool{}}
	h.inode(m.root)
	return h.bytes
}

// holding is the sum of Held and what is in it already.
type holding struct {
	inodes map[*inode]bool
	pages  map[*page]bool
	bytes  int64
}

func (h *holding) inode(ino *inode) {
	if ino == nil || h.inodes[ino] {
		return
	}
	h.inodes[ino] = true
	h.bytes += int64(unsafe.Sizeof(*ino))
	h.blob(&ino.content)
	h.blob(&ino.durable)
	for _, c := range ino.pending {
		h.bytes += int64(unsafe.Sizeof(*c)) + int64(cap(c.image)) + int64(cap(c.edits))*int64(unsafe.Sizeof(edit{}))
		for _, e := range c.edits {
			h.inode(e.to)
		}
	}
	for _, entries := range []map[string]*inode{ino.entries, ino.synced} {
		for name, child := range entries {
			h.bytes += int64(len(name)) + int64(unsafe.Sizeof(name)+unsafe.Sizeof(child))
			h.inode(child)
		}
	}
}

func (h *holding) blob(b *blob) {
	h.bytes += int64(cap(b.pages)) * int64(unsafe.Sizeof(pageRef{}))
	for _, p := range b.pages {
		if p.page != nil && !h.pages[p.page] {
			h.pages[p.page] = true
			h.bytes += pageSize
		}
	}
}
