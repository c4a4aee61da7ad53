package log

import (
	"fmt"
	"strconv"
	"strings"
)

// Every name on disk. docs/storage.md draws the bytes.
const (
	lockFile     = ".lock"           // flock; empty
	cleanFile    = "clean-shutdown"  // present only after a clean stop
	durableFile  = "durable-offsets" // one slot a partition with data
	ballastFile  = "ballast"         // room for deletions on a full disk; its content means nothing
	metadataFile = "partition.metadata"
	epochFile    = "leader-epoch-checkpoint"
	manifestFile = "sealed-segments"

	logSuffix      = ".log"
	indexSuffix    = ".index"
	timeSuffix     = ".timeindex"
	producerSuffix = ".producers"
	tornSuffix     = ".torn"    // bytes cut off a log's end at recovery, kept for a human
	deletedSuffix  = ".deleted" // a deleted segment's file on its way out
	deleteSuffix   = "-delete"  // a partition's directory on its way out
	importSuffix   = ".import"  // a partition's directory on its way in
	damagedSuffix  = ".damaged" // bytes that repair cut out of a segment, kept for a human
	tempSuffix     = ".tmp"
	cleanedSuffix  = ".log.cleaned" // a segment that compaction is writing
	swapSuffix     = ".log.swap"    // one that is to replace others, whatever happens
)

// segmentName is Kafka's: the base offset in 20 digits.
func segmentName(base int64, suffix string) string { return fmt.Sprintf("%020d%s", base, suffix) }

// parseSegmentName reads the base offset of a file with the suffix.
func parseSegmentName(name, suffix string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	return base, err == nil && base >= 0
}

// partitionDir is Kafka's name of a partition's directory.
func partitionDir(topic string, partition int32) string {
	return fmt.Sprintf("%s-%d", topic, partition)
}

// parsePartitionDir undoes partitionDir; topics may contain dashes.
func parsePartitionDir(name string) (topic string, partition int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || n < 0 || name[i+1:] != strconv.FormatInt(n, 10) {
		return "", 0, false
	}
	return name[:i], int32(n), true
}
