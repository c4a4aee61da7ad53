package log

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// BenchmarkCompaction is one round over 32 MiB of records of 100 bytes in batches of 16 KiB, half of which are superseded. MB/s is what of the
// log is done in a second, uncompressed: it is read twice and half of it written.
func BenchmarkCompaction(b *testing.B) {
	for _, codec := range []kproto.Codec{kproto.None, kproto.LZ4, kproto.Zstd} {
		b.Run(codec.String(), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				l, stop := dirtyLog(b, codec)
				b.StartTimer()
				done, err := l.Clean(context.Background(), CleanOptions{Now: time.Now(), MapBytes: 128 << 20})
				if err != nil || done.Dropped == 0 {
					b.Fatal(done, err)
				}
				b.StopTimer()
				stop()
				b.StartTimer()
			}
			b.SetBytes(dirtyBytes)
		})
	}
}

const dirtyBytes = 32 << 20

func dirtyLog(b *testing.B, codec kproto.Codec) (*Log, func()) {
	d, err := Open(b.TempDir(), Options{FS: vfs.Disk{}})
	must(b, err)
	c := DefaultConfig()
	c.Durability, c.SegmentBytes, c.Compact = OS, 8<<20, true
	l := d.Log("t", testTopic, 0, c)
	rng := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 80)
	for written := 0; written < dirtyBytes; {
		batch := kproto.NewBuilder(codec)
		for batch.Size() < 16<<10 {
			for i := range value {
				value[i] = byte('a' + rng.IntN(16))
			}
			batch.Add(kproto.Record{Timestamp: 1000, Key: fmt.Appendf(nil, "key-%08d", rng.IntN(200_000)), Value: value})
		}
		written += batch.Size()
		_, err := l.Append(batch.Batch(), AppendOptions{})
		must(b, err)
	}
	l.mu.Lock()
	l.scheduleSync(true)
	l.mu.Unlock()
	l.finishSync()
	return l, func() { must(b, d.Close(context.Background())) }
}
