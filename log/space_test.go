package log

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
	"sluice/kproto"
)

const (
	smallDisk = 1 << 20
	ballast   = smallDisk / ballastShare
)

// fill writes a file until the disk is full but for left bytes.
func fill(t *testing.T, fs *crashtest.SmallDisk, left int64) {
	t.Helper()
	f, err := fs.OpenFile("filler", os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(0))
	for err = syscall.ENOSPC; errors.Is(err, syscall.ENOSPC); { // again when the log has taken some of the room meanwhile
		room, _ := fs.Space("data")
		err = f.Allocate(room.Usable - left)
	}
	must(t, err)
}

func openSmall(t *testing.T) (*crashtest.SmallDisk, *Dir) {
	t.Helper()
	fs := &crashtest.SmallDisk{FS: vfs.NewMem(), Bytes: smallDisk}
	d, err := Open("data", Options{FS: fs, BallastBytes: 1 << 30})
	must(t, err)
	d.SetEpoch(1)
	return fs, d
}

func ballastSize(t *testing.T, fs vfs.FS) int64 {
	t.Helper()
	info, err := fs.Stat("data/" + ballastFile)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	must(t, err)
	return info.Size()
}

// On a full disk clients are refused at once, everything that makes room goes on, and appends are taken soon after there is space.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, d := openSmall(t)
		if got := ballastSize(t, fs); got != ballast {
			t.Fatalf("ballast of %d bytes, want %d", got, ballast)
		}
		c := each()
		c.FileDeleteDelay = time.Hour
		l := rolled(t, d, c, 6)
		victim := d.Log("b", kproto.TopicID{8}, 0, DefaultConfig())
		mustWait(t, mustAppend(t, victim, batchSpec{}))
		internal := d.Log("c", kproto.TopicID{9}, 0, DefaultConfig())
		if _, err := l.AdvanceStart(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		fill(t, fs, 0)

		if _, err := internal.Append(makeBatch(batchSpec{size: 900}), AppendOptions{Internal: true}); err != nil {
			t.Errorf("internal append, for which the ballast makes room: %v", err)
		}
		if !d.Disk().Full || ballastSize(t, fs) != 0 {
			t.Errorf("%+v, ballast %d", d.Disk(), ballastSize(t, fs))
		}
		if _, err := l.Append(makeBatch(batchSpec{}), AppendOptions{}); !errors.Is(err, ErrStorage) {
			t.Errorf("append: %v", err)
		}
		time.Sleep(time.Millisecond)
		if got := names(t, fs, deletedSuffix); got != nil {
			t.Errorf("%v wait for their time on a full disk", got)
		}
		if start, err := l.AdvanceStart(t.Context(), 2); start != 2 || err != nil {
			t.Errorf("DeleteRecords: %d, %v", start, err)
		}
		if err := d.Delete(victim); err != nil {
			t.Errorf("delete: %v", err)
		}
		if got := readAll(t, l); len(got) != 4 {
			t.Errorf("%d batches are read", len(got))
		}
		fill(t, fs, 2*ballast-1)
		time.Sleep(comeback)
		if _, err := l.Append(makeBatch(batchSpec{}), AppendOptions{}); !errors.Is(err, ErrStorage) {
			t.Errorf("append with room for the ballast alone: %v", err)
		}
		fill(t, fs, 2*ballast)
		time.Sleep(comeback)
		mustWait(t, mustAppend(t, l, batchSpec{}))
		if d.Disk().Full || ballastSize(t, fs) != ballast {
			t.Errorf("%+v, ballast %d", d.Disk(), ballastSize(t, fs))
		}
		must(t, fs.Remove("filler"))
		must(t, d.Close(t.Context()))
	})
}

// Time after time: nothing that was acknowledged is lost, and each time appends come back.
func TestFullDiskAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, d := openSmall(t)
		l := d.Log("a", testTopic, 0, each())
		acked := 0
		for i := range 10 {
			mustWait(t, mustAppend(t, l, batchSpec{size: 500}))
			acked++
			fill(t, fs, int64(700*i))
			for range 20 {
				if a, err := l.Append(makeBatch(batchSpec{size: 500}), AppendOptions{}); err == nil {
					mustWait(t, a)
					acked++
				}
			}
			must(t, fs.Remove("filler"))
			time.Sleep(comeback)
		}
		if got := readAll(t, l); len(got) != acked {
			t.Errorf("%d batches, %d were acknowledged", len(got), acked)
		}
		must(t, d.Close(t.Context()))
	})
}

// The syncs of a full disk may fail too, with an error of a quota.
func TestQuotaAtSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &vfs.Injector{}
		fs := vfs.Inject(&crashtest.SmallDisk{FS: vfs.NewMem(), Bytes: smallDisk}, in)
		d, err := Open("data", Options{FS: fs, BallastBytes: 1 << 30})
		must(t, err)
		l := d.Log("a", testTopic, 0, DefaultConfig())
		mustWait(t, mustAppend(t, l, batchSpec{}))
		in.Add(vfs.Fault{Ops: vfs.OpSync | vfs.OpCreate, Sticky: true, Err: syscall.EDQUOT})
		if err := mustAppend(t, l, batchSpec{}).Ticket.Wait(t.Context()); !errors.Is(err, ErrNotDurable) {
			t.Error(err)
		}
		if !d.Disk().Full {
			t.Error("not seen as full")
		}
		in.Heal()
		time.Sleep(comeback)
		mustWait(t, mustAppend(t, l, batchSpec{}))
		must(t, d.Close(t.Context()))
	})
}

// Without a ballast, or where nobody knows the disk's size, each append asks the disk.
func TestNoBallast(t *testing.T) {
	fs := &crashtest.SmallDisk{FS: vfs.NewMem(), Bytes: smallDisk}
	d, err := Open("data", Options{FS: fs})
	must(t, err)
	l := d.Log("a", testTopic, 0, DefaultConfig())
	mustWait(t, mustAppend(t, l, batchSpec{}))
	fill(t, fs, 0)
	if _, err := l.Append(makeBatch(batchSpec{}), AppendOptions{}); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	must(t, fs.Remove("filler"))
	mustWait(t, mustAppend(t, l, batchSpec{}))
	if on := openDir(t, vfs.NewMem()).Disk(); on != (Disk{-1, -1, false}) {
		t.Errorf("%+v", on)
	}
}

func TestBallastOfAnEarlierRun(t *testing.T) {
	for _, c := range []struct {
		name     string
		was, now int64
		want     int64
	}{
		{"the same", 5000, 5000, 5000}, {"larger", 5000, 9000, 9000}, {"smaller", 9000, 5000, 5000}, {"none any more", 5000, 0, 0},
	} {
		fs := &crashtest.SmallDisk{FS: vfs.NewMem(), Bytes: smallDisk}
		for _, bytes := range []int64{c.was, c.now} {
			d, err := Open("data", Options{FS: fs, BallastBytes: bytes})
			must(t, err, d.Close(t.Context()))
		}
		if got := ballastSize(t, fs); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}
