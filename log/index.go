package log

import (
	"encoding/binary"
	"sort"
	"sync"

	"sluice/internal/vfs"
)

// offsetEntry and timeEntry are entries of Kafka's index files. While a segment is written they are in memory; when it is sealed they go to
// its files, where they are looked up by binary search with pread: nothing is mapped and an idle segment costs no memory.
type offsetEntry struct {
	rel uint32 // last offset of a batch, minus the segment's base
	pos uint32 // where that batch begins
}

type timeEntry struct {
	time int64  // largest timestamp so far, ms
	rel  uint32 // last offset of the batch that holds it, minus the segment's base
}

const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

func encodeOffsets(entries []offsetEntry) []byte {
	b := make([]byte, 0, len(entries)*offsetEntrySize)
	for _, e := range entries {
		b = binary.BigEndian.AppendUint32(b, e.rel)
		b = binary.BigEndian.AppendUint32(b, e.pos)
	}
	return b
}

func encodeTimes(entries []timeEntry) []byte {
	b := make([]byte, 0, len(entries)*timeEntrySize)
	for _, e := range entries {
		b = binary.BigEndian.AppendUint64(b, uint64(e.time))
		b = binary.BigEndian.AppendUint32(b, e.rel)
	}
	return b
}

func decodeOffset(b []byte) offsetEntry {
	return offsetEntry{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

func decodeTime(b []byte) timeEntry {
	return timeEntry{int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint32(b[8:])}
}

// offsets and times are the two homes of an index behind one face.
type offsets struct {
	mem  []offsetEntry
	file vfs.File // when not nil, n entries are there
	n    int
}

type times struct {
	mem  []timeEntry
	file vfs.File
	n    int
}

func (o offsets) len() int {
	if o.file != nil {
		return o.n
	}
	return len(o.mem)
}

func (o offsets) at(i int) (offsetEntry, error) {
	if o.file == nil {
		return o.mem[i], nil
	}
	b := entryBuffers.Get().(*[timeEntrySize]byte)
	defer entryBuffers.Put(b)
	if _, err := o.file.ReadAt(b[:offsetEntrySize], int64(i)*offsetEntrySize); err != nil {
		return offsetEntry{}, err
	}
	return decodeOffset(b[:]), nil
}

func (t times) len() int {
	if t.file != nil {
		return t.n
	}
	return len(t.mem)
}

func (t times) at(i int) (timeEntry, error) {
	if t.file == nil {
		return t.mem[i], nil
	}
	b := entryBuffers.Get().(*[timeEntrySize]byte)
	defer entryBuffers.Put(b)
	if _, err := t.file.ReadAt(b[:], int64(i)*timeEntrySize); err != nil {
		return timeEntry{}, err
	}
	return decodeTime(b[:]), nil
}

var entryBuffers = sync.Pool{New: func() any { return new([timeEntrySize]byte) }}

// search gives the number of entries, from the front, for which before holds.
func search(n int, before func(i int) (bool, error)) (int, error) {
	var failed error
	i := sort.Search(n, func(i int) bool {
		if failed != nil {
			return true
		}
		ok, err := before(i)
		failed = err
		return !ok
	})
	return i, failed
}

// floorOffset is the last entry whose batch ends at or before rel.
func (o offsets) floorOffset(rel uint32) (e offsetEntry, ok bool, err error) {
	n, err := search(o.len(), func(i int) (bool, error) {
		e, err := o.at(i)
		return e.rel <= rel, err
	})
	if err != nil || n == 0 {
		return offsetEntry{}, false, err
	}
	e, err = o.at(n - 1)
	return e, err == nil, err
}

// floorPosition is the last entry whose batch begins at or before pos and ends below rel.
func (o offsets) floorPosition(pos, rel uint32) (e offsetEntry, ok bool, err error) {
	n, err := search(o.len(), func(i int) (bool, error) {
		e, err := o.at(i)
		return e.pos <= pos && e.rel < rel, err
	})
	if err != nil || n == 0 {
		return offsetEntry{}, false, err
	}
	e, err = o.at(n - 1)
	return e, err == nil, err
}

// floorTime is the last entry with a timestamp below ms: everything up to its offset is older than ms.
func (t times) floorTime(ms int64) (e timeEntry, ok bool, err error) {
	n, err := search(t.len(), func(i int) (bool, error) {
		e, err := t.at(i)
		return e.time < ms, err
	})
	if err != nil || n == 0 {
		return timeEntry{}, false, err
	}
	e, err = t.at(n - 1)
	return e, err == nil, err
}
