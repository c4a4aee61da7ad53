package broker

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
)

// TestFullDisk fills the disk to the last byte. Producers are told at once; reads, offsets and all that makes room go on; and
// everything comes back by itself.
func TestFullDisk(t *testing.T) {
	fs := &crashtest.SmallDisk{FS: vfs.NewMem(), Bytes: 4 << 20}
	n := startNodeOn(t, fs, map[string]string{"log.retention.check.interval.ms": "10"})
	c := n.dial()
	for _, topic := range []string{"kept", "deleted"} {
		c.mustCreate(topic, "internal.segment.bytes", "20000")
	}
	c.mustCreate("short", "internal.segment.bytes", "500")
	for range 10 {
		c.produce("short", 0, strings.Repeat("x", 300))
		c.produce("kept", 0, strings.Repeat("x", 10_000))
		c.produce("deleted", 0, strings.Repeat("x", 10_000))
	}
	if codes := c.commitCodes(8, "g", commitTopic("kept", 0, 7, "")); codes[0] != 0 {
		t.Fatal(codes)
	}
	fill(t, fs)

	for range 3 {
		if p := c.produce("kept", 0, strings.Repeat("x", 10_000)); p.ErrorCode != 56 {
			t.Errorf("produce: code %d", p.ErrorCode)
		}
	}
	if !n.dir.Disk().Full {
		t.Error("not seen as full")
	}
	if got := c.describe(9, false, "kept"); got[0].ErrorCode != 0 {
		t.Errorf("metadata: %+v", got)
	}
	if p := c.fetchOnce("kept", 0); p.ErrorCode != 0 || p.HighWatermark != 10 || len(p.RecordBatches) < 10_000 {
		t.Errorf("fetch: code %d, high watermark %d, %d bytes", p.ErrorCode, p.HighWatermark, len(p.RecordBatches))
	}
	if p := c.fetched("g", "kept", 0); p.ErrorCode != 0 || p.Offset != 7 {
		t.Errorf("committed offset: %+v", p)
	}
	if codes := c.commitCodes(8, "g", commitTopic("kept", 0, 8, "")); codes[0] != 0 {
		t.Errorf("commit: %v", codes)
	}
	if p := c.deleteRecords(2, "kept", 0, 5); p.ErrorCode != 0 || p.LowWatermark != 5 {
		t.Errorf("DeleteRecords: %+v", p)
	}
	c.mustDelete("deleted")
	c.set(kmsg.ConfigResourceTypeTopic, "short", "retention.bytes", "1000")
	waitFor(t, func() bool { start, _ := c.edges("short"); return start > 5 })

	check(t, fs.Remove("filler"))
	waitFor(t, func() bool { return c.produce("kept", 0, "y").ErrorCode == 0 })
	if n.logs.contains("level=ERROR") && !n.logs.contains("the disk is full") {
		t.Errorf("logged: %s", n.logs)
	}
	n.logs.forget()
	n.restart()
	c = n.dial()
	if start, end := c.edges("kept"); start != 5 || end != 11 {
		t.Errorf("after a restart: %d to %d", start, end)
	}
}

// A broker starts on a full disk, as long as it has its ballast.
func TestStartOnAFullDisk(t *testing.T) {
	fs := &crashtest.SmallDisk{FS: vfs.NewMem(), Bytes: 4 << 20}
	n := startNodeOn(t, fs, nil)
	n.dial().mustCreate("a")
	fill(t, fs)
	n.restart()
	c := n.dial()
	c.mustDelete("a")
	n.logs.forget()
}

// fill writes a file until the disk takes no byte more.
func fill(t *testing.T, fs *crashtest.SmallDisk) {
	t.Helper()
	f, err := fs.OpenFile("filler", os.O_RDWR|os.O_CREATE, 0o600)
	check(t, err)
	defer f.Close()
	for err = syscall.ENOSPC; errors.Is(err, syscall.ENOSPC); { // again when the broker has taken some of the room meanwhile
		room, _ := fs.Space("data")
		err = f.Allocate(room.Usable)
	}
	check(t, err)
}
