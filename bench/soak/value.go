package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
)

// A value is the feed's number (4 bytes), the partition (4), the sequence (8), filling that does not compress, and the CRC-32C of all before and of
// the key (4). Each partition of a feed has one writer, so a record's offset is its sequence.
const (
	valueHead = 16
	valueTail = 4
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	filling    = randomBytes(1 << 20)
)

func randomBytes(n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, rand.Uint64()) //nolint:gosec // not a secret
	}
	return b
}

// stamp makes the value of a record in v.
func stamp(v []byte, feed, partition int32, seq int64, key []byte) {
	binary.LittleEndian.PutUint32(v, uint32(feed))
	binary.LittleEndian.PutUint32(v[4:], uint32(partition))
	binary.LittleEndian.PutUint64(v[8:], uint64(seq))
	body := v[valueHead : len(v)-valueTail]
	copy(body, filling[int(seq%8191)*61:])
	binary.LittleEndian.PutUint32(v[len(v)-valueTail:], sum(v[:len(v)-valueTail], key))
}

func sum(v, key []byte) uint32 {
	return crc32.Update(crc32.Checksum(v, castagnoli), castagnoli, key)
}

var (
	errShort = errors.New("the value is too short")
	errCRC   = errors.New("the value's CRC does not match")
)

// check tells whether v is what stamp made for that place.
func check(v []byte, feed, partition int32, seq int64, key []byte) error {
	if len(v) < valueHead+valueTail {
		return errShort
	}
	if binary.LittleEndian.Uint32(v[len(v)-valueTail:]) != sum(v[:len(v)-valueTail], key) {
		return errCRC
	}
	f, p, s := int32(binary.LittleEndian.Uint32(v)), int32(binary.LittleEndian.Uint32(v[4:])), int64(binary.LittleEndian.Uint64(v[8:]))
	if f != feed || p != partition || s != seq {
		return fmt.Errorf("record %d of partition %d of feed %d is at offset %d of partition %d of feed %d", s, p, f, seq, partition, feed)
	}
	return nil
}

// keyOf draws the key of a record: the same one each time for the same sequence.
func keyOf(partition int32, seq int64, keys int) int {
	x := uint64(seq)*0x9e3779b97f4a7c15 + uint64(partition+1)*0xbf58476d1ce4e5b9
	x ^= x >> 31
	x *= 0x94d049bb133111eb
	x ^= x >> 29
	return int(x % uint64(keys))
}

func keyName(k int) []byte { return fmt.Appendf(nil, "key-%08d", k) }
