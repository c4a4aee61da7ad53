package log

import (
	"crypto/sha256"
	"encoding/binary"
)

// keyMap holds the offset of the newest record of each key, in memory that is bounded beforehand: 24 bytes a key, whatever its length.
//
// Of a key it holds 128 bits of its SHA-256. Two keys with the same ones would be taken for one, and the older lost: among 2^40 keys the
// odds are 1 in 2^49, and nobody can make such a pair with less than 2^64 work. (Apache Kafka holds MD5, for which pairs can be made.) To
// compare the keys themselves they would have to be kept, or read again for each record.
type keyMap struct {
	entries []keyEntry
	n       int // keys
	limit   int // keys
}

type keyEntry struct {
	hash keyHash
	next int64 // the offset and one; 0: free
}

type keyHash [2]uint64

const (
	keyEntrySize = 24
	// keyMapLoad is how full the map may become (log.cleaner.io.buffer.load.factor of Kafka): beyond that, searches grow long.
	keyMapLoad = 0.9
)

// newKeyMap makes a map for so many keys, or for fewer if they need more than budget, in bytes.
func newKeyMap(budget, keys int64) *keyMap {
	entries := max(2, min(budget/keyEntrySize, int64(float64(keys)/keyMapLoad)+1))
	return &keyMap{entries: make([]keyEntry, entries), limit: max(1, int(float64(entries)*keyMapLoad))}
}

func hashKey(key []byte) keyHash {
	sum := sha256.Sum256(key)
	return keyHash{binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])}
}

// find gives the key's entry, or the free one that it would take.
func (m *keyMap) find(h keyHash) *keyEntry {
	for i := h[0] % uint64(len(m.entries)); ; i++ {
		if i == uint64(len(m.entries)) {
			i = 0
		}
		if e := &m.entries[i]; e.next == 0 || e.hash == h {
			return e
		}
	}
}

// put notes a record that is newer than all before it. It reports false, and notes nothing, when the key is new and the map is full.
func (m *keyMap) put(key []byte, offset int64) bool {
	h := hashKey(key)
	e := m.find(h)
	if e.next == 0 {
		if m.n == m.limit {
			return false
		}
		m.n++
	}
	*e = keyEntry{h, offset + 1}
	return true
}

// superseded tells whether the map knows a newer record of the key.
func (m *keyMap) superseded(key []byte, offset int64) bool {
	if m.n == 0 {
		return false
	}
	e := m.find(hashKey(key))
	return e.next > 0 && offset < e.next-1
}
