package kproto

import "encoding/binary"

// walker passes over the fields of a request's header and body without building anything. Each
// method takes its field off rest and gives false when the field does not fit.
type walker struct {
	rest []byte
}

// Bounds on unknown tagged fields (KIP-482), per list of them; no client sends one today.
const (
	maxTags     = 64
	maxTagBytes = 4 << 10
)

// nullableString16 reads a string with a two-byte length; -1 is null.
func (w *walker) nullableString16() ([]byte, bool) {
	if len(w.rest) < 2 {
		return nil, false
	}
	n := int(int16(binary.BigEndian.Uint16(w.rest)))
	w.rest = w.rest[2:]
	if n == -1 {
		return nil, true
	}
	return w.take(n)
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

// tags passes over a list of tagged fields, whose numbers must ascend.
func (w *walker) tags() bool {
	count, ok := w.uvarint()
	if !ok || count > maxTags {
		return false
	}
	last, total := int64(-1), 0
	for range count {
		tag, ok := w.uvarint()
		if !ok || int64(tag) <= last {
			return false
		}
		size, ok := w.uvarint()
		total += int(size)
		if !ok || total > maxTagBytes {
			return false
		}
		if _, ok := w.take(int(size)); !ok {
			return false
		}
		last = int64(tag)
	}
	return true
}
