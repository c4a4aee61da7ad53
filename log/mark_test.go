package log

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/internal/vfs"
)

// marks is a data directory that is stopped cleanly again and again.
type marks struct {
	t    *testing.T
	disk *vfs.Mem
	in   *vfs.Injector
	room int64
	d    *Dir
	said *loudLogger
}

func newMarks(t *testing.T, room int64) *marks {
	m := &marks{t: t, disk: vfs.NewMem(), in: &vfs.Injector{}, room: room}
	m.start()
	return m
}

func (m *marks) start() {
	m.t.Helper()
	m.said = &loudLogger{}
	d, err := Open("data", Options{FS: vfs.Inject(m.disk, m.in), Logger: slog.New(m.said)})
	must(m.t, err)
	d.SetEpoch(7)
	d.markRoom = m.room
	m.d = d
}

func (m *marks) log(n int32) *Log { return m.d.Log("t", testTopic, n, tiny()) }

func (m *marks) produce(n int32, specs ...batchSpec) {
	m.t.Helper()
	for _, s := range specs {
		mustWait(m.t, mustAppend(m.t, m.log(n), s))
	}
	m.log(n).finishSync()
}

// again stops cleanly, cuts the power, and starts.
func (m *marks) again(registered ...int32) {
	m.t.Helper()
	must(m.t, m.d.Close(context.Background()))
	m.disk = m.disk.Crash(vfs.KeepNothing)
	m.start()
	if !m.d.Clean() {
		m.t.Fatal("not clean after a clean stop")
	}
	for _, n := range registered {
		m.log(n)
	}
}

func (m *marks) marked() (ns []int32) {
	for key := range m.d.last.at {
		ns = append(ns, key.partition)
	}
	slices.Sort(ns)
	return ns
}

func (m *marks) files(n int32) (suffixes []string) {
	entries, err := m.disk.ReadDir(m.log(n).path())
	must(m.t, err)
	for _, e := range entries {
		if x := filepath.Ext(e.Name()); slices.Contains([]string{indexSuffix, timeSuffix, producerSuffix}, x) {
			suffixes = append(suffixes, x)
		}
	}
	return suffixes
}

// TestStopOfManyCostsOneSync: what a stop of logs that are synced costs does not grow with their number, and a start finds what was there.
func TestStopOfManyCostsOneSync(t *testing.T) {
	syncs := func(partitions int) int64 {
		m := newMarks(t, maxMark)
		for n := range int32(partitions) {
			m.produce(n, batchSpec{records: 2, pid: 3}, batchSpec{records: 1, pid: 3, seq: 2, time: 50})
		}
		before := map[int32]map[int64][]producerBatch{}
		for n := range int32(partitions) {
			before[n] = windows(m.log(n))
		}
		must(t, m.d.slots.settle())
		var counted atomic.Int64
		m.disk.OnOp(func(o vfs.Op) {
			if o.Kind == vfs.OpSync || o.Kind == vfs.OpSyncDir {
				counted.Add(1)
			}
		})
		must(t, m.d.Close(context.Background()))
		m.disk.OnOp(nil)
		m.disk = m.disk.Crash(vfs.KeepNothing)
		m.start()
		for n := range int32(partitions) {
			if o := mustOffsets(t, m.log(n)); o.End != 3 || !reflect.DeepEqual(windows(m.log(n)), before[n]) || len(m.files(n)) > 0 {
				t.Errorf("partition %d: %+v, %+v, files %q", n, o, windows(m.log(n)), m.files(n))
			}
		}
		if m.said.n.Load() > 0 {
			t.Error("the start had something to say")
		}
		return counted.Load()
	}
	if one, many := syncs(1), syncs(20); one != many {
		t.Errorf("%d syncs for one log, %d for 20", one, many)
	}
}

// TestMarkKeepsWhatIsNotUsed: what a log's last segment was is there until the log is used or deleted, however often the broker stops.
func TestMarkKeepsWhatIsNotUsed(t *testing.T) {
	m := newMarks(t, maxMark)
	for n := range int32(4) {
		m.produce(n, batchSpec{records: 1})
	}
	m.again(0, 1, 2)
	if got := m.marked(); !slices.Equal(got, []int32{0, 1, 2, 3}) {
		t.Fatalf("marked are %v", got)
	}
	m.produce(1, batchSpec{records: 5})
	must(t, m.d.Delete(m.log(2)))
	if got := m.marked(); !slices.Equal(got, []int32{0, 3}) {
		t.Fatalf("marked are %v after one was used and one deleted", got)
	}
	m.again(1, 3)
	if got := m.marked(); !slices.Equal(got, []int32{0, 1, 3}) {
		t.Fatalf("marked are %v", got)
	}
	found, err := m.d.Partitions()
	must(t, err)
	for _, f := range found {
		if f.Partition == 0 {
			must(t, m.d.Discard(f))
		}
	}
	m.again()
	for n, end := range map[int32]int64{1: 6, 3: 1} {
		if o := mustOffsets(t, m.log(n)); o.End != end {
			t.Errorf("partition %d ends at %d, not %d", n, o.End, end)
		}
	}
	if got := m.marked(); len(got) > 0 || m.d.last.file != nil || m.d.last.size() != 0 || m.said.n.Load() > 0 {
		t.Errorf("all are used: marked are %v, file %v, %d bytes; said %d", got, m.d.last.file, m.d.last.size(), m.said.n.Load())
	}
}

// TestMarkHasNoRoom: what does not fit has side files.
func TestMarkHasNoRoom(t *testing.T) {
	m := newMarks(t, 100) // for one of them, whichever comes first
	m.produce(0, batchSpec{records: 1})
	m.produce(1, batchSpec{records: 1})
	for range 3 { // it stays at one, whether they are used or not
		m.again(0, 1)
		got := m.marked()
		if len(got) != 1 || len(m.files(1-got[0])) != 3 {
			t.Fatalf("marked are %v, files %q and %q", got, m.files(0), m.files(1))
		}
		m.again(0, 1)
		if again := m.marked(); !slices.Equal(again, got) {
			t.Fatalf("marked are %v, were %v", again, got)
		}
		m.produce(got[0], batchSpec{records: 1})
	}
	if m.said.n.Load() > 0 {
		t.Error("a start had something to say")
	}
}

// TestLargeLastSegment: more than maxLastSegment is no part of a mark.
func TestLargeLastSegment(t *testing.T) {
	m := newMarks(t, maxMark)
	c := DefaultConfig()
	c.ProducerExpiration = never
	l := m.d.Log("t", testTopic, 0, c)
	mustWait(t, mustAppend(t, l, batchSpec{records: 1}))
	for id := range int64(maxLastSegment / (producerHeaderSize + producerBatchSize)) {
		l.producers[1000+id] = &producer{n: 1, appended: 1 << 50}
	}
	m.again(0)
	if got := m.marked(); len(got) > 0 || len(m.files(0)) != 3 {
		t.Errorf("marked are %v, files %q", got, m.files(0))
	}
}

// TestUnwritableMark: without its mark a stop was not a clean one, and nothing is lost.
func TestUnwritableMark(t *testing.T) {
	for _, fault := range []vfs.Fault{
		{Ops: vfs.OpWrite, Path: "*" + tempSuffix, Sticky: true},
		{Ops: vfs.OpSync, Path: "*" + tempSuffix, Sticky: true},
		{Ops: vfs.OpRename, Path: "*" + tempSuffix, Sticky: true},
	} {
		m := newMarks(t, maxMark)
		m.produce(0, batchSpec{records: 2})
		m.in.Add(fault)
		if err := m.d.Close(context.Background()); err == nil {
			t.Errorf("%+v: closed as if nothing was", fault)
		}
		m.in.Heal()
		m.start()
		if m.d.Clean() {
			t.Errorf("%+v: clean", fault)
		}
		if there, err := vfs.Exists(m.disk, "data/"+cleanFile+tempSuffix); err != nil || there {
			t.Errorf("%+v: part of the mark is left (%v)", fault, err)
		}
		if o := mustOffsets(t, m.log(0)); o.End != 2 {
			t.Errorf("%+v: %+v", fault, o)
		}
	}
}

// TestMarkReadFails: a log whose last segment cannot be read now is opened later.
func TestMarkReadFails(t *testing.T) {
	m := newMarks(t, maxMark)
	m.produce(0, batchSpec{records: 2})
	m.again(0)
	m.d.retryGap = 0
	m.in.Add(vfs.Fault{Ops: vfs.OpRead, Path: "*" + cleanFile, Nth: 1})
	if _, err := m.log(0).Offsets(); !errors.Is(err, ErrStorage) {
		t.Errorf("opened: %v", err)
	}
	m.in.Heal()
	if o := mustOffsets(t, m.log(0)); o.End != 2 {
		t.Errorf("%+v", o)
	}
}

// TestMarkFormat: a last segment is read as it was written; what was cut or changed, with right checksums or not, is refused and never believed.
func TestMarkFormat(t *testing.T) {
	for _, x := range []lastSegment{
		{producers: producers{}},
		{entry: sealedEntry{5, 9, 700, 3, 4}, offsets: []offsetEntry{{1, 2}, {3, 4}}, times: []timeEntry{{1 << 40, 3}}, epochs: epochs{{1, 5}, {8, 7}},
			producers: producers{7: {epoch: 2, n: 1, appended: 99, batches: [batchWindow]producerBatch{{1, 2, 3, 4, -1}}}}},
	} {
		b := x.encode()
		if got, err := decodeLastSegment(b); err != nil || !reflect.DeepEqual(got, &x) {
			t.Errorf("%+v, was %+v (%v)", got, x, err)
		}
		for i := range b {
			for _, bad := range [][]byte{b[:i], changeByte(b, i), resum(b[:i]), resum(changeByte(b[:len(b)-4], i%(len(b)-4)))} {
				_, err := decodeLastSegment(bad) // may succeed where the checksum is right: it does not panic
				if err == nil && crc32.Checksum(bad[:len(bad)-4], castagnoli) != binary.BigEndian.Uint32(bad[len(bad)-4:]) {
					t.Errorf("byte %d: believed", i)
				}
			}
		}
	}
}

func changeByte(b []byte, i int) []byte {
	b = slices.Clone(b)
	b[i] ^= 0xff
	return b
}

func resum(b []byte) []byte {
	return binary.BigEndian.AppendUint32(slices.Clone(b), crc32.Checksum(b, castagnoli))
}

// TestMarkTable: a table that is not what was written makes the stop one that was not clean.
func TestMarkTable(t *testing.T) {
	m := newMarks(t, maxMark)
	m.produce(0, batchSpec{records: 2})
	must(t, m.d.Close(context.Background()))
	name := "data/" + cleanFile
	whole := []byte(read(t, m.disk, name))
	table := len(whole) - markFooter - markEntrySize
	spoilt := map[string][]byte{}
	for i := table; i < len(whole); i++ {
		spoilt[fmt.Sprintf("byte %d changed", i)] = changeByte(whole, i)
		spoilt[fmt.Sprintf("byte %d changed, summed", i)] = append(slices.Clone(whole[:table]), resum(changeByte(whole, i)[table:len(whole)-4])...)
	}
	for i := 1; i < len(whole); i++ {
		spoilt[fmt.Sprintf("cut at %d", i)] = whole[:i]
	}
	for what, b := range spoilt {
		disk := m.disk.Crash(vfs.KeepEverything)
		must(t, vfs.WriteFileAtomic(disk, name, b, 0o600))
		d, err := Open("data", Options{FS: disk})
		must(t, err)
		if d.Clean() && !strings.HasSuffix(what, "summed") {
			t.Errorf("%s: taken for a clean stop", what)
		}
		l := d.Log("t", testTopic, 0, tiny())
		must(t, d.Recover(context.Background()))
		if o := mustOffsets(t, l); o.End != 2 {
			t.Errorf("%s: %+v", what, o)
		}
		if there, err := vfs.Exists(disk, name); err != nil || there {
			t.Errorf("%s: the mark is still there (%v)", what, err)
		}
		abandon(d)
	}
}

// TestCheckpointLostAfterCleanStop: the epochs of the last segment are read from its batches too.
func TestCheckpointLostAfterCleanStop(t *testing.T) {
	for _, room := range []int64{0, maxMark} {
		m := newMarks(t, room)
		m.produce(0, batchSpec{records: 1})
		m.d.SetEpoch(9)
		m.produce(0, batchSpec{records: 1})
		must(t, m.d.Close(context.Background()))
		must(t, m.disk.Remove("data/t-0/"+epochFile))
		m.start()
		for epoch, want := range map[int32]int64{7: 1, 9: 2} {
			if e, end, err := m.log(0).EpochEnd(epoch); err != nil || e != epoch || end != want {
				t.Errorf("room %d: epoch %d is %d and ends at %d (%v)", room, epoch, e, end, err)
			}
		}
		must(t, m.d.Close(context.Background()))
		if _, _, err := readEpochs(m.disk, "data/t-0"); room == 0 && err != nil || err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("room %d: the checkpoint: %v", room, err)
		}
	}
}
