package kproto

import (
	"encoding/binary"
	"math"
)

// walker passes over the fields of a request's header or body and builds nothing. Its methods take
// their field off rest and give false when it does not fit there or breaks a bound.
type walker struct {
	rest     []byte
	version  int16
	flexible bool   // compact lengths and tagged fields (KIP-482)
	memory   int    // bytes that decoding may still allocate
	elements int    // array elements that may still come
	at       string // the field that failed
}

// Bounds on a request.
const (
	// memoryRatio and memoryBase bound what the decoded structs take, in bytes for each byte of the
	// request and in bytes for any request. A real Fetch of many one-partition topics needs 21.
	memoryRatio = 32
	memoryBase  = 64 << 10
	// maxElements bounds the elements of all arrays of a request together. A broker's every partition
	// fits; Apache Kafka's bound is of the same size.
	maxElements = 1 << 20
	// maxTags and maxTagBytes bound the tagged fields of one struct, and the bytes of those that are
	// unknown. No client sends unknown ones today.
	maxTags     = 64
	maxTagBytes = 4 << 10
	// maxText is the longest string in bytes; the classic encoding holds no longer one.
	maxText = math.MaxInt16
)

// What pieces of a decoded request take in memory, in bytes, rounded up.
const (
	textMemory    = 16  // above the string's own bytes: what the allocator rounds up
	pointerMemory = 16  // a nullable string's header
	tagsMemory    = 384 // a map with its first entries
	tagMemory     = 96  // an entry in a growing map
)

// headerWalker walks a request's header, where nothing is allocated.
func headerWalker(b []byte) walker { return walker{rest: b, memory: math.MaxInt} }

func bodyWalker(b []byte, version int16, flexible bool) walker {
	return walker{
		rest: b, version: version, flexible: flexible,
		memory: memoryRatio*len(b) + memoryBase, elements: maxElements,
	}
}

func (w *walker) take(n int) ([]byte, bool) {
	if n < 0 || n > len(w.rest) {
		return nil, false
	}
	taken := w.rest[:n]
	w.rest = w.rest[n:]
	return taken, true
}

func (w *walker) uvarint() (uint32, bool) {
	u, n := uvarint32(w.rest)
	if n <= 0 {
		return 0, false
	}
	w.rest = w.rest[n:]
	return u, true
}

// spend takes bytes off the memory that may be allocated.
func (w *walker) spend(bytes int) bool {
	w.memory -= bytes
	return w.memory >= 0
}

// length reads a length or count, of a 16-bit field if short; -1 stands for null where that may be.
func (w *walker) length(short, nullable bool) (int, bool) {
	var n int
	switch {
	case w.flexible:
		u, ok := w.uvarint()
		if !ok {
			return 0, false
		}
		n = int(u) - 1
	case short:
		b, ok := w.take(2)
		if !ok {
			return 0, false
		}
		n = int(int16(binary.BigEndian.Uint16(b)))
	default:
		b, ok := w.take(4)
		if !ok {
			return 0, false
		}
		n = int(int32(binary.BigEndian.Uint32(b)))
	}
	return n, n >= 0 && n <= len(w.rest) || n == -1 && nullable
}

// text reads a string, nil for null.
func (w *walker) text(nullable bool) ([]byte, bool) {
	n, ok := w.length(true, nullable)
	if !ok || n > maxText {
		return nil, false
	}
	if nullable && !w.spend(pointerMemory) {
		return nil, false
	}
	if n < 0 {
		return nil, true
	}
	if !w.spend(textMemory + n) {
		return nil, false
	}
	return w.take(n)
}

// blob reads bytes; they cost nothing but the copy of the body that decoding makes anyway.
func (w *walker) blob(nullable bool) bool {
	n, ok := w.length(false, nullable)
	if !ok {
		return false
	}
	_, ok = w.take(max(n, 0))
	return ok
}

// field passes over a field that the version has.
func (w *walker) field(f *field) bool {
	nullable, ok := w.version >= f.nullFrom, false
	switch f.kind {
	case fixed:
		_, ok = w.take(f.size)
	case text:
		_, ok = w.text(nullable)
	case blob:
		ok = w.blob(nullable)
	case list:
		ok = w.list(f, nullable)
	case group:
		ok = w.nested(f, nullable)
	}
	if !ok && w.at == "" {
		w.at = f.name
	}
	return ok
}

// failedAt names the field that failed; a list of tags has no name.
func (w *walker) failedAt() string {
	if w.at == "" {
		return "its tags"
	}
	return w.at
}

func (w *walker) list(f *field, nullable bool) bool {
	n, ok := w.length(false, nullable)
	if !ok {
		return false
	}
	n = max(n, 0)
	if w.elements -= n; w.elements < 0 || !w.spend(n*f.memory) {
		return false
	}
	if f.element.kind == fixed {
		_, ok := w.take(n * f.element.size)
		return ok
	}
	for range n {
		if !w.element(f.element) {
			return false
		}
	}
	return true
}

func (w *walker) element(f *field) bool {
	if f.kind == group {
		return w.group(f)
	}
	return w.field(f)
}

// Marks before a struct that may be null.
const (
	structAbsent  = 0xff
	structPresent = 1
)

// nested passes over a struct inside a struct.
func (w *walker) nested(f *field, nullable bool) bool {
	if nullable {
		mark, ok := w.take(1)
		if !ok || mark[0] != structAbsent && mark[0] != structPresent {
			return false
		}
		if mark[0] == structAbsent {
			return true
		}
		if !w.spend(f.memory) {
			return false
		}
	}
	return w.group(f)
}

// group passes over the fields of a struct and its tags.
func (w *walker) group(g *field) bool {
	for i := range g.fields {
		f := &g.fields[i]
		if f.from <= w.version && w.version <= f.to && !w.field(f) {
			return false
		}
	}
	return !w.flexible || w.tags(g.tagged)
}

// tags passes over a list of tagged fields, whose numbers must ascend.
func (w *walker) tags(known []field) bool {
	count, ok := w.uvarint()
	if !ok || count > maxTags {
		return false
	}
	last := int64(-1)
	var unknown unknownTags
	for range count {
		tag, ok := w.uvarint()
		if !ok || int64(tag) <= last {
			return false
		}
		last = int64(tag)
		size, ok := w.uvarint()
		if !ok {
			return false
		}
		value, ok := w.take(int(size))
		if !ok {
			return false
		}
		if int(tag) < len(known) {
			ok = w.tagged(&known[tag], value)
		} else {
			ok = unknown.add(w, len(value))
		}
		if !ok {
			return false
		}
	}
	return true
}

// tagged passes over a known field, which must fill its tag.
func (w *walker) tagged(f *field, value []byte) bool {
	rest := w.rest
	w.rest = value
	ok := w.field(f) && len(w.rest) == 0
	w.rest = rest
	return ok
}

// unknownTags sums up the unknown fields of one list of tags.
type unknownTags struct{ count, bytes int }

func (u *unknownTags) add(w *walker, size int) bool {
	u.count++
	u.bytes += size
	cost := tagMemory
	if u.count == 1 {
		cost += tagsMemory
	}
	return u.bytes <= maxTagBytes && w.spend(cost)
}
