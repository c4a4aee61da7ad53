package vfs

const pageSize = 4096

// maxMemFile is the largest file of a Mem in bytes. A page table of this length takes
// 64 MiB, the most that one stray offset can cost.
const maxMemFile = 16 << 30

type page [pageSize]byte

// pageRef is a page of a blob. A shared page belongs to other blobs too and is copied before it is changed.
type pageRef struct {
	*page  // nil reads as zeros
	shared bool
}

// blob is the content of a file as pages that copies share. Below size it is the file; the
// pages may reach beyond size only in an image that is being made.
type blob struct {
	pages []pageRef
	size  int64
}

// clone is a copy that costs one reference per page.
func (b *blob) clone() blob {
	for i := range b.pages {
		b.pages[i].shared = true
	}
	return blob{pages: append([]pageRef(nil), b.pages...), size: b.size}
}

// share makes page i that of from.
func (b *blob) share(from *blob, i int) {
	if i >= len(from.pages) {
		return
	}
	b.grow(i + 1)
	from.pages[i].shared = true
	b.pages[i] = from.pages[i]
}

func (b *blob) grow(pages int) {
	if missing := pages - len(b.pages); missing > 0 {
		b.pages = append(b.pages, make([]pageRef, missing)...)
	}
}

// read fills dst from off on, with zeros where there is no page.
func (b *blob) read(dst []byte, off int64) {
	for len(dst) > 0 {
		i, at := int(off/pageSize), int(off%pageSize)
		n := min(len(dst), pageSize-at)
		if i < len(b.pages) && b.pages[i].page != nil {
			copy(dst[:n], b.pages[i].page[at:])
		} else {
			clear(dst[:n])
		}
		dst, off = dst[n:], off+int64(n)
	}
}

// write puts src at off and leaves the size alone.
func (b *blob) write(src []byte, off int64) {
	for len(src) > 0 {
		i, at := int(off/pageSize), int(off%pageSize)
		n := copy(b.own(i)[at:], src)
		src, off = src[n:], off+int64(n)
	}
}

// own returns page i for changing.
func (b *blob) own(i int) *page {
	b.grow(i + 1)
	ref := &b.pages[i]
	switch {
	case ref.page == nil:
		*ref = pageRef{page: new(page)}
	case ref.shared:
		private := *ref.page
		*ref = pageRef{page: &private}
	}
	return ref.page
}

// resize sets the size. What a smaller size cuts off is zeros if the file grows again.
func (b *blob) resize(size int64) {
	if size < b.size {
		b.cut(size)
	}
	b.size = size
}

// cut zeroes everything from end on.
func (b *blob) cut(end int64) {
	pages := int((end + pageSize - 1) / pageSize)
	if pages > len(b.pages) {
		return
	}
	clear(b.pages[pages:]) // lets the pages go
	b.pages = b.pages[:pages]
	if tail := end % pageSize; tail != 0 && b.pages[pages-1].page != nil {
		clear(b.own(pages - 1)[tail:])
	}
}
