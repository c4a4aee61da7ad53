package log

import (
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"sluice/internal/vfs"
)

// epochEntry says that batches from start on carry the leader epoch (KIP-101), until the next entry.
type epochEntry struct {
	epoch int32
	start int64
}

// epochs are a partition's leader epochs, both fields strictly increasing. Guarded by Log.mu.
type epochs []epochEntry

func (es epochs) last() int32 {
	if len(es) == 0 {
		return -1
	}
	return es[len(es)-1].epoch
}

// assign notes that the batch at offset carries epoch. It reports whether that is new.
func (es *epochs) assign(epoch int32, offset int64) bool {
	if epoch <= es.last() {
		return false
	}
	*es = append(*es, epochEntry{epoch, offset})
	return true
}

// cut forgets what begins at or after end.
func (es *epochs) cut(end int64) {
	n := sort.Search(len(*es), func(i int) bool { return (*es)[i].start >= end })
	*es = (*es)[:n:n]
}

// from is what a log that begins at start knows, as Kafka cuts it: the first entry left begins there. What is still stored of older ones must not
// show, as it depends on when segments were deleted and the checkpoint was written.
func (es epochs) from(start int64) epochs {
	n := sort.Search(len(es), func(i int) bool { return es[i].start > start })
	if n == 0 {
		return es
	}
	left := slices.Clone(es[n-1:])
	left[0].start = start
	return left
}

// end gives the largest epoch <= e and the offset where it ended; logEnd is the end of the latest one.
func (es epochs) end(e int32, logEnd int64) (int32, int64) {
	i := sort.Search(len(es), func(i int) bool { return es[i].epoch > e })
	switch {
	case e < 0 || len(es) == 0:
		return -1, -1
	case i == len(es) && e > es.last():
		return -1, -1 // not known yet
	case i == len(es):
		return es.last(), logEnd
	case i == 0:
		// Older than everything known: Kafka answers the asked epoch with the first start.
		return e, es[0].start
	}
	return es[i-1].epoch, es[i].start
}

// at is the epoch that a batch at the offset has; -1: none begins so early.
func (es epochs) at(offset int64) int32 {
	i := sort.Search(len(es), func(i int) bool { return es[i].start > offset })
	return es[:i].last()
}

// Kafka's leader-epoch-checkpoint: version, count, then "epoch start" lines.
func (es epochs) encode() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "0\n%d\n", len(es))
	for _, e := range es {
		fmt.Fprintf(&b, "%d %d\n", e.epoch, e.start)
	}
	return []byte(b.String())
}

func parseEpochs(data []byte) (epochs, error) {
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" || lines[1] != strconv.Itoa(len(lines)-2) {
		return nil, fmt.Errorf("leader epoch checkpoint is malformed")
	}
	var es epochs
	for _, line := range lines[2:] {
		var e epochEntry
		if _, err := fmt.Sscanf(line, "%d %d", &e.epoch, &e.start); err != nil {
			return nil, fmt.Errorf("leader epoch checkpoint line %q: %w", line, err)
		}
		if n := len(es); n > 0 && (e.epoch <= es[n-1].epoch || e.start < es[n-1].start) {
			return nil, fmt.Errorf("leader epoch checkpoint goes backwards at %q", line)
		}
		es = append(es, e)
	}
	return es, nil
}

// maxEpochFile bounds what is read: an entry a start of the broker, some 20 bytes each.
const maxEpochFile = 64 << 20

// readEpochs reads the checkpoint, and gives its checksum too.
func readEpochs(fs vfs.FS, dir string) (epochs, uint32, error) {
	data, err := vfs.ReadFile(fs, filepath.Join(dir, epochFile), maxEpochFile)
	if err != nil {
		return nil, 0, err
	}
	es, err := parseEpochs(data)
	return es, crc32.Checksum(data, castagnoli), err
}

// writeEpochs replaces the checkpoint and gives its checksum. The rename is durable with the next sync of the directory.
func writeEpochs(fs vfs.FS, dir string, es epochs) (uint32, error) {
	name, data := filepath.Join(dir, epochFile), es.encode()
	if err := writeSynced(fs, name+tempSuffix, data); err != nil {
		return 0, err
	}
	if err := fs.Rename(name+tempSuffix, name); err != nil {
		return 0, storageError("rename leader epoch checkpoint", err)
	}
	return crc32.Checksum(data, castagnoli), nil
}
