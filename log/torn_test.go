package log

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// sector is what a disk writes whole or not at all, in bytes.
const sector = 512

// tornDisk holds three batches that were acknowledged, and knows the one that a power cut tears.
type tornDisk struct {
	disk  *vfs.Mem
	acked []kproto.Batch
	file  string
	size  int64        // of the file: where the torn batch begins
	last  kproto.Batch // that was being written
}

func newTornDisk(t testing.TB, codec kproto.Codec) *tornDisk {
	x := &tornDisk{disk: vfs.NewMem(), file: "data/a-0/" + segmentName(0, logSuffix)}
	d := openDir(t, x.disk)
	l := d.Log("a", testTopic, 0, DefaultConfig())
	for i := range 3 {
		a, err := l.Append(noise(codec, i, 2), AppendOptions{})
		must(t, err)
		mustWait(t, a)
	}
	x.acked = readAll(t, l)
	x.size = l.active().size
	x.last = noise(codec, 3, 5)
	x.last.SetBaseOffset(l.end)
	x.last.SetLeaderEpoch(7)
	finishAll(d)
	must(t, d.slots.settle())
	abandon(d)
	x.disk = x.disk.Crash(vfs.KeepNothing)
	return x
}

// noise is a batch of records of 700 bytes that no codec makes shorter, so that it spans sectors.
func noise(codec kproto.Codec, seed, records int) kproto.Batch {
	rng := rand.New(rand.NewPCG(uint64(seed), uint64(codec)))
	b := kproto.NewBuilder(codec)
	for i := range records {
		value := make([]byte, 700)
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		b.Add(kproto.Record{Timestamp: int64(100*seed + i), Key: fmt.Append(nil, seed, i), Value: value})
	}
	return b.Batch()
}

// cuts are the bytes of the torn batch up to which it was written: each of its header's, and each sector's end.
func (x *tornDisk) cuts() (at []int) {
	for i := range kproto.HeaderSize {
		at = append(at, i)
	}
	for pos := (x.size/sector + 1) * sector; pos < x.size+int64(len(x.last)); pos += sector {
		if cut := int(pos - x.size); cut >= kproto.HeaderSize {
			at = append(at, cut)
		}
	}
	return at
}

// fillers are what may stand behind the tear: nothing, zeros, what the blocks held before, anything.
var fillers = []struct {
	name string
	fill func(x *tornDisk, p []byte) []byte
}{
	{"nothing", func(*tornDisk, []byte) []byte { return nil }},
	{"zeros", func(_ *tornDisk, p []byte) []byte { clear(p); return p }},
	{"old batches", func(x *tornDisk, p []byte) []byte {
		for n := 0; n < len(p); {
			n += copy(p[n:], bytes.Join([][]byte{x.acked[2], x.acked[1]}, nil))
		}
		return p
	}},
	{"garbage", func(_ *tornDisk, p []byte) []byte {
		rng := rand.New(rand.NewPCG(uint64(len(p)), 1))
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
		return p
	}},
}

// TestTornWrites tears the last write at every byte of the batch's header and at every sector's end, for every codec and whatever stands behind the tear.
// The log is exactly what was acknowledged, goes on at its end, and the torn bytes are kept aside.
func TestTornWrites(t *testing.T) {
	cases := 0
	for _, codec := range []kproto.Codec{kproto.None, kproto.Gzip, kproto.Snappy, kproto.LZ4, kproto.Zstd} {
		x := newTornDisk(t, codec)
		for _, cut := range x.cuts() {
			for _, f := range fillers {
				torn := append(bytes.Clone(x.last[:cut]), f.fill(x, make([]byte, len(x.last)-cut))...)
				if err := x.check(t, torn); err != nil {
					t.Errorf("codec %v, cut at byte %d of %d, then %s: %v", codec, cut, len(x.last), f.name, err)
				}
				cases++
			}
		}
	}
	t.Logf("%d cases", cases)
}

func (x *tornDisk) check(t testing.TB, torn []byte) error {
	disk := x.disk.Crash(vfs.KeepNothing)
	f, err := disk.OpenFile(x.file, os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt(torn, x.size)
	must(t, err, f.Close())
	disk = disk.Crash(vfs.KeepEverything)
	for _, start := range []string{"first", "second"} {
		d := openDir(t, disk)
		l := d.Log("a", testTopic, 0, DefaultConfig())
		got := readAll(t, l)
		if len(got) != len(x.acked) || !bytes.Equal(bytes.Join(asBytes(got), nil), bytes.Join(asBytes(x.acked), nil)) {
			return fmt.Errorf("%s start: %d batches, %d were acknowledged, %+v", start, len(got), len(x.acked), mustOffsets(t, l))
		}
		if start == "second" {
			if a := mustAppend(t, l, batchSpec{}); a.Base != x.last.BaseOffset() {
				return fmt.Errorf("the next append got offset %d, the log ended at %d", a.Base, x.last.BaseOffset())
			}
		}
		abandon(d)
		disk = disk.Crash(vfs.KeepNothing)
	}
	if len(torn) == 0 {
		return nil
	}
	if kept := read(t, disk, fmt.Sprintf("%s.%d%s", x.file, x.size, tornSuffix)); kept != string(torn) {
		return fmt.Errorf("%d bytes are kept aside, %d were cut off", len(kept), len(torn))
	}
	return nil
}

func asBytes(bs []kproto.Batch) (out [][]byte) {
	for _, b := range bs {
		out = append(out, b)
	}
	return out
}
