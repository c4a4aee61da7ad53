package log

import (
	"context"
	"fmt"
	"testing"

	"sluice/internal/vfs"
)

// BenchmarkFirstRead reads sealed segments in steps of 1 MiB: the first time, when each byte is held against its CRC, and again.
func BenchmarkFirstRead(b *testing.B) {
	for _, size := range []int{200, 16 << 10} {
		dir := b.TempDir()
		c := DefaultConfig()
		c.Durability, c.SegmentBytes = OS, 64<<20
		d, err := Open(dir, Options{FS: vfs.Disk{}})
		must(b, err)
		l := d.Log("t", testTopic, 0, c)
		for n := 0; n < 130<<20; {
			batch := makeBatch(batchSpec{size: size})
			_, err := l.Append(batch, AppendOptions{})
			must(b, err)
			n += len(batch)
		}
		must(b, d.Close(context.Background()))
		for _, again := range []bool{false, true} {
			b.Run(fmt.Sprintf("batch=%d/again=%v", size, again), func(b *testing.B) {
				d, err := Open(dir, Options{FS: vfs.Disk{}})
				must(b, err)
				defer d.Close(context.Background())
				l := d.Log("t", testTopic, 0, c)
				high, at := mustOffsets(b, l).High, int64(0)
				for _, s := range l.segs {
					if again {
						s.checks.all()
					}
				}
				b.SetBytes(1 << 20)
				for b.Loop() {
					if at >= high {
						at = 0
					}
					if !again {
						for _, s := range l.segs {
							s.checks.need(s.size)
						}
					}
					r, err := l.Read(at, high, 1<<20, true)
					must(b, err)
					at = r.Next
					r.Release()
				}
			})
		}
	}
}
