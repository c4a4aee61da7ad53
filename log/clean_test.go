package log

import (
	"context"
	"testing"

	"sluice/internal/vfs"
)

// A stop is marked clean only when what an unclean one left was recovered: a broker that opens a directory and gives up must not
// have the next one trust files that nobody looked at.
func TestCleanMarkNeedsRecovery(t *testing.T) {
	disk := vfs.NewMem()
	d := openDir(t, disk)
	mustWait(t, mustAppend(t, d.Log("t", testTopic, 0, small()), batchSpec{records: 1}))
	left := disk.Crash(vfs.Prefix(0)) // the broker is gone without a Close

	reopen := func(recover bool) (clean bool) {
		d, err := Open("data", Options{FS: left})
		if err != nil {
			t.Fatal(err)
		}
		clean = d.Clean()
		d.Log("t", testTopic, 0, small())
		if recover {
			if err := d.Recover(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		return clean
	}
	if reopen(false) {
		t.Error("clean after a crash")
	}
	if reopen(true) {
		t.Error("clean after a run that did not recover")
	}
	if !reopen(false) {
		t.Error("not clean after a run that recovered")
	}
	if !reopen(false) {
		t.Error("not clean after a run that had nothing to recover")
	}
}
