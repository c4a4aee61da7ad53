package group

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/machine"
)

// Imported is an offset of another cluster's __consumer_offsets.
type Imported struct {
	Group, Topic string
	Partition    int32
	Record       machine.Record // a tombstone if the offset was deleted
}

// ImportOffset reads a record of another cluster's __consumer_offsets; ok is false when it is about something else than an offset. The offset counts as committed at now,
// in milliseconds: its group is empty here, and would else lose at once what it last committed long ago.
func ImportOffset(r machine.Record, now int64) (o Imported, ok bool, err error) {
	kind, err := version(r.Key)
	if err != nil || kind != keyOffsetCommitOld && kind != keyOffsetCommit {
		return Imported{}, false, err
	}
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(r.Key); err != nil {
		return Imported{}, false, fmt.Errorf("OffsetCommitKey: %w", err)
	}
	o = Imported{k.Group, k.Topic, k.Partition, offsetTombstone(k.Group, k.Topic, k.Partition)}
	if r.Value == nil {
		return o, true, nil
	}
	if err := checkVersion("OffsetCommitValue", r.Value, newestOffsetCommit); err != nil {
		return Imported{}, false, err
	}
	var v kmsg.OffsetCommitValue
	if err := v.ReadFrom(r.Value); err != nil {
		return Imported{}, false, fmt.Errorf("OffsetCommitValue: %w", err)
	}
	x := decodedOffset(k, v)
	x.committed, x.expires = now, -1
	o.Record = offsetRecord(k.Group, k.Topic, x)
	return o, true, nil
}
