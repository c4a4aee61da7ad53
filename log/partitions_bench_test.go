package log

import (
	"runtime"
	"testing"
	"time"

	"sluice/internal/vfs"
)

// BenchmarkIdlePasses is what the background does with a hundred thousand partitions that nobody has written to: on the real disk.
func BenchmarkIdlePasses(b *testing.B) {
	d, err := Open(b.TempDir(), Options{FS: vfs.Disk{}})
	must(b, err)
	c := keeping(1000, 1000, time.Second)
	c.Compact = true
	before := heap()
	for i := range 100_000 {
		l := d.Log("t", testTopic, int32(i), c)
		if i%2 == 0 {
			mustOffsets(b, l) // as a Fetch or ListOffsets opens it
		}
	}
	b.Logf("%d bytes each", (heap()-before)/100_000)
	passes := map[string]func(){
		"retain": func() { d.Retain(b.Context(), time.Now()) },
		"scrub":  func() { must(b, d.NewScrubber(fast).Pass(b.Context())) },
		"clean": func() {
			d.NewCleaner(func() CleanerSettings { return CleanerSettings{Threads: 1, MapBytes: 1 << 20} }).Pass(b.Context())
		},
		"close idle files": d.CloseIdle,
	}
	for name, pass := range passes {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				pass()
			}
		})
	}
	must(b, d.Close(b.Context()))
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
