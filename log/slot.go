package log

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"sluice/kproto"
)

// slot is what must be known of a partition beyond its own files. It tells damage from a torn tail: what lies below durable was once
// synced, so if it is bad now, it rotted; what lies above may have been torn by a power cut.
type slot struct {
	id        kproto.TopicID
	partition int32
	durable   int64  // every offset below was synced before this was written
	recovery  int64  // base offset of the first segment that is not sealed and synced: recovery begins there
	start     int64  // log start offset
	epochs    uint32 // CRC-32C of the leader epoch checkpoint as last written, 0 before that: the file has Kafka's format, which has no checksum
	cleaned   cleanPoint
}

// The durable-offsets file is an array of 64-byte slots, overwritten in place: a slot lies within one sector, so a power cut leaves the old or the new one.
//
//	CRC-32C of the rest (u32) | version 1 (u32) | topic id (16) | partition (i32) | CRC-32C of the epoch checkpoint (u32) | durable (i64) | recovery (i64) | start (i64) | cleaned (i64)
//
// A slot that is all zeros is free.
const (
	slotSize    = 64
	slotVersion = 1
	// maxSlotFile bounds what is read at start: a million partitions.
	maxSlotFile = slotSize << 20
)

func (s slot) encode() []byte {
	b := make([]byte, slotSize)
	binary.BigEndian.PutUint32(b[4:], slotVersion)
	copy(b[8:], s.id[:])
	binary.BigEndian.PutUint32(b[24:], uint32(s.partition))
	binary.BigEndian.PutUint32(b[28:], s.epochs)
	binary.BigEndian.PutUint64(b[32:], uint64(s.durable))
	binary.BigEndian.PutUint64(b[40:], uint64(s.recovery))
	binary.BigEndian.PutUint64(b[48:], uint64(s.start))
	binary.BigEndian.PutUint64(b[56:], uint64(s.cleaned))
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

func decodeSlot(b []byte) (s slot, ok bool) {
	if binary.BigEndian.Uint32(b[4:]) != slotVersion || crc32.Checksum(b[4:slotSize], castagnoli) != binary.BigEndian.Uint32(b) {
		return slot{}, false
	}
	copy(s.id[:], b[8:])
	s.partition = int32(binary.BigEndian.Uint32(b[24:]))
	s.epochs = binary.BigEndian.Uint32(b[28:])
	s.durable = int64(binary.BigEndian.Uint64(b[32:]))
	s.recovery = int64(binary.BigEndian.Uint64(b[40:]))
	s.start = int64(binary.BigEndian.Uint64(b[48:]))
	s.cleaned = cleanPoint(binary.BigEndian.Uint64(b[56:]))
	return s, true
}

// checkSlotVersions refuses slots of a version that is to come. It is they that speak for all files of the data directory: whoever changes the form of any
// raises slotVersion, so that an older broker leaves the directory as it is. A newer slot keeps its size and where its checksum and version stand.
func checkSlotVersions(file string, data []byte) error {
	for ; len(data) >= slotSize; data = data[slotSize:] {
		v := binary.BigEndian.Uint32(data[4:])
		if v > slotVersion && crc32.Checksum(data[4:slotSize], castagnoli) == binary.BigEndian.Uint32(data) {
			return fmt.Errorf("%w: %s has version %d, and this one reads versions up to %d; nothing was changed", ErrNewer, file, v, slotVersion)
		}
	}
	return nil
}
