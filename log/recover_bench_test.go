package log

import (
	"context"
	"fmt"
	"testing"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// BenchmarkUncleanStart is what a start does after a kill: it reads, checks and makes durable a GB that nothing had synced, from the page cache. MB/s is the
// figure; run it with -benchtime 3x.
func BenchmarkUncleanStart(b *testing.B) {
	for _, size := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			const unsynced = 1e9 // less than a segment: what is rolled is synced
			b.SetBytes(unsynced)
			for range b.N {
				b.StopTimer()
				path := b.TempDir()
				d := openDisk(b, path)
				c := DefaultConfig()
				c.Durability = OS
				fillLog(b, d.Log("t", testTopic, 0, c), unsynced, size)
				abandon(d)
				must(b, d.lock.Close())
				b.StartTimer()
				d = openDisk(b, path)
				must(b, d.Recover(context.Background()))
				end := mustOffsets(b, d.Log("t", testTopic, 0, c)).End
				b.StopTimer()
				if end < unsynced/int64(size+200) {
					b.Fatalf("found %d batches", end)
				}
				must(b, d.Close(context.Background()))
				b.StartTimer()
			}
		})
	}
}

// BenchmarkCleanStart is a start after a clean stop until every partition has said where it ends: a thousand partitions with a batch each, and one partition of
// 10 GiB.
func BenchmarkCleanStart(b *testing.B) {
	for _, tc := range []struct{ partitions, bytes, batch int }{{1000, 1000, 1000}, {1, 10 << 30, 100_000}} {
		b.Run(fmt.Sprintf("partitions=%d/bytes=%d", tc.partitions, tc.bytes), func(b *testing.B) {
			path := b.TempDir()
			c := DefaultConfig()
			c.Durability = OS
			d := openDisk(b, path)
			for p := range tc.partitions {
				fillLog(b, d.Log("t", testTopic, int32(p), c), tc.bytes, tc.batch)
			}
			must(b, d.Close(context.Background()))
			b.ResetTimer()
			for range b.N {
				d := openDisk(b, path)
				must(b, d.Recover(context.Background()))
				for p := range tc.partitions {
					if o := mustOffsets(b, d.Log("t", testTopic, int32(p), c)); o.End == 0 {
						b.Fatal("nothing there")
					}
				}
				b.StopTimer()
				must(b, d.Close(context.Background()))
				b.StartTimer()
			}
		})
	}
}

func openDisk(b *testing.B, path string) *Dir {
	d, err := Open(path, Options{FS: vfs.Disk{}})
	must(b, err)
	return d
}

// fillLog appends batches of one record until the log has so many bytes.
func fillLog(b *testing.B, l *Log, bytes, size int) {
	sent := makeBatch(batchSpec{size: size, time: 1000})
	batch := make(kproto.Batch, len(sent))
	for n := 0; n < bytes; n += len(batch) {
		copy(batch, sent)
		_, err := l.Append(batch, AppendOptions{})
		must(b, err)
	}
}
